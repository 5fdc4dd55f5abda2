/** What a handler is given beside its payload, and what it can throw to say how a run ends. */

import { DulyError } from "./errors.js";
import type { Length } from "./time.js";
import type { ClaimedRun, Json } from "./types.js";

/** The largest checkpoint, in bytes of JSON. */
export const CHECKPOINT_BYTES_MAX = 64 * 1_024;

/** Why a handler is told to stop: a person asked, the run may be another's, its time is over, the worker goes. */
export type Reason = "cancelled" | "lease_lost" | "deadline" | "shutdown";

/** Throw it to say that trying again would not help: the run is dead and waits for a person. */
export class Fail extends DulyError {
  readonly code: number | undefined;
  constructor(message: string, options: { code?: number } = {}) {
    super(message);
    this.code = options.code;
  }
}

/** Throw it to fail this attempt and say when the next one shall be. Any other error fails it, too. */
export class Retry extends DulyError {
  readonly after: Length | undefined;
  readonly code: number | undefined;
  constructor(message: string, options: { after?: Length; code?: number } = {}) {
    super(message);
    this.after = options.after;
    this.code = options.code;
  }
}

/** Throw it to put the run off. It spends no retry. */
export class Snooze extends DulyError {
  constructor(readonly when: { until: Date | string } | { delay: Length }) {
    super("snoozed");
  }
}

/** Throw it to hand the run back at once, for any worker. It spends no retry. */
export class Release extends DulyError {}

/** The reason of a handler's AbortSignal. */
export class Stopped extends DulyError {
  constructor(readonly reason: Reason) {
    super(reason);
  }
}

/** A run that this worker holds. */
export class Held {
  begun = false;
  finished = false;
  stale = false;
  unknown = false;
  reason: Reason | undefined;
  #controller: AbortController | undefined;

  constructor(
    readonly run: ClaimedRun,
    /** When the attempt must be over, by this process' clock. */
    readonly deadlineAt: number,
  ) {}

  get key(): string {
    return keyOf(this.run.run_id, this.run.token);
  }

  /** Made when it is asked for: most handlers are too short to need one. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.reason !== undefined) this.#controller.abort(new Stopped(this.reason));
    }
    return this.#controller.signal;
  }

  /** The first reason stays. */
  tell(reason: Reason): void {
    if (this.reason !== undefined || this.finished) return;
    this.reason = reason;
    this.#controller?.abort(new Stopped(reason));
  }
}

export function keyOf(run: string, token: number): string {
  return `${run}/${token}`;
}

/** What a handler knows of its run, and can say about it. */
export class Context {
  readonly #held: Held;
  readonly #tools: { now(): number; progress(key: string, text: string): void; checkpoint(held: Held, text: string): Promise<void> };

  constructor(held: Held, tools: { now(): number; progress(key: string, text: string): void; checkpoint(held: Held, text: string): Promise<void> }) {
    this.#held = held;
    this.#tools = tools;
  }

  /** The claim's answer, whole. */
  get run(): ClaimedRun {
    return this.#held.run;
  }
  get runId(): string {
    return this.run.run_id;
  }
  get jobId(): string {
    return this.run.job_id;
  }
  get kind(): string {
    return this.run.kind;
  }
  get attempt(): number {
    return this.run.attempt;
  }
  /** Larger for every later attempt: `UPDATE … WHERE fence < token` keeps former ones out. */
  get token(): number {
    return this.run.token;
  }
  get previousError(): string | null {
    return this.run.previous_error;
  }
  /** The checkpoint of a former attempt, or null. */
  get saved(): Json {
    return this.run.checkpoint;
  }
  /** When this attempt must be over, by the server's clock. */
  get deadline(): Date {
    return new Date(this.run.deadline);
  }
  /** Milliseconds until the deadline. */
  get remaining(): number {
    return Math.max(0, this.#held.deadlineAt - this.#tools.now());
  }
  /** Aborted when this handler shall stop; its reason is a `Stopped`. */
  get signal(): AbortSignal {
    return this.#held.signal;
  }
  get stopReason(): Reason | undefined {
    return this.#held.reason;
  }
  /** No heartbeat has been answered for 90 % of the lease: somebody else may have this run soon. */
  get leaseUnknown(): boolean {
    return this.#held.unknown || this.#held.stale;
  }

  /** Told with the next heartbeat. The last one counts. */
  progress(fraction?: number, message?: string): void {
    if (fraction !== undefined && !(fraction >= 0 && fraction <= 1)) throw new RangeError("a fraction is between 0 and 1");
    this.#tools.progress(this.#held.key, JSON.stringify({ fraction, message }));
  }

  /** Stores what the next attempt shall know. Resolves when it is durable; rejects with LeaseLost if this run is gone. */
  checkpoint(value: Json): Promise<void> {
    const text = JSON.stringify(value) as string | undefined;
    if (text === undefined) throw new TypeError("a checkpoint is JSON");
    if (Buffer.byteLength(text) > CHECKPOINT_BYTES_MAX) throw new RangeError(`a checkpoint has at most ${CHECKPOINT_BYTES_MAX} bytes of JSON`);
    return this.#tools.checkpoint(this.#held, text);
  }
}
