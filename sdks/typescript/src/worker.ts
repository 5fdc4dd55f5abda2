/**
 * The worker: handlers by kind, run under leases, drained on SIGTERM.
 *
 *     claim ──► ready ──► handlers ──► ended ──► settle
 *                  │                      │
 *              heart.ts renews every lease that is held, until its settle was answered
 *
 * claimer.ts asks for runs, settler.ts says how they ended, ended.ts what an end is.
 *
 * A run is *held* from the claim's answer to the settle's. Held runs never exceed the capacity, so nothing here grows beyond
 * it; a server that is away is felt as "no room", not as memory.
 */

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { Worker as Thread } from "node:worker_threads";
import { Claimer, type Claiming } from "./claimer.js";
import { concluded, stopped, succeeded, type Ended } from "./ended.js";
import { DulyError, LeaseLost } from "./errors.js";
import type { FromHeart, ToHeart } from "./heart_messages.js";
import { Context, Held } from "./held.js";
import type { Handler, Stats, WorkerOptions } from "./options.js";
import { Settler } from "./settler.js";
import { millis, now } from "./time.js";
import { once, serverOf, type Server } from "./transport.js";
import type { ClaimedRun, Json, Signal } from "./types.js";
import { Waiters } from "./waiters.js";

/** The most kinds of one worker. */
const KINDS_MAX = 100;
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
  readonly #settler: Settler;
  #claiming = false;
  #quiet = false;
  #draining = false;
  #closed = false;
  readonly #drain = new AbortController();
  readonly #stopNow = new AbortController();
  #heart: Thread | undefined;
  #dropped: string[] = [];
  readonly #storing = new Map<number, { resolve: () => void; reject: (error: Error) => void }>();
  #number = 0;
  readonly #waiters = new Waiters();

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
    this.#settler = new Settler(this.#server, {
      name: this.name,
      stats: this.stats,
      isClosed: () => this.#closed,
      letGo: (held) => {
        this.#letGo(held);
      },
      abandon: (held) => {
        this.#abandon(held);
      },
      log: this.#log,
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
      await new Claimer(this.#server, this.#claims()).run();
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
    this.#waiters.wake();
  }

  async #finish(): Promise<void> {
    const idle = (): boolean => this.#held.size === 0;
    await this.#waiters.until(idle, this.#grace, this.#stopNow.signal);
    if (idle()) return;
    for (const held of this.#held.values()) held.tell("shutdown");
    await this.#waiters.until(idle, STOP_GRACE);
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

  #claims(): Claiming {
    return {
      name: this.name,
      queues: this.#queues,
      kinds: [...this.#handlers.keys()],
      wait: this.#wait,
      lease: this.#lease,
      drain: this.#drain.signal,
      room: () => this.#room(),
      mayAsk: () => this.#waiters.until(() => this.#draining || (this.#room() >= 1 && !this.#quiet), Infinity),
      about: () => ({ ...this.#about, running: this.#running }),
      take: (runs, sent) => {
        this.#take(runs, sent);
      },
      signal: (signal) => {
        this.#signal(signal);
      },
      log: this.#log,
    };
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
    this.#waiters.wake();
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
      ended = held.reason === undefined ? succeeded(held, await this.#call(held)) : stopped(held);
    } catch (error) {
      ended = concluded(held, error, this.#log);
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
    this.#settler.add(ended);
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
    this.#waiters.wake();
  }
}
