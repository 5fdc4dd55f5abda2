"""The worker: handlers by kind, run under leases, drained on SIGTERM.

worker = Worker("http://127.0.0.1:7070", queues=["bills"])

@worker.handler("bill")
def bill(payload, ctx): ...          # a thread; or `async def`, on the event loop

worker.run()
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import socket
import ssl
import threading
import traceback
import uuid
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import anyio
import anyio.abc

from ._clock import Length, instant, seconds, text
from ._ended import Ended, OnLeaseUnknown, Options, Stats, failure
from ._engine import Engine
from ._state import log
from ._transport import Backoff
from .client import transport_of
from .context import AsyncContext, Context, Fail, Held, Release, Retry, Snooze

OUTPUT_BYTES_MAX = 16 * 1024
"""The largest output of a run."""
KINDS_MAX = 100
"""Kinds of one worker."""
STOP_GRACE = 5.0
"""Seconds that handlers get to stop after they were told to, when the grace of a drain is over."""

SyncHandler = Callable[[Any, Context], Any]
AsyncHandler = Callable[[Any, AsyncContext], Awaitable[Any]]
H = TypeVar("H", bound=Callable[..., Any])


class Worker:
    """Asks one server for runs and calls handlers."""

    def __init__(
        self,
        url: str | None = None,
        *,
        queues: Sequence[str] = ("default",),
        concurrency: int = 10,
        prefetch: int = 0,
        lease: Length = 30.0,
        wait: Length = 20.0,
        grace: Length = 25.0,
        on_lease_unknown: OnLeaseUnknown = "auto",
        name: str | None = None,
        version: str | None = None,
        labels: dict[str, str] | None = None,
        api_key: str | None = None,
        namespace: str | None = None,
        timeout: float = 30.0,
        backoff: Backoff | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """`concurrency` handlers at once; `prefetch` runs are held beyond that, so that none has to wait for the
        network: for many short runs. `on_lease_unknown` says what happens to a handler when no heartbeat has been
        answered for 90 % of its lease: "stop", "continue", or "auto": stop where the run has a group, and so may
        count on being alone."""
        if concurrency < 1 or prefetch < 0:
            raise ValueError("concurrency is at least 1, prefetch at least 0")
        if not queues:
            raise ValueError("a worker needs at least one queue")
        lease_s = seconds(lease)
        if not 1.0 <= lease_s <= 3600.0:
            raise ValueError("a lease lasts 1s to 1h")
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.grace = seconds(grace)
        about = {"capacity": concurrency, "version": version, "labels": labels}
        self._options = Options(
            name=self.name,
            queues=list(queues),
            kinds=[],
            concurrency=concurrency,
            prefetch=prefetch,
            lease=lease_s,
            # The lease counts from when the claim was sent: a claim that waits longer than half of it would leave
            # too little.
            wait=min(seconds(wait), lease_s / 2),
            on_lease_unknown=on_lease_unknown,
            registration={key: value for key, value in about.items() if value is not None},
        )
        self._transport = transport_of(url, api_key, namespace, timeout, backoff or Backoff(), ssl_context)
        self._handlers: dict[str, Callable[..., Any]] = {}
        self._async: set[str] = set()
        self._engine: Engine | None = None
        self._stop_asked = threading.Event()
        self._stop_now = threading.Event()
        self._changed: Callable[[], None] = lambda: None

    def handler(self, kind: str) -> Callable[[H], H]:
        """Decorates the handler of a kind: `(payload, ctx)`. What it returns is the run's output."""

        def register(function: H) -> H:
            self.add_handler(kind, function)
            return function

        return register

    def add_handler(self, kind: str, function: SyncHandler | AsyncHandler) -> None:
        if self._engine is not None:
            raise RuntimeError("handlers are added before the worker runs")
        if kind in self._handlers:
            raise ValueError(f"there is a handler of {kind!r} already")
        if len(self._handlers) >= KINDS_MAX:
            raise ValueError(f"a worker has at most {KINDS_MAX} kinds")
        self._handlers[kind] = function
        if inspect.iscoroutinefunction(function):
            self._async.add(kind)

    @property
    def stats(self) -> Stats:
        return self._engine.stats if self._engine is not None else Stats()

    def stop(self) -> None:
        """Drains: takes nothing more, hands back what has not begun, lets handlers finish for `grace`. From any thread
        or signal handler. A second call tells the handlers to stop at once."""
        if self._stop_asked.is_set():
            self._stop_now.set()
        self._stop_asked.set()
        self._changed()

    def run(self, *, signals: bool = True) -> Stats:
        """Works until it is told to stop; SIGTERM and SIGINT drain. Call it in the main thread."""
        return anyio.run(lambda: self.serve(signals=signals), backend="asyncio")

    async def serve(self, *, signals: bool = False) -> Stats:
        """The same inside an asyncio event loop."""
        if not self._handlers:
            raise RuntimeError("a worker needs at least one handler")
        if self._engine is not None:
            raise RuntimeError("a worker runs once")
        self._options.kinds = sorted(self._handlers)
        engine = self._engine = Engine(self._transport, self._options, self._async.__contains__)
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()

        def soon(callback: Callable[[], None]) -> None:
            # Threads may outlive the loop by a moment.
            if not loop.is_closed():
                loop.call_soon_threadsafe(callback)

        self._changed = engine.on_drain = lambda: soon(changed.set)
        engine.on_change = lambda: soon(changed.set) if engine.draining else None
        engine.on_ready_sync = self._more_threads
        if signals:
            for one in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(one, self.stop)
        try:
            async with anyio.create_task_group() as handlers:
                engine.on_ready_async = lambda: soon(lambda: self._pump(handlers))
                engine.start()
                await self._until(changed, lambda: self._stop_asked.is_set() or engine.draining)
                engine.drain()
                await self._finish(changed, engine)
                handlers.cancel_scope.cancel()
        finally:
            engine.drain()
            await asyncio.shield(loop.run_in_executor(None, self._close, engine))
            if signals:
                for one in (signal.SIGTERM, signal.SIGINT):
                    loop.remove_signal_handler(one)
        return engine.stats

    def _close(self, engine: Engine) -> None:
        with engine.lock:
            left = len(engine.held)
        if left:
            log.warning("%d runs are left to their leases: their handlers did not stop", left)
        engine.close()
        engine.leave()
        self._transport.close()

    async def _until(self, changed: asyncio.Event, done: Callable[[], bool]) -> None:
        while not done():
            changed.clear()
            if done():
                return
            await changed.wait()

    async def _finish(self, changed: asyncio.Event, engine: Engine) -> None:
        with anyio.move_on_after(self.grace):
            await self._until(changed, lambda: engine.is_idle() or self._stop_now.is_set())
        if not engine.is_idle():
            engine.stop_running("shutdown")
            with anyio.move_on_after(STOP_GRACE):
                await self._until(changed, engine.is_idle)

    # Handlers in threads

    def _more_threads(self) -> None:
        engine = self._engine
        assert engine is not None
        # The engine's lock is held here.
        while engine.threads < engine.options.concurrency and engine.threads < len(engine.ready) + engine.running:
            engine.threads += 1
            threading.Thread(target=self._thread, name=f"duly-handler-{engine.threads}", daemon=True).start()

    def _thread(self) -> None:
        engine = self._engine
        assert engine is not None
        while (held := engine.next_sync()) is not None:
            ended = self._run_sync(engine, held)
            engine.finish(held, ended.outcome, ended.text)

    def _run_sync(self, engine: Engine, held: Held) -> Ended:
        if held.reason is not None:
            return stopped(held)
        try:
            return succeeded(held, self._handlers[held.run["kind"]](payload_of(held), Context(engine, held)))
        except BaseException as error:
            return concluded(held, error)

    # Handlers on the event loop

    def _pump(self, handlers: anyio.abc.TaskGroup) -> None:
        engine = self._engine
        assert engine is not None
        while (held := engine.next_async()) is not None:
            handlers.start_soon(self._run_async, engine, held)

    async def _run_async(self, engine: Engine, held: Held) -> None:
        loop = asyncio.get_running_loop()
        ended: Ended | None = None
        with anyio.CancelScope() as scope:
            held.on_stop = lambda: None if loop.is_closed() else void(loop.call_soon_threadsafe(scope.cancel))
            if held.reason is not None:
                scope.cancel()
            try:
                handler = self._handlers[held.run["kind"]]
                ended = succeeded(held, await handler(payload_of(held), AsyncContext(engine, held)))
            except Exception as error:
                ended = concluded(held, error)
            finally:
                held.on_stop = None
                if ended is None and held.reason is None:
                    # The worker itself is being cancelled.
                    engine.finish(held, "released", "")
        ended = ended or stopped(held)
        engine.finish(held, ended.outcome, ended.text)


