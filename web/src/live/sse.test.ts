import { expect, test } from "vitest";
import { SseParser } from "./sse";

test("events come whole, wherever the text is cut", () => {
  const text = 'retry: 2000\nid: a-1\n: listening\n\nid: a-2\nevent: run.ready\ndata: {"x":1}\n\nid: a-3\r\nevent: gap\r\ndata: 1\r\ndata: 2\r\n\r\n';
  for (let cut = 0; cut <= text.length; cut += 1) {
    const parser = new SseParser();
    const events = [...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut))];
    expect(events, `cut at ${cut}`).toEqual([
      { id: "a-2", name: "run.ready", data: '{"x":1}' },
      { id: "a-3", name: "gap", data: "1\n2" },
    ]);
    expect(parser.id).toBe("a-3");
  }
});

test("an id without an event is kept, a comment is nothing", () => {
  const parser = new SseParser();
  expect(parser.push("id: a-9\n: listening\n\n: quiet\n\n")).toEqual([]);
  expect(parser.id).toBe("a-9");
});

test("a line without end is given up", () => {
  expect(() => new SseParser().push("x".repeat(2_000_000))).toThrow();
});
