/** Workers that are told to go, killed, or stopped and woken much later. Real processes, the real server. */

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { Client } from "../src/index.js";
import { Duly } from "./server.js";

type Event = Record<string, unknown>;

/** A worker's process and what it said. */
class Process {
  readonly child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly events: Event[] = [];

  constructor(options: Record<string, unknown>) {
    const child = spawn(process.execPath, [join(import.meta.dirname, "worker_program.js"), JSON.stringify({ lease: "1s", ...options })], { stdio: ["ignore", "pipe", "inherit"] });
    this.child = child;
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  async until(event: string, count = 1): Promise<Event[]> {
    for (;;) {
      const found = this.events.filter((one) => one["event"] === event);
      if (found.length >= count) return found;
      const line = await this.#lines.next();
      assert.ok(!line.done, `the worker ended without ${event}: ${JSON.stringify(this.events)}`);
      this.events.push(JSON.parse(line.value) as Event);
    }
  }
}

describe("signals", () => {
  let server: Duly;
  let client: Client;
  let queue: string;
  let gate: string;
  let processes: Process[];

  before(async () => {
    server = await Duly.start();
    client = new Client(server.url);
  });
  after(() => server.stop());
  beforeEach(() => {
    queue = `q-${randomUUID().slice(0, 13)}`;
    gate = join(mkdtempSync(join(tmpdir(), "duly-gate-")), "open");
    processes = [];
  });
  afterEach(() => {
    for (const one of processes) one.child.kill("SIGKILL");
  });

  function start(options: Record<string, unknown>): Process {
    const one = new Process({ url: server.url, queues: [queue], ...options });
    processes.push(one);
    return one;
  }

  async function submit(kind: string, count: number): Promise<string[]> {
    const made = await Promise.all(Array.from({ length: count }, () => client.submit(kind, gate, { queue })));
    return made.map((one) => one.run_id ?? "");
  }

  test("SIGTERM lets handlers finish and hands the others back", async () => {
    const runs = await submit("hold", 3);
    const worker = start({ concurrency: 2, prefetch: 1, lease: "5s" });
    await worker.until("started", 2);
    worker.child.kill("SIGTERM");
    const { runs: back } = await client.claim("other", [queue], { max: 3, wait: "15s" });
    assert.equal(back.length, 1);
    await client.settle("other", back.map(({ run_id, token }) => ({ run_id, token, outcome: "succeeded" })));
    writeFileSync(gate, "");
    const [gone] = await worker.until("gone");
    assert.deepEqual([gone?.["succeeded"], gone?.["released"], gone?.["refused"]], [2, 1, 0]);
    if (worker.child.exitCode === null) await once(worker.child, "exit");
    assert.equal(worker.child.exitCode, 0);
    for (const run of runs) assert.equal((await client.run(run, { wait: "10s" })).status, "succeeded");
  });

  test("a second signal tells handlers to stop", async () => {
    await submit("polite", 2);
    const worker = start({});
    await worker.until("started", 2);
    worker.child.kill("SIGTERM");
    worker.child.kill("SIGINT");
    const stopped = await worker.until("stopped", 2);
    assert.deepEqual(stopped.map((one) => one["reason"]), ["shutdown", "shutdown"]);
    const [gone] = await worker.until("gone");
    // The claim that was cut off may have been asked once more, and what it brought was handed back, too.
    assert.equal(gone?.["released"], gone?.["claimed"]);
  });

  test("a stopped worker that wakes later is refused", async () => {
    const count = 5;
    const runs = await submit("hold", count);
    const asleep = start({ name: `asleep-${queue}`, concurrency: count });
    await asleep.until("started", count);
    asleep.child.kill("SIGSTOP");
    const other = start({ name: `other-${queue}`, concurrency: count });
    await other.until("started", count);
    writeFileSync(gate, "");
    for (const run of runs) assert.equal((await client.run(run, { wait: "20s" })).output, `other-${queue}`);
    asleep.child.kill("SIGCONT");
    await asleep.until("ended", count);
    asleep.child.kill("SIGTERM");
    const [gone] = await asleep.until("gone");
    assert.deepEqual([gone?.["succeeded"], gone?.["refused"]], [0, count]);
    for (const run of runs) {
      const ends = (await client.run(run)).attempts?.filter((one) => one.status === "succeeded");
      assert.deepEqual(ends?.map((one) => one.worker), [`other-${queue}`]);
    }
  });

  test("the runs of a killed worker run again and none is settled twice", async () => {
    const count = 50;
    const runs = await submit("hold", count);
    const killed = start({ name: `killed-${queue}`, concurrency: count });
    await killed.until("started", count);
    killed.child.kill("SIGKILL");
    const other = start({ name: `other-${queue}`, concurrency: count });
    await other.until("started", count);
    writeFileSync(gate, "");
    for (const run of runs) {
      const ended = await client.run(run, { wait: "20s" });
      const attempts = ended.attempts?.map((one) => `${one.status} ${one.worker ?? ""}`).sort();
      assert.deepEqual(attempts, [`lost killed-${queue}`, `succeeded other-${queue}`]);
    }
  });

  test("a handler that blocks the thread keeps its lease", async () => {
    const [run = ""] = await submit("busy", 1);
    const worker = start({ lease: "1s" });
    await worker.until("started", 1);
    // Three seconds by the server's own clock, much more than the lease.
    const clock = await client.submit("clock", null, { queue: `${queue}-clock`, delay: "3s" });
    assert.equal((await client.claim("clock", [`${queue}-clock`], { wait: "15s" })).runs[0]?.run_id, clock.run_id);
    writeFileSync(gate, "");
    const ended = await client.run(run, { wait: "20s" });
    assert.deepEqual(ended.attempts?.map((one) => one.status), ["succeeded"]);
  });
});
