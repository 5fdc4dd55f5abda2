import { expect, test } from "vitest";
import type { Job, Run } from "../api/client";
import { coming, everyMs, perMinute } from "./next";

const at = (ms: number) => new Date(ms).toISOString();
const job = (id: string, next: number, schedule: unknown, status = "active") =>
  ({ id, status, name: id, next_due_at: at(next), next_run_at: at(next), schedule }) as unknown as Job;

test("lengths of intervals are read", () => {
  expect(everyMs({ every: "1m30s" })).toBe(90_000);
  expect(everyMs({ every: "250ms" })).toBe(250);
  expect(everyMs({ cron: "* * * * *" })).toBeUndefined();
});

test("soonest first, only the next hour, only what is active", () => {
  const jobs = [job("b", 2_000, {}), job("a", 1_000, {}), job("late", 3_700_000, {}), job("off", 1_500, {}, "paused")];
  const runs = [{ id: "run_1", job_id: "job_1", due_at: at(1_800) }] as unknown as Run[];
  expect(coming(jobs, runs, 0).map((one) => one.run ?? one.job)).toEqual(["a", "run_1", "b"]);
});

test("intervals fill the hour, fast ones with their rate", () => {
  const slow = perMinute([job("a", 60_000, { every: "10m" })], [], 0);
  expect(slow.reduce((sum, n) => sum + n, 0)).toBe(6);
  const fast = perMinute([job("a", 0, { every: "1s" })], [], 0);
  expect(fast[0]).toBe(60);
  expect(fast[59]).toBe(60);
});

test("an interval that has passed since the list was read goes on", () => {
  expect(coming([job("a", 1_000, { every: "2s" })], [], 6_500)[0]?.at).toBe(7_000);
  expect(coming([job("a", 1_000, { cron: "* * * * *" })], [], 6_500)).toEqual([]);
});
