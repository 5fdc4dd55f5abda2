"""The protocol of a worker, in threads of its own: no handler can keep a heartbeat from being sent.

    claim thread ──► ready ──► handlers (threads, or the event loop) ──► ended ──► settle thread
                        │                                                   │
                    heart thread: renews every lease that is held, until its settle was answered

A run is *held* from the claim's answer to the settle's. Held runs never exceed the capacity, so nothing here grows
beyond it; a server that is away is felt as "no room", not as memory.

Leases (the rule that keeps two workers from running one run): the server takes a run back at 110 % of its lease after
the last heartbeat it heard. This side counts from the instant a request was *sent* that was answered, and from there
trusts 90 %. After that the lease is unknown; runs for which that matters are told to stop.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ._clock import now
from ._ended import Ended, Options, Stats, failure, span, until_deadline
from ._transport import Interrupt, Transport, encode, may_pass
from .context import Held, Reason
from .errors import ApiError, DulyError, LeaseLost

log = logging.getLogger("duly.worker")

ITEMS_MAX = 1_000
"""Runs of one heartbeat or settle, and of one claim."""
SETTLE_BYTES_MAX = 4 * 1024 * 1024
"""Outputs of one settle; the server reads 16 MiB at most."""
SETTLE_TRIES_FOR = 300.0
"""A settle that is not answered is repeated for so many seconds, with heartbeats going on; then the lease decides."""
BEAT_TIMEOUT = 10.0
"""The longest wait for a heartbeat's answer."""
IDLE = 3600.0
"""A thread with nothing to do looks again after so long; it is woken before."""


