/** Waiting inside a worker: for something to become so, woken by whoever may have made it so. */

import { now } from "./time.js";

export class Waiters {
  #waiters: (() => void)[] = [];

  wake(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
  }

  /** Until it is so, or the time is over, or the signal says so. */
  async until(done: () => boolean, length: number, signal?: AbortSignal): Promise<void> {
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
