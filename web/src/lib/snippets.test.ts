import { expect, test } from "vitest";
import { literal, PYTHON, RUST, shellWord, TYPESCRIPT } from "./literals";
import { jobCode, LANGUAGES, NEEDS, workerCode, WORKER_LANGUAGES } from "./snippets";

const WHERE = { origin: "http://127.0.0.1:7070", key: false };

test("JSON is written as each language writes it", () => {
  const value = { a: [1, 2.5, null, true], "b c": {}, d: [] };
  expect(literal(value, PYTHON)).toBe('{\n    "a": [\n        1,\n        2.5,\n        None,\n        True,\n    ],\n    "b c": {},\n    "d": [],\n}');
  expect(literal(value, TYPESCRIPT)).toContain('  "b c": {},\n  d: [],');
  expect(literal(value, RUST)).toContain("null");
});

test("text stays text", () => {
  for (const style of [PYTHON, TYPESCRIPT, RUST]) {
    expect(style.text('"); stop() //\\')).toBe('"\\"); stop() //\\\\"');
    expect(style.text("a\nb\r\u202e")).not.toMatch(/[\n\r\u202e]/);
  }
  expect(RUST.text("\u0007\ud800")).toBe('"\\u{7}\\u{fffd}"');
  expect(PYTHON.text("\u{e0001}\u2028")).toBe('"\\U000e0001\\u2028"');
  expect(TYPESCRIPT.text("\u{e0001}")).toBe('"\\u{e0001}"');
  expect(literal(JSON.parse('{"__proto__": 1}') as never, TYPESCRIPT)).toContain('["__proto__"]: 1');
});

test("what a JavaScript engine reads of it is what went in", () => {
  const value = { text: 'it\'s "so"\\\n\u2028${x}`', __x: [-1, 1e21, 0.1], "": false };
  const read = new Function(`return ${literal(value, TYPESCRIPT)}`) as () => unknown;
  expect(read()).toEqual(value);
});

test("numbers have room in Rust", () => {
  expect([7, -3_000_000_000, 1.5, 1e21].map(RUST.number)).toEqual(["7", "-3000000000_i64", "1.5", "1e+21"]);
});

test("every language makes the job", () => {
  const job = { target: { http: { url: "http://x/" } }, payload: { done: true } };
  for (const language of LANGUAGES) expect(jobCode(language, WHERE, job)).toContain("http://x/");
  expect(jobCode("python", WHERE, job)).toContain('"done": True');
  expect(jobCode("python", { ...WHERE, key: true }, job)).toContain("DULY_API_KEY");
});

test("the command line has flags, or says what it lacks", () => {
  const job = {
    name: "n",
    target: { worker: { kind: "it's" } },
    payload: -5,
    schedule: { every: "5m", jitter: "1m" },
    retry: { max_retries: 2, cap: "1h" },
    tags: { team: "a b" },
    overlap: "skip",
  };
  const text = jobCode("cli", WHERE, job);
  expect(text.split("\n")[0]).toBe("# There is no flag for schedule.jitter, retry.cap, overlap: use curl, or a file with duly job apply.");
  for (const flag of [`--kind 'it'\\''s'`, "--payload=-5", "--every 5m", "--max-retries 2", "--tag 'team=a b'", "--name n"]) {
    expect(text).toContain(flag);
  }
  const headed = { target: { http: { url: "http://x/", method: "PUT" } } };
  expect(jobCode("cli", WHERE, headed)).toContain(`--target '{"http":{"url":"http://x/","method":"PUT"}}'`);
  expect(shellWord("$(rm)")).toBe("'$(rm)'");
});

test("a first worker exists where a client does", () => {
  for (const language of WORKER_LANGUAGES) {
    expect(workerCode(language, WHERE)).toContain(WHERE.origin);
    expect(NEEDS[language]).not.toBe("");
  }
});
