import { expect, test } from "vitest";
import { errorKind, fromLocalField, fromNow, localTime, rate, shortId, span, toLocalField } from "./format";

test("lengths have at most two units", () => {
  expect(span(0)).toBe("0 ms");
  expect(span(340)).toBe("340 ms");
  expect(span(1_299)).toBe("1.2 s");
  expect(span(9_999)).toBe("9.9 s");
  expect(span(61_000)).toBe("1m 1s");
  expect(span(3_600_000)).toBe("1h");
  expect(span(90_061_000)).toBe("1d 1h");
});

test("instants are told from now", () => {
  expect(fromNow(1_500, 1_000)).toBe("now");
  expect(fromNow(61_000, 0)).toBe("in 1m 1s");
  expect(fromNow(0, 5_400)).toBe("5s ago");
});

test("today needs no date", () => {
  const now = new Date(2027, 2, 28, 12, 0, 0);
  expect(localTime(new Date(2027, 2, 28, 9, 5, 7), now)).toBe("09:05:07");
  expect(localTime(new Date(2027, 2, 27, 9, 5, 7), now)).toContain("27 Mar");
  expect(localTime(new Date(2026, 2, 27, 9, 5, 7), now)).toContain("2026");
});

test("fields of local time survive both ways", () => {
  const iso = "2027-03-28T10:20:30.000Z";
  expect(fromLocalField(toLocalField(iso))).toBe(iso);
  expect(fromLocalField("")).toBeUndefined();
  expect(toLocalField("nonsense")).toBe("");
});

test("errors are grouped as the server groups them", () => {
  expect(errorKind("timeout after 3012 ms to 10.0.0.1:80")).toBe("timeout after # ms to #.#.#.#:#");
});

test("ids keep what tells them apart", () => {
  expect(shortId("run_01m7hhf2hzfyj84q0j3krkp9x5_20261116T064219Z")).toBe("run_…rkp9x5 · 11-16 06:42:19Z");
  expect(shortId("run_01m7hhf2hzfyj84q0j3krkp9x5_t4")).toBe("run_…rkp9x5 · t4");
  expect(shortId("job_1")).toBe("job_1");
});

test("rates are short", () => {
  expect([rate(0), rate(0.25), rate(12.4), rate(2_000)]).toEqual(["0", "0.3", "12", "2,000"]);
});
