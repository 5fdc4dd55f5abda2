"""Lengths and instants: the text of the interface, and the clock that leases are counted by."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

Length = str | float | int | timedelta
"""A length: "1h30m" or "250ms" as the interface writes it, seconds, or a timedelta."""

_UNITS = {"w": 604_800.0, "d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|us|w|d|h|m|s)")


def now() -> float:
    """Seconds that also pass while the machine sleeps or the process is stopped, where there is such a clock."""
    boottime: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


def seconds(length: Length) -> float:
    """The length in seconds."""
    if isinstance(length, timedelta):
        return length.total_seconds()
    if isinstance(length, (int, float)):
        return float(length)
    parts = _PART.findall(length)
    if not parts or "".join(number + unit for number, unit in parts) != length:
        raise ValueError(f"{length!r} is not a length such as 1h30m, 20s or 250ms")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def text(length: Length) -> str:
    """The length as the interface wants it."""
    if isinstance(length, str):
        return length
    return f"{max(0, round(seconds(length) * 1e6))}us"


def instant(at: datetime | str) -> str:
    """The instant as the interface wants it. A datetime without a zone is refused, not guessed."""
    if isinstance(at, str):
        return at
    if at.tzinfo is None:
        raise ValueError("a datetime needs a time zone")
    return at.astimezone(UTC).isoformat()


def parse(at: str) -> datetime:
    """An instant of an answer."""
    return datetime.fromisoformat(at)
