"""Plays the scenarios of sdks/conformance; its README says what each step is."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

import duly

from .server import Proxy

PATIENCE = 20.0
"""The longest wait for an event."""


class Gates:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: dict[str, threading.Event] = {}

    def __getitem__(self, name: str) -> threading.Event:
        with self._lock:
            return self._events.setdefault(name, threading.Event())


@dataclass
class Played:
    """A worker of the SDK in a thread of its own, and what its handlers said."""

    worker: duly.Worker
    thread: threading.Thread
    events: list[dict[str, Any]]
    said: threading.Condition

    def say(self, event: dict[str, Any]) -> None:
        with self.said:
            self.events.append(event)
            self.said.notify_all()

    def place_of(self, wanted: dict[str, Any]) -> int:
        with self.said:
            return next(n for n, event in enumerate(self.events) if wanted.items() <= event.items())

    def wait_for(self, wanted: dict[str, Any]) -> None:
        def found() -> bool:
            return any(wanted.items() <= event.items() for event in self.events)

        with self.said:
            assert self.said.wait_for(found, PATIENCE), f"no event {wanted} among {self.events}"


@dataclass
class Scenario:
    url: str
    mode: str
    queue: str = field(default_factory=lambda: f"q-{uuid.uuid4().hex[:12]}")

    def __post_init__(self) -> None:
        self.proxy = Proxy(self.url)
        self.client = duly.Client(self.proxy.url)
        self.direct = duly.Client(self.url)
        self.jobs: dict[str, Any] = {}
        self.leases: dict[str, Any] = {}
        self.workers: dict[str, Played] = {}
        self.gates = Gates()

    def play(self, steps: list[dict[str, Any]]) -> None:
        try:
            for step in steps:
                ((verb, said),) = step.items()
                getattr(self, f"do_{verb}")(said)
        finally:
            for played in self.workers.values():
                played.worker.stop()
                played.worker.stop()
            self.proxy.cut(False)
            for played in self.workers.values():
                played.thread.join(PATIENCE)
            self.proxy.close()

    # Client

    def do_submit(self, said: dict[str, Any]) -> None:
        job = {"queue": self.queue, **said["job"]}
        key = said.get("key")
        key = f"{self.queue}-{key}" if key else None
        if fails := said.get("fails"):
            with pytest.raises(duly.InvalidRequest) as refused:
                self.client.create(job, idempotency_key=key)  # type: ignore[arg-type]
            assert (refused.value.status, refused.value.code) == (fails["status"], fails["code"])
            if "pointer" in fails:
                assert fails["pointer"] in [fault.pointer for fault in refused.value.errors]
            return
        created = self.client.create(job, idempotency_key=key)  # type: ignore[arg-type]
        if "as" in said:
            self.jobs[said["as"]] = created

    def do_same(self, said: list[str]) -> None:
        assert self.jobs[said[0]]["id"] == self.jobs[said[1]]["id"]

    def do_differ(self, said: list[str]) -> None:
        assert self.jobs[said[0]]["id"] != self.jobs[said[1]]["id"]

    def do_count(self, said: dict[str, Any]) -> None:
        assert len(list(self.client.jobs(queue=self.queue, status=said.get("status"), limit=1))) == said["is"]

    def do_cancel(self, job: str) -> None:
        self.client.cancel(self.jobs[job]["id"])

    def do_wait(self, said: dict[str, Any]) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            # The answer comes when the run has ended; other states are looked for.
            wait = 5.0 if said["status"] in ("succeeded", "cancelled", "dead", "failed") else None
            run = self.direct.run(self.jobs[said["job"]]["run_id"], wait=wait)
            if run["status"] == said["status"]:
                break
            assert time.monotonic() < end, run
            time.sleep(0.01)
        for name in ("output", "error"):
            if name in said:
                assert run[name] == said[name], run
        if "attempts" in said:
            assert len(run["attempts"] or []) == said["attempts"], run

    # The plain protocol

    def _plain(self, said: dict[str, Any]) -> duly.Client:
        return self.direct if said.get("direct") else self.client

    def do_claim(self, said: dict[str, Any]) -> None:
        if played := self.workers.get(said.get("beside", "")):

            def later() -> None:
                self._claim(said)
                played.say({"is": "taken", "run": self.leases[said["as"]]["run_id"]})

            threading.Thread(target=later, daemon=True).start()
        else:
            self._claim(said)

    def do_before(self, said: dict[str, Any]) -> None:
        played = self.workers[said["worker"]]
        assert played.place_of(said["first"]) < played.place_of(said["then"]), played.events

    def _claim(self, said: dict[str, Any]) -> None:
        lease, wait = said.get("lease", "30s"), said.get("wait", "5s")
        claimed = self._plain(said).claim(said["worker"], [self.queue], max=said.get("max", 1), wait=wait, lease=lease)
        assert [run["run_id"] for run in claimed["runs"]] == [self.jobs[said["of"]]["run_id"]]
        run = claimed["runs"][0]
        for name in ("attempt", "checkpoint", "previous_error"):
            if name in said:
                assert run[name] == said[name]
        self.leases[said["as"]] = run

    def do_heartbeat(self, said: dict[str, Any]) -> None:
        run = self.leases[said["lease"]]
        beat: duly.types.BeatItem = {"run_id": run["run_id"], "token": run["token"]}
        if "checkpoint" in said:
            beat["checkpoint"] = said["checkpoint"]
        answer = self.client.heartbeat(said["worker"], [beat])
        assert answer["results"][0]["status"] == said["status"]

    def do_settle(self, said: dict[str, Any]) -> None:
        run = self.leases[said["lease"]]
        known = ("lease", "worker", "status", "run_status", "direct")
        item = {"run_id": run["run_id"], "token": run["token"]}
        item |= {name: value for name, value in said.items() if name not in known}
        (result,) = self._plain(said).settle(said["worker"], [item])  # type: ignore[list-item]
        assert result["status"] == said["status"]
        if "run_status" in said:
            assert result["run_status"] == said["run_status"]

    # The worker

    def do_worker(self, said: dict[str, Any]) -> None:
        options = dict(said.get("options", {}))
        worker = duly.Worker(self.proxy.url, queues=[self.queue], **options)
        events: list[dict[str, Any]] = []
        condition = threading.Condition()

        played = Played(worker, threading.Thread(), events, condition)
        say = played.say

        for kind, attempts in said["handlers"].items():
            make = self._handler if self.mode == "sync" else self._handler_async
            worker.add_handler(kind, make(attempts, say))

        def run() -> None:
            stats = worker.run(signals=False)
            say({"is": "gone", **vars(stats)})

        played.thread = threading.Thread(target=run, daemon=True)
        played.thread.start()
        self.workers[said["as"]] = played

    def _handler(
        self, attempts: list[dict[str, Any]], say: Callable[[dict[str, Any]], None]
    ) -> Callable[[Any, duly.Context], Any]:
        def handle(_: Any, ctx: duly.Context) -> Any:
            script = attempts[min(ctx.attempt, len(attempts)) - 1]
            say({"is": "started", "run": ctx.run_id, "attempt": ctx.attempt})
            if "saved" in script:
                assert ctx.saved == script["saved"]
            if "checkpoint" in script:
                ctx.checkpoint(script["checkpoint"])
            if "gate" in script:
                gate = self.gates[script["gate"]]
                while not gate.wait(0.01):
                    if ctx.stop.is_set() and not script.get("deaf"):
                        say({"is": "stopped", "run": ctx.run_id, "reason": ctx.stop_reason})
                        ctx.check()
            say({"is": "ended", "run": ctx.run_id})
            return conclude(script)

        return handle

    def _handler_async(
        self, attempts: list[dict[str, Any]], say: Callable[[dict[str, Any]], None]
    ) -> Callable[[Any, duly.AsyncContext], Any]:
        async def handle(_: Any, ctx: duly.AsyncContext) -> Any:
            script = attempts[min(ctx.attempt, len(attempts)) - 1]
            say({"is": "started", "run": ctx.run_id, "attempt": ctx.attempt})
            if "saved" in script:
                assert ctx.saved == script["saved"]
            if "checkpoint" in script:
                await ctx.checkpoint(script["checkpoint"])
            if "gate" in script:
                gate = self.gates[script["gate"]]
                try:
                    with anyio.CancelScope(shield=bool(script.get("deaf"))):
                        while not gate.is_set():
                            await anyio.sleep(0.01)
                except anyio.get_cancelled_exc_class():
                    say({"is": "stopped", "run": ctx.run_id, "reason": ctx.stop_reason})
                    raise
            say({"is": "ended", "run": ctx.run_id})
            return conclude(script)

        return handle

    def do_event(self, said: dict[str, Any]) -> None:
        wanted = {name: said[name] for name in ("is", "reason", "attempt") if name in said}
        if "job" in said:
            wanted["run"] = self.jobs[said["job"]]["run_id"]
        self.workers[said["worker"]].wait_for(wanted)

    def do_open(self, gate: str) -> None:
        self.gates[gate].set()

    def do_stop(self, said: dict[str, Any]) -> None:
        played = self.workers[said["worker"]]
        if not played.worker._stop_asked.is_set():
            played.worker.stop()
        if said.get("wait"):
            played.wait_for({"is": "gone"})

    def do_stats(self, said: dict[str, Any]) -> None:
        wanted = {name: value for name, value in said.items() if name != "worker"}
        played = self.workers[said["worker"]]
        played.wait_for({"is": "gone"})
        assert wanted.items() <= vars(played.worker.stats).items(), played.worker.stats

    def do_drain(self, said: dict[str, Any]) -> None:
        self.direct.drain_worker(self.workers[said["worker"]].worker.name, signal=said["signal"])

    def do_known(self, said: dict[str, Any]) -> None:
        name = self.workers[said["worker"]].worker.name
        wanted = {key: value for key, value in said.items() if key != "worker"}
        if wanted["status"] == "unknown":
            assert name not in [one["id"] for one in self.direct.workers()]
            return
        known: Any = self.direct.worker(name)
        assert {key: known[key] for key in wanted} == wanted
        assert name in [one["id"] for one in self.direct.workers()]

    # Trouble

    def do_lose(self, said: dict[str, Any]) -> None:
        self.proxy.lose(said["path"], said["answers"])

    def do_cut(self, on: bool) -> None:
        self.proxy.cut(on)

    def do_verify(self, said: dict[str, Any]) -> None:
        try:
            identity = duly.verify(said["headers"], said["body"], said["secrets"], now=said["now"])
        except duly.WebhookError:
            assert not said["fits"]
            return
        assert said["fits"]
        assert identity.startswith("run_")


def conclude(script: dict[str, Any]) -> Any:
    if "fail" in script:
        if script.get("retryable", True):
            raise duly.Retry(script["fail"], after=script.get("after"))
        raise duly.Fail(script["fail"])
    if "snooze" in script:
        raise duly.Snooze(delay=script["snooze"])
    if "release" in script:
        raise duly.Release()
    return script.get("return")
