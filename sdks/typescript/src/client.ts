/** The client: make, declare, look at and manage jobs. */

import { randomUUID } from "node:crypto";
import { call, serverOf, type Call, type Server, type ServerOptions } from "./transport.js";
import { instantText, lengthText, millis, type Length } from "./time.js";
import type * as t from "./types.js";

/** Jobs of one batch. */
const BATCH_MAX = 10_000;
/** What an answer may take beyond the wait that was asked for, in milliseconds. */
const WAIT_MARGIN = 15_000;

export interface SubmitOptions {
  queue?: string;
  delay?: Length;
  at?: Date | string;
  priority?: number;
  group?: string;
  retry?: t.RetryPolicy;
  timeout?: Length;
  name?: string;
  tags?: Record<string, string>;
  idempotencyKey?: string;
}

export interface Keyed {
  /** One of its own unless given, so that a retry of this call does nothing twice. */
  idempotencyKey?: string;
}

export interface RunsFilter {
  job?: string;
  status?: string;
  queue?: string;
  worker?: string;
  cause?: string;
  q?: string;
  since?: Date | string;
  until?: Date | string;
  /** The size of a page. */
  limit?: number;
}

export interface ClaimOptions {
  kinds?: string[];
  max?: number;
  wait?: Length;
  lease?: Length;
  requestId?: string;
}

export interface BulkOptions extends Keyed {
  ids?: string[];
  filter?: Record<string, t.Json>;
  rate?: string;
}

const part = encodeURIComponent;

export class Client {
  readonly #server: Server;

  constructor(options: ServerOptions | string = {}) {
    this.#server = serverOf(typeof options === "string" ? { url: options } : options);
  }

