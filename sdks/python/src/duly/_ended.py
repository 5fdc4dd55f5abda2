"""A worker's options and numbers, and how runs end."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from ._clock import parse
from .context import Held

ERROR_MAX = 4_096
"""Characters of an error that are kept."""

OnLeaseUnknown = Literal["auto", "stop", "continue"]


@dataclass
class Stats:
    """What this worker did. `refused` settles were too late: the run belonged to another by then."""

    claimed: int = 0
    succeeded: int = 0
    failed: int = 0
    snoozed: int = 0
    released: int = 0
    refused: int = 0
    abandoned: int = 0


@dataclass
class Options:
    name: str
    queues: list[str]
    kinds: list[str]
    concurrency: int
    prefetch: int
    lease: float
    wait: float
    on_lease_unknown: OnLeaseUnknown
    registration: dict[str, Any] = field(default_factory=dict)


@dataclass
class Ended:
    """How a run ended, as JSON without the run's id and token."""

    held: Held
    outcome: str
    text: str


def failure(
    held: Held, message: str, *, retryable: bool = True, code: int | None = None, retry_after: str | None = None
) -> Ended:
    error: dict[str, Any] = {"message": message[:ERROR_MAX]}
    if code is not None:
        error["code"] = code
    text = f',"error":{json.dumps(error)},"retryable":{"true" if retryable else "false"}'
    if retry_after is not None:
        text += f',"retry_after":{json.dumps(retry_after)}'
    return Ended(held, "failed", text)


def span(length: float) -> str:
    return f"{round(length * 1000)}ms"


def until_deadline(run: Any, lease: float, wall: datetime) -> float:
    """Seconds until the attempt's deadline. The lease's end says what the server's clock was, unless the deadline
    comes first; then this machine's clock has to do."""
    deadline, expires = parse(run["deadline"]), parse(run["lease_expires_at"])
    if expires < deadline:
        return (deadline - expires).total_seconds() + lease
    return min(lease, max(0.0, (deadline - wall).total_seconds()))
