"""Workers that are told to go, killed, or stopped and woken much later. Real processes, the real server."""

from __future__ import annotations

import collections
import json
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import duly

PROGRAM = Path(__file__).with_name("worker_program.py")


MANY = 1_000
"""Runs that one worker holds when it goes."""


class Process:
    """A worker's process and what it said. It is heard all the time: nothing waits in its pipe."""

    def __init__(self, url: str, queue: str, **options: Any) -> None:
        said = {"url": url, "queues": [queue], "lease": "1s", **options}
        self.process = subprocess.Popen([sys.executable, PROGRAM, json.dumps(said)], stdout=subprocess.PIPE, text=True)
        self.events: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
        self._heard = threading.Condition()
        self._closed = False
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            with self._heard:
                self.events[event["event"]].append(event)
                self._heard.notify_all()
        with self._heard:
            self._closed = True
            self._heard.notify_all()

    def until(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        with self._heard:
            self._heard.wait_for(lambda: self._closed or len(self.events[event]) >= count)
            assert len(self.events[event]) >= count, f"the worker ended without {event}: {dict(self.events)}"
            return list(self.events[event])

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def queue() -> str:
    return f"q-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for one in started:
        one.end()


def submit(client: duly.Client, queue: str, kind: str, payload: Any, count: int) -> list[str]:
    job: duly.types.JobRequest = {"target": {"worker": {"kind": kind}}, "payload": payload, "queue": queue}
    # A one-off's run has its job's letters.
    return [(one["id"] or "").replace("job_", "run_") for one in client.create_many([job] * count)]


def ended_once(client: duly.Client, runs: list[str], former: str, name: str) -> None:
    """How each run ended: once, by the worker of this name, and never by the former one, whose attempt is in its
    history as lost. Tokens grow from attempt to attempt."""
    for run in runs:
        ended = client.run(run, wait="20s")
        assert ended["output"] == name
        attempts = ended["attempts"] or []
        *lost, last = [(one["status"], one["worker"]) for one in attempts]
        assert last == ("succeeded", name)
        assert ("lost", former) in lost
        assert {status for status, _ in lost} == {"lost"}
        tokens = [one["token"] for one in attempts]
        assert tokens == sorted(set(tokens))


def test_sigterm_lets_handlers_finish(url: str, queue: str, processes: list[Process], tmp_path: Path) -> None:
    client, gate = duly.Client(url), tmp_path / "gate"
    runs = submit(client, queue, "hold", str(gate), 3)
    worker = Process(url, queue, concurrency=2, prefetch=1, lease="5s")
    processes.append(worker)
    worker.until("started", 2)
    worker.send(signal.SIGTERM)
    # The third had not begun: it is handed back, long before its lease ends.
    handed_back = client.claim("other", [queue], max=3, wait="15s")["runs"]
    assert len(handed_back) == 1
    client.settle(
        "other", [{"run_id": handed_back[0]["run_id"], "token": handed_back[0]["token"], "outcome": "succeeded"}]
    )
    gate.touch()
    (gone,) = worker.until("gone")
    assert (gone["succeeded"], gone["released"], gone["refused"]) == (2, 1, 0)
    assert worker.process.wait(10) == 0
    assert [client.run(run, wait="10s")["status"] for run in runs] == ["succeeded"] * 3


def test_sigterm_twice_stops_handlers(url: str, queue: str, processes: list[Process], tmp_path: Path) -> None:
    client = duly.Client(url)
    submit(client, queue, "polite", str(tmp_path / "never"), 2)
    worker = Process(url, queue)
    processes.append(worker)
    worker.until("started", 2)
    worker.send(signal.SIGTERM)
    worker.send(signal.SIGINT)
    assert {one["reason"] for one in worker.until("stopped", 2)} == {"shutdown"}
    (gone,) = worker.until("gone")
    # The claim that was cut off may have been asked once more, and what it brought was handed back, too.
    assert gone["released"] == gone["claimed"] >= 2


def test_a_stopped_worker_that_wakes_later_is_refused(
    url: str, queue: str, processes: list[Process], tmp_path: Path
) -> None:
    client, gate = duly.Client(url), tmp_path / "gate"
    former, name = f"asleep-{queue}", f"other-{queue}"
    runs = submit(client, queue, "hold", str(gate), MANY)
    asleep = Process(url, queue, name=former, concurrency=MANY, lease="2s")
    processes.append(asleep)
    asleep.until("started", MANY)
    asleep.send(signal.SIGSTOP)
    # Its leases end by themselves, and somebody else does the work.
    other = Process(url, queue, name=name, concurrency=MANY, lease="20s")
    processes.append(other)
    other.until("started", MANY)
    gate.touch()
    ended_once(client, runs, former, name)
    asleep.send(signal.SIGCONT)
    asleep.until("ended", MANY)
    asleep.send(signal.SIGTERM)
    (gone,) = asleep.until("gone")
    assert gone["succeeded"] == 0
    assert gone["refused"] == gone["claimed"] >= MANY
    ended_once(client, runs, former, name)


def test_the_runs_of_a_killed_worker_run_again_and_none_is_settled_twice(
    url: str, queue: str, processes: list[Process], tmp_path: Path
) -> None:
    client, gate = duly.Client(url), tmp_path / "gate"
    former, name = f"killed-{queue}", f"other-{queue}"
    runs = submit(client, queue, "hold", str(gate), MANY)
    killed = Process(url, queue, name=former, concurrency=MANY, lease="2s")
    processes.append(killed)
    held = {one["run"]: one["token"] for one in killed.until("started", MANY)}
    killed.send(signal.SIGKILL)
    other = Process(url, queue, name=name, concurrency=MANY, lease="20s")
    processes.append(other)
    again = {one["run"]: one["token"] for one in other.until("started", MANY)}
    assert all(held[run] < again[run] for run in runs)
    # What the killed one had said last arrives now, and again when the run has ended.
    late: list[duly.types.SettleItem] = [
        {"run_id": run, "token": held[run], "outcome": "succeeded", "output": "late"} for run in runs
    ]
    for _ in range(2):
        results = client.settle(former, late)
        assert [one["status"] for one in results] == ["stale"] * MANY
        gate.touch()
        ended_once(client, runs, former, name)
