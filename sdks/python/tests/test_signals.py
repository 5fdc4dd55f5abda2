"""Workers that are told to go, killed, or stopped and woken much later. Real processes, the real server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import duly

PROGRAM = Path(__file__).with_name("worker_program.py")


class Process:
    """A worker's process and what it said."""

    def __init__(self, url: str, queue: str, **options: Any) -> None:
        said = {"url": url, "queues": [queue], "lease": "1s", **options}
        self.process = subprocess.Popen([sys.executable, PROGRAM, json.dumps(said)], stdout=subprocess.PIPE, text=True)
        self.events: list[dict[str, Any]] = []

    def until(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        assert self.process.stdout is not None
        while len(found := [one for one in self.events if one["event"] == event]) < count:
            line = self.process.stdout.readline()
            assert line, f"the worker ended without {event}: {self.events}"
            self.events.append(json.loads(line))
        return found

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
    runs = [client.submit(kind, payload, queue=queue)["run_id"] for _ in range(count)]
    return [run for run in runs if run is not None]


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
    client, gate, count = duly.Client(url), tmp_path / "gate", 5
    runs = submit(client, queue, "hold", str(gate), count)
    asleep = Process(url, queue, name=f"asleep-{queue}", concurrency=count)
    processes.append(asleep)
    asleep.until("started", count)
    asleep.send(signal.SIGSTOP)
    # Its leases end by themselves, and somebody else does the work.
    other = Process(url, queue, name=f"other-{queue}", concurrency=count)
    processes.append(other)
    other.until("started", count)
    gate.touch()
    assert [client.run(run, wait="20s")["output"] for run in runs] == [f"other-{queue}"] * count
    asleep.send(signal.SIGCONT)
    asleep.until("ended", count)
    asleep.send(signal.SIGTERM)
    (gone,) = asleep.until("gone")
    assert gone["succeeded"] == 0
    assert gone["refused"] == count
    for run in runs:
        ends = [one for one in client.run(run)["attempts"] or [] if one["status"] == "succeeded"]
        assert [one["worker"] for one in ends] == [f"other-{queue}"]


def test_the_runs_of_a_killed_worker_run_again_and_none_is_settled_twice(
    url: str, queue: str, processes: list[Process], tmp_path: Path
) -> None:
    client, gate, count = duly.Client(url), tmp_path / "gate", 50
    runs = submit(client, queue, "hold", str(gate), count)
    killed = Process(url, queue, name=f"killed-{queue}", concurrency=count)
    processes.append(killed)
    killed.until("started", count)
    killed.send(signal.SIGKILL)
    other = Process(url, queue, name=f"other-{queue}", concurrency=count)
    processes.append(other)
    other.until("started", count)
    gate.touch()
    for run in runs:
        ended = client.run(run, wait="20s")
        assert ended["status"] == "succeeded"
        by_status = sorted((one["status"], one["worker"]) for one in ended["attempts"] or [])
        assert by_status == [("lost", f"killed-{queue}"), ("succeeded", f"other-{queue}")]
