import { expect, test } from "vitest";
import { differences, looksSame, madeBy, shortly, type Version } from "./versions";

function version(of: Partial<Version>): Version {
  return { version: 1, in_force: false, since: null, by: { kind: "no_key" }, changed_from: null, changed: null, definition: {}, ...of };
}

const old = version({ definition: { schedule: { cron: "0 3 * * *" }, payload: { "a/b": { "c~": 1 }, list: [1] }, owner: "me" } });

test("both sides of each change are shown", () => {
  const changed = ["/owner", "/payload/a~1b/c~0", "/payload/list", "/schedule/cron", "/tags/team"];
  const definition = { schedule: { cron: "0 4 * * *" }, payload: { "a/b": { "c~": 2 }, list: [1, 2] }, tags: { team: "b" } };
  expect(differences(version({ version: 2, changed_from: 1, changed, definition }), [old])).toEqual([
    { place: "owner", before: "me", after: undefined },
    { place: "payload.a/b.c~", before: 1, after: 2 },
    { place: "payload.list", before: [1], after: [1, 2] },
    { place: "schedule.cron", before: "0 3 * * *", after: "0 4 * * *" },
    { place: "tags.team", before: undefined, after: "b" },
  ]);
});

test("the oldest that is kept has nothing to be compared with", () => {
  expect(differences(old, [old])).toEqual([]);
  expect(differences(version({ version: 9, changed_from: 7, changed: ["/owner"] }), [old])).toEqual([]);
});

test("a place that is not there says nothing, whatever its name", () => {
  const odd = version({ version: 2, changed_from: 1, changed: ["/constructor", "/owner/length", "/payload/list/0"], definition: { owner: "you" } });
  expect(differences(odd, [old]).map((one) => [one.before, one.after])).toEqual([
    [undefined, undefined],
    [undefined, undefined],
    [undefined, undefined],
  ]);
});

test("values are short, and what is covered is said to be", () => {
  expect([shortly(undefined), shortly(""), shortly("x"), shortly(null), shortly({ a: [1] })]).toEqual(["nothing", '""', "x", "null", '{"a":[1]}']);
  expect(looksSame({ place: "p", before: "redis://u:***@h", after: "redis://u:***@h" })).toBe(true);
  expect(looksSame({ place: "p", before: 1, after: 2 })).toBe(false);
});

test("who made it", () => {
  expect(madeBy({ kind: "key", key_id: "0123", name: "ci" })).toBe("key ci");
  expect(madeBy({ kind: "key", key_id: "0123" })).toBe("key 0123");
  expect(madeBy({ kind: "no_key" })).toBe("no key");
  expect(madeBy({ kind: "unknown" })).toBe("not known");
});
