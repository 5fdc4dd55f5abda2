"""Jobs inside transactions, with the drivers themselves, on a real PostgreSQL."""

from __future__ import annotations

import re
import tempfile
import textwrap
import uuid
from collections.abc import Iterator
from typing import Any

import anyio
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import duly
from duly import outbox

from .server import REPOSITORY, Postgres, installed, serving


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="duly-postgres-") as folder, Postgres(folder) as address:
        installed(address)
        with psycopg.connect(address) as connection:
            connection.execute("CREATE TABLE orders (id int PRIMARY KEY)")
        yield address


@pytest.fixture(scope="module")
def client(database: str) -> Iterator[duly.Client]:
    with serving("--outbox", f"shop={database}") as url:
        yield duly.Client(url)


@pytest.fixture
def queue() -> str:
    return f"q-{uuid.uuid4().hex[:12]}"


def job(queue: str, n: int) -> duly.types.JobRequest:
    return {"target": {"worker": {"kind": "k"}}, "queue": queue, "payload": {"n": n}}


def heard(client: duly.Client, queue: str, count: int) -> list[Any]:
    """Waits for as many runs, in the order in which they are handed out; there are no others."""
    runs: list[Any] = []
    while len(runs) < count:
        runs += client.claim("w", [queue], max=100, wait="20s")["runs"]
    assert not client.claim("w", [queue], max=100, wait="0s")["runs"]
    return [run["payload"]["n"] for run in runs]


def engine_of(database: str, **options: Any) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(database.replace("postgres://", "postgresql+psycopg://"), **options)


def test_psycopg(database: str, client: duly.Client, queue: str) -> None:
    with psycopg.connect(database) as connection:
        outbox.submit(connection, job(queue, 1))
        connection.rollback()
        first = outbox.submit(connection, job(queue, 2))
        with connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute("SELECT 7 AS seven")
            second = outbox.submit(cursor, job(queue, 3), ordered=True)
            assert cursor.fetchone() == {"seven": 7}, "what the cursor holds is its own"
        connection.commit()
        assert second > first

    def fails() -> None:
        with psycopg.connect(database) as connection:
            outbox.submit(connection, job(queue, 4))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    with psycopg.connect(database, row_factory=dict_row) as dicts, dicts.transaction():
        outbox.submit(dicts, job(queue, 5))
    assert heard(client, queue, 3) == [2, 3, 5]


def test_async_psycopg(database: str, client: duly.Client, queue: str) -> None:
    async def write() -> None:
        async with await psycopg.AsyncConnection.connect(database) as connection:
            await outbox.submit_async(connection, job(queue, 1))
            await connection.rollback()
            await outbox.submit_async(connection, job(queue, 2))

    anyio.run(write)
    assert heard(client, queue, 1) == [2]


def test_sqlalchemy(database: str, client: duly.Client, queue: str) -> None:
    engine = engine_of(database)

    class Own(Session):
        """A session class of the user's own."""

    with engine.begin() as connection:
        outbox.submit(connection, job(queue, 1))
    with Session(engine) as session:
        outbox.submit(session, job(queue, 2))
        session.rollback()
        outbox.submit(session, job(queue, 3), ordered=True)
        session.commit()
    with Own(engine) as session, session.begin():
        outbox.submit(session, job(queue, 4))
    engine.dispose()
    assert heard(client, queue, 3) == [1, 3, 4]


def test_async_sqlalchemy(database: str, client: duly.Client, queue: str) -> None:
    async def write() -> None:
        engine = create_async_engine(database.replace("postgres://", "postgresql+psycopg://"))
        async with AsyncSession(engine) as session, session.begin():
            await outbox.submit_async(session, job(queue, 1))
        async with engine.begin() as connection:
            await outbox.submit_async(connection, job(queue, 2))
        await engine.dispose()

    anyio.run(write)
    assert heard(client, queue, 2) == [1, 2]


def test_what_is_wrong_is_said(database: str) -> None:
    with psycopg.connect(database) as connection:
        with pytest.raises(ValueError, match="lower-case"):
            outbox.submit(connection, job("q", 1), schema="a;b")
        with pytest.raises(psycopg.errors.InvalidSchemaName):
            outbox.submit(connection, job("q", 1), schema="elsewhere")
        connection.rollback()
        with pytest.raises(ValueError, match="JSON compliant"):
            outbox.submit(connection, job("q", 1) | {"payload": float("nan")})
    with pytest.raises(TypeError, match="has no transaction"):
        outbox.submit(object(), job("q", 1))


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


def test_the_guide(database: str, client: duly.Client) -> None:
    guide = (REPOSITORY / "docs" / "guides" / "outbox.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    code = textwrap.dedent(block).replace("postgres://shop_app@db.internal/shop", database)
    engine = engine_of(database)
    exec(code, {"psycopg": psycopg, "Session": Session, "Order": Order, "engine": engine})
    engine.dispose()
    runs: list[Any] = []
    while len(runs) < 2:
        runs += client.claim("w", ["default"], max=10, wait="20s")["runs"]
    assert [run["payload"] for run in runs] == [{"order": 42}, {"order": 43}]
