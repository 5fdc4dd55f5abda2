import { expect, test } from "vitest";
import { SECONDS, Tally } from "./tally";

const event = (type: string, n = 0) => ({ type, job_id: `job_${n}`, run_id: `run_${n}` });

test("rates are of whole seconds", () => {
  const tally = new Tally(1_000_000);
  for (let n = 0; n < 30; n += 1) tally.add(event("run.started", n), 1_000_100);
  expect(tally.rate("fires")).toBe(0);
  tally.advance(1_001_000);
  expect(tally.rate("fires")).toBe(30);
  tally.advance(1_010_000);
  expect(tally.rate("fires")).toBe(3);
  tally.advance(1_011_000);
  expect(tally.rate("fires")).toBe(0);
});

test("a page that slept shows nothing old", () => {
  const tally = new Tally(0);
  tally.add(event("run.succeeded"), 500);
  tally.advance(10 * SECONDS * 1_000);
  expect(tally.series("successes").every((n) => n === 0)).toBe(true);
  expect(tally.series("successes")).toHaveLength(SECONDS - 1);
});

test("dying, failing and expiring are failures; retries are their own", () => {
  const tally = new Tally(0);
  for (const type of ["run.failed", "run.dead", "run.expired", "run.retrying"]) tally.add(event(type), 0);
  tally.advance(1_000);
  expect([tally.rate("failures"), tally.rate("retries")]).toEqual([3, 1]);
});

test("what changed is told once, and a flood means anything", () => {
  const tally = new Tally(0);
  tally.add(event("run.ready", 7), 0);
  const first = tally.take();
  expect(first.has("runs", "run_7")).toBe(true);
  expect(first.has("runs", "run_8")).toBe(false);
  expect(tally.take().runs.size).toBe(0);
  for (let n = 0; n < 5_000; n += 1) tally.add(event("run.ready", n), 0);
  const flood = tally.take();
  expect(flood.has("jobs", "job_none")).toBe(true);
  expect(flood.jobs.size).toBeLessThanOrEqual(2_000);
});

test("memory stays bounded", () => {
  const tally = new Tally(0);
  for (let n = 0; n < 10_000; n += 1) tally.add(event("run.dead", n), 0);
  expect(tally.recent.length).toBeLessThanOrEqual(120);
  expect(tally.recent.at(-1)?.run_id).toBe("run_9999");
});
