import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { askAgain } from "./live";

test("an answer that left before the event is asked for again, also if it is the first", async () => {
  const client = new QueryClient();
  const answers: ((status: string) => void)[] = [];
  const queryFn = () => new Promise<string>((resolve) => answers.push(resolve));
  const observer = new QueryObserver(client, { queryKey: ["run", "a"], queryFn });
  const off = observer.subscribe(() => undefined);
  expect(answers).toHaveLength(1);
  // The event comes while the first answer, older than it, is on its way.
  expect(askAgain(client, [["run", "a"]])).toBe(true);
  answers[0]?.("ready");
  await expect.poll(() => observer.getCurrentResult().data).toBe("ready");
  expect(askAgain(client, [["run", "a"]])).toBe(false);
  expect(answers).toHaveLength(2);
  // An answer after the first is dropped for the newer one by the library itself.
  expect(askAgain(client, [["run", "a"]])).toBe(false);
  expect(answers).toHaveLength(3);
  answers[2]?.("running");
  await expect.poll(() => observer.getCurrentResult().data).toBe("running");
  off();
});
