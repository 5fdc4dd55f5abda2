// What a server may not have: a page that asks for it goes on without. A 404 of such a route means that it is
// not there, a field that is absent that nobody tells.
import { queryOptions } from "@tanstack/react-query";
import { authorization, type Queue, refused, type Run } from "./client";

export interface Destination {
  host: string;
  state: "closed" | "open" | "half_open";
  in_flight: number;
  failure_rate: number | null;
  opened_at: string | null;
  next_probe_at: string | null;
  waiting: number | null;
}

/** A queue with signals for whoever adds and removes workers. */
export type MeasuredQueue = Queue & { arrival_per_s?: number | null; service_per_s?: number | null; suggested_workers?: number | null };

export type WatchedRun = Run & {
  progress?: { fraction?: number | null; message?: string | null; at?: string | null } | null;
  checkpoint?: unknown;
};

/** Null where the server does not have it. */
async function ifThere<T>(path: string, signal: AbortSignal): Promise<T | null> {
  const response = await fetch(path, { headers: authorization(), signal });
  if (response.status === 404) return null;
  if (!response.ok) throw await refused(response);
  return (await response.json()) as T;
}

export const destinations = () =>
  queryOptions({
    queryKey: ["destinations"],
    queryFn: ({ signal }) => ifThere<{ items: Destination[] }>("/v1/destinations", signal),
    refetchInterval: ({ state }) => (state.data === null ? false : 3_000),
  });
