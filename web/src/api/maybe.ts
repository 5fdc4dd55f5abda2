// What a server may not have: a page that asks for it goes on without. A 404 of such a route means that it is
// not there, a field that is absent that nobody tells.
import { queryOptions } from "@tanstack/react-query";
import type { Limits } from "../lib/limits";
import { ApiError, authorization, type Queue, refused, type Run } from "./client";

export interface Destination {
  host: string;
  state: "closed" | "open" | "half_open";
  in_flight: number;
  failure_rate: number | null;
  opened_at: string | null;
  next_probe_at: string | null;
  waiting: number | null;
}

export interface Group {
  group: string;
  ready: number;
  running?: number;
  weight?: number;
}

export type LimitedQueue = Queue & { limits?: Limits; arrival_per_s?: number | null; service_per_s?: number | null; suggested_workers?: number | null };

export type WatchedRun = Run & {
  progress?: { fraction?: number | null; message?: string | null; at?: string | null } | null;
  checkpoint?: unknown;
};

async function ask<T>(method: string, path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const response = await fetch(path, {
    method,
    headers: { ...authorization(), ...(body === undefined ? {} : { "content-type": "application/json" }) },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
  }).catch((error: unknown) => {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, { detail: "The server does not answer." });
  });
  if (!response.ok) throw await refused(response);
  return (await response.json()) as T;
}

/** Null where the server does not have it. */
async function ifThere<T>(path: string, signal: AbortSignal): Promise<T | null> {
  try {
    return await ask<T>("GET", path, undefined, signal);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

const every = (ms: number, data: unknown) => (data === null ? false : ms);

export const destinations = () =>
  queryOptions({
    queryKey: ["destinations"],
    queryFn: ({ signal }) => ifThere<{ items: Destination[] }>("/v1/destinations", signal),
    refetchInterval: ({ state }) => every(3_000, state.data),
  });

export const groups = (queue: string) =>
  queryOptions({
    queryKey: ["groups", queue],
    queryFn: ({ signal }) => ifThere<{ items: Group[] }>(`/v1/queues/${encodeURIComponent(queue)}/groups`, signal),
    refetchInterval: ({ state }) => every(3_000, state.data),
  });

export const setLimits = (queue: string, limits: Limits) => ask<LimitedQueue>("PUT", `/v1/queues/${encodeURIComponent(queue)}`, limits);
