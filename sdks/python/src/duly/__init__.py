"""duly: make jobs, and work on them."""

from . import outbox, types
from ._clock import Length
from ._ended import OnLeaseUnknown, Stats
from ._transport import Backoff
from .async_client import AsyncClient
from .client import Client
from .context import AsyncContext, Context, Fail, Reason, Release, Retry, Snooze, Stopped
from .errors import (
    ApiError,
    Busy,
    Conflict,
    DulyError,
    Fault,
    Forbidden,
    InvalidRequest,
    KeyReused,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    StoreFull,
    TransportError,
    Unauthorized,
    Unavailable,
    VersionMismatch,
    WebhookError,
)
from .webhook import verify
from .worker import Worker

__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncContext",
    "Backoff",
    "Busy",
    "Client",
    "Conflict",
    "Context",
    "DulyError",
    "Fail",
    "Fault",
    "Forbidden",
    "InvalidRequest",
    "KeyReused",
    "LeaseLost",
    "Length",
    "NotFound",
    "OnLeaseUnknown",
    "OutcomeUnknown",
    "Reason",
    "Release",
    "Retry",
    "Snooze",
    "Stats",
    "Stopped",
    "StoreFull",
    "TransportError",
    "Unauthorized",
    "Unavailable",
    "VersionMismatch",
    "WebhookError",
    "Worker",
    "outbox",
    "types",
    "verify",
]
