// pg-boss in two ways: its workers (work()), which ask at most twice a second and go on at once while what
// they get is a full batch; and two loops of its own fetch() and complete(), which ask as often as they like.
//
//     pg-boss.mjs work|loop ASK
import { PgBoss } from "pg-boss";
import pg from "pg";
import { ask, batches, drive, run, sleep } from "./common.mjs";

const QUEUE = "bench";
const LOOPS = 2;
const LOOP_FETCH = 1000;
const WORKERS = 4;
const WORKER_FETCH = 500;
// The least that work() takes.
const WORKER_POLL_SECONDS = 0.5;
const POSTS = 64;

const works = process.argv[2] === "work";
const boss = new PgBoss({
  connectionString: ask.store,
  max: 10,
  // Nothing here lasts long enough to need either.
  supervise: false,
  schedule: false,
  useListenNotify: works,
});
boss.on("error", (error) => console.error(error.message));
await boss.start();
await boss.createQueue(QUEUE, { notify: works });
const pool = new pg.Pool({ connectionString: ask.store, max: 1 });

async function loop() {
  for (;;) {
    const jobs = await boss.fetch(QUEUE, { batchSize: LOOP_FETCH });
    if (jobs.length === 0) {
      await sleep(ask.poll_ms);
      continue;
    }
    await handle(jobs, POSTS / LOOPS);
    await boss.complete(QUEUE, jobs.map((job) => job.id));
  }
}

async function handle(jobs, posts) {
  if (!ask.receiver) {
    for (const job of jobs) run(job.data);
    return;
  }
  let next = 0;
  const lane = async () => {
    while (next < jobs.length) await run(jobs[next++].data);
  };
  await Promise.all(Array.from({ length: posts }, lane));
}

await drive({
  async submit(due) {
    for (const jobs of batches(due)) {
      await boss.insert(
        QUEUE,
        jobs.map(({ payload, at }) => ({ data: payload, ...(due && { startAfter: new Date(at) }) })),
      );
    }
  },
  async start() {
    if (works) {
      const options = {
        batchSize: WORKER_FETCH,
        localConcurrency: WORKERS,
        pollingIntervalSeconds: WORKER_POLL_SECONDS,
        notifyPollingIntervalSeconds: WORKER_POLL_SECONDS,
        burstWhenBatchFull: true,
      };
      await boss.work(QUEUE, options, (jobs) => handle(jobs, POSTS / WORKERS));
      return;
    }
    const failed = (error) => {
      console.error(error);
      process.exit(1);
    };
    for (let i = 0; i < LOOPS; i++) loop().catch(failed);
  },
  async left() {
    const { rows } = await pool.query(
      "SELECT count(*)::int AS n FROM pgboss.job WHERE name = $1 AND state < 'completed'",
      [QUEUE],
    );
    return rows[0].n;
  },
});
