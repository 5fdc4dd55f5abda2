/** What the conformance set does not play: managing jobs, lists, errors, real webhooks, the README. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { Client, InvalidRequest, NotFound, TransportError, VersionMismatch, WebhookError, verify, type JobRequest } from "../src/index.js";
import { millis } from "../src/time.js";
import { Duly, PACKAGE } from "./server.js";

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

describe("client", () => {
  let server: Duly;
  let client: Client;
  const queueOf = (): string => `q-${randomUUID().slice(0, 13)}`;
  before(async () => {
    server = await Duly.start();
    client = new Client(server.url);
  });
  after(() => server.stop());

  test("a recurring job from declaration to cancellation", async () => {
    const queue = queueOf();
    const name = `tidy-${queue}`;
    const job: JobRequest = { schedule: { every: "1h" }, target: { worker: { kind: "tidy" } }, queue };
    const first = await client.declare(name, job);
    const again = await client.declare(name, job);
    assert.deepEqual([first.id, first.version], [again.id, again.version]);
    assert.equal((await client.patch(name, { priority: 9 }, first.version)).priority, 9);
    await assert.rejects(client.patch(name, { priority: 1 }, first.version), VersionMismatch);
    assert.equal((await client.pause(name, { reason: "a look" })).status, "paused");
    assert.equal((await client.resume(name)).status, "active");
    const idempotencyKey = randomUUID();
    const triggered = await client.trigger(name, { idempotencyKey });
    assert.equal((await client.trigger(name, { idempotencyKey })).run_id, triggered.run_id);
    assert.ok((await client.explain(triggered.run_id))["summary"]);
    assert.deepEqual((await all(client.runs({ job: name }))).map((run) => run.id), [triggered.run_id]);
    assert.ok((await client.occurrences(name).next()).value);
    assert.equal((await client.stats(name))["unfinished"], 1);
    await client.cancelRun(triggered.run_id);
    assert.equal((await client.cancel(name)).status, "cancelled");
    assert.ok((await client.pauseQueue(queue, { reason: "a look" })).paused);
    assert.equal((await client.resumeQueue(queue)).paused, null);
  });

  test("batches and pages", async () => {
    const queue = queueOf();
    const job: JobRequest = { target: { worker: { kind: "mail" } }, queue };
    const bad = { target: { carrier: "pigeon" } } as unknown as JobRequest;
    const results = await client.createMany([job, bad, job, job, job, job]);
    assert.deepEqual(results.map((one) => one.status), [202, 422, 202, 202, 202, 202]);
    const listed = (await all(client.jobs({ queue, limit: 2 }))).map((one) => one.id);
    assert.deepEqual(listed.sort(), results.flatMap((one) => one.id ?? []).sort());
  });

  test("dead runs are replayed", async () => {
    const queue = queueOf();
    const { run_id } = await client.submit("mail", null, { queue, retry: { max_retries: 0 } });
    assert.ok(run_id);
    const [run] = (await client.claim("w", [queue])).runs;
    await client.settle("w", [{ run_id, token: run?.token ?? 0, outcome: "failed", error: { message: "torn" } }]);
    assert.deepEqual((await all(client.deadLetters({ queue }))).map((one) => one.id), [run_id]);
    assert.equal((await client.replay(run_id)).status, "ready");
  });

  test("refusals are typed", async () => {
    await assert.rejects(client.job("no-such-job"), (error) => error instanceof NotFound && error.code === "not_found" && error.requestId !== "");
    const job: JobRequest = { target: { http: { url: "ftp://x" } } };
    await assert.rejects(client.create(job), (error) => error instanceof InvalidRequest && error.errors[0]?.pointer === "/target/http/url");
    await assert.rejects(new Client({ url: "http://127.0.0.1:9", backoff: { retries: 1, initial: 10 } }).version(), TransportError);
    assert.throws(() => new Client("127.0.0.1:7070"), TypeError);
  });

  test("a webhook of the real server fits", async () => {
    const came = new Promise<{ headers: IncomingHttpHeaders; body: Buffer }>((resolve) => {
      const receiver = createServer((request, response) => {
        const parts: Buffer[] = [];
        request.on("data", (part: Buffer) => parts.push(part));
        request.on("end", () => {
          response.end();
          receiver.close();
          resolve({ headers: request.headers, body: Buffer.concat(parts) });
        });
      });
      receiver.listen(0, "127.0.0.1", () => {
        const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
        void client.create({ target: { http: { url } }, payload: { a: "ü" } });
      });
    });
    const { headers, body } = await came;
    const secrets = (await client.signingSecrets()).map((one) => one.secret);
    assert.equal(verify(headers, body, secrets), headers["x-run-id"]);
    assert.throws(() => verify(headers, `${body.toString()} `, secrets), WebhookError);
  });

  test("lengths", () => {
    assert.deepEqual(["1h30m", "250ms", "1.5s", 2].map(millis), [5_400_000, 250, 1_500, 2]);
    for (const bad of ["", "5", "1x", "s"]) assert.throws(() => millis(bad), RangeError);
  });

  test("the README is true", async () => {
    const example = /```js example\n([^]*?)```/.exec(readFileSync(join(PACKAGE, "README.md"), "utf8"))?.[1];
    assert.ok(example);
    const folder = mkdtempSync(join(tmpdir(), "duly-readme-"));
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(PACKAGE, join(folder, "node_modules/duly-client"));
    writeFileSync(join(folder, "example.mjs"), example);
    const done = await promisify(execFile)(process.execPath, [join(folder, "example.mjs")], { env: { ...process.env, DULY_URL: server.url }, timeout: 60_000 });
    assert.match(done.stdout, /customer: 42/);
  });
});
