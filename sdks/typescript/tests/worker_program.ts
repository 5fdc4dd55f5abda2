/**
 * A worker in a process of its own, for tests that send signals. Says what it does, one JSON document per line. Handlers of
 * `hold` wait until the file of the payload exists and then succeed, whatever they are told; those of `polite` stop when they
 * are told to; those of `busy` never let go of the thread until the file exists.
 */

import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker, type WorkerOptions } from "../src/index.js";

function say(event: Record<string, unknown>): void {
  // To a pipe this writes at once, and waits while the pipe is full.
  process.stdout.write(`${JSON.stringify(event)}\n`);
}

const worker = new Worker({ ...(JSON.parse(process.argv[2] ?? "{}") as WorkerOptions), log: () => undefined });

/** One look at the file, however many wait for it. */
let opened: Promise<void> | undefined;
async function isOpen(file: string): Promise<void> {
  while (!existsSync(file)) await sleep(20);
}

worker.handle<string>("hold", async (file, context) => {
  say({ event: "started", run: context.runId, token: context.token });
  await (opened ??= isOpen(file));
  say({ event: "ended", run: context.runId });
  return worker.name;
});

worker.handle<string>("polite", async (file, context) => {
  say({ event: "started", run: context.runId, token: context.token });
  while (!existsSync(file)) {
    try {
      await sleep(20, undefined, { signal: context.signal });
    } catch (error) {
      say({ event: "stopped", run: context.runId, reason: context.stopReason });
      throw error;
    }
  }
  return worker.name;
});

worker.handle<string>("busy", (file, context) => {
  say({ event: "started", run: context.runId, token: context.token });
  while (!existsSync(file));
  return worker.name;
});

say({ event: "up" });
say({ event: "gone", ...(await worker.run()) });
