/** Says how runs ended, many at once, until the server has answered. */

import { failure, type Ended } from "./ended.js";
import { ApiError, mayPass } from "./errors.js";
import type { Held } from "./held.js";
import { ITEMS_MAX, type Stats } from "./options.js";
import { now } from "./time.js";
import { once, pauseOf, sleep, type Server } from "./transport.js";
import type { SettledRun } from "./types.js";

/** Outputs of one settle; the server reads 16 MiB at most. */
const SETTLE_BYTES_MAX = 4 * 1_024 * 1_024;
/** A settle that is not answered is repeated for so long, with heartbeats going on; then the lease decides. */
const SETTLE_TRIES_FOR = 300_000;

/** What a settler needs of its worker. */
export interface Settling {
  readonly name: string;
  readonly stats: Stats;
  isClosed(): boolean;
  /** These are over, and the server knows. */
  letGo(held: Held[]): void;
  /** This one is left to its lease. */
  abandon(held: Held): void;
  log(message: string, error?: unknown): void;
}

export class Settler {
  #ended: Ended[] = [];
  #settling = false;

  constructor(
    readonly server: Server,
    readonly worker: Settling,
  ) {}

  add(ended: Ended): void {
    this.#ended.push(ended);
    if (this.#settling) return;
    this.#settling = true;
    void this.#settles();
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
    const body = `{"worker":${JSON.stringify(this.worker.name)},"runs":[${items.join(",")}]}`;
    const giveUp = now() + SETTLE_TRIES_FOR;
    for (let failures = 0; ; failures++) {
      try {
        const { results } = (await once(this.server, "POST", "/v1/work/settle", body)) as { results: SettledRun[] };
        this.#settled(batch, results);
        return;
      } catch (error) {
        if (mayPass(error) && now() < giveUp && !this.worker.isClosed()) {
          await sleep(pauseOf(this.server.backoff, error, failures));
          continue;
        }
        await this.#unsettled(batch, error);
        return;
      }
    }
  }

  #settled(batch: Ended[], results: SettledRun[]): void {
    batch.forEach((one, index) => {
      if (results[index]?.status === "ok") {
        this.worker.stats[one.outcome] += 1;
      } else {
        this.worker.stats.refused += 1;
        this.worker.log(`${one.held.run.run_id}: its settle was refused; it belongs to another attempt by now`);
      }
    });
    this.worker.letGo(batch.map((one) => one.held));
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
    this.worker.log(`${batch.length} ended runs could not be settled`, error);
    for (const one of batch) this.worker.abandon(one.held);
  }
}
