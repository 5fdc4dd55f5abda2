// What the pages ask for. Keys begin with the kind of thing, so that an event can say what is old.
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { furtherUntilFound } from "../lib/further";
import { api, ApiError, authorization, got, refused, type Schemas } from "./client";

export type JobsFilter = { status?: string; queue?: string; tag?: string; owner?: string; q?: string; cursor?: string };
export type RunsFilter = {
  job?: string;
  status?: string;
  queue?: string;
  worker?: string;
  cause?: "one_off" | "occurrence" | "trigger" | "backfill" | "rerun";
  q?: string;
  since?: string;
  until?: string;
  cursor?: string;
};
export type DeadFilter = Omit<RunsFilter, "status">;

export const PAGE = 50;

/** A refusal that stays one is not asked again. */
export function again(times: number, error: unknown): boolean {
  const refusal = error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429;
  return !refusal && times < 3;
}

/** A call looks through 10,000 rows. So many calls are made for the first row that is like the filters. */
const LOOKS_MAX = 10;

export const jobs = (filter: JobsFilter, limit = PAGE) =>
  queryOptions({
    queryKey: ["jobs", filter, limit],
    queryFn: ({ signal }) =>
      furtherUntilFound((cursor) => got(api.GET("/v1/jobs", { params: { query: { ...filter, limit, ...(cursor === undefined ? {} : { cursor }) } }, signal })), LOOKS_MAX),
    placeholderData: keepPreviousData,
  });

export const job = (id: string) =>
  queryOptions({
    queryKey: ["job", id],
    queryFn: ({ signal }) => got(api.GET("/v1/jobs/{job}", { params: { path: { job: id } }, signal })),
  });

/** The name of a job hardly changes; lists of runs ask for it once. */
export const jobName = (id: string) =>
  queryOptions({
    queryKey: ["job-name", id],
    queryFn: async ({ signal }) => {
      const found = await got(api.GET("/v1/jobs/{job}", { params: { path: { job: id } }, signal }));
      return found.name ?? null;
    },
    staleTime: 300_000,
    retry: false,
  });

export const jobStats = (id: string) =>
  queryOptions({
    queryKey: ["job", id, "stats"],
    queryFn: ({ signal }) => got(api.GET("/v1/jobs/{job}/stats", { params: { path: { job: id } }, signal })),
  });

/** A version is never changed: the list is another one only when the job has a new version. */
export const jobVersions = (id: string, version: number) =>
  queryOptions({
    queryKey: ["job", id, "versions", version],
    queryFn: ({ signal }) => got(api.GET("/v1/jobs/{job}/versions", { params: { path: { job: id } }, signal })),
    placeholderData: keepPreviousData,
  });

export const jobRuns = (id: string, limit: number) =>
  queryOptions({
    queryKey: ["job", id, "runs", limit],
    queryFn: ({ signal }) =>
      got(api.GET("/v1/jobs/{job}/runs", { params: { path: { job: id }, query: { limit } }, signal })),
    placeholderData: keepPreviousData,
  });

/** The last verdicts. The API tells them oldest first, so it is asked from where the last runs began. */
export const verdicts = (id: string, count: number) =>
  queryOptions({
    queryKey: ["job", id, "verdicts", count],
    queryFn: async ({ signal }) => {
      const path = { job: id };
      const query = { cause: "occurrence" as const, limit: count };
      const last = await got(api.GET("/v1/jobs/{job}/runs", { params: { path, query }, signal }));
      const begins = last.items.map((run) => run.scheduled_for ?? "").filter((at) => at !== "");
      const from = begins.sort()[0] ?? new Date(Date.now() - 30 * 86_400_000).toISOString();
      const to = new Date().toISOString();
      const range = { from, to, limit: 1_000 };
      const found = await got(api.GET("/v1/jobs/{job}/occurrences", { params: { path, query: range }, signal }));
      return found.items.filter((one) => one.status !== "planned" && one.status !== "paused").slice(-count);
    },
    placeholderData: keepPreviousData,
  });

export const planned = (id: string, count: number) =>
  queryOptions({
    queryKey: ["job", id, "planned", count],
    queryFn: async ({ signal }) => {
      const query = {
        from: new Date().toISOString(),
        to: new Date(Date.now() + 366 * 86_400_000).toISOString(),
        limit: count,
      };
      return got(api.GET("/v1/jobs/{job}/occurrences", { params: { path: { job: id }, query }, signal }));
    },
    placeholderData: keepPreviousData,
  });

export const runs = (filter: RunsFilter, limit = PAGE) =>
  queryOptions({
    queryKey: ["runs", filter, limit],
    queryFn: ({ signal }) => got(api.GET("/v1/runs", { params: { query: { ...filter, limit } }, signal })),
    placeholderData: keepPreviousData,
  });

