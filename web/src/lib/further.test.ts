import { expect, test } from "vitest";
import { furtherUntilFound } from "./further";

/** Parts of a list, each known by its cursor; what was asked for is kept. */
function list(...parts: string[][]) {
  const asked: (string | undefined)[] = [];
  const ask = (cursor?: string) => {
    asked.push(cursor);
    const at = Number(cursor ?? 0);
    return Promise.resolve({ items: parts[at] ?? [], next_cursor: at + 1 < parts.length ? String(at + 1) : null });
  };
  return { asked, ask };
}

test("what is there at once is asked for once", async () => {
  const { ask, asked } = list(["a"], ["b"]);
  expect(await furtherUntilFound(ask, 5)).toEqual({ items: ["a"], next_cursor: "1" });
  expect(asked).toEqual([undefined]);
});

test("empty parts are passed over, and the cursor is that of the part that was found", async () => {
  const { ask, asked } = list([], [], ["c"], ["d"]);
  expect(await furtherUntilFound(ask, 5)).toEqual({ items: ["c"], next_cursor: "3" });
  expect(asked).toEqual([undefined, "1", "2"]);
});

test("a list that ends empty is empty", async () => {
  expect(await furtherUntilFound(list([], []).ask, 5)).toEqual({ items: [], next_cursor: null });
});

test("it stops after so many looks and says where to go on", async () => {
  const { ask, asked } = list([], [], [], ["d"]);
  expect(await furtherUntilFound(ask, 2)).toEqual({ items: [], next_cursor: "2" });
  expect(asked).toHaveLength(2);
});
