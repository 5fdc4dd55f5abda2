export * from "./errors.js";
export * from "./types.js";
export { Client, type BulkOptions, type ClaimOptions, type Keyed, type RunsFilter, type SubmitOptions } from "./client.js";
export { Context, Fail, Release, Retry, Snooze, Stopped, type Reason } from "./held.js";
export type { Length } from "./time.js";
export type { Backoff, ServerOptions } from "./transport.js";
export { verify, type VerifyOptions } from "./webhook.js";
export type { Handler, Stats, WorkerOptions } from "./options.js";
export { Worker } from "./worker.js";
