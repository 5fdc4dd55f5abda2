/**
 * Heartbeats, in a thread of their own: no handler can keep one from being sent. It knows every run that is held, renews its
 * lease, and says what it hears and what time alone tells.
 *
 * Leases (the rule that keeps two workers from running one run): the server takes a run back at 110 % of its lease after the
 * last heartbeat it heard. This side counts from the instant a request was *sent* that was answered, and trusts 90 %.
 */

import { parentPort, workerData } from "node:worker_threads";
import { ApiError, mayPass } from "./errors.js";
import { ITEMS_MAX } from "./options.js";
import { now } from "./time.js";
import { once, pauseOf, type Server } from "./transport.js";
import type { Beats } from "./types.js";
import type { FromHeart, HeartData, HoldItem, ToHeart } from "./heart_messages.js";

/** The longest wait for a heartbeat's answer. */
const BEAT_TIMEOUT = 10_000;
/** A timer that waits for nothing in particular. */
const IDLE = 3_600_000;

interface Beating {
  key: string;
  run: string;
  token: number;
  stops: boolean;
  confirm: boolean;
  deadlineAt: number;
  beatAt: number;
  trustedUntil: number;
  unknown: boolean;
  over: boolean;
  /** Checkpoints whose caller waits, by the number of the call. */
  checkpoints: { text: string; number: number }[];
  progress: string | undefined;
}

class Heart {
  readonly #server: Server;
  readonly #name: string;
  readonly #lease: number;
  readonly #about: Record<string, unknown>;
  readonly #load: Int32Array;
  #knowsAbout = true;
  readonly #held = new Map<string, Beating>();
  #timer: NodeJS.Timeout | undefined;
  #wakeAt = Infinity;
  #beating = false;
  #failures = 0;
  #quiet = false;
  #emptyBeatAt = Infinity;

  constructor(
    data: HeartData,
    readonly say: (message: FromHeart) => void,
  ) {
    this.#server = data.server;
    this.#name = data.name;
    this.#lease = data.lease;
    this.#about = data.about;
    this.#load = data.load;
  }

  hear(message: ToHeart): void {
    switch (message.type) {
      case "hold":
        for (const item of message.runs) this.#hold(item, message.sent);
        break;
      case "drop":
        for (const key of message.keys) this.#drop(key);
        break;
      case "progress": {
        const one = this.#held.get(message.key);
        if (one) one.progress = message.text;
        return;
      }
      case "checkpoint": {
        const one = this.#held.get(message.key);
        if (one === undefined) {
          this.say({ type: "stored", numbers: [message.number], lost: true });
          return;
        }
        one.checkpoints.push({ text: message.text, number: message.number });
        one.beatAt = 0;
        break;
      }
      case "quiet":
        this.#quiet = message.on;
        this.#emptyBeatAt = this.#quiet ? now() + this.#lease / 3 : Infinity;
        break;
    }
    this.#schedule();
  }

