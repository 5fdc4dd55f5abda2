// What fires in the next hour, from what the lists of jobs and of scheduled runs tell.
import type { Job, Run } from "../api/client";

export interface Coming {
  at: number;
  job: string;
  name?: string | null;
  run?: string;
}

const MINUTES = 60;

/** How often an interval comes at least, in milliseconds; undefined where a schedule says it otherwise. */
export function everyMs(schedule: unknown): number | undefined {
  const every = (schedule as { every?: unknown } | null)?.every;
  if (typeof every !== "string") return undefined;
  const sizes: Record<string, number> = { w: 604_800_000, d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };
  let sum = 0;
  for (const [, n, unit] of every.matchAll(/([0-9.]+)(ms|w|d|h|m|s)/g)) sum += Number(n) * (sizes[unit ?? ""] ?? 0);
  return sum > 0 ? sum : undefined;
}

/** The next instant of each, soonest first. */
export function coming(jobs: Job[], runs: Run[], now: number): Coming[] {
  const list: Coming[] = [];
  for (const job of jobs) {
    let at = Date.parse(job.next_due_at ?? job.next_run_at ?? "");
    // The list may be some seconds old: an interval goes on from where it was.
    const every = everyMs(job.schedule);
    if (every !== undefined && at < now) at += Math.ceil((now - at) / every) * every;
    if (job.status === "active" && !Number.isNaN(at)) list.push({ at, job: job.id, name: job.name });
  }
  for (const run of runs) {
    const at = Date.parse(run.due_at ?? "");
    if (!Number.isNaN(at)) list.push({ at, job: run.job_id, run: run.id });
  }
  return list.filter((one) => one.at >= now - 1_000 && one.at < now + MINUTES * 60_000).sort((a, b) => a.at - b.at);
}

/** Fires per minute of the next hour. Intervals are counted out; of other schedules the next instant. */
export function perMinute(jobs: Job[], runs: Run[], now: number): number[] {
  const minutes = new Array<number>(MINUTES).fill(0);
  const add = (at: number, n = 1) => {
    const minute = Math.floor((at - now) / 60_000);
    if (minute >= 0 && minute < MINUTES) minutes[minute] = (minutes[minute] ?? 0) + n;
  };
  const names = new Map(jobs.map((job) => [job.id, job]));
  for (const one of coming(jobs, runs, now)) {
    const every = one.run ? undefined : everyMs(names.get(one.job)?.schedule);
    if (every === undefined) {
      add(one.at);
    } else if (every < 60_000) {
      for (let minute = Math.max(0, Math.floor((one.at - now) / 60_000)); minute < MINUTES; minute += 1) {
        minutes[minute] = (minutes[minute] ?? 0) + 60_000 / every;
      }
    } else {
      for (let at = one.at; at < now + MINUTES * 60_000; at += every) add(at);
    }
  }
  return minutes;
}
