import { expect, test } from "vitest";
import { quantile, readHistogram, readMetric, since } from "./metrics";

const text = `# HELP duly_fire_skew_seconds x
duly_fire_skew_seconds_bucket{le="0.01"} 50
duly_fire_skew_seconds_bucket{le="0.1"} 100
duly_fire_skew_seconds_bucket{le="+Inf"} 100
duly_fire_skew_seconds_sum 1
duly_fire_skew_seconds_count 100
duly_dead_letters_total 7
`;

test("a histogram's quantiles lie between its bounds", () => {
  const skew = readHistogram(text, "duly_fire_skew_seconds");
  expect(skew.count).toBe(100);
  expect(quantile(skew, 0.5)).toBeCloseTo(0.01);
  expect(quantile(skew, 0.75)).toBeCloseTo(0.055);
  expect(quantile({ buckets: [], count: 0 }, 0.5)).toBeUndefined();
});

test("what lies beyond the last bound is told as that bound", () => {
  expect(quantile({ buckets: [[1, 0], [Infinity, 5]], count: 5 }, 0.99)).toBe(1);
});

test("two readings give what happened between them, and a new life its own", () => {
  const now = readHistogram(text, "duly_fire_skew_seconds");
  const before = { buckets: now.buckets.map(([b]): [number, number] => [b, 40]), count: 40 };
  expect(since(before, now).buckets[0]?.[1]).toBe(10);
  expect(since(now, before)).toBe(before);
});

test("a metric that is not there is not zero", () => {
  expect(readMetric(text, "duly_dead_letters_total")).toBe(7);
  expect(readMetric(text, "duly_dead_letters")).toBeUndefined();
});