class Engine:
    def __init__(self, transport: Transport, options: Options, is_async: Callable[[str], bool]) -> None:
        self.transport = transport
        self.options = options
        self.is_async = is_async
        self.stats = Stats()
        self.lock = threading.RLock()
        self.held: dict[tuple[str, int], Held] = {}
        self.ready: deque[Held] = deque()
        self.ready_async: deque[Held] = deque()
        self.running = 0
        self.ended: deque[Ended] = deque()
        self.draining = False
        self.quiet = False
        self.closed = False
        self.room = threading.Condition(self.lock)
        self.work = threading.Condition(self.lock)
        self.settle_wanted = threading.Condition(self.lock)
        self.beat_wanted = threading.Condition(self.lock)
        self.on_ready_async: Callable[[], None] = lambda: None
        self.on_change: Callable[[], None] = lambda: None
        self.on_drain: Callable[[], None] = lambda: None
        self.interrupt = Interrupt()
        self._closing = threading.Event()
        self.claiming = False
        self.idle_threads = 0
        self.threads = 0
        self.on_ready_sync: Callable[[], None] = lambda: None
        self._knows_about = True
        self._wake_at = 0.0
        self._empty_beat_at = float("inf")
        self._threads: list[threading.Thread] = []

    # Life

    def start(self) -> None:
        self.claiming = True
        for name, body in (("claim", self._claims), ("heart", self._beats), ("settle", self._settles)):
            thread = threading.Thread(target=self._guarded, args=(body,), name=f"duly-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _guarded(self, body: Callable[[], None]) -> None:
        try:
            body()
        except Exception:
            # Without one of its threads a worker must not go on: leases would end under running handlers.
            log.exception("the worker stops: a part of it failed")
            with self.lock:
                held = list(self.held.values())
                self.closed = True
            for one in held:
                self.tell(one, "lease_lost")
            self.drain()
            self.on_change()

    def drain(self) -> None:
        """Takes nothing more and hands back what has not begun. Handlers that run go on."""
        with self.lock:
            if self.draining:
                return
            self.draining = True
            waiting = [*self.ready, *self.ready_async]
            waiting += [held for held in self.held.values() if not held.begun and not held.finished]
            self.ready.clear()
            self.ready_async.clear()
            for held in waiting:
                self.finish(held, "released", "", started=False)
            self.room.notify_all()
            self.work.notify_all()
        self.interrupt.end()
        self.on_drain()

    def close(self) -> None:
        """Ends the threads. What is still held is left to its lease."""
        with self.lock:
            self.closed = True
            self.draining = True
            for condition in (self.room, self.work, self.settle_wanted, self.beat_wanted):
                condition.notify_all()
        self._closing.set()
        self.interrupt.end()
        for thread in self._threads:
            thread.join(timeout=2.0)

    def leave(self) -> None:
        """Says goodbye, so that nothing waits for this worker's leases. Servers that do not know it ignore it."""
        with contextlib.suppress(DulyError):
            self.transport.once("POST", "/v1/work/leave", data=encode({"worker": self.options.name}), timeout=2.0)

    # Claim

    def _claims(self) -> None:
        options = self.options
        failures = 0
        request_id = uuid.uuid4().hex
        cut_off = False
        while True:
            with self.lock:
                while not self.draining and (self._room() < 1 or self.quiet):
                    self.room.wait(IDLE)
                if self.draining:
                    break
                most = min(self._room(), ITEMS_MAX)
            body: dict[str, Any] = {"worker": options.name, "queues": options.queues, "kinds": options.kinds}
            body |= {"max": most, "wait": span(options.wait), "lease": span(options.lease), "request_id": request_id}
            if self._knows_about:
                body["about"] = self._about()
            sent = now()
            try:
                answer = self._ask("claim", body, options.wait + BEAT_TIMEOUT, self.interrupt)
            except DulyError as error:
                if self.draining:
                    cut_off = True
                    break
                if isinstance(error, ApiError) and "about" in body and error.status == 422:
                    self._knows_about = False  # a server that does not register workers
                    continue
                if not may_pass(error):
                    log.error("claims are refused: %s", error)
                failures += 1
                # The same request again: if the server did answer, it answers with the same leases.
                self._pause(self.transport.pause(error, failures))
                continue
            failures = 0
            request_id = uuid.uuid4().hex
            self.take(answer["runs"], sent)
            self.signal(answer.get("signal", "none"))
        if cut_off:
            self._hand_back(request_id)
        with self.lock:
            self.claiming = False
        self.on_change()

    def _hand_back(self, request_id: str) -> None:
        """The last claim was cut off. If the server had answered it, those leases are ours and nobody runs them: the
        same request tells. What it brings is handed back."""
        options = self.options
        body = {"worker": options.name, "queues": options.queues, "kinds": options.kinds, "max": 1, "wait": "0s"}
        body |= {"lease": span(options.lease), "request_id": request_id}
        with contextlib.suppress(DulyError):
            sent = now()
            answer = self._ask("claim", body, 2.0, None)
            self.take(answer["runs"], sent)

    def take(self, runs: list[Any], sent: float) -> None:
        heard = now()
        wall = datetime.now(UTC)
        with self.lock:
            self.stats.claimed += len(runs)
            begun: list[Held] = []
            earliest = float("inf")
            for run in runs:
                held = Held(run, sent, self.options.lease)
                held.deadline_at = heard + until_deadline(run, self.options.lease, wall)
                self.held[(held.run_id, held.token)] = held
                if self.draining:
                    self.finish(held, "released", "", started=False)
                elif heard >= held.trusted_until:
                    # The answer lay about while this process stood still. A heartbeat tells whether it still holds.
                    held.beat_at = heard
                    held.unknown = True
                else:
                    begun.append(held)
                earliest = min(earliest, held.beat_at, held.deadline_at)
            self._begin(begun)
            if earliest < self._wake_at:
                self.beat_wanted.notify()

    def _begin(self, runs: list[Held]) -> None:
        woken = False
        for held in runs:
            held.begun = True
            if self.is_async(held.run["kind"]):
                self.ready_async.append(held)
                woken = True
            else:
                self.ready.append(held)
                self.work.notify()
        if len(self.ready) > self.idle_threads:
            self.on_ready_sync()
        if woken:
            self.on_ready_async()

    def _room(self) -> int:
        return self.options.concurrency + self.options.prefetch - len(self.held)

    def signal(self, signal: str) -> None:
        if signal == "terminate":
            self.drain()
        elif signal in ("quiet", "none"):
            with self.lock:
                self.quiet = signal == "quiet"
                # Without claims only heartbeats hear what comes next, also when nothing runs.
                self._empty_beat_at = now() + self.options.lease / 3 if self.quiet else float("inf")
                self.room.notify_all()
                self.beat_wanted.notify()

    # Handlers

    def next_sync(self) -> Held | None:
        """The next run for a thread; None when there will be none."""
        with self.lock:
            while not (self.ready and self.running < self.options.concurrency):
                if self.draining or self.closed:
                    return None
                self.idle_threads += 1
                self.work.wait(IDLE)
                self.idle_threads -= 1
            self.running += 1
            return self.ready.popleft()

    def next_async(self) -> Held | None:
        """The next run for the event loop, if there is one and room for it."""
        with self.lock:
            if not self.ready_async or self.running >= self.options.concurrency:
                return None
            self.running += 1
            return self.ready_async.popleft()

    def finish(self, held: Held, outcome: str, text: str, *, started: bool = True) -> None:
        """A handler is done. Every end is said to the server, which knows whose the run is."""
        with self.lock:
            held.finished = True
            for _, told in held.checkpoints:
                told(LeaseLost("the handler is over"))
            held.checkpoints.clear()
            if started:
                self.running -= 1
                if self.ready:
                    self.work.notify()
            if not held.stale or outcome == "succeeded":
                self.ended.append(Ended(held, outcome, text))
                self.settle_wanted.notify()
            else:
                self._drop(held)
            wake = started and bool(self.ready_async)
        if wake:
            self.on_ready_async()

    def _let_go(self, held: Held) -> None:
        self.held.pop((held.run_id, held.token), None)
        self.room.notify()
        self.on_change()

    def tell(self, held: Held, reason: Reason) -> None:
        """Tells a handler to stop. The first reason stays."""
        with self.lock:
            if held.reason is not None or held.finished:
                return
            held.reason = reason
            if held.stop is not None:
                held.stop.set()
            callback = held.on_stop
        if callback is not None:
            callback()

    def stop_event(self, held: Held) -> threading.Event:
        with self.lock:
            if held.stop is None:
                held.stop = threading.Event()
                if held.reason is not None:
                    held.stop.set()
            return held.stop

    def stop_running(self, reason: Reason) -> None:
        with self.lock:
            running = [held for held in self.held.values() if not held.finished]
        for held in running:
            self.tell(held, reason)

    def is_idle(self) -> bool:
        """Nothing is held: every run was settled, handed back or lost."""
        with self.lock:
            return not self.held and not self.claiming

    # Heartbeats

    def checkpoint(self, held: Held, text: str, told: Callable[[DulyError | None], None]) -> None:
        with self.lock:
            if held.stale or held.finished or self.closed:
                told(LeaseLost(f"{held.run_id} belongs to another"))
                return
            held.checkpoints.append((text, told))
            held.beat_at = 0.0
            self.beat_wanted.notify()

    def _beats(self) -> None:
        failures = 0
        while True:
            with self.lock:
                self._look(now())
                due = self._due(now())
                while not due and not self.closed:
                    self._wake_at = self._next_look()
                    self.beat_wanted.wait(max(0.0, min(IDLE, self._wake_at - now())))
                    self._wake_at = 0.0
                    self._look(now())
                    due = self._due(now())
                    if self._empty_beat_at <= now():
                        break
                if self.closed:
                    return
                self._empty_beat_at = now() + self.options.lease / 3 if self.quiet else float("inf")
            error = self._beat(due)
            failures = 0 if error is None else failures + 1
            if error is not None:
                with self.lock:
                    again = now() + min(self.options.lease / 10, self.transport.pause(error, failures))
                    for held, _, _ in due:
                        held.beat_at = max(held.beat_at, again)

    def _due(self, at: float) -> list[tuple[Held, str, list[Callable[[DulyError | None], None]]]]:
        """The runs to be renewed now, with what is said of them."""
        due = []
        for held in self.held.values():
            if held.beat_at > at or held.stale:
                continue
            extra = ""
            told: list[Callable[[DulyError | None], None]] = []
            if held.checkpoints:
                # The last one is what the next attempt shall know.
                extra = ',"checkpoint":' + held.checkpoints[-1][0]
                told = [callback for _, callback in held.checkpoints]
            if held.progress:
                extra += ',"progress":' + json.dumps(held.progress)
            due.append((held, extra, told))
            if len(due) == ITEMS_MAX:
                break
        return due

    def _next_look(self) -> float:
        following = self._empty_beat_at
        for held in self.held.values():
            if held.stale:
                continue
            following = min(following, held.beat_at)
            if held.reason is None and not held.finished:
                following = min(following, held.deadline_at)
                if not held.unknown:
                    following = min(following, held.trusted_until)
        return following

    def _look(self, at: float) -> None:
        """What time alone says: leases that are unknown by now, attempts whose time is over."""
        for held in list(self.held.values()):
            if held.stale or held.finished:
                continue
            if held.deadline_at <= at:
                self.tell(held, "deadline")
            if held.trusted_until <= at and not held.unknown:
                held.unknown = True
                if self._stops(held):
                    self.tell(held, "lease_lost")

    def _stops(self, held: Held) -> bool:
        choice = self.options.on_lease_unknown
        return choice == "stop" or (choice == "auto" and held.run.get("group") is not None)

    def _beat(self, due: list[tuple[Held, str, list[Callable[[DulyError | None], None]]]]) -> DulyError | None:
        items = ",".join(f'{{"run_id":"{held.run_id}","token":{held.token}{extra}}}' for held, extra, _ in due)
        about = f',"about":{json.dumps(self._about())}' if self._knows_about else ""
        body = f'{{"worker":{json.dumps(self.options.name)},"runs":[{items}]{about}}}'.encode()
        sent = now()
        with self.lock:
            trusts = [held.trusted_until - sent for held, _, _ in due if not held.unknown]
        timeout = max(0.05, min([BEAT_TIMEOUT, self.options.lease / 3, *trusts]))
        try:
            answer = self.transport.once("POST", "/v1/work/heartbeat", data=body, timeout=timeout)
        except DulyError as error:
            log.warning("a heartbeat was not answered: %s", error)
            if isinstance(error, ApiError) and error.status == 422 and self._knows_about:
                self._knows_about = False  # a server that does not register workers
            elif isinstance(error, ApiError) and not may_pass(error):
                for held, _, told in due:
                    self._checkpointed(held, told, error)
            return error
        for (held, _, told), result in zip(due, answer["results"], strict=True):
            self._answered(held, told, result["status"], sent)
        self.signal_of_beat(answer.get("signal", "none"))
        return None

    def signal_of_beat(self, signal: str) -> None:
        if signal == "terminate" or (signal == "quiet") != self.quiet:
            self.signal(signal)

    def _answered(self, held: Held, told: list[Callable[[DulyError | None], None]], status: str, sent: float) -> None:
        with self.lock:
            if status == "stale":
                held.stale = True
                self._checkpointed(held, told, LeaseLost(f"{held.run_id} belongs to another"))
                if not held.begun and not held.finished:
                    self._drop(held)
                    return
            else:
                waited = not held.begun and not held.finished
                held.renewed(sent)
                self._checkpointed(held, told, None)
                if waited and not self.draining:
                    self._begin([held])
        if status == "stale":
            self.tell(held, "lease_lost")
        elif status == "cancel":
            self.tell(held, "cancelled")

    def _drop(self, held: Held) -> None:
        self.stats.abandoned += 1
        self._let_go(held)

    def _checkpointed(
        self, held: Held, told: list[Callable[[DulyError | None], None]], error: DulyError | None
    ) -> None:
        with self.lock:
            held.checkpoints = [entry for entry in held.checkpoints if entry[1] not in told]
        for callback in told:
            callback(error)

    # Settles

    def _settles(self) -> None:
        while True:
            with self.lock:
                while not self.ended:
                    if self.closed:
                        return
                    self.settle_wanted.wait(IDLE)
                batch: list[Ended] = []
                size = 0
                while self.ended and len(batch) < ITEMS_MAX and size < SETTLE_BYTES_MAX:
                    size += len(self.ended[0].text)
                    batch.append(self.ended.popleft())
            self._settle(batch)
            self.on_change()

    def _settle(self, batch: list[Ended]) -> None:
        items = ",".join(
            f'{{"run_id":"{one.held.run_id}","token":{one.held.token},"outcome":"{one.outcome}"{one.text}}}'
            for one in batch
        )
        body = f'{{"worker":{json.dumps(self.options.name)},"runs":[{items}]}}'.encode()
        give_up, failures = now() + SETTLE_TRIES_FOR, 0
        while True:
            try:
                answer = self.transport.once("POST", "/v1/work/settle", data=body)
            except DulyError as error:
                if may_pass(error) and now() < give_up and not self.closed:
                    failures += 1
                    self._pause(self.transport.pause(error, failures))
                    continue
                self._unsettled(batch, error)
                return
            break
        with self.lock:
            for one, result in zip(batch, answer["results"], strict=True):
                self._count(one, result["status"])
                del self.held[(one.held.run_id, one.held.token)]
            self.room.notify()

    def _count(self, one: Ended, status: str) -> None:
        if status != "ok":
            self.stats.refused += 1
            log.warning("%s: its settle was refused; it belongs to another attempt by now", one.held.run_id)
            return
        setattr(self.stats, one.outcome, getattr(self.stats, one.outcome) + 1)

    def _unsettled(self, batch: list[Ended], error: DulyError) -> None:
        """A request that is refused whole: one of its runs is at fault. Each is said alone, then as a failure."""
        if isinstance(error, ApiError) and not may_pass(error):
            if len(batch) > 1:
                for one in batch:
                    self._settle([one])
                return
            if batch[0].outcome != "failed":
                self._settle([failure(batch[0].held, f"its end was refused: {error.detail}", retryable=False)])
                return
        log.error("%d ended runs could not be settled: %s", len(batch), error)
        with self.lock:
            for one in batch:
                self._drop(one.held)

    # Help

    def _about(self) -> dict[str, Any]:
        """What this worker says of itself."""
        return {**self.options.registration, "running": self.running}

    def _ask(self, verb: str, body: dict[str, Any], timeout: float, interrupt: Interrupt | None) -> Any:
        return self.transport.once("POST", f"/v1/work/{verb}", data=encode(body), timeout=timeout, interrupt=interrupt)

    def _pause(self, length: float) -> None:
        if self.draining:
            self._closing.wait(length)
        else:
            self.interrupt.raised.wait(length)
