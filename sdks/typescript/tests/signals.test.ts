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
import { Client, type JobRequest } from "../src/index.js";
import { Duly } from "./server.js";

type Event = Record<string, unknown>;

/** Runs that one worker holds when it goes. */
const MANY = 1_000;

/** A worker's process and what it said. It is heard all the time: nothing waits in its pipe. */
class Process {
  readonly child: ChildProcess;
  readonly events: Event[] = [];
  readonly #counts = new Map<unknown, number>();
  #closed = false;
  #heard: () => void = () => undefined;

  constructor(options: Record<string, unknown>) {
    const child = spawn(process.execPath, [join(import.meta.dirname, "worker_program.js"), JSON.stringify({ lease: "1s", ...options })], { stdio: ["ignore", "pipe", "inherit"] });
    this.child = child;
    const lines = createInterface({ input: child.stdout });
    lines.on("line", (line) => {
      const event = JSON.parse(line) as Event;
      this.events.push(event);
      this.#counts.set(event["event"], (this.#counts.get(event["event"]) ?? 0) + 1);
      this.#heard();
    });
    lines.on("close", () => {
      this.#closed = true;
      this.#heard();
    });
  }

  async until(event: string, count = 1): Promise<Event[]> {
    while ((this.#counts.get(event) ?? 0) < count) {
      assert.ok(!this.#closed, `the worker ended without ${event}: ${JSON.stringify(this.events.slice(-5))}`);
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
    }
    return this.events.filter((one) => one["event"] === event);
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
    const job: JobRequest = { target: { worker: { kind } }, payload: gate, queue };
    const made = await client.createMany(Array<JobRequest>(count).fill(job));
    // A one-off's run has its job's letters.
    return made.map((one) => (one.id ?? "").replace("job_", "run_"));
  }

  /**
   * How each run ended: once, by the worker of this name, and never by the former one, whose attempt is in its history as
   * lost. Tokens grow from attempt to attempt.
   */
  async function endedOnce(runs: string[], former: string, name: string): Promise<void> {
    const left = [...runs];
    const look = async (): Promise<void> => {
      for (let run = left.pop(); run !== undefined; run = left.pop()) await oneEndedOnce(run, former, name);
    };
    await Promise.all(Array.from({ length: 8 }, look));
  }

  async function oneEndedOnce(run: string, former: string, name: string): Promise<void> {
    const ended = await client.run(run, { wait: "20s" });
    assert.equal(ended.output, name);
    const attempts = ended.attempts ?? [];
    const last = attempts.at(-1);
    const lost = attempts.slice(0, -1);
    assert.deepEqual([last?.status, last?.worker], ["succeeded", name]);
    assert.ok(lost.some((one) => one.worker === former));
    assert.ok(lost.every((one, at) => one.status === "lost" && one.token < (attempts[at + 1]?.token ?? 0)), JSON.stringify(attempts));
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
    const [former, name] = [`asleep-${queue}`, `other-${queue}`];
    const runs = await submit("hold", MANY);
    const asleep = start({ name: former, concurrency: MANY, lease: "2s" });
    await asleep.until("started", MANY);
    asleep.child.kill("SIGSTOP");
    const other = start({ name, concurrency: MANY, lease: "20s" });
    await other.until("started", MANY);
    writeFileSync(gate, "");
    await endedOnce(runs, former, name);
    asleep.child.kill("SIGCONT");
    await asleep.until("ended", MANY);
    asleep.child.kill("SIGTERM");
    const [gone] = await asleep.until("gone");
    assert.deepEqual([gone?.["succeeded"], gone?.["refused"]], [0, gone?.["claimed"]]);
    assert.ok(Number(gone?.["refused"]) >= MANY);
    await endedOnce(runs, former, name);
  });

  test("the runs of a killed worker run again and none is settled twice", async () => {
    const [former, name] = [`killed-${queue}`, `other-${queue}`];
    const runs = await submit("hold", MANY);
    const killed = start({ name: former, concurrency: MANY, lease: "2s" });
    const held = await killed.until("started", MANY);
    killed.child.kill("SIGKILL");
    const other = start({ name, concurrency: MANY, lease: "20s" });
    const again = new Map((await other.until("started", MANY)).map((one) => [one["run"], Number(one["token"])]));
    const tokens = new Map(held.map((one) => [one["run"], Number(one["token"])]));
    // What the killed one had said last arrives now, and again when the run has ended.
    const late = runs.map((run) => {
      const token = tokens.get(run) ?? 0;
      assert.ok(token < (again.get(run) ?? 0));
      return { run_id: run, token, outcome: "succeeded" as const, output: "late" };
    });
    for (let n = 0; n < 2; n += 1) {
      const results = await client.settle(former, late);
      assert.equal(results.filter((one) => one.status === "stale").length, MANY);
      writeFileSync(gate, "");
      await endedOnce(runs, former, name);
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
