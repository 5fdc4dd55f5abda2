/** What is said and answered. Answers may grow: fields that are not named here are ignored. */

/** Any JSON value. */
export type Json = unknown;

/** One of at, delay, every, cron. No schedule means now. */
export interface Schedule {
  at?: string;
  delay?: string;
  every?: string;
  cron?: string;
  timezone?: string;
  dst?: { gap?: "run" | "skip"; repeat?: "first" | "second" | "both" };
  jitter?: string;
  start_at?: string;
  end_at?: string;
  max_runs?: number;
}

export type Target =
  | { worker: { kind: string } }
  | { http: { url: string; method?: "POST" | "PUT" | "PATCH" | "DELETE" | "GET"; headers?: Record<string, string> } }
  | { command: { argv: string[]; env?: Record<string, string> } }
  | { publish: { redis: { url: string; stream: string; max_len?: number } } | { rabbitmq: { url: string; routing_key: string; exchange?: string } } };

export interface RetryPolicy {
  max_retries?: number;
  initial?: string;
  factor?: number;
  cap?: string;
  permanent?: number[];
}

/** A job. Only the target is needed. */
export interface JobRequest {
  target: Target;
  name?: string;
  owner?: string;
  tags?: Record<string, string>;
  schedule?: Schedule;
  payload?: Json;
  payload_base64?: string;
  content_type?: string;
  queue?: string;
  priority?: number;
  group?: string;
  idempotency_key?: string;
  retry?: RetryPolicy;
  timeout?: string;
  overlap?: "queue_one" | "skip" | "allow" | "cancel_running";
  catch_up?: { policy?: "once" | "skip" | "all"; window?: string; max?: number; rate?: number };
  paused?: boolean;
}

export interface Created {
  id: string;
  run_id: string | null;
  status: string;
  next_run_at: string | null;
  version: number;
  warnings: { code: string; message: string }[];
}

export interface BatchItem {
  status: number;
  id?: string | null;
  error?: { code: string; detail: string; errors?: { pointer: string; message: string }[] } | null;
}

export interface Job {
  id: string;
  status: string;
  version: number;
  name?: string | null;
  owner?: string | null;
  tags?: Record<string, string>;
  schedule?: Json;
  target?: Json;
  payload?: Json;
  queue?: string | null;
  priority?: number | null;
  group?: string | null;
  retry?: Json;
  timeout?: string | null;
  description?: string | null;
  next_run_at?: string | null;
  next_due_at?: string | null;
  run_id?: string | null;
  attempts?: number | null;
  last_run?: { id: string; status: string; scheduled_for: string } | null;
  running?: string[];
  counts?: Record<string, number> | null;
  paused?: { by: string; reason: string; since: string; until?: string | null } | null;
  created_at?: string | null;
  updated_at?: string | null;
}

export interface JobChanged {
  id: string;
  status: string;
  version?: number | null;
  run_id?: string | null;
  cancel_requested?: boolean | null;
}

export interface Triggered {
  id: string;
  run_id: string;
  status: string;
}

export interface Attempt {
  attempt: number;
  status: string;
  token: number;
  finished_at: string;
  started_at?: string | null;
  worker?: string | null;
  code?: number | null;
  error?: string | null;
}

export interface Run {
  id: string;
  job_id: string;
  status: string;
  cancel_requested: boolean;
  attempt: number;
  scheduled_for: string | null;
  due_at: string | null;
  token: number | null;
  worker: string | null;
  next_attempt_at: string | null;
  finished_at: string | null;
  error: string | null;
  output: Json;
  progress?: Progress;
  checkpoint?: Json;
  attempts: Attempt[] | null;
}

/** How far an attempt is, as its worker said last. */
export interface Progress {
  fraction: number | null;
  message: string | null;
  at: string;
}

export interface RunChanged {
  id: string;
  status?: string | null;
  cancel_requested?: boolean | null;
}

export interface Operation {
  id: string;
  kind: string;
  status: string;
  failed: number;
  done?: number | null;
  total?: number | null;
}

export interface Occurrence {
  scheduled_for: string;
  due_at: string;
  status: string;
  run_id?: string | null;
  until?: string | null;
  count?: number | null;
}

export interface Queue {
  name: string;
  ready: number;
  running: number;
  retrying: number;
  dead: number;
  due_next_5m: number;
  oldest_ready_ms: number | null;
  arrival_per_s?: number | null;
  service_per_s?: number | null;
  suggested_workers?: number | null;
  paused: { reason: string; until?: string | null } | null;
}

export interface SigningSecret {
  id: string;
  secret: string;
  created_at: string;
  expires_at?: string | null;
}

/** A run with its lease. The token goes with every heartbeat and settle, and can fence writes of your own. */
export interface ClaimedRun {
  run_id: string;
  job_id: string;
  job_name: string | null;
  kind: string;
  attempt: number;
  token: number;
  payload: Json;
  payload_base64?: string;
  content_type?: string;
  group?: string | null;
  scheduled_for: string;
  due_at: string;
  lease_expires_at: string;
  deadline: string;
  checkpoint: Json;
  previous_error: string | null;
  traceparent: string;
}

export type Signal = "none" | "quiet" | "terminate";

export interface Claimed {
  runs: ClaimedRun[];
  signal: Signal;
}

export interface BeatItem {
  run_id: string;
  token: number;
  progress?: { fraction?: number; message?: string };
  checkpoint?: Json;
}

export interface Beats {
  results: { run_id: string; status: "ok" | "cancel" | "stale"; lease_expires_at?: string }[];
  signal: Signal;
}

export interface SettleItem {
  run_id: string;
  token: number;
  outcome: "succeeded" | "failed" | "snoozed" | "released";
  output?: Json;
  error?: { code?: number; message?: string; detail?: Json };
  retryable?: boolean;
  retry_after?: string;
  until?: string;
}

export interface SettledRun {
  run_id: string;
  status: "ok" | "stale";
  run_status?: string | null;
  next_attempt_at?: string | null;
}

/** A worker as the server knows it. */
export interface WorkerInfo {
  id: string;
  status: string;
  last_seen_at: string;
  running?: number | null;
  capacity?: number | null;
  version?: string | null;
  labels?: Record<string, string>;
  queues?: string[];
  kinds?: string[] | null;
}
