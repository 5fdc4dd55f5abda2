import { expect, test } from "vitest";
import { patch } from "./patch";

test("only what differs is sent", () => {
  expect(patch({ a: 1, b: { c: 2 } }, { a: 1, b: { c: 2 } })).toBeUndefined();
  expect(patch({ a: 1, b: 2 }, { a: 1, b: 3 })).toEqual({ b: 3 });
});

test("another kind of schedule takes the former one away", () => {
  const from = { schedule: { cron: "0 3 * * *", timezone: "UTC" } };
  expect(patch(from, { schedule: { every: "5m" } })).toEqual({ schedule: { cron: null, timezone: null, every: "5m" } });
});

test("what is gone becomes null, and lists are whole", () => {
  expect(patch({ owner: "a" }, {})).toEqual({ owner: null });
  expect(patch({ list: [1, 2] }, { list: [1] })).toEqual({ list: [1] });
});
