"""What the conformance set does not play: managing jobs, lists, the async client, errors, real webhooks, the README."""

from __future__ import annotations

import http.server
import os
import queue as queues
import re
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import anyio
import pytest

import duly
from duly._clock import seconds, text

PACKAGE = Path(__file__).parents[1]


@pytest.fixture
def queue() -> str:
    return f"q-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def client(url: str) -> duly.Client:
    return duly.Client(url)


def test_a_recurring_job_from_declaration_to_cancellation(client: duly.Client, queue: str) -> None:
    name = f"tidy-{queue}"
    job: duly.types.JobRequest = {
        "schedule": {"every": "1h"},
        "target": {"worker": {"kind": "tidy"}},
        "queue": queue,
    }
    first, again = client.declare(name, job), client.declare(name, job)
    assert (first["id"], first["version"]) == (again["id"], again["version"])
    patched = client.patch(name, {"priority": 9}, version=first["version"])
    assert patched["priority"] == 9
    with pytest.raises(duly.VersionMismatch):
        client.patch(name, {"priority": 1}, version=first["version"])
    assert client.pause(name, reason="a look")["status"] == "paused"
    assert client.resume(name)["status"] == "active"
    key = uuid.uuid4().hex
    triggered = client.trigger(name, idempotency_key=key)
    assert client.trigger(name, idempotency_key=key)["run_id"] == triggered["run_id"]
    assert client.run(triggered["run_id"])["status"] == "ready"
    assert client.explain(triggered["run_id"])["summary"]
    assert [run["id"] for run in client.runs(job=name)] == [triggered["run_id"]]
    assert next(client.occurrences(name))["status"]
    assert client.stats(name)["unfinished"] == 1
    assert client.preview({"cron": "0 3 * * *", "timezone": "UTC"}, count=2)["instants"]
    client.cancel_run(triggered["run_id"])
    assert client.cancel(name)["status"] == "cancelled"
    assert [one["name"] for one in client.queues() if one["name"] == queue] == [queue]
    assert client.pause_queue(queue, reason="a look")["paused"]
    assert client.resume_queue(queue)["paused"] is None


def test_batches_and_pages(client: duly.Client, queue: str) -> None:
    job: duly.types.JobRequest = {"target": {"worker": {"kind": "mail"}}, "queue": queue}
    bad: Any = {"target": {"carrier": "pigeon"}}
    results = client.create_many([job, bad, *[job] * 5])
    assert [one["status"] for one in results] == [202, 422, 202, 202, 202, 202, 202]
    made = {one["id"] for one in results if one["status"] == 202}
    assert {one["id"] for one in client.jobs(queue=queue, limit=2)} == made


def test_dead_runs_are_replayed(client: duly.Client, queue: str) -> None:
    run = client.submit("mail", queue=queue, retry={"max_retries": 0})["run_id"]
    assert run is not None
    claimed = client.claim("w", [queue], max=1)["runs"][0]
    client.settle("w", [{"run_id": run, "token": claimed["token"], "outcome": "failed", "error": {"message": "torn"}}])
    assert [one["id"] for one in client.dead_letters(queue=queue)] == [run]
    assert client.replay(run)["status"] == "ready"


def test_refusals_are_typed(client: duly.Client, url: str) -> None:
    with pytest.raises(duly.NotFound) as missing:
        client.job("no-such-job")
    assert missing.value.code == "not_found"
    assert missing.value.request_id
    with pytest.raises(duly.InvalidRequest) as bad:
        client.create({"target": {"http": {"url": "ftp://x"}}})
    assert bad.value.errors[0].pointer == "/target/http/url"
    with pytest.raises(duly.TransportError):
        duly.Client("http://127.0.0.1:9", backoff=duly.Backoff(retries=1, initial=0.01)).version()
    with pytest.raises(ValueError, match="URL"):
        duly.Client("127.0.0.1:7070")


def test_the_async_client_does_the_same(url: str, queue: str) -> None:
    async def main() -> None:
        async with duly.AsyncClient(url) as client:
            made: list[str] = []

            async def submit(number: int) -> None:
                made.append((await client.submit("mail", {"n": number}, queue=queue))["id"])

            async with anyio.create_task_group() as group:
                for number in range(20):
                    group.start_soon(submit, number)
            listed = [job["id"] async for job in client.jobs(queue=queue, limit=7)]
            assert sorted(listed) == sorted(made)
            with pytest.raises(duly.NotFound):
                await client.job("no-such-job")

    anyio.run(main)


def test_a_webhook_of_the_real_server_fits(client: duly.Client, queue: str) -> None:
    came: queues.Queue[tuple[dict[str, str], bytes]] = queues.Queue()

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.put((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        target: duly.types.Target = {"http": {"url": f"http://127.0.0.1:{server.server_port}/"}}
        made = client.create({"target": target, "payload": {"a": "ü"}, "queue": queue})
        headers, body = came.get(timeout=20)
        server.shutdown()
    secrets = [one["secret"] for one in client.signing_secrets()]
    assert duly.verify(headers, body, secrets) == made["run_id"]
    with pytest.raises(duly.WebhookError):
        duly.verify(headers, body + b" ", secrets)


def test_lengths() -> None:
    assert [seconds(one) for one in ("1h30m", "250ms", "1.5s", 2)] == [5400.0, 0.25, 1.5, 2.0]
    assert text(0.25) == "250000us"
    for bad in ("", "5", "1x", "s"):
        with pytest.raises(ValueError, match="length"):
            seconds(bad)


def test_the_readme_is_true(url: str) -> None:
    (example,) = re.findall(r"```python example\n(.*?)```", (PACKAGE / "README.md").read_text(), flags=re.S)
    done = subprocess.run(
        [sys.executable, "-c", example],
        env={**os.environ, "DULY_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "'customer': 42" in done.stdout


def test_the_async_client_is_what_the_sync_one_makes() -> None:
    subprocess.run([sys.executable, PACKAGE / "tools" / "make_async.py", "--check"], check=True)