  async #call<T>(method: string, path: string, options: Call = {}): Promise<T> {
    return (await call(this.#server, method, path, options)) as T;
  }

  async *#items<T>(path: string, query: NonNullable<Call["query"]>): AsyncGenerator<T, void, undefined> {
    let cursor: string | undefined;
    do {
      const page = await this.#call<{ items: T[]; next_cursor?: string | null }>("GET", path, { query: cursor === undefined ? query : { ...query, cursor } });
      yield* page.items;
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }

  // Jobs

  /** A job for workers: now, after a delay, or at an instant. */
  submit(kind: string, payload?: t.Json, options: SubmitOptions = {}): Promise<t.Created> {
    const { delay, at, timeout, idempotencyKey, ...rest } = options;
    const job: t.JobRequest = { target: { worker: { kind } }, payload: payload ?? null, ...rest };
    if (at !== undefined) job.schedule = { at: instantText(at) };
    else if (delay !== undefined) job.schedule = { delay: lengthText(delay) };
    if (timeout !== undefined) job.timeout = lengthText(timeout);
    return this.create(job, idempotencyKey === undefined ? {} : { idempotencyKey });
  }

  /** Any job. A key is sent in any case, so that a retry of this call makes no second job. */
  create(job: t.JobRequest, options: Keyed = {}): Promise<t.Created> {
    const own = options.idempotencyKey === undefined && job.idempotency_key !== undefined;
    return this.#call("POST", "/v1/jobs", { body: job, headers: own ? {} : keyed(options) });
  }

  /** At most 10,000 jobs; each has its own answer, in order. Not atomic. */
  async createMany(jobs: t.JobRequest[], options: Keyed = {}): Promise<t.BatchItem[]> {
    if (jobs.length > BATCH_MAX) throw new RangeError(`a batch has at most ${BATCH_MAX} jobs`);
    const answer = await this.#call<{ results: t.BatchItem[] }>("POST", "/v1/jobs/batch", { body: { jobs }, headers: keyed(options) });
    return answer.results;
  }

  /** Makes the job of this name, or changes it to this. Saying it twice changes nothing. */
  declare(name: string, job: t.JobRequest): Promise<t.Job> {
    return this.#call("PUT", `/v1/jobs/${part(name)}`, { body: job });
  }

  /** A job by its id or name. */
  job(job: string): Promise<t.Job> {
    return this.#call("GET", `/v1/jobs/${part(job)}`);
  }

  /** A merge patch of the version that was read; null overwrites whatever is there. */
  patch(job: string, change: Record<string, t.Json>, version: number | null): Promise<t.Job> {
    return this.#call("PATCH", `/v1/jobs/${part(job)}`, { body: change, headers: { "if-match": version === null ? "*" : `"${version}"` } });
  }

  cancel(job: string): Promise<t.JobChanged> {
    return this.#call("DELETE", `/v1/jobs/${part(job)}`);
  }

  pause(job: string, options: { reason?: string; until?: Date | string } = {}): Promise<t.JobChanged> {
    const until = options.until === undefined ? undefined : instantText(options.until);
    return this.#call("POST", `/v1/jobs/${part(job)}/pause`, { body: { reason: options.reason, until } });
  }

  resume(job: string): Promise<t.JobChanged> {
    return this.#call("POST", `/v1/jobs/${part(job)}/resume`);
  }

  /** Runs a recurring job now, beside its schedule. */
  trigger(job: string, options: Keyed & { payload?: t.Json } = {}): Promise<t.Triggered> {
    return this.#call("POST", `/v1/jobs/${part(job)}/trigger`, { body: { payload: options.payload }, headers: keyed(options) });
  }

  /** Runs for instants of the past, as an operation; a dry run only says what it would do. */
  backfill(job: string, options: Keyed & { from: Date | string; to?: Date | string; only?: "missing" | "failed" | "all"; rate?: string; dryRun?: boolean }): Promise<Record<string, t.Json>> {
    const body = { from: instantText(options.from), to: options.to === undefined ? undefined : instantText(options.to), only: options.only, rate: options.rate, dry_run: options.dryRun };
    return this.#call("POST", `/v1/jobs/${part(job)}/backfill`, { body, headers: keyed(options) });
  }

  stats(job: string): Promise<Record<string, t.Json>> {
    return this.#call("GET", `/v1/jobs/${part(job)}/stats`);
  }

  // Lists. Each goes through all pages.

  /** Jobs, newest first; `limit` is the size of a page. */
  jobs(filter: { status?: string; queue?: string; tag?: string; owner?: string; q?: string; limit?: number } = {}): AsyncGenerator<t.Job, void, undefined> {
    return this.#items("/v1/jobs", filter);
  }

  /** Runs: unfinished ones first, then the last that ended. */
  runs(filter: RunsFilter = {}): AsyncGenerator<t.Run, void, undefined> {
    const { since, until, ...rest } = filter;
    const query: NonNullable<Call["query"]> = { ...rest };
    if (since !== undefined) query["since"] = instantText(since);
    if (until !== undefined) query["until"] = instantText(until);
    return this.#items("/v1/runs", query);
  }

  /** A job's instants: verdicts of the past, then plans of the future. */
  occurrences(job: string, filter: { from?: Date | string; to?: Date | string; limit?: number } = {}): AsyncGenerator<t.Occurrence, void, undefined> {
    const query: NonNullable<Call["query"]> = { limit: filter.limit };
    if (filter.from !== undefined) query["from"] = instantText(filter.from);
    if (filter.to !== undefined) query["to"] = instantText(filter.to);
    return this.#items(`/v1/jobs/${part(job)}/occurrences`, query);
  }

  /** Dead runs, which wait for a person. */
  deadLetters(filter: { job?: string; queue?: string; q?: string; limit?: number } = {}): AsyncGenerator<t.Run, void, undefined> {
    return this.#items("/v1/dead-letters", filter);
  }

  queues(): AsyncGenerator<t.Queue, void, undefined> {
    return this.#items("/v1/queues", {});
  }

  // Runs

  /** A run and its attempts; `wait` (at most 60 s) answers when it has ended or is dead. */
  run(run: string, options: { wait?: Length } = {}): Promise<t.Run> {
    if (options.wait === undefined) return this.#call("GET", `/v1/runs/${part(run)}`);
    return this.#call("GET", `/v1/runs/${part(run)}`, { query: { wait: lengthText(options.wait) }, timeout: millis(options.wait) + WAIT_MARGIN });
  }

  /** Why is it not running? */
  explain(run: string): Promise<Record<string, t.Json>> {
    return this.#call("GET", `/v1/runs/${part(run)}/explain`);
  }

  cancelRun(run: string): Promise<t.RunChanged> {
    return this.#call("POST", `/v1/runs/${part(run)}/cancel`);
  }

  /** Gives a dead run a new budget of attempts. */
  replay(run: string, options: { payload?: t.Json } = {}): Promise<t.RunChanged> {
    return this.#call("POST", `/v1/runs/${part(run)}/replay`, { body: options });
  }

  /** Replays many dead runs, as an operation. */
  replayDead(options: BulkOptions): Promise<t.Operation> {
    return this.#bulk("replay", options);
  }

  /** Gives up many dead runs, as an operation. */
  discardDead(options: BulkOptions): Promise<t.Operation> {
    return this.#bulk("discard", options);
  }

  #bulk(verb: string, { ids, filter, rate, ...options }: BulkOptions): Promise<t.Operation> {
    return this.#call("POST", `/v1/dead-letters/${verb}`, { body: { ids, filter, rate }, headers: keyed(options) });
  }

