import { expect, test } from "vitest";
import { catchUpWords, retryWords, targetWords } from "./policy";

test("a policy is said in words", () => {
  expect(retryWords({ max_retries: 5, initial: "10s", factor: 4, cap: "1h", permanent: [400, 422] })).toBe(
    "5 retries: after 10s, then times 4, at most 1h; never after 400, 422",
  );
  expect(retryWords({ max_retries: 1 })).toBe("1 retry");
  expect(retryWords({ max_retries: 0, initial: "1s" })).toBe("none: one attempt");
  expect(retryWords(null)).toBe("–");
  expect(catchUpWords({ policy: "all", window: "1d", max: 100, rate: 10 })).toBe("a run for each missed instant, of the last 1d, at most 100, 10 per second");
  expect(catchUpWords(undefined)).toBe("–");
});

test("a target is told by what matters of it", () => {
  expect(targetWords({ http: { url: "http://x/" } })).toBe("http://x/");
  expect(targetWords({ worker: { kind: "bill" } })).toBe("worker bill");
  expect(targetWords({ command: { argv: ["/bin/tidy", "--all"] } })).toBe("command /bin/tidy --all");
  expect(targetWords({ publish: { redis: { url: "redis://x" } } })).toBe("publish to redis");
  expect(targetWords(null)).toBe("");
});
