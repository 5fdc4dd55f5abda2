// BullMQ: addBulk, one worker with much concurrency, and nothing kept of what is done.
import { Queue, Worker } from "bullmq";
import IORedis from "ioredis";
import { ask, batches, drive, run, wall } from "./common.mjs";

const QUEUE = "bench";
const connect = () => new IORedis(ask.store, { maxRetriesPerRequest: null });
const queue = new Queue(QUEUE, {
  connection: connect(),
  defaultJobOptions: { removeOnComplete: true, removeOnFail: true },
});

await drive({
  async submit(due) {
    for (const jobs of batches(due)) {
      await queue.addBulk(
        jobs.map(({ payload, at }) => {
          // A delay is counted from the job's timestamp: both are said, so that the instant is exact.
          const timestamp = Math.floor(wall() / 1000);
          return { name: "bench", data: payload, opts: due ? { timestamp, delay: Math.ceil(at - timestamp) } : {} };
        }),
      );
    }
  },
  async start() {
    const worker = new Worker(QUEUE, async (job) => run(job.data), {
      connection: connect(),
      concurrency: ask.receiver ? 64 : 200,
    });
    worker.on("error", (error) => console.error(error.message));
    await worker.waitUntilReady();
  },
  async left() {
    return queue.getJobCountByTypes("waiting", "active", "delayed", "prioritized", "paused");
  },
});