  operation(operation: string): Promise<t.Operation> {
    return this.#call("GET", `/v1/operations/${part(operation)}`);
  }

  cancelOperation(operation: string): Promise<t.Operation> {
    return this.#call("POST", `/v1/operations/${part(operation)}/cancel`);
  }

  // Queues, holds, the server

  queue(queue: string): Promise<t.Queue> {
    return this.#call("GET", `/v1/queues/${part(queue)}`);
  }

  /** Starts nothing more of a queue; what runs goes on. */
  pauseQueue(queue: string, options: { reason?: string } = {}): Promise<t.Queue> {
    return this.#call("POST", `/v1/queues/${part(queue)}/pause`, { body: options });
  }

  resumeQueue(queue: string): Promise<t.Queue> {
    return this.#call("POST", `/v1/queues/${part(queue)}/resume`);
  }

  /** The stop button: no new attempts in the scope; those under way settle. */
  async hold(options: { reason: string; scope?: t.Json; until?: Date | string }): Promise<void> {
    const until = options.until === undefined ? undefined : instantText(options.until);
    await this.#call("POST", "/v1/hold", { body: { reason: options.reason, scope: options.scope, until } });
  }

  /** Lets attempts begin again. */
  async release(options: { scope?: t.Json } = {}): Promise<void> {
    await this.#call("POST", "/v1/release", { body: options });
  }

  /** What a schedule will do. */
  preview(schedule: t.Schedule, options: { count?: number } = {}): Promise<Record<string, t.Json>> {
    return this.#call("POST", "/v1/schedules/preview", { body: { schedule, ...options } });
  }

  /** The secrets that sign webhooks now; all of them go to `verify`. */
  async signingSecrets(): Promise<t.SigningSecret[]> {
    return (await this.#call<{ items: t.SigningSecret[] }>("GET", "/v1/signing-secrets")).items;
  }

  version(): Promise<Record<string, t.Json>> {
    return this.#call("GET", "/v1/version");
  }

  // Workers. `Worker` does this for you.

  /** Asks for runs. The request id makes a retry return the same leases. */
  claim(worker: string, queues: string[], options: ClaimOptions = {}): Promise<t.Claimed> {
    const wait = options.wait ?? 20_000;
    const body = { worker, queues, kinds: options.kinds, max: options.max ?? 50, wait: lengthText(wait), lease: lengthText(options.lease ?? 30_000), request_id: options.requestId ?? randomUUID() };
    return this.#call("POST", "/v1/work/claim", { body, timeout: millis(wait) + WAIT_MARGIN });
  }

  heartbeat(worker: string, runs: t.BeatItem[]): Promise<t.Beats> {
    return this.#call("POST", "/v1/work/heartbeat", { body: { worker, runs } });
  }

  /** Says how runs ended. The same again gets the same answer. */
  async settle(worker: string, runs: t.SettleItem[]): Promise<t.SettledRun[]> {
    return (await this.#call<{ results: t.SettledRun[] }>("POST", "/v1/work/settle", { body: { worker, runs } })).results;
  }

  /** The workers that were heard of lately. */
  workers(): AsyncGenerator<t.WorkerInfo, void, undefined> {
    return this.#items("/v1/workers", {});
  }

  worker(worker: string): Promise<t.WorkerInfo> {
    return this.#call("GET", `/v1/workers/${part(worker)}`);
  }

  /** Tells a worker to take nothing more, finish, and go; or only to be quiet; or neither any more. */
  drainWorker(worker: string, options: { signal?: "terminate" | "quiet" | "none" } = {}): Promise<t.WorkerInfo> {
    return this.#call("POST", `/v1/workers/${part(worker)}/drain`, { body: options });
  }
}

function keyed(options: Keyed): Record<string, string> {
  return { "idempotency-key": options.idempotencyKey ?? randomUUID() };
}
