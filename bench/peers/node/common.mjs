// What the Node drivers share: what they are asked, what they note, and what they answer. The runner
// (bench/peers/runner) says it in one JSON argument and reads one JSON line.
import { writeFileSync } from "node:fs";
import { Pool } from "undici";

export const ask = JSON.parse(process.argv.at(-1));
/** Wall time in microseconds. */
export const wall = () => Math.round((performance.timeOrigin + performance.now()) * 1000);
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

const DAY_US = 86_400_000_000;
const SPREAD_US = 10_000_000;
const pad = "x".repeat(Math.max(0, ask.payload_bytes - 32));
const numbers = new Float64Array(ask.jobs * 2);
const starts = new Float64Array(ask.jobs * 2);
let started = 0;


/** When each job is due, counted from now; null means at once. */
export function due() {
  const first = Math.floor((wall() + ask.lead_us) / 1000) * 1000;
  switch (ask.work) {
    case "submit":
      return { first_us: wall() + DAY_US, step_us: 0 };
    case "burst":
      return { first_us: first, step_us: 0 };
    case "spread":
      return { first_us: first, step_us: Math.floor(Math.max(SPREAD_US / ask.jobs, 1000) / 1000) * 1000 };
    default:
      return null;
  }
}

/** The batches of a bulk submission: payloads with the instant (in milliseconds) each is due. */
export function* batches(due) {
  for (let first = 0; first < ask.jobs; first += ask.batch) {
    const jobs = [];
    for (let number = first; number < Math.min(ask.jobs, first + ask.batch); number++) {
      jobs.push({ payload: { number, pad }, at: due && (due.first_us + due.step_us * number) / 1000 });
    }
    yield jobs;
  }
}

const target = ask.receiver && new URL(ask.receiver);
const client = target && new Pool(target.origin, { connections: 64 });
const headers = { "content-type": "application/json" };

/** What every job does: notes that it started. Returns a promise only if it posts itself. */
export function run({ number, pad }) {
  if (started < numbers.length) {
    numbers[started] = number;
    starts[started] = wall();
  }
  started++;
  // A database may have put the keys in another order; the receiver wants the number first.
  if (client) return post(JSON.stringify({ number, pad }));
}

async function post(body) {
  const answer = await client.request({ path: target.pathname, method: "POST", headers, body });
  await answer.body.dump();
  if (answer.statusCode !== 200) throw new Error(`the receiver answered ${answer.statusCode}`);
}

/** Waits until every job has started and `left` says that the store holds nothing more to do. */
async function allAcknowledged(left) {
  const until = wall() + ask.time_limit_s * 1e6;
  while (started < ask.jobs && wall() < until) await sleep(2);
  while ((await left()) > 0) {
    if (wall() > until + ask.time_limit_s * 1e6) throw new Error("jobs that started are not acknowledged in time");
    await sleep(2);
  }
}

function answer(begun_us, submitted_us, ended_us, due) {
  const count = Math.min(started, numbers.length);
  const bytes = Buffer.alloc(count * 16);
  for (let i = 0; i < count; i++) {
    bytes.writeBigInt64LE(BigInt(numbers[i]), i * 16);
    bytes.writeBigInt64LE(BigInt(Math.round(starts[i])), i * 16 + 8);
  }
  writeFileSync(ask.records, bytes);
  say({ begun_us, submitted_us, ended_us, due });
}

/** One line, and the end of the process with whatever still runs in it. */
function say(answer) {
  process.stdout.write(JSON.stringify(answer) + "\n", () => process.exit(0));
}

/**
 * Runs the work with a peer: `submit(due)` makes all jobs, `start()` starts its worker, `left()` counts
 * what the store has not got acknowledged.
 */
export async function drive({ submit, start, left }) {
  if (ask.work === "submit") {
    const begun = wall();
    await submit(due());
    const ended = wall();
    say({ begun_us: begun, ended_us: ended, stored: await left() });
  } else if (ask.work === "drain") {
    await submit(null);
    const begun = wall();
    await start();
    await allAcknowledged(left);
    answer(begun, begun, wall(), null);
  } else {
    await start();
    // Idle before the first job comes.
    await sleep(1000);
    const begun = wall();
    const when = due();
    await submit(when);
    const submitted = wall();
    await allAcknowledged(left);
    answer(begun, submitted, wall(), when);
  }
}
