"""HTTP with kept connections, retries with backoff, and reads that another thread can end.

Connections are the standard library's. A connection that was kept may have been closed by the other side: that is
a transport error like any other and is retried, because every request of this package may be sent twice: it reads,
says the same state again, or carries a key or a request id.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from .errors import ApiError, DulyError, TransportError, from_problem

CONNECTIONS_KEPT = 16
"""Idle connections that a client keeps."""
ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""The largest answer that is read."""


@dataclass(frozen=True)
class Backoff:
    """How transport errors and refusals that may pass are retried: full jitter between half and whole."""

    retries: int = 6
    initial: float = 0.1
    factor: float = 2.0
    cap: float = 5.0

    def delay(self, attempt: int) -> float:
        whole: float = min(self.cap, self.initial * self.factor ** min(attempt, 32))
        return whole * random.uniform(0.5, 1.0)


class Interrupt:
    """Ends a request that another thread waits for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self.raised = threading.Event()

    def arm(self, sock: socket.socket | None) -> None:
        with self._lock:
            self._sock = sock
            if sock is not None and self.raised.is_set():
                self._shut()

    def end(self) -> None:
        with self._lock:
            self.raised.set()
            self._shut()

    def _shut(self) -> None:
        if self._sock is not None:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


@dataclass
class Transport:
    """One server, any thread."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    timeout: float = 30.0
    backoff: Backoff = field(default_factory=Backoff)
    ssl_context: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{self.url!r} is not the URL of a server, such as http://127.0.0.1:7070")
        self._host, self._port = parts.hostname, parts.port
        self._secure = parts.scheme == "https"
        self._base = parts.path.rstrip("/")
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        retry: bool = True,
    ) -> Any:
        """The document of the answer, or a typed error. Transport errors and 429, 503 and the like are retried."""
        data = raw if raw is not None else None if body is None else encode(body)
        attempt = 0
        while True:
            try:
                return self.once(method, path, query=query, data=data, headers=headers, timeout=timeout)
            except (TransportError, ApiError) as error:
                if not retry or attempt >= self.backoff.retries or not may_pass(error):
                    raise
                time.sleep(self.pause(error, attempt))
            attempt += 1

    def pause(self, error: DulyError, attempt: int) -> float:
        """How long to wait before the next try: what the server asks for, within the cap, or the backoff."""
        asked = error.retry_after if isinstance(error, ApiError) else None
        delay = self.backoff.delay(attempt)
        return delay if asked is None else max(delay, min(asked, self.backoff.cap))

    def once(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        interrupt: Interrupt | None = None,
    ) -> Any:
        """One try."""
        target = self._base + path + query_text(query)
        sent = {"Accept": "application/json", **self.headers, **(headers or {})}
        if data is not None or method in ("POST", "PUT", "PATCH"):
            sent.setdefault("Content-Type", "application/json")
        answer = self._exchange(method, target, data, sent, timeout or self.timeout, interrupt)
        if answer.status >= 300:
            raise self._refusal(answer)
        return answer.json()

    def _exchange(
        self,
        method: str,
        target: str,
        data: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
        interrupt: Interrupt | None,
    ) -> Answer:
        connection = self._take(timeout)
        kept = False
        try:
            if connection.sock is None:
                connection.connect()
            sock: socket.socket = connection.sock
            sock.settimeout(timeout)
            if interrupt is not None:
                interrupt.arm(sock)
            connection.request(method, target, body=data, headers=dict(headers))
            response = connection.getresponse()
            body = response.read(ANSWER_BYTES_MAX)
            kept = not response.will_close and response.isclosed()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, body)
        except (OSError, http.client.HTTPException) as error:
            raise TransportError(f"{method} {target}: {error or type(error).__name__}") from error
        finally:
            if interrupt is not None:
                interrupt.arm(None)
            self._give(connection, kept)

    def _take(self, timeout: float) -> http.client.HTTPConnection:
        with self._lock:
            if self._idle:
                connection = self._idle.pop()
                connection.timeout = timeout
                return connection
        if self._secure:
            context = self.ssl_context or ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=context)
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout)

    def _give(self, connection: http.client.HTTPConnection, kept: bool) -> None:
        with self._lock:
            if kept and len(self._idle) < CONNECTIONS_KEPT:
                self._idle.append(connection)
                return
        connection.close()

    @staticmethod
    def _refusal(answer: Answer) -> ApiError:
        try:
            problem = answer.json()
        except ValueError:
            problem = None
        if not isinstance(problem, dict):
            problem = {"code": "unknown", "detail": answer.body[:200].decode("utf-8", "replace")}
        after = answer.headers.get("retry-after", "")
        return from_problem(problem, answer.status, float(after) if after.isdigit() else None)


def may_pass(error: DulyError) -> bool:
    """May the same request succeed later? An unknown outcome may: requests carry a key."""
    if isinstance(error, ApiError):
        return error.retryable or error.code == "outcome_unknown"
    return isinstance(error, TransportError)


def encode(value: Any) -> bytes:
    """JSON as it is sent. NaN is no JSON and is refused here, where the caller can be found."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def part(text: str) -> str:
    """A name or an id as one part of a path."""
    return quote(text, safe="")


def query_text(query: Mapping[str, Any] | None) -> str:
    given = {name: value for name, value in (query or {}).items() if value is not None}
    return "?" + urlencode(given) if given else ""
