/**
 * The worker: handlers by kind, run under leases, drained on SIGTERM.
 *
 *     claim ──► ready ──► handlers ──► ended ──► settle
 *                  │                      │
 *              heart.ts renews every lease that is held, until its settle was answered
 *
 * A run is *held* from the claim's answer to the settle's. Held runs never exceed the capacity, so nothing here grows beyond
 * it; a server that is away is felt as "no room", not as memory.
 */

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { Worker as Thread } from "node:worker_threads";
import { failure, stopped, type Ended } from "./ended.js";
import { ApiError, DulyError, LeaseLost, mayPass } from "./errors.js";
import { Context, Fail, Held, Release, Retry, Snooze } from "./held.js";
import type { FromHeart, ToHeart } from "./heart_messages.js";
import type { Handler, Stats, WorkerOptions } from "./options.js";
import { instantText, millis, now } from "./time.js";
import { once, pauseOf, serverOf, sleep, type Server } from "./transport.js";
import type { Claimed, ClaimedRun, Json, SettledRun, Signal } from "./types.js";

/** Runs of one claim or settle. */
const ITEMS_MAX = 1_000;
/** Outputs of one settle; the server reads 16 MiB at most. */
const SETTLE_BYTES_MAX = 4 * 1_024 * 1_024;
/** A settle that is not answered is repeated for so long, with heartbeats going on; then the lease decides. */
const SETTLE_TRIES_FOR = 300_000;
/** The largest output of a run, in bytes of JSON. */
const OUTPUT_BYTES_MAX = 16 * 1_024;
const KINDS_MAX = 100;
/** What a claim's answer may take beyond its wait. */
const CLAIM_MARGIN = 10_000;
/** Handlers get so long to stop after they were told to, when the grace of a drain is over. */
const STOP_GRACE = 5_000;

export class Worker {
  readonly name: string;
  readonly stats: Stats = { claimed: 0, succeeded: 0, failed: 0, snoozed: 0, released: 0, refused: 0, abandoned: 0 };

  readonly #server: Server;
  readonly #queues: string[];
  readonly #concurrency: number;
  readonly #capacity: number;
  readonly #lease: number;
  readonly #wait: number;
  readonly #grace: number;
  readonly #onLeaseUnknown: "auto" | "stop" | "continue";
  readonly #about: Record<string, Json>;
  /** Read by the heart, too. */
  readonly #load = new Int32Array(new SharedArrayBuffer(4));
  readonly #log: (message: string, error?: unknown) => void;
  readonly #handlers = new Map<string, Handler>();

  readonly #held = new Map<string, Held>();
  #ready: Held[] = [];
  #readyAt = 0;
  #running = 0;
  #ended: Ended[] = [];
  #settling = false;
  #claiming = false;
  #quiet = false;
  #knowsAbout = true;
  #draining = false;
  #closed = false;
  readonly #drain = new AbortController();
  readonly #stopNow = new AbortController();
  #heart: Thread | undefined;
  #dropped: string[] = [];
  readonly #storing = new Map<number, { resolve: () => void; reject: (error: Error) => void }>();
  #number = 0;
  #waiters: (() => void)[] = [];

