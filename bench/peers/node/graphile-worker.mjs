// graphile-worker: local queue and batched completions, as its page on performance advises.
import { Logger, makeWorkerUtils, run as startWorker, runMigrations } from "graphile-worker";
import pg from "pg";
import { ask, batches, drive, run } from "./common.mjs";

const pool = new pg.Pool({ connectionString: ask.store, max: 25 });
const preset = {
  worker: {
    concurrentJobs: ask.receiver ? 64 : 24,
    pollInterval: ask.poll_ms,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
};
// Its log has a line for every job, which nobody would keep who is after speed.
const logger = new Logger(() => (level, message) => level === "error" && console.error(message));
const shared = { pgPool: pool, preset, logger, noHandleSignals: true };
await runMigrations(shared);
const utils = await makeWorkerUtils(shared);

await drive({
  async submit(due) {
    for (const jobs of batches(due)) {
      await utils.addJobs(
        jobs.map(({ payload, at }) => ({ identifier: "bench", payload, ...(due && { runAt: new Date(at) }) })),
      );
    }
  },
  async start() {
    await startWorker({ ...shared, taskList: { bench: (payload) => run(payload) } });
  },
  async left() {
    const { rows } = await pool.query("SELECT count(*)::int AS n FROM graphile_worker._private_jobs");
    return rows[0].n;
  },
});
