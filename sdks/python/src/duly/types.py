"""What is said and answered, as TypedDicts. Answers may grow: fields that are not named here are ignored."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, Required, TypedDict

Json = Any
"""Any JSON value."""


class Dst(TypedDict, total=False):
    gap: Literal["run", "skip"]
    repeat: Literal["first", "second", "both"]


class Schedule(TypedDict, total=False):
    """One of at, delay, every, cron. No schedule means now."""

    at: str
    delay: str
    every: str
    cron: str
    timezone: str
    dst: Dst
    jitter: str
    start_at: str
    end_at: str
    max_runs: int


class HttpTarget(TypedDict):
    url: str
    method: NotRequired[Literal["POST", "PUT", "PATCH", "DELETE", "GET"]]
    headers: NotRequired[dict[str, str]]


class WorkerTarget(TypedDict):
    kind: str


class CommandTarget(TypedDict):
    argv: list[str]
    env: NotRequired[dict[str, str]]


class Target(TypedDict, total=False):
    """One of http, worker, publish, command."""

    http: HttpTarget
    worker: WorkerTarget
    publish: dict[str, Json]
    command: CommandTarget


class Retry(TypedDict, total=False):
    max_retries: int
    initial: str
    factor: int
    cap: str
    permanent: list[int]


class CatchUp(TypedDict, total=False):
    policy: Literal["once", "skip", "all"]
    window: str
    max: int
    rate: int


class JobRequest(TypedDict, total=False):
    """A job. Only the target is needed."""

    target: Required[Target]
    name: str
    owner: str
    tags: dict[str, str]
    schedule: Schedule
    payload: Json
    payload_base64: str
    content_type: str
    queue: str
    priority: int
    group: str
    idempotency_key: str
    retry: Retry
    timeout: str
    overlap: Literal["queue_one", "skip", "allow", "cancel_running"]
    catch_up: CatchUp
    paused: bool


class Warning_(TypedDict):
    code: str
    message: str


class Created(TypedDict):
    id: str
    run_id: str | None
    status: str
    next_run_at: str | None
    version: int
    warnings: list[Warning_]


class BatchItem(TypedDict):
    status: int
    id: NotRequired[str | None]
    error: NotRequired[dict[str, Json] | None]


class Job(TypedDict):
    id: str
    status: str
    version: int
    name: NotRequired[str | None]
    owner: NotRequired[str | None]
    tags: NotRequired[dict[str, str]]
    schedule: NotRequired[Json]
    target: NotRequired[Json]
    payload: NotRequired[Json]
    queue: NotRequired[str | None]
    priority: NotRequired[int | None]
    group: NotRequired[str | None]
    retry: NotRequired[Json]
    timeout: NotRequired[str | None]
    description: NotRequired[str | None]
    next_run_at: NotRequired[str | None]
    next_due_at: NotRequired[str | None]
    run_id: NotRequired[str | None]
    attempts: NotRequired[int | None]
    last_run: NotRequired[dict[str, Json] | None]
    running: NotRequired[list[str]]
    counts: NotRequired[dict[str, int] | None]
    paused: NotRequired[dict[str, Json] | None]
    created_at: NotRequired[str | None]
    updated_at: NotRequired[str | None]


class JobChanged(TypedDict):
    id: str
    status: str
    version: NotRequired[int | None]
    run_id: NotRequired[str | None]
    cancel_requested: NotRequired[bool | None]


class Triggered(TypedDict):
    id: str
    run_id: str
    status: str


class Attempt(TypedDict):
    attempt: int
    status: str
    token: int
    finished_at: str
    started_at: NotRequired[str | None]
    worker: NotRequired[str | None]
    code: NotRequired[int | None]
    error: NotRequired[str | None]


class Progress(TypedDict):
    """How far an attempt is, as its worker said last."""

    fraction: float | None
    message: str | None
    at: str


class Run(TypedDict):
    id: str
    job_id: str
    status: str
    cancel_requested: bool
    attempt: int
    scheduled_for: str | None
    due_at: str | None
    token: int | None
    worker: str | None
    next_attempt_at: str | None
    finished_at: str | None
    error: str | None
    output: Json
    progress: NotRequired[Progress]
    checkpoint: NotRequired[Json]
    attempts: list[Attempt] | None


class RunChanged(TypedDict):
    id: str
    status: NotRequired[str | None]
    cancel_requested: NotRequired[bool | None]


class Operation(TypedDict):
    id: str
    kind: str
    status: str
    failed: int
    done: NotRequired[int | None]
    total: NotRequired[int | None]


class Occurrence(TypedDict):
    scheduled_for: str
    due_at: str
    status: str
    run_id: NotRequired[str | None]
    until: NotRequired[str | None]
    count: NotRequired[int | None]


class Queue(TypedDict):
    name: str
    ready: int
    running: int
    retrying: int
    dead: int
    due_next_5m: int
    oldest_ready_ms: int | None
    arrival_per_s: NotRequired[float | None]
    service_per_s: NotRequired[float | None]
    suggested_workers: NotRequired[int | None]
    paused: dict[str, Json] | None


class SigningSecret(TypedDict):
    id: str
    secret: str
    created_at: str
    expires_at: NotRequired[str | None]


class ClaimedRun(TypedDict):
    """A run with its lease. The token goes with every heartbeat and settle, and can fence writes of your own."""

    run_id: str
    job_id: str
    job_name: str | None
    kind: str
    attempt: int
    token: int
    payload: Json
    payload_base64: NotRequired[str]
    content_type: NotRequired[str]
    group: NotRequired[str | None]
    scheduled_for: str
    due_at: str
    lease_expires_at: str
    deadline: str
    checkpoint: Json
    previous_error: str | None
    traceparent: str


class Claimed(TypedDict):
    runs: list[ClaimedRun]
    signal: str


class BeatItem(TypedDict):
    run_id: str
    token: int
    progress: NotRequired[Json]
    checkpoint: NotRequired[Json]


class Beat(TypedDict):
    run_id: str
    status: Literal["ok", "cancel", "stale"]
    lease_expires_at: NotRequired[str]


class Beats(TypedDict):
    results: list[Beat]
    signal: str


class SettleItem(TypedDict):
    run_id: str
    token: int
    outcome: Literal["succeeded", "failed", "snoozed", "released"]
    output: NotRequired[Json]
    error: NotRequired[dict[str, Json]]
    retryable: NotRequired[bool]
    retry_after: NotRequired[str]
    until: NotRequired[str]


class SettledRun(TypedDict):
    run_id: str
    status: Literal["ok", "stale"]
    run_status: NotRequired[str | None]
    next_attempt_at: NotRequired[str | None]


class WorkerInfo(TypedDict):
    """A worker as the server knows it."""

    id: str
    status: str
    last_seen_at: str
    running: NotRequired[int | None]
    capacity: NotRequired[int | None]
    version: NotRequired[str | None]
    labels: NotRequired[dict[str, str]]
    queues: NotRequired[list[str]]
    kinds: NotRequired[list[str] | None]
