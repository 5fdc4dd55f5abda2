"""The client for async code. Made from client.py by tools/make_async.py: change that one."""

from __future__ import annotations

import ssl
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, cast

import anyio
import anyio.to_thread

from . import types as t
from ._clock import Length, instant, seconds, text
from ._transport import Backoff, part
from .client import BATCH_MAX, WAIT_MARGIN, _given, _key, transport_of

THREADS_MAX = 64
"""Requests of one client that are under way at once; more wait."""


class AsyncClient:
    """One server. May be shared by tasks of one event loop; connections are kept."""

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        namespace: str | None = None,
        timeout: float = 30.0,
        backoff: Backoff | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._limiter = anyio.CapacityLimiter(THREADS_MAX)
        self._transport = transport_of(url, api_key, namespace, timeout, backoff or Backoff(), ssl_context)

    async def close(self) -> None:
        self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transport.close()

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        call = partial(
            self._transport.call, method, path, query=query, body=body, headers=headers, timeout=timeout
        )
        # A thread per request: what is awaited is a socket either way, and one transport serves both clients.
        return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._limiter)

    # Jobs

    async def submit(
        self,
        kind: str,
        payload: t.Json = None,
        *,
        queue: str | None = None,
        delay: Length | None = None,
        at: datetime | str | None = None,
        priority: int | None = None,
        group: str | None = None,
        retry: t.Retry | None = None,
        timeout: Length | None = None,
        name: str | None = None,
        tags: dict[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> t.Created:
        """A job for workers: now, after a delay, or at an instant."""
        job: t.JobRequest = {"target": {"worker": {"kind": kind}}, "payload": payload}
        if at is not None:
            job["schedule"] = {"at": instant(at)}
        elif delay is not None:
            job["schedule"] = {"delay": text(delay)}
        if timeout is not None:
            job["timeout"] = text(timeout)
        given = {
            "queue": queue,
            "priority": priority,
            "group": group,
            "retry": retry,
            "name": name,
            "tags": tags,
        }
        job.update(cast(t.JobRequest, {key: value for key, value in given.items() if value is not None}))
        return await self.create(job, idempotency_key=idempotency_key)

    async def create(self, job: t.JobRequest, *, idempotency_key: str | None = None) -> t.Created:
        """Any job. A key is sent in any case, so that a retry of this call makes no second job."""
        answer = await self._call("POST", "/v1/jobs", body=job, headers=_key(idempotency_key, job))
        return cast(t.Created, answer)

    async def create_many(self, jobs: Sequence[t.JobRequest], *, idempotency_key: str | None = None) -> list[t.BatchItem]:
        """At most 10,000 jobs; each has its own answer, in order. Not atomic."""
        if len(jobs) > BATCH_MAX:
            raise ValueError(f"a batch has at most {BATCH_MAX} jobs")
        answer = await self._call("POST", "/v1/jobs/batch", body={"jobs": list(jobs)}, headers=_key(idempotency_key))
        return cast(list[t.BatchItem], answer["results"])

    async def declare(self, name: str, job: t.JobRequest) -> t.Job:
        """Makes the job of this name, or changes it to this. Saying it twice changes nothing."""
        return cast(t.Job, await self._call("PUT", f"/v1/jobs/{part(name)}", body=job))

    async def job(self, job: str) -> t.Job:
        """A job by its id or name."""
        return cast(t.Job, await self._call("GET", f"/v1/jobs/{part(job)}"))

    async def patch(self, job: str, change: Mapping[str, t.Json], *, version: int | None) -> t.Job:
        """A merge patch of the version that was read; None overwrites whatever is there."""
        match = {"If-Match": "*" if version is None else f'"{version}"'}
        return cast(t.Job, await self._call("PATCH", f"/v1/jobs/{part(job)}", body=change, headers=match))

    async def cancel(self, job: str) -> t.JobChanged:
        return cast(t.JobChanged, await self._call("DELETE", f"/v1/jobs/{part(job)}"))

    async def pause(self, job: str, *, reason: str | None = None, until: datetime | str | None = None) -> t.JobChanged:
        body = _given(reason=reason, until=None if until is None else instant(until))
        return cast(t.JobChanged, await self._call("POST", f"/v1/jobs/{part(job)}/pause", body=body))

    async def resume(self, job: str) -> t.JobChanged:
        return cast(t.JobChanged, await self._call("POST", f"/v1/jobs/{part(job)}/resume"))

    async def trigger(self, job: str, *, payload: t.Json = None, idempotency_key: str | None = None) -> t.Triggered:
        """Runs a recurring job now, beside its schedule."""
        path, body = f"/v1/jobs/{part(job)}/trigger", _given(payload=payload)
        return cast(t.Triggered, await self._call("POST", path, body=body, headers=_key(idempotency_key)))

    async def backfill(
        self,
        job: str,
        *,
        since: datetime | str,
        until: datetime | str | None = None,
        only: Literal["missing", "failed", "all"] = "missing",
        rate: str | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> dict[str, t.Json]:
        """Runs for instants of the past, as an operation; a dry run only says what it would do."""
        body = _given(to=None if until is None else instant(until), only=only, rate=rate, dry_run=dry_run or None)
        body["from"] = instant(since)
        path = f"/v1/jobs/{part(job)}/backfill"
        answer = await self._call("POST", path, body=body, headers=_key(idempotency_key))
        return cast(dict[str, t.Json], answer)

    async def stats(self, job: str) -> dict[str, t.Json]:
        return cast(dict[str, t.Json], await self._call("GET", f"/v1/jobs/{part(job)}/stats"))

    # Lists. Each goes through all pages.

    async def _items(self, path: str, query: Mapping[str, Any]) -> AsyncIterator[Any]:
        cursor: str | None = None
        while True:
            page = await self._call("GET", path, query={**query, "cursor": cursor})
            for item in page["items"]:
                yield item
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def jobs(
        self,
        *,
        status: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        owner: str | None = None,
        q: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[t.Job]:
        """Jobs, newest first; `limit` is the size of a page."""
        query = _given(status=status, queue=queue, tag=tag, owner=owner, q=q, limit=limit)
        async for item in self._items("/v1/jobs", query):
            yield cast(t.Job, item)

    async def runs(
        self,
        *,
        job: str | None = None,
        status: str | None = None,
        queue: str | None = None,
        worker: str | None = None,
        cause: str | None = None,
        q: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[t.Run]:
        """Runs: unfinished ones first, then the last that ended."""
        query = _given(
            job=job,
            status=status,
            queue=queue,
            worker=worker,
            cause=cause,
            q=q,
            since=None if since is None else instant(since),
            until=None if until is None else instant(until),
            limit=limit,
        )
        async for item in self._items("/v1/runs", query):
            yield cast(t.Run, item)

    async def occurrences(
        self,
        job: str,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[t.Occurrence]:
        """A job's instants: verdicts of the past, then plans of the future."""
        query = _given(to=None if until is None else instant(until), limit=limit)
        if since is not None:
            query["from"] = instant(since)
        async for item in self._items(f"/v1/jobs/{part(job)}/occurrences", query):
            yield cast(t.Occurrence, item)

    async def dead_letters(
        self,
        *,
        job: str | None = None,
        queue: str | None = None,
        q: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[t.Run]:
        """Dead runs, which wait for a person."""
        async for item in self._items("/v1/dead-letters", _given(job=job, queue=queue, q=q, limit=limit)):
            yield cast(t.Run, item)

    async def queues(self) -> AsyncIterator[t.Queue]:
        async for item in self._items("/v1/queues", {}):
            yield cast(t.Queue, item)

    # Runs

    async def run(self, run: str, *, wait: Length | None = None) -> t.Run:
        """A run and its attempts; `wait` (at most 60 s) answers when it has ended or is dead."""
        query = _given(wait=None if wait is None else text(wait))
        limit = None if wait is None else seconds(wait) + WAIT_MARGIN
        return cast(t.Run, await self._call("GET", f"/v1/runs/{part(run)}", query=query, timeout=limit))

    async def explain(self, run: str) -> dict[str, t.Json]:
        """Why is it not running?"""
        return cast(dict[str, t.Json], await self._call("GET", f"/v1/runs/{part(run)}/explain"))

    async def cancel_run(self, run: str) -> t.RunChanged:
        return cast(t.RunChanged, await self._call("POST", f"/v1/runs/{part(run)}/cancel"))

    async def replay(self, run: str, *, payload: t.Json = None) -> t.RunChanged:
        """Gives a dead run a new budget of attempts."""
        path = f"/v1/runs/{part(run)}/replay"
        return cast(t.RunChanged, await self._call("POST", path, body=_given(payload=payload)))

    async def replay_dead(
        self,
        *,
        ids: Sequence[str] | None = None,
        filter: Mapping[str, t.Json] | None = None,
        rate: str | None = None,
        idempotency_key: str | None = None,
    ) -> t.Operation:
        """Replays many dead runs, as an operation."""
        body = _given(ids=ids, filter=filter, rate=rate)
        path = "/v1/dead-letters/replay"
        return cast(t.Operation, await self._call("POST", path, body=body, headers=_key(idempotency_key)))

    async def discard_dead(
        self,
        *,
        ids: Sequence[str] | None = None,
        filter: Mapping[str, t.Json] | None = None,
        rate: str | None = None,
        idempotency_key: str | None = None,
    ) -> t.Operation:
        """Gives up many dead runs, as an operation."""
        body = _given(ids=ids, filter=filter, rate=rate)
        path = "/v1/dead-letters/discard"
        return cast(t.Operation, await self._call("POST", path, body=body, headers=_key(idempotency_key)))

    async def operation(self, operation: str) -> t.Operation:
        return cast(t.Operation, await self._call("GET", f"/v1/operations/{part(operation)}"))

    async def cancel_operation(self, operation: str) -> t.Operation:
        return cast(t.Operation, await self._call("POST", f"/v1/operations/{part(operation)}/cancel"))

    # Queues, holds, the server

    async def queue(self, queue: str) -> t.Queue:
        return cast(t.Queue, await self._call("GET", f"/v1/queues/{part(queue)}"))

    async def pause_queue(self, queue: str, *, reason: str | None = None) -> t.Queue:
        """Starts nothing more of a queue; what runs goes on."""
        path = f"/v1/queues/{part(queue)}/pause"
        return cast(t.Queue, await self._call("POST", path, body=_given(reason=reason)))

    async def resume_queue(self, queue: str) -> t.Queue:
        return cast(t.Queue, await self._call("POST", f"/v1/queues/{part(queue)}/resume"))

    async def hold(self, *, reason: str, scope: t.Json = None, until: datetime | str | None = None) -> None:
        """The stop button: no new attempts in the scope; those under way settle."""
        body = _given(reason=reason, scope=scope, until=None if until is None else instant(until))
        await self._call("POST", "/v1/hold", body=body)

    async def release(self, *, scope: t.Json = None) -> None:
        """Lets attempts begin again."""
        await self._call("POST", "/v1/release", body=_given(scope=scope))

    async def preview(self, schedule: t.Schedule, *, count: int | None = None) -> dict[str, t.Json]:
        """What a schedule will do."""
        body = _given(schedule=schedule, count=count)
        return cast(dict[str, t.Json], await self._call("POST", "/v1/schedules/preview", body=body))

    async def signing_secrets(self) -> list[t.SigningSecret]:
        """The secrets that sign webhooks now; all of them go to `verify`."""
        return cast(list[t.SigningSecret], (await self._call("GET", "/v1/signing-secrets"))["items"])

    async def version(self) -> dict[str, t.Json]:
        return cast(dict[str, t.Json], await self._call("GET", "/v1/version"))

    # Workers. `Worker` does this for you.

    async def claim(
        self,
        worker: str,
        queues: Sequence[str],
        *,
        kinds: Sequence[str] | None = None,
        max: int = 50,
        wait: Length = 20.0,
        lease: Length = 30.0,
        request_id: str | None = None,
    ) -> t.Claimed:
        """Asks for runs. The request id makes a retry return the same leases."""
        body = _given(worker=worker, queues=list(queues), kinds=kinds, max=max)
        body |= {"wait": text(wait), "lease": text(lease), "request_id": request_id or uuid.uuid4().hex}
        limit = seconds(wait) + WAIT_MARGIN
        return cast(t.Claimed, await self._call("POST", "/v1/work/claim", body=body, timeout=limit))

    async def heartbeat(self, worker: str, runs: Sequence[t.BeatItem]) -> t.Beats:
        body = {"worker": worker, "runs": list(runs)}
        return cast(t.Beats, await self._call("POST", "/v1/work/heartbeat", body=body))

    async def settle(self, worker: str, runs: Sequence[t.SettleItem]) -> list[t.SettledRun]:
        """Says how runs ended. The same again gets the same answer."""
        body = {"worker": worker, "runs": list(runs)}
        return cast(list[t.SettledRun], (await self._call("POST", "/v1/work/settle", body=body))["results"])

    async def workers(self) -> AsyncIterator[t.WorkerInfo]:
        """The workers that were heard of lately."""
        async for item in self._items("/v1/workers", {}):
            yield cast(t.WorkerInfo, item)

    async def worker(self, worker: str) -> t.WorkerInfo:
        return cast(t.WorkerInfo, await self._call("GET", f"/v1/workers/{part(worker)}"))

    async def drain_worker(self, worker: str, *, signal: Literal["terminate", "quiet", "none"] = "terminate") -> t.WorkerInfo:
        """Tells a worker to take nothing more, finish, and go; or only to be quiet; or neither any more."""
        path = f"/v1/workers/{part(worker)}/drain"
        return cast(t.WorkerInfo, await self._call("POST", path, body={"signal": signal}))
