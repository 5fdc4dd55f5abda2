/** Asks for as many runs as there is room for, and waits with the server until there are some. */

import { randomUUID } from "node:crypto";
import { ApiError, DulyError, mayPass } from "./errors.js";
import { ITEMS_MAX } from "./options.js";
import { now } from "./time.js";
import { once, pauseOf, sleep, type Server } from "./transport.js";
import type { Claimed, ClaimedRun, Json, Signal } from "./types.js";

/** What a claim's answer may take beyond its wait. */
const CLAIM_MARGIN = 10_000;
/** What the last claim may take. */
const LAST_CLAIM = 2_000;

/** What a claimer needs of its worker. */
export interface Claiming {
  readonly name: string;
  readonly queues: string[];
  readonly kinds: string[];
  readonly wait: number;
  readonly lease: number;
  /** Aborted when the worker drains. */
  readonly drain: AbortSignal;
  /** So many more runs may be held. */
  room(): number;
  /** Until there is room and the worker may ask, or it drains. */
  mayAsk(): Promise<void>;
  about(): Record<string, Json>;
  take(runs: ClaimedRun[], sent: number): void;
  signal(signal: Signal): void;
  log(message: string, error?: unknown): void;
}

export class Claimer {
  #knowsAbout = true;

  constructor(
    readonly server: Server,
    readonly worker: Claiming,
  ) {}

  /** Until the worker drains. */
  async run(): Promise<void> {
    const { worker } = this;
    let failures = 0;
    let request = randomUUID();
    const drains = (): boolean => worker.drain.aborted;
    for (;;) {
      await worker.mayAsk();
      if (drains()) break;
      const about = this.#knowsAbout ? worker.about() : undefined;
      const sent = now();
      try {
        const answer = await this.#claim(Math.min(worker.room(), ITEMS_MAX), worker.wait, request, about, worker.drain);
        failures = 0;
        request = randomUUID();
        worker.take(answer.runs, sent);
        worker.signal(answer.signal);
      } catch (error) {
        if (drains()) {
          await this.#handBack(request);
          break;
        }
        if (about !== undefined && error instanceof ApiError && error.status === 422) {
          this.#knowsAbout = false; // a server that does not register workers
          continue;
        }
        if (!(error instanceof DulyError)) throw error;
        if (!mayPass(error)) worker.log("claims are refused", error);
        failures += 1;
        // The same request again: if the server did answer, it answers with the same leases.
        await sleep(pauseOf(this.server.backoff, error, failures), worker.drain);
      }
    }
  }

  /**
   * The last claim was cut off. If the server had answered it, those leases are ours and nobody runs them: the same request
   * tells. What it brings is handed back.
   */
  async #handBack(request: string): Promise<void> {
    try {
      const sent = now();
      this.worker.take((await this.#claim(1, 0, request, undefined, AbortSignal.timeout(LAST_CLAIM))).runs, sent);
    } catch {
      // Its leases end by themselves.
    }
  }

  async #claim(max: number, wait: number, request: string, about: Record<string, Json> | undefined, signal: AbortSignal): Promise<Claimed> {
    const { name, queues, kinds, lease } = this.worker;
    const body = { worker: name, queues, kinds, max, wait: span(wait), lease: span(lease), request_id: request, about };
    return (await once(this.server, "POST", "/v1/work/claim", JSON.stringify(body), { timeout: wait + CLAIM_MARGIN, signal })) as Claimed;
  }
}

function span(length: number): string {
  return `${Math.round(length)}ms`;
}
