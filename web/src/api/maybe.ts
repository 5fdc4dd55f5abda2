// Fields that a server may not tell: a page shows them where they are there, and goes on without.
import type { Queue, Run } from "./client";

/** A queue with signals for whoever adds and removes workers. */
export type MeasuredQueue = Queue & { arrival_per_s?: number | null; service_per_s?: number | null; suggested_workers?: number | null };

export type WatchedRun = Run & {
  progress?: { fraction?: number | null; message?: string | null; at?: string | null } | null;
  checkpoint?: unknown;
};
