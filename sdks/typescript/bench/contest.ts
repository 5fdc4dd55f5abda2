/**
 * This SDK's worker as a driver of bench/peers: asked by one JSON argument, answers with one line of JSON. Each handler notes
 * that it started. The work `hold` prints a line for each start and holds its runs until the process is ended.
 */

import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, Worker, type JobRequest } from "../src/index.js";

interface Ask {
  work: "noop" | "drain" | "spread" | "hold";
  jobs: number;
  batch: number;
  store: string;
  queue?: string;
  lease?: string;
  lead_us: number;
  payload_bytes: number;
  records: string;
  time_limit_s: number;
}
interface Due {
  first_us: number;
  step_us: number;
}

const SPREAD_US = 10_000_000;
const ask = JSON.parse(process.argv.at(-1) ?? "") as Ask;
const queue = ask.queue ?? `bench-${randomUUID().slice(0, 8)}`;
const holds = ask.work === "hold";
const client = new Client(ask.store);
const worker = new Worker({ url: ask.store, queues: [queue], concurrency: holds ? ask.jobs : 500, prefetch: holds ? 0 : 2_000, lease: ask.lease ?? "60s" });
const starts: [number, number][] = [];

/** Wall time in microseconds. */
const wall = (): number => Math.round((performance.timeOrigin + performance.now()) * 1_000);

worker.handle<{ number: number }>("bench", ({ number }) => {
  if (!holds) {
    starts.push([number, wall()]);
    return undefined;
  }
  process.stdout.write(`${number} ${wall()}\n`);
  return new Promise(() => undefined);
});

function dueOf(): Due | null {
  if (ask.work !== "spread") return null;
  const first = Math.floor((wall() + ask.lead_us) / 1_000) * 1_000;
  return { first_us: first, step_us: Math.floor(Math.max(SPREAD_US / ask.jobs, 1_000) / 1_000) * 1_000 };
}

async function submit(due: Due | null): Promise<void> {
  const pad = "x".repeat(Math.max(0, ask.payload_bytes - 32));
  for (let first = 0; first < ask.jobs; first += ask.batch) {
    const jobs: JobRequest[] = [];
    for (let number = first; number < Math.min(ask.jobs, first + ask.batch); number += 1) {
      const job: JobRequest = { target: { worker: { kind: "bench" } }, queue, payload: { number, pad } };
      if (due !== null) job.schedule = { at: new Date((due.first_us + due.step_us * number) / 1_000).toISOString() };
      jobs.push(job);
    }
    const refused = (await client.createMany(jobs)).find((one) => one.status !== 202);
    if (refused !== undefined) throw new Error(`a job was refused: ${JSON.stringify(refused)}`);
  }
}

/** Waits until every run has ended by the server's word. */
async function settled(): Promise<void> {
  const until = performance.now() + ask.time_limit_s * 1_000;
  while (worker.stats.succeeded < ask.jobs) {
    if (performance.now() > until) throw new Error(`not all ended in time: ${JSON.stringify(worker.stats)}`);
    await sleep(2);
  }
}

async function answer(): Promise<void> {
  let due: Due | null = null;
  let begun = wall();
  if (ask.work !== "drain") {
    await sleep(1_000); // idle before the first job comes
    begun = wall();
    due = dueOf();
    await submit(due);
  }
  const submitted = wall();
  await settled();
  const ended = wall();
  const bytes = Buffer.alloc(starts.length * 16);
  for (const [index, [number, at]] of starts.entries()) {
    bytes.writeBigInt64LE(BigInt(number), index * 16);
    bytes.writeBigInt64LE(BigInt(at), index * 16 + 8);
  }
  writeFileSync(ask.records, bytes);
  process.stdout.write(`${JSON.stringify({ begun_us: begun, submitted_us: submitted, ended_us: ended, due })}\n`);
}

if (ask.work === "drain") await submit(null);
const working = worker.run();
if (!holds) {
  try {
    await answer();
  } finally {
    worker.stop();
  }
}
await working;
