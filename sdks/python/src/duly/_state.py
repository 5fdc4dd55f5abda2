"""What a worker holds, and how a run goes from ready to ended: the part that the threads of the engine share.

A run is *held* from the claim's answer to the settle's. Held runs never exceed the capacity, so nothing here grows
beyond it; a server that is away is felt as "no room", not as memory.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from ._clock import now
from ._ended import Ended, Options, Stats
from ._transport import Interrupt, Transport, encode
from .context import Held, Reason
from .errors import LeaseLost

log = logging.getLogger("duly.worker")

ITEMS_MAX = 1_000
"""Runs of one heartbeat or settle, and of one claim."""
BEAT_TIMEOUT = 10.0
"""The longest wait for a heartbeat's answer."""
IDLE = 3600.0
"""A thread with nothing to do looks again after so long; it is woken before."""


class State:
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

    # What is held

    def _room(self) -> int:
        return self.options.concurrency + self.options.prefetch - len(self.held)

    def _let_go(self, held: Held) -> None:
        self.held.pop((held.run_id, held.token), None)
        self.room.notify()
        self.on_change()

    def _drop(self, held: Held) -> None:
        self.stats.abandoned += 1
        self._let_go(held)

    def is_idle(self) -> bool:
        """Nothing is held: every run was settled, handed back or lost."""
        with self.lock:
            return not self.held and not self.claiming

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