  #hold(item: HoldItem, sent: number): void {
    const one: Beating = { ...item, beatAt: 0, trustedUntil: 0, unknown: item.confirm, over: false, checkpoints: [], progress: undefined };
    this.#renewed(one, sent);
    one.unknown = item.confirm;
    if (item.confirm) one.beatAt = 0;
    this.#held.set(one.key, one);
  }

  #renewed(one: Beating, sent: number): void {
    one.trustedUntil = sent + this.#lease * 0.9;
    one.beatAt = sent + this.#lease / 3;
    one.unknown = false;
  }

  #drop(key: string): void {
    const one = this.#held.get(key);
    if (one && one.checkpoints.length > 0) this.say({ type: "stored", numbers: one.checkpoints.map((each) => each.number), lost: true });
    this.#held.delete(key);
  }

  #schedule(): void {
    let next = this.#emptyBeatAt;
    for (const one of this.#held.values()) {
      if (!this.#beating) next = Math.min(next, one.beatAt);
      if (!one.over) next = Math.min(next, one.deadlineAt);
      if (!one.unknown) next = Math.min(next, one.trustedUntil);
    }
    if (this.#timer !== undefined && next >= this.#wakeAt) return;
    clearTimeout(this.#timer);
    this.#wakeAt = next;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        this.#wakeAt = Infinity;
        this.#pass();
      },
      Math.max(0, Math.min(IDLE, next - now())),
    );
  }

  #pass(): void {
    const at = now();
    for (const one of this.#held.values()) {
      if (!one.over && one.deadlineAt <= at) {
        one.over = true;
        this.say({ type: "told", key: one.key, reason: "deadline" });
      }
      if (!one.unknown && one.trustedUntil <= at) {
        one.unknown = true;
        this.say({ type: "unknown", key: one.key, stop: one.stops });
      }
    }
    if (!this.#beating) {
      const due = [...this.#held.values()].filter((one) => one.beatAt <= at).slice(0, ITEMS_MAX);
      if (due.length > 0 || this.#emptyBeatAt <= at) void this.#beat(due);
    }
    this.#schedule();
  }

  async #beat(due: Beating[]): Promise<void> {
    this.#beating = true;
    this.#emptyBeatAt = this.#quiet ? now() + this.#lease / 3 : Infinity;
    const said = due.map((one) => ({ one, stored: one.checkpoints.slice() }));
    const items = said.map(({ one, stored }) => {
      const last = stored.at(-1);
      const checkpoint = last === undefined ? "" : `,"checkpoint":${last.text}`;
      const progress = one.progress === undefined ? "" : `,"progress":${one.progress}`;
      return `{"run_id":"${one.run}","token":${one.token}${checkpoint}${progress}}`;
    });
    const sent = now();
    try {
      const about = this.#knowsAbout ? `,"about":${JSON.stringify({ ...this.#about, running: this.#load[0] })}` : "";
      const body = `{"worker":${JSON.stringify(this.#name)},"runs":[${items.join(",")}]${about}}`;
      const timeout = Math.min(BEAT_TIMEOUT, this.#lease / 3);
      const answer = (await once(this.#server, "POST", "/v1/work/heartbeat", body, { timeout })) as Beats;
      this.#failures = 0;
      said.forEach(({ one, stored }, index) => {
        this.#answered(one, stored, answer.results[index]?.status ?? "stale", sent);
      });
      this.say({ type: "signal", signal: answer.signal });
    } catch (error) {
      this.#failures += 1;
      const again = now() + Math.min(this.#lease / 10, pauseOf(this.#server.backoff, error, this.#failures));
      for (const one of due) one.beatAt = Math.max(one.beatAt, again);
      if (error instanceof ApiError && error.status === 422 && this.#knowsAbout) {
        this.#knowsAbout = false; // a server that does not register workers
      } else if (error instanceof ApiError && !mayPass(error)) {
        for (const { one, stored } of said) this.#stored(one, stored, error.detail);
      }
    } finally {
      this.#beating = false;
      this.#schedule();
    }
  }

  #answered(one: Beating, stored: Beating["checkpoints"], status: string, sent: number): void {
    if (status === "stale") {
      this.#drop(one.key);
      this.say({ type: "stale", key: one.key });
      return;
    }
    const confirm = one.confirm;
    one.confirm = false;
    this.#renewed(one, sent);
    this.#stored(one, stored);
    this.say(confirm ? { type: "confirmed", key: one.key } : { type: "renewed", key: one.key });
    if (status === "cancel") this.say({ type: "told", key: one.key, reason: "cancelled" });
  }

  #stored(one: Beating, stored: Beating["checkpoints"], refused?: string): void {
    if (stored.length === 0) return;
    one.checkpoints = one.checkpoints.filter((each) => !stored.includes(each));
    const numbers = stored.map((each) => each.number);
    this.say(refused === undefined ? { type: "stored", numbers, lost: false } : { type: "stored", numbers, lost: false, refused });
  }
}

if (parentPort !== null) {
  const port = parentPort;
  const heart = new Heart(workerData as HeartData, (message) => {
    port.postMessage(message);
  });
  port.on("message", (message: ToHeart) => {
    heart.hear(message);
  });
}
