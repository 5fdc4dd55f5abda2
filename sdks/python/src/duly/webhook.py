"""Webhooks as duly signs them (Standard Webhooks): check one before its body is read."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Iterable, Mapping

from .errors import WebhookError

TOLERANCE = 300.0
"""Older or newer timestamps than this many seconds are refused."""

_PREFIX = "whsec_"


def verify(
    headers: Mapping[str, str],
    body: bytes | str,
    secrets: str | Iterable[str],
    *,
    tolerance: float = TOLERANCE,
    now: float | None = None,
) -> str:
    """Returns the webhook's id, which is the run's id, or raises WebhookError.

    `body` must be the bytes that came, not a document that was read and written again. While secrets rotate,
    give all that may sign: one that fits is enough.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        identity, stamp = lower["webhook-id"], lower["webhook-timestamp"]
        signatures = lower["webhook-signature"]
    except KeyError as missing:
        raise WebhookError(f"the header {missing.args[0]} is missing") from None
    if not (stamp.isascii() and stamp.isdigit()):
        raise WebhookError("webhook-timestamp is not a number of seconds")
    if abs((time.time() if now is None else now) - int(stamp)) > tolerance:
        raise WebhookError("webhook-timestamp is too far from now")
    raw = body.encode() if isinstance(body, str) else body
    signed = f"{identity}.{stamp}.".encode() + raw
    given = [part[3:] for part in signatures.split(" ") if part.startswith("v1,")]
    keys = [_key(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
    if not keys:
        raise WebhookError("no secret was given")
    for key in keys:
        wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
        for one in given:
            if hmac.compare_digest(wanted, one.encode()):
                return identity
    raise WebhookError("no signature fits")


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise WebhookError("a secret looks like whsec_ and base64") from None
