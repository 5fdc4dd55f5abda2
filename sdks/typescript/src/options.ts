/** What a worker is told when it is made, and what it counts. */

import type { Context } from "./held.js";
import type { Length } from "./time.js";
import type { ServerOptions } from "./transport.js";
import type { Json } from "./types.js";

/** Runs of one claim, heartbeat or settle: what the server takes. */
export const ITEMS_MAX = 1_000;

export type Handler<P = Json> = (payload: P, context: Context) => unknown;

export interface WorkerOptions extends ServerOptions {
  queues?: string[];
  /** Handlers at once; 10 unless given. */
  concurrency?: number;
  /** Runs held beyond that, so that none waits for the network: for many short runs. */
  prefetch?: number;
  lease?: Length;
  wait?: Length;
  /** How long handlers may take to finish after SIGTERM. */
  grace?: Length;
  /**
   * What happens to a handler when no heartbeat has been answered for 90 % of its lease. "auto": stop where the run has a
   * group, and so may count on being alone.
   */
  onLeaseUnknown?: "auto" | "stop" | "continue";
  name?: string;
  version?: string;
  labels?: Record<string, string>;
  /** Where failures of handlers and of the connection are told; the console unless given. */
  log?: (message: string, error?: unknown) => void;
}

/** What a worker did. `refused` settles were too late: the run belonged to another by then. */
export interface Stats {
  claimed: number;
  succeeded: number;
  failed: number;
  snoozed: number;
  released: number;
  refused: number;
  abandoned: number;
}
