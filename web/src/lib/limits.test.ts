import { expect, test } from "vitest";
import { fromLimits, limitFaults, toLimits } from "./limits";

test("limits survive the form", () => {
  const groups = { max_running: 1, rate: "6/m", burst: 2, weights: { "cust:42": 3 } };
  const limits = { max_running: 100, rate: "50/s", burst: 10, groups, start_within: "30s", partitions: 1 };
  expect(toLimits(fromLimits(limits), limits)).toEqual({ limits, faults: [] });
});

test("an empty field removes its limit", () => {
  const { limits, faults } = toLimits(fromLimits({}), { rate: "1/s" });
  expect(limits).toEqual({ max_running: null, rate: null, burst: null, groups: { max_running: null, rate: null, burst: null, weights: {} }, start_within: null });
  expect(faults).toEqual([]);
});

test("what is no weight is said, and what is no number is left to the server", () => {
  const { limits, faults } = toLimits({ ...fromLimits({}), max_running: "many", weights: "a\nb: x\nc: 2" }, {});
  expect(limits.max_running).toBe("many");
  expect(limits.groups?.weights).toEqual({ c: 2 });
  expect(faults.map((one) => one.pointer)).toEqual(["/groups/weights", "/groups/weights"]);
});

test("refusals find their fields", () => {
  const { at, other } = limitFaults([
    { pointer: "/groups/weights/a", message: "too heavy" },
    { pointer: "/rate", message: "not a rate" },
    { pointer: "/start_within", message: "too short" },
    { pointer: "/partitions", message: "only grows" },
  ]);
  expect(at).toEqual({ weights: "too heavy", rate: "not a rate", start_within: "too short" });
  expect(other).toHaveLength(1);
});
