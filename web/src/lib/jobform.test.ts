import { expect, test } from "vitest";
import type { Job } from "../api/client";
import { curlOf, EMPTY, fieldOf, fromJob, sortFaults, toRequest } from "./jobform";

test("only what was filled in is sent", () => {
  const { request, faults } = toRequest({ ...EMPTY, url: "http://127.0.0.1:9000/" });
  expect(faults).toEqual([]);
  expect(request).toEqual({ target: { http: { url: "http://127.0.0.1:9000/" } } });
});

test("each kind of schedule and target has its form", () => {
  const of = (form: Partial<typeof EMPTY>) => toRequest({ ...EMPTY, ...form }).request;
  expect(of({ schedule: "delay", delay: "5s" }).schedule).toEqual({ delay: "5s" });
  expect(of({ schedule: "every", every: "2s", max_runs: "3" }).schedule).toEqual({ every: "2s", max_runs: 3 });
  expect(of({ schedule: "cron", timezone: "UTC", gap: "skip" }).schedule).toEqual({
    cron: "0 3 * * *",
    timezone: "UTC",
    dst: { gap: "skip" },
  });
  expect(of({ target: "worker", kind: "bill" }).target).toEqual({ worker: { kind: "bill" } });
  expect(of({ target: "command", argv: "/bin/echo\na b", env: "A=1=2" }).target).toEqual({
    command: { argv: ["/bin/echo", "a b"], env: { A: "1=2" } },
  });
  expect(of({ target: "redis", broker: "redis://x", stream: "s", max_len: "9" }).target).toEqual({
    publish: { redis: { url: "redis://x", stream: "s", max_len: 9 } },
  });
  expect(of({ target: "rabbitmq", broker: "amqp://x", routing_key: "k" }).target).toEqual({
    publish: { rabbitmq: { url: "amqp://x", routing_key: "k" } },
  });
});

test("what cannot be read is said at its field", () => {
  const { faults } = toRequest({ ...EMPTY, payload: "{", headers: "nonsense", schedule: "at" });
  const { at } = sortFaults(faults);
  expect(Object.keys(at).sort()).toEqual(["at", "headers", "payload"]);
});

test("a number that is none is left to the server to refuse", () => {
  expect(toRequest({ ...EMPTY, priority: "high" }).request.priority).toBe("high");
});

test("a job survives the form", () => {
  const job = {
    id: "job_1",
    name: "nightly",
    tags: { team: "a" },
    schedule: { cron: "0 3 * * *", timezone: "Europe/Zurich", dst: { gap: "run", repeat: "first" } },
    target: { http: { url: "http://x/", method: "POST", headers: { A: "b" } } },
    payload: { a: [1, null] },
    queue: "default",
    priority: 5,
    retry: { cap: "1h", factor: 4, initial: "10s", max_retries: 5, permanent: [400] },
    timeout: "30s",
    start_within: "5m",
    finish_within: "1h",
    overlap: "queue_one",
    catch_up: { policy: "once" },
  } as unknown as Job;
  const { request } = toRequest(fromJob(job));
  const rest: Record<string, unknown> = { ...job };
  delete rest.id;
  expect(request).toEqual(rest);
});

test("pointers find their fields", () => {
  expect(fieldOf("/target/http/headers/Host")).toBe("headers");
  expect(fieldOf("/target/command/argv/0")).toBe("argv");
  expect(fieldOf("/schedule/cron")).toBe("cron");
  expect(fieldOf("/nothing")).toBeUndefined();
  const { other } = sortFaults([{ pointer: "/retri", message: "no such field", did_you_mean: "retry" }]);
  expect(other[0]?.message).toContain("did you mean retry");
});

test("curl quotes what a shell would read", () => {
  expect(curlOf("http://h", "/v1/jobs", { a: "it's" }, true)).toContain(`it'\\''s`);
});
