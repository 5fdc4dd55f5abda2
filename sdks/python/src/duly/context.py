"""What a handler is given beside its payload, and what it can raise to say how a run ends."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from ._clock import Length, now
from .errors import DulyError, LeaseLost
from .types import ClaimedRun

if TYPE_CHECKING:
    from ._engine import Engine

CHECKPOINT_BYTES_MAX = 64 * 1024
"""The largest checkpoint."""

Reason = Literal["cancelled", "lease_lost", "deadline", "shutdown"]
"""Why a handler is told to stop: a person asked, the run may be another's, its time is over, the worker goes."""


class Fail(DulyError):
    """Raise it to say that trying again would not help: the run is dead and waits for a person."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class Retry(DulyError):
    """Raise it to fail this attempt and say when the next one shall be. Any other exception fails it, too."""

    def __init__(self, message: str, *, after: Length | None = None, code: int | None = None) -> None:
        super().__init__(message)
        self.after = after
        self.code = code


class Snooze(DulyError):
    """Raise it to put the run off. It spends no retry."""

    def __init__(self, *, until: datetime | str | None = None, delay: Length | None = None) -> None:
        super().__init__("snoozed")
        if (until is None) == (delay is None):
            raise ValueError("a snooze has either until or delay")
        self.until = until
        self.delay = delay


class Release(DulyError):
    """Raise it to hand the run back at once, for any worker. It spends no retry."""


class Stopped(DulyError):
    """Raised by `Context.check` in a handler that was told to stop."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class Held:
    """A run that this worker holds: its lease, and what is to be told about it. The engine's lock guards it."""

    __slots__ = (
        "beat_at",
        "begun",
        "checkpoints",
        "deadline_at",
        "finished",
        "lease",
        "on_stop",
        "progress",
        "reason",
        "run",
        "run_id",
        "stale",
        "stop",
        "token",
        "trusted_until",
        "unknown",
    )

    def __init__(self, run: ClaimedRun, sent: float, lease: float) -> None:
        self.run = run
        self.run_id = run["run_id"]
        self.token = run["token"]
        self.lease = lease
        self.deadline_at = float("inf")
        self.renewed(sent)
        self.stale = False
        self.begun = False
        self.unknown = False
        self.finished = False
        self.reason: Reason | None = None
        self.progress: dict[str, Any] | None = None
        self.checkpoints: list[tuple[str, Callable[[DulyError | None], None]]] = []
        self.stop: threading.Event | None = None
        self.on_stop: Callable[[], None] | None = None

    def renewed(self, sent: float) -> None:
        """A request sent at this instant was answered: the lease is as good as counted from there."""
        self.trusted_until = sent + self.lease * 0.9
        self.beat_at = sent + self.lease / 3
        self.unknown = False


class _Base:
    def __init__(self, engine: Engine, held: Held) -> None:
        self._engine = engine
        self._held = held
        self.run = held.run
        """The claim's answer, whole."""

    @property
    def run_id(self) -> str:
        return self._held.run_id

    @property
    def job_id(self) -> str:
        return self.run["job_id"]

    @property
    def kind(self) -> str:
        return self.run["kind"]

    @property
    def attempt(self) -> int:
        return self.run["attempt"]

    @property
    def token(self) -> int:
        """Larger for every later attempt: `UPDATE … WHERE fence < token` keeps former ones out."""
        return self._held.token

    @property
    def payload(self) -> Any:
        return self.run["payload"]

    @property
    def previous_error(self) -> str | None:
        return self.run["previous_error"]

    @property
    def saved(self) -> Any:
        """The checkpoint of a former attempt, or None."""
        return self.run["checkpoint"]

    @property
    def deadline(self) -> datetime:
        """When this attempt must be over, by the server's clock."""
        return datetime.fromisoformat(self.run["deadline"])

    @property
    def remaining(self) -> float:
        """Seconds until the deadline."""
        return max(0.0, self._held.deadline_at - now())

    @property
    def stop_reason(self) -> Reason | None:
        """Why this handler shall stop; None while it shall not."""
        return self._held.reason

    @property
    def lease_unknown(self) -> bool:
        """No heartbeat has been answered for 90 % of the lease: somebody else may have this run soon."""
        return self._held.unknown or self._held.stale

    def progress(self, fraction: float | None = None, message: str | None = None) -> None:
        """Told with the next heartbeat. The last one counts."""
        if fraction is not None and not 0.0 <= fraction <= 1.0:
            raise ValueError("a fraction is between 0 and 1")
        said = {"fraction": fraction, "message": message}
        self._held.progress = {name: value for name, value in said.items() if value is not None}

    def check(self) -> None:
        """Raises Stopped if this handler shall stop."""
        if self._held.reason is not None:
            raise Stopped(self._held.reason)


class Context(_Base):
    """For handlers that run in a thread."""

    @property
    def stop(self) -> threading.Event:
        """Set when this handler shall stop; wait on it instead of sleeping."""
        return self._engine.stop_event(self._held)

    def checkpoint(self, value: Any) -> None:
        """Stores what the next attempt shall know. Returns when it is durable; raises LeaseLost if this run is gone."""
        done = threading.Event()
        errors: list[DulyError | None] = []

        def told(error: DulyError | None) -> None:
            errors.append(error)
            done.set()

        self._engine.checkpoint(self._held, checkpoint_text(value), told)
        done.wait()
        if errors[0] is not None:
            raise errors[0]


class AsyncContext(_Base):
    """For async handlers. They are told to stop by cancellation (an anyio cancel scope)."""

    async def checkpoint(self, value: Any) -> None:
        """Stores what the next attempt shall know. Returns when it is durable; raises LeaseLost if this run is gone."""
        loop = asyncio.get_running_loop()
        stored: asyncio.Future[None] = loop.create_future()

        def settle(error: DulyError | None) -> None:
            if stored.done():
                return
            if error is None:
                stored.set_result(None)
            else:
                stored.set_exception(error)

        def told(error: DulyError | None) -> None:
            loop.call_soon_threadsafe(settle, error)

        self._engine.checkpoint(self._held, checkpoint_text(value), told)
        await stored


def checkpoint_text(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    if len(text.encode()) > CHECKPOINT_BYTES_MAX:
        raise ValueError(f"a checkpoint has at most {CHECKPOINT_BYTES_MAX} bytes of JSON")
    return text


__all__ = ["AsyncContext", "Context", "Fail", "LeaseLost", "Reason", "Release", "Retry", "Snooze", "Stopped"]
