/** No-op runs per second through one worker process: `node out/bench/throughput.js [RUNS]` beside a server. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Client, Worker, type JobRequest } from "../src/index.js";

const total = Number(process.argv[2] ?? 30_000);
const BATCH = 5_000;
const client = new Client();
const queue = `bench-${randomUUID().slice(0, 8)}`;
for (let start = 0; start < total; start += BATCH) {
  const job: JobRequest = { target: { worker: { kind: "noop" } }, queue };
  const results = await client.createMany(Array<JobRequest>(Math.min(BATCH, total - start)).fill(job));
  assert.ok(results.every((one) => one.status === 202));
}
const worker = new Worker({ queues: [queue], concurrency: 500, prefetch: 2_000, lease: "60s" });
const seen = new Set<string>();
worker.handle("noop", (_payload, context) => {
  seen.add(context.runId);
});
const begun = performance.now();
let took = 0;
const watch = setInterval(() => {
  if (worker.stats.succeeded < total) return;
  took = (performance.now() - begun) / 1_000;
  clearInterval(watch);
  worker.stop();
}, 5);
const stats = await worker.run();
assert.equal(stats.succeeded, total);
assert.equal(seen.size, total);
console.log(`typescript: ${total} runs in ${took.toFixed(2)} s: ${(total / took).toFixed(0)} runs/s (${(process.cpuUsage().user / 1e6).toFixed(1)} s of CPU)`);