  constructor(options: WorkerOptions = {}) {
    this.#server = serverOf(options);
    this.#queues = options.queues ?? ["default"];
    this.#concurrency = options.concurrency ?? 10;
    const prefetch = options.prefetch ?? 0;
    if (this.#concurrency < 1 || prefetch < 0) throw new RangeError("concurrency is at least 1, prefetch at least 0");
    if (this.#queues.length === 0) throw new RangeError("a worker needs at least one queue");
    this.#capacity = this.#concurrency + prefetch;
    this.#lease = millis(options.lease ?? 30_000);
    if (!(this.#lease >= 1_000 && this.#lease <= 3_600_000)) throw new RangeError("a lease lasts 1s to 1h");
    // The lease counts from when the claim was sent: a claim that waits longer than half of it would leave too little.
    this.#wait = Math.min(millis(options.wait ?? 20_000), this.#lease / 2);
    this.#grace = millis(options.grace ?? 25_000);
    this.#onLeaseUnknown = options.onLeaseUnknown ?? "auto";
    this.name = options.name ?? `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`;
    this.#about = { capacity: this.#concurrency, version: options.version, labels: options.labels };
    this.#log =
      options.log ??
      ((message, error) => {
        if (error === undefined) console.warn(`duly: ${message}`);
        else console.warn(`duly: ${message}`, error);
      });
  }

  /** The handler of a kind. What it returns is the run's output. */
  handle<P = Json>(kind: string, handler: Handler<P>): this {
    if (this.#claiming || this.#draining) throw new Error("handlers are added before the worker runs");
    if (this.#handlers.has(kind)) throw new Error(`there is a handler of "${kind}" already`);
    if (this.#handlers.size >= KINDS_MAX) throw new RangeError(`a worker has at most ${KINDS_MAX} kinds`);
    this.#handlers.set(kind, handler as Handler);
    return this;
  }

  /**
   * Drains: takes nothing more, hands back what has not begun, lets handlers finish for `grace`. A second call tells the
   * handlers to stop at once.
   */
  stop(): void {
    if (this.#drain.signal.aborted) this.#stopNow.abort();
    this.#startDrain();
  }

  /** Works until it is told to stop; SIGTERM and SIGINT drain. */
  async run(options: { signals?: boolean } = {}): Promise<Stats> {
    if (this.#handlers.size === 0) throw new Error("a worker needs at least one handler");
    if (this.#claiming) throw new Error("a worker runs once");
    const signals = options.signals ?? true;
    const stop = (): void => {
      this.stop();
    };
    if (signals) for (const one of ["SIGTERM", "SIGINT"] as const) process.on(one, stop);
    const heart = (this.#heart = new Thread(new URL("./heart.js", import.meta.url), {
      workerData: { server: this.#server, name: this.name, lease: this.#lease, about: this.#about, load: this.#load },
    }));
    heart.on("message", (message: FromHeart) => {
      this.#hear(message);
    });
    heart.on("error", (error) => {
      // Without heartbeats a worker must not go on: leases would end under running handlers.
      this.#log("the worker stops: its heart failed", error);
      for (const held of this.#held.values()) held.tell("lease_lost");
      this.stop();
    });
    this.#claiming = true;
    try {
      await this.#claims();
      this.#claiming = false;
      await this.#finish();
    } finally {
      this.#startDrain();
      this.#closed = true;
      await heart.terminate();
      await this.#leave();
      if (signals) for (const one of ["SIGTERM", "SIGINT"] as const) process.off(one, stop);
    }
    return this.stats;
  }

  #startDrain(): void {
    if (this.#draining) return;
    this.#draining = true;
    this.#drain.abort();
    this.#ready = [];
    this.#readyAt = 0;
    for (const held of this.#held.values()) if (!held.begun && !held.finished) this.#end({ held, outcome: "released", text: "" });
    this.#wake();
  }

  async #finish(): Promise<void> {
    const idle = (): boolean => this.#held.size === 0;
    await this.#until(idle, this.#grace, this.#stopNow.signal);
    if (idle()) return;
    for (const held of this.#held.values()) held.tell("shutdown");
    await this.#until(idle, STOP_GRACE);
    if (!idle()) this.#log(`${this.#held.size} runs are left to their leases: their handlers did not stop`);
  }

  async #leave(): Promise<void> {
    try {
      await once(this.#server, "POST", "/v1/work/leave", JSON.stringify({ worker: this.name }), { timeout: 2_000 });
    } catch {
      // A server that does not know it, or is away: leases end by themselves.
    }
  }

  // Claim

  async #claims(): Promise<void> {
    let failures = 0;
    let request = randomUUID();
    let cutOff = false;
    while (!this.#draining) {
      if (this.#room() < 1 || this.#quiet) {
        await this.#until(() => this.#draining || (this.#room() >= 1 && !this.#quiet), Infinity);
        continue;
      }
      const about = this.#knowsAbout ? { ...this.#about, running: this.#running } : undefined;
      const sent = now();
      try {
        const answer = await this.#claim(Math.min(this.#room(), ITEMS_MAX), this.#wait, request, about, this.#drain.signal);
        failures = 0;
        request = randomUUID();
        this.#take(answer.runs, sent);
        this.#signal(answer.signal);
      } catch (error) {
        cutOff = this.#drain.signal.aborted;
        if (cutOff) break;
        if (about !== undefined && error instanceof ApiError && error.status === 422) {
          this.#knowsAbout = false; // a server that does not register workers
          continue;
        }
        if (!(error instanceof DulyError)) throw error;
        if (!mayPass(error)) this.#log("claims are refused", error);
        failures += 1;
        // The same request again: if the server did answer, it answers with the same leases.
        await sleep(pauseOf(this.#server.backoff, error, failures), this.#drain.signal);
      }
    }
    if (!cutOff) return;
    // The last claim was cut off. If the server had answered it, those leases are ours and nobody runs them: the same
    // request tells. What it brings is handed back.
    try {
      const sent = now();
      this.#take((await this.#claim(1, 0, request, undefined, AbortSignal.timeout(2_000))).runs, sent);
    } catch {
      // Its leases end by themselves.
    }
  }

  async #claim(max: number, wait: number, request: string, about: Record<string, Json> | undefined, signal: AbortSignal): Promise<Claimed> {
    const body = { worker: this.name, queues: this.#queues, kinds: [...this.#handlers.keys()], max, wait: span(wait), lease: span(this.#lease), request_id: request, about };
    return (await once(this.#server, "POST", "/v1/work/claim", JSON.stringify(body), { timeout: wait + CLAIM_MARGIN, signal })) as Claimed;
  }

  #take(runs: ClaimedRun[], sent: number): void {
    if (runs.length === 0) return;
    const heard = now();
    const wall = Date.now();
    // An answer may lie about while this process stands still. A heartbeat tells whether it still holds.
    const confirm = heard >= sent + this.#lease * 0.9;
    this.stats.claimed += runs.length;
    const items = runs.map((run) => {
      const held = new Held(run, heard + this.#untilDeadline(run, wall));
      this.#held.set(held.key, held);
      if (this.#draining) this.#end({ held, outcome: "released", text: "" });
      else if (!confirm) this.#ready.push(held);
      const stops = this.#onLeaseUnknown === "stop" || (this.#onLeaseUnknown === "auto" && (run.group ?? null) !== null);
      return { key: held.key, run: run.run_id, token: run.token, deadlineAt: held.deadlineAt, stops, confirm };
    });
    this.#post({ type: "hold", sent, runs: items });
    this.#pump();
  }

  /** The lease's end says what the server's clock was, unless the deadline comes first; then this machine's has to do. */
  #untilDeadline(run: ClaimedRun, wall: number): number {
    const deadline = Date.parse(run.deadline);
    const expires = Date.parse(run.lease_expires_at);
    return expires < deadline ? deadline - expires + this.#lease : Math.min(this.#lease, Math.max(0, deadline - wall));
  }

  #room(): number {
    return this.#capacity - this.#held.size;
  }

  #signal(signal: Signal): void {
    if (signal === "terminate") {
      this.#startDrain();
      return;
    }
    const quiet = signal === "quiet";
    if (quiet === this.#quiet) return;
    this.#quiet = quiet;
    this.#post({ type: "quiet", on: quiet });
    this.#wake();
  }

  // Handlers

  #pump(): void {
    while (this.#running < this.#concurrency && this.#readyAt < this.#ready.length) {
      const held = this.#ready[this.#readyAt++];
      if (held === undefined || held.finished) continue;
      held.begun = true;
      this.#running += 1;
      this.#load[0] = this.#running;
      void this.#work(held);
    }
    if (this.#readyAt >= this.#ready.length) {
      this.#ready = [];
      this.#readyAt = 0;
    }
  }

  async #work(held: Held): Promise<void> {
    let ended: Ended;
    try {
      ended = held.reason === undefined ? this.#succeeded(held, await this.#call(held)) : stopped(held);
    } catch (error) {
      ended = this.#concluded(held, error);
    }
    this.#running -= 1;
    this.#load[0] = this.#running;
    this.#end(ended);
    this.#pump();
  }

  #call(held: Held): unknown {
    const handler = this.#handlers.get(held.run.kind);
    if (handler === undefined) throw new Error(`no handler of "${held.run.kind}"`);
    const tools = {
      now,
      progress: (key: string, text: string): void => {
        this.#post({ type: "progress", key, text });
      },
      checkpoint: (one: Held, text: string): Promise<void> => this.#checkpoint(one, text),
    };
    return handler(held.run.payload, new Context(held, tools));
  }

  #succeeded(held: Held, output: unknown): Ended {
    if (output === undefined || output === null) return { held, outcome: "succeeded", text: "" };
    let text: string | undefined;
    try {
      text = JSON.stringify(output) as string | undefined;
    } catch (error) {
      return failure(held, `the output of ${held.run.kind} is not JSON: ${String(error)}`, { retryable: false });
    }
    if (text === undefined) return failure(held, `the output of ${held.run.kind} is not JSON`, { retryable: false });
    if (Buffer.byteLength(text) > OUTPUT_BYTES_MAX) return failure(held, `the output has more than ${OUTPUT_BYTES_MAX} bytes`, { retryable: false });
    return { held, outcome: "succeeded", text: `,"output":${text}` };
  }

  /** What an error says about the end of a run. */
  #concluded(held: Held, error: unknown): Ended {
    if (held.reason !== undefined) return stopped(held);
    if (error instanceof Snooze) {
      const until = "until" in error.when ? instantText(error.when.until) : new Date(Date.now() + millis(error.when.delay)).toISOString();
      return { held, outcome: "snoozed", text: `,"until":${JSON.stringify(until)}` };
    }
    if (error instanceof Release) return { held, outcome: "released", text: "" };
    if (error instanceof Fail) return failure(held, error.message, { retryable: false, code: error.code });
    if (error instanceof Retry) return failure(held, error.message, { code: error.code, after: error.after });
    this.#log(`${held.run.kind} of ${held.run.run_id} failed`, error);
    return failure(held, error instanceof Error ? `${error.name}: ${error.message}` : String(error));
  }

  #checkpoint(held: Held, text: string): Promise<void> {
    if (held.stale || held.finished || this.#closed) return Promise.reject(new LeaseLost(`${held.run.run_id} belongs to another`));
    const number = this.#number++;
    return new Promise((resolve, reject) => {
      this.#storing.set(number, { resolve, reject });
      this.#post({ type: "checkpoint", key: held.key, text, number });
    });
  }

  // Heart

  #post(message: ToHeart): void {
    this.#heart?.postMessage(message);
  }

  #hear(message: FromHeart): void {
    if (message.type === "stored") {
      for (const number of message.numbers) {
        const caller = this.#storing.get(number);
        this.#storing.delete(number);
        if (message.lost) caller?.reject(new LeaseLost("the run belongs to another"));
        else if (message.refused !== undefined) caller?.reject(new DulyError(message.refused));
        else caller?.resolve();
      }
      return;
    }
    if (message.type === "signal") {
      if (message.signal === "terminate" || (message.signal === "quiet") !== this.#quiet) this.#signal(message.signal);
      return;
    }
    const held = this.#held.get(message.key);
    if (held === undefined) return;
    switch (message.type) {
      case "told":
        held.tell(message.reason);
        break;
      case "unknown":
        held.unknown = true;
        if (message.stop) held.tell("lease_lost");
        break;
      case "renewed":
        held.unknown = false;
        break;
      case "confirmed":
        if (!this.#draining) {
          this.#ready.push(held);
          this.#pump();
        }
        break;
      case "stale":
        held.stale = true;
        held.tell("lease_lost");
        if (!held.begun && !held.finished) this.#abandon(held);
        break;
    }
  }

  // Settle

  #end(ended: Ended): void {
    const { held } = ended;
    if (held.finished) return;
    held.finished = true;
    // Every success is said to the server, which knows whose the run is.
    if (held.stale && ended.outcome !== "succeeded") {
      this.#abandon(held);
      return;
    }
    this.#ended.push(ended);
    if (!this.#settling) {
      this.#settling = true;
      void this.#settles();
    }
  }

  #abandon(held: Held): void {
    held.finished = true;
    this.stats.abandoned += 1;
    this.#letGo([held]);
  }

  #letGo(all: Held[]): void {
    for (const held of all) {
      this.#held.delete(held.key);
      this.#dropped.push(held.key);
    }
    this.#post({ type: "drop", keys: this.#dropped });
    this.#dropped = [];
    this.#wake();
  }

  async #settles(): Promise<void> {
    // Handlers that end in the same turn of the loop go together.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#ended.length > 0) {
      let size = 0;
      let count = 0;
      while (count < this.#ended.length && count < ITEMS_MAX && size < SETTLE_BYTES_MAX) size += this.#ended[count++]?.text.length ?? 0;
      await this.#settle(this.#ended.splice(0, count));
    }
    this.#settling = false;
  }

  async #settle(batch: Ended[]): Promise<void> {
    const items = batch.map(({ held, outcome, text }) => `{"run_id":"${held.run.run_id}","token":${held.run.token},"outcome":"${outcome}"${text}}`);
    const body = `{"worker":${JSON.stringify(this.name)},"runs":[${items.join(",")}]}`;
    const giveUp = now() + SETTLE_TRIES_FOR;
    for (let failures = 0; ; failures++) {
      try {
        const { results } = (await once(this.#server, "POST", "/v1/work/settle", body)) as { results: SettledRun[] };
        batch.forEach((one, index) => {
          if (results[index]?.status === "ok") {
            this.stats[one.outcome] += 1;
          } else {
            this.stats.refused += 1;
            this.#log(`${one.held.run.run_id}: its settle was refused; it belongs to another attempt by now`);
          }
        });
        this.#letGo(batch.map((one) => one.held));
        return;
      } catch (error) {
        if (mayPass(error) && now() < giveUp && !this.#closed) {
          await sleep(pauseOf(this.#server.backoff, error, failures));
          continue;
        }
        await this.#unsettled(batch, error);
        return;
      }
    }
  }

  /** A request that is refused whole: one of its runs is at fault. Each is said alone, then as a failure. */
  async #unsettled(batch: Ended[], error: unknown): Promise<void> {
    const [first] = batch;
    if (error instanceof ApiError && !mayPass(error) && first !== undefined) {
      if (batch.length > 1) {
        for (const one of batch) await this.#settle([one]);
        return;
      }
      if (first.outcome !== "failed") {
        await this.#settle([failure(first.held, `its end was refused: ${error.detail}`, { retryable: false })]);
        return;
      }
    }
    this.#log(`${batch.length} ended runs could not be settled`, error);
    for (const one of batch) this.#abandon(one.held);
  }

  // Waiting inside

  #wake(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
  }

  /** Until it is so, or the time is over, or the signal says so. */
  async #until(done: () => boolean, length: number, signal?: AbortSignal): Promise<void> {
    const end = now() + length;
    while (!done() && !signal?.aborted && now() < end) {
      await new Promise<void>((resolve) => {
        const timer = length === Infinity ? undefined : setTimeout(wake, Math.max(1, end - now()));
        function wake(): void {
          clearTimeout(timer);
          signal?.removeEventListener("abort", wake);
          resolve();
        }
        this.#waiters.push(wake);
        signal?.addEventListener("abort", wake);
      });
    }
  }
}

function span(length: number): string {
  return `${Math.round(length)}ms`;
}
