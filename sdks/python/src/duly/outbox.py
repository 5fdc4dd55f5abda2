"""Jobs inside your own PostgreSQL transactions: committed is submitted once, rolled back is never.

The database needs `duly outbox install`, and the server `--outbox`. No driver is imported that you do not use.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping
from typing import Any

from . import types as t

SCHEMA = "duly_outbox"

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def submit(connection: Any, job: t.JobRequest, *, ordered: bool = False, schema: str = SCHEMA) -> int:
    """Submits a job when the transaction of `connection` commits, and returns its number in the outbox.

    `connection` is one of psycopg (or its cursor), or a Connection or Session of SQLAlchemy. With `ordered` the
    transactions that submit to the same queue and group wait for each other, and come in the order of their commits.
    """
    if _is_sqlalchemy(connection):
        statement, values = _statement(job, ordered, schema)
        return int(connection.execute(statement, values).scalar_one())
    with _cursor(connection) as cursor:
        cursor.execute(_sql(schema, "%s", "%s"), (_text(job), ordered))
        return _number(cursor.fetchone())


async def submit_async(connection: Any, job: t.JobRequest, *, ordered: bool = False, schema: str = SCHEMA) -> int:
    """As `submit`, for async connections of psycopg and SQLAlchemy."""
    if _is_sqlalchemy(connection):
        statement, values = _statement(job, ordered, schema)
        return int((await connection.execute(statement, values)).scalar_one())
    async with _cursor(connection) as cursor:
        await cursor.execute(_sql(schema, "%s", "%s"), (_text(job), ordered))
        return _number(await cursor.fetchone())


def _comes_from(thing: Any, package: str) -> bool:
    # Also for a class of your own that inherits from the driver's.
    return any(kind.__module__.split(".")[0] == package for kind in type(thing).__mro__)


def _is_sqlalchemy(connection: Any) -> bool:
    return _comes_from(connection, "sqlalchemy")


def _statement(job: t.JobRequest, ordered: bool, schema: str) -> tuple[Any, dict[str, Any]]:
    text = importlib.import_module("sqlalchemy").text
    sql = f"SELECT {_checked(schema)}.submit(CAST(:job AS text), :ordered)"
    return text(sql), {"job": _text(job), "ordered": ordered}


def _cursor(connection: Any) -> Any:
    # A cursor's connection is in the same transaction, and what the cursor holds is left alone.
    connection = getattr(connection, "connection", connection)
    if not hasattr(connection, "cursor"):
        raise TypeError(
            f"a connection of psycopg or SQLAlchemy is expected, not {type(connection).__name__}: "
            "a pool or an engine has no transaction"
        )
    if _comes_from(connection, "psycopg"):
        rows = importlib.import_module("psycopg.rows")
        return connection.cursor(row_factory=rows.tuple_row)
    return connection.cursor()


def _number(row: Any) -> int:
    return int(row["id"] if isinstance(row, Mapping) else row[0])


def _sql(schema: str, job: str, ordered: str) -> str:
    return f"SELECT {_checked(schema)}.submit({job}::text, {ordered}) AS id"


def _checked(schema: str) -> str:
    if not _NAME.fullmatch(schema):
        raise ValueError(f"schema {schema!r}: 1 to 63 lower-case letters, digits and _ are expected")
    return schema


def _text(job: t.JobRequest) -> str:
    return json.dumps(job, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