def void(_: Any) -> None:
    return None


def payload_of(held: Held) -> Any:
    return held.run["payload"]


def succeeded(held: Held, output: Any) -> Ended:
    if output is None:
        return Ended(held, "succeeded", "")
    try:
        written = json.dumps(output, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        return failure(held, f"the output of {held.run['kind']} is not JSON: {error}", retryable=False)
    if len(written.encode()) > OUTPUT_BYTES_MAX:
        return failure(held, f"the output has more than {OUTPUT_BYTES_MAX} bytes", retryable=False)
    return Ended(held, "succeeded", ',"output":' + written)


def concluded(held: Held, error: BaseException) -> Ended:
    """What an exception says about the end of a run."""
    if held.reason is not None:
        return stopped(held)
    match error:
        case Snooze():
            until = error.until or datetime.now(UTC) + timedelta(seconds=seconds(error.delay or 0.0))
            return Ended(held, "snoozed", ',"until":' + json.dumps(instant(until)))
        case Release():
            return Ended(held, "released", "")
        case Fail():
            return failure(held, str(error), retryable=False, code=error.code)
        case Retry():
            after = None if error.after is None else text(error.after)
            return failure(held, str(error), code=error.code, retry_after=after)
        case _:
            log.warning(
                "%s of %s failed\n%s", held.run["kind"], held.run_id, "".join(traceback.format_exception(error))
            )
            return failure(held, f"{type(error).__name__}: {error}")


def stopped(held: Held) -> Ended:
    """A handler stopped because it was told to."""
    match held.reason:
        case "cancelled":
            return failure(held, "stopped: it was cancelled", retryable=False)
        case "deadline":
            return failure(held, "stopped: its time was over")
        case _:
            return Ended(held, "released", "")
