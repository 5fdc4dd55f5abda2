"""What can go wrong, as types. A refusal of the server becomes the class of its status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class DulyError(Exception):
    """Everything that this package raises by itself."""


class TransportError(DulyError):
    """No answer: the connection failed, and so did every retry. What was asked may have been done."""


class LeaseLost(DulyError):
    """The run belongs to somebody else by now. What this handler does counts no more."""


class WebhookError(DulyError):
    """A webhook that was not signed by one of the secrets, or is too old."""


@dataclass(frozen=True)
class Fault:
    """One place of a request that is wrong."""

    pointer: str
    message: str
    did_you_mean: str | None = None


class ApiError(DulyError):
    """The server refused. `code` is one word for programs, `detail` a sentence with the way out."""

    def __init__(self, problem: Mapping[str, Any], status: int, retry_after: float | None = None) -> None:
        self.status = status
        self.code = str(problem.get("code", "unknown"))
        self.detail = str(problem.get("detail", ""))
        self.request_id = str(problem.get("request_id", ""))
        self.retryable = bool(problem.get("retryable", status in (429, 502, 503, 504)))
        self.retry_after = retry_after
        self.errors = [
            Fault(str(one.get("pointer", "")), str(one.get("message", "")), one.get("did_you_mean"))
            for one in problem.get("errors", [])
            if isinstance(one, Mapping)
        ]
        super().__init__(f"{status} {self.code}: {self.detail}")


class InvalidRequest(ApiError):
    """400, 413, 415, 422: the request itself is wrong. `errors` points at the fields."""


class KeyReused(InvalidRequest):
    """The idempotency key came with another body before."""


class Unauthorized(ApiError):
    """401: no key, or one that is not known."""


class Forbidden(ApiError):
    """403: the key does not allow this."""


class NotFound(ApiError):
    """404, or 410 when it is past retention."""


class Conflict(ApiError):
    """409: its state, or another's name, does not allow this."""


class VersionMismatch(ApiError):
    """412, 428: somebody changed it since it was read, or no version was named."""


class Busy(ApiError):
    """429: too much is waiting."""


class Unavailable(ApiError):
    """502, 503, 504: not now."""


class OutcomeUnknown(Unavailable):
    """It may have been done. The same request with the same key tells."""


class StoreFull(ApiError):
    """507: no room. Nothing was done."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    412: VersionMismatch,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
    428: VersionMismatch,
    429: Busy,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
    507: StoreFull,
}
_BY_CODE: dict[str, type[ApiError]] = {
    "idempotency_key_reused": KeyReused,
    "outcome_unknown": OutcomeUnknown,
}


def from_problem(problem: Mapping[str, Any], status: int, retry_after: float | None = None) -> ApiError:
    """The typed error of a problem document."""
    kind = _BY_CODE.get(str(problem.get("code"))) or _BY_STATUS.get(status, ApiError)
    return kind(problem, status, retry_after)