export const run = (id: string) =>
  queryOptions({
    queryKey: ["run", id],
    queryFn: ({ signal }) => got(api.GET("/v1/runs/{run}", { params: { path: { run: id } }, signal })),
  });

export const explain = (id: string) =>
  queryOptions({
    queryKey: ["run", id, "explain"],
    queryFn: ({ signal }) => got(api.GET("/v1/runs/{run}/explain", { params: { path: { run: id } }, signal })),
  });

export const dead = (filter: DeadFilter, limit = PAGE) =>
  queryOptions({
    queryKey: ["dead", filter, limit],
    queryFn: ({ signal }) => got(api.GET("/v1/dead-letters", { params: { query: { ...filter, limit } }, signal })),
    placeholderData: keepPreviousData,
  });

export const deadGroups = () =>
  queryOptions({
    queryKey: ["dead", "groups"],
    queryFn: ({ signal }) =>
      got(api.GET("/v1/dead-letters/groups", { params: { query: { by: "job,error" } }, signal })),
  });

export const operation = (id: string) =>
  queryOptions({
    queryKey: ["operation", id],
    queryFn: ({ signal }) => got(api.GET("/v1/operations/{operation}", { params: { path: { operation: id } }, signal })),
    refetchInterval: ({ state }) => (state.data && state.data.status !== "running" ? false : 400),
  });

export const queues = (cursor?: string) =>
  queryOptions({
    queryKey: ["queues", cursor],
    queryFn: ({ signal }) => got(api.GET("/v1/queues", { params: { query: { limit: 100, cursor } }, signal })),
    placeholderData: keepPreviousData,
  });

export const queue = (name: string) =>
  queryOptions({
    queryKey: ["queue", name],
    queryFn: ({ signal }) => got(api.GET("/v1/queues/{queue}", { params: { path: { queue: name } }, signal })),
    refetchInterval: 5_000,
  });

export const queueGroups = (name: string) =>
  queryOptions({
    queryKey: ["groups", name],
    queryFn: ({ signal }) => got(api.GET("/v1/queues/{queue}/groups", { params: { path: { queue: name } }, signal })),
    refetchInterval: 10_000,
  });

/** Hosts that runs are sent to, and whether their breakers are open. */
export const destinations = () =>
  queryOptions({
    queryKey: ["destinations"],
    queryFn: ({ signal }) => got(api.GET("/v1/destinations", { params: { query: { limit: 1_000 } }, signal })),
    refetchInterval: 5_000,
  });

/** Workers tell no events of themselves: they are looked at now and then. */
const WORKERS_MS = 2_000;

export const workers = (cursor?: string) =>
  queryOptions({
    queryKey: ["workers", cursor],
    queryFn: ({ signal }) => got(api.GET("/v1/workers", { params: { query: { limit: 100, cursor } }, signal })),
    placeholderData: keepPreviousData,
    refetchInterval: WORKERS_MS,
  });

export const worker = (id: string) =>
  queryOptions({
    queryKey: ["worker", id],
    queryFn: ({ signal }) => got(api.GET("/v1/workers/{worker}", { params: { path: { worker: id } }, signal })),
    refetchInterval: WORKERS_MS,
  });

/** What is held. Told again soon while a hold is on its way through the shards. */
export const holds = () =>
  queryOptions({
    queryKey: ["holds"],
    queryFn: ({ signal }) => got(api.GET("/v1/holds", { signal })),
    refetchInterval: ({ state }) => (state.data?.items.some((hold) => !hold.everywhere) ? 500 : false),
  });

export const cluster = () =>
  queryOptions({
    queryKey: ["cluster"],
    queryFn: ({ signal }) => got(api.GET("/v1/cluster", { signal })),
    refetchInterval: 2_000,
  });

export const version = () =>
  queryOptions({
    queryKey: ["version"],
    queryFn: ({ signal }) => got(api.GET("/v1/version", { signal })),
    staleTime: 60_000,
  });

export const metrics = () =>
  queryOptions({
    queryKey: ["metrics"],
    queryFn: async ({ signal }) => {
      const response = await fetch("/metrics", { headers: authorization(), signal });
      if (!response.ok) throw await refused(response);
      return response.text();
    },
    refetchInterval: 5_000,
  });

export const preview = (schedule: unknown, count: number) =>
  queryOptions({
    queryKey: ["preview", schedule, count],
    queryFn: ({ signal }) => {
      const body = { schedule, count } as Schemas["PreviewRequest"];
      return got(api.POST("/v1/schedules/preview", { body, signal }));
    },
    placeholderData: keepPreviousData,
    retry: false,
  });
