/** Plays the scenarios of sdks/conformance; its README says what each step is. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { ApiError, Client, Fail, InvalidRequest, Release, Retry, Snooze, Worker, WebhookError, verify, type ClaimedRun, type Context, type Created, type JobRequest, type Run, type SettleItem, type Stats, type WorkerOptions } from "../src/index.js";
import { Proxy } from "./server.js";

/** The longest wait for an event. */
const PATIENCE = 20_000;

// Scenarios are data: what they may hold is said in their README and seen when they are played.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Said = any;
type Event = Record<string, unknown>;

class Gate {
  opened = false;
  #waiters: (() => void)[] = [];

  open(): void {
    this.opened = true;
    for (const waiter of this.#waiters) waiter();
  }

  wait(): Promise<void> {
    if (this.opened) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push(resolve));
  }
}

/** A worker of the SDK, and what its handlers said. */
class Played {
  readonly events: Event[] = [];
  #waiters: (() => void)[] = [];
  gone: Promise<Stats> | undefined;
  stopped = false;

  constructor(readonly worker: Worker) {}

  say(event: Event): void {
    this.events.push(event);
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const waiter of waiters) waiter();
  }

  async waitFor(wanted: Event): Promise<void> {
    const end = AbortSignal.timeout(PATIENCE);
    const found = (): boolean => this.events.some((event) => Object.entries(wanted).every(([name, value]) => event[name] === value));
    while (!found()) {
      await new Promise<void>((resolve) => {
        this.#waiters.push(resolve);
        end.addEventListener("abort", () => {
          resolve();
        });
      });
      assert.ok(found() || !end.aborted, `no event ${JSON.stringify(wanted)} among ${JSON.stringify(this.events)}`);
    }
  }
}

export class Scenario {
  readonly #queue = `q-${randomUUID().slice(0, 13)}`;
  readonly #client: Client;
  readonly #direct: Client;
  readonly #jobs = new Map<string, Created>();
  readonly #leases = new Map<string, ClaimedRun>();
  readonly #workers = new Map<string, Played>();
  readonly #gates = new Map<string, Gate>();

  private constructor(
    readonly proxy: Proxy,
    url: string,
  ) {
    this.#client = new Client(proxy.url);
    this.#direct = new Client(url);
  }

  static async play(url: string, steps: Record<string, Said>[]): Promise<void> {
    const scenario = new Scenario(await Proxy.start(url), url);
    try {
      for (const step of steps) for (const [verb, said] of Object.entries(step)) await scenario.#step(verb, said);
    } finally {
      scenario.proxy.cut(false);
      for (const played of scenario.#workers.values()) {
        played.worker.stop();
        played.worker.stop();
        await played.gone;
      }
      scenario.proxy.stop();
    }
  }

  /* eslint-disable @typescript-eslint/no-unsafe-argument, @typescript-eslint/no-unsafe-member-access, @typescript-eslint/no-unsafe-assignment */

  async #step(verb: string, said: Said): Promise<void> {
    switch (verb) {
      case "submit":
        return this.#submit(said);
      case "same":
        assert.equal(this.#job(said[0]).id, this.#job(said[1]).id);
        return;
      case "differ":
        assert.notEqual(this.#job(said[0]).id, this.#job(said[1]).id);
        return;
      case "count": {
        const listed = [];
        for await (const job of this.#client.jobs({ queue: this.#queue, limit: 1 })) listed.push(job);
        assert.equal(listed.length, said.is);
        return;
      }
      case "cancel":
        await this.#client.cancel(this.#job(said).id);
        return;
      case "wait":
        return this.#wait(said);
      case "claim": {
        if (said.beside === undefined) return this.#claim(said);
        const beside = this.#played(said.beside);
        // A claim that fails is an event that does not come.
        void this.#claim(said).then(
          () => {
            beside.say({ is: "taken", run: this.#lease(said.as).run_id });
          },
          () => undefined,
        );
        return;
      }
      case "before": {
        const { events } = this.#played(said.worker);
        const [first, then] = [said.first, said.then].map((wanted: Event) => events.findIndex((event) => Object.entries(wanted).every(([name, value]) => event[name] === value)));
        assert.ok((first ?? -1) >= 0 && (first ?? 0) < (then ?? -1), JSON.stringify(events));
        return;
      }
      case "heartbeat": {
        const { run_id, token } = this.#lease(said.lease);
        const beat = said.checkpoint === undefined ? { run_id, token } : { run_id, token, checkpoint: said.checkpoint as unknown };
        const answer = await this.#client.heartbeat(said.worker, [beat]);
        assert.equal(answer.results[0]?.status, said.status);
        return;
      }
      case "settle": {
        const { lease, worker, status, run_status, direct, ...rest } = said;
        const { run_id, token } = this.#lease(lease);
        const [result] = await (direct ? this.#direct : this.#client).settle(worker, [{ run_id, token, ...rest } as SettleItem]);
        assert.equal(result?.status, status);
        if (run_status !== undefined) assert.equal(result?.run_status, run_status);
        return;
      }
      case "worker":
        this.#work(said);
        return;
      case "event": {
        const wanted: Event = { is: said.is };
        for (const name of ["reason", "attempt"]) if (said[name] !== undefined) wanted[name] = said[name] as unknown;
        if (said.job !== undefined) wanted["run"] = this.#job(said.job).run_id;
        return this.#played(said.worker).waitFor(wanted);
      }
      case "open":
        this.#gate(said).open();
        return;
      case "stop": {
        const played = this.#played(said.worker);
        if (!played.stopped) played.worker.stop();
        played.stopped = true;
        if (said.wait) await played.gone;
        return;
      }
      case "stats": {
        const { worker, ...wanted } = said;
        const stats = (await this.#played(worker).gone) as unknown as Record<string, unknown>;
        for (const [name, value] of Object.entries(wanted)) assert.equal(stats[name], value, `${name} of ${JSON.stringify(stats)}`);
        return;
      }
      case "drain":
        await this.#direct.drainWorker(this.#played(said.worker).worker.name, { signal: said.signal });
        return;
      case "known": {
        const { worker, ...wanted } = said;
        const name = this.#played(worker).worker.name;
        const ids = [];
        for await (const one of this.#direct.workers()) ids.push(one.id);
        assert.equal(ids.includes(name), wanted.status !== "unknown");
        if (wanted.status === "unknown") return;
        const known = { ...(await this.#direct.worker(name)) } as Record<string, unknown>;
        for (const [key, value] of Object.entries(wanted)) assert.deepEqual(known[key], value, key);
        return;
      }
      case "lose":
        this.proxy.lose(said.path, said.answers);
        return;
      case "cut":
        this.proxy.cut(said);
        return;
      case "verify": {
        const check = (): string => verify(said.headers, said.body, said.secrets, { now: said.now });
        if (said.fits) assert.match(check(), /^run_/);
        else assert.throws(check, WebhookError);
        return;
      }
      default:
        assert.fail(`no step ${verb}`);
    }
  }

  async #submit(said: Said): Promise<void> {
    const job = { queue: this.#queue, ...said.job } as JobRequest;
    const options = said.key === undefined ? {} : { idempotencyKey: `${this.#queue}-${String(said.key)}` };
    if (said.fails !== undefined) {
      await assert.rejects(this.#client.create(job, options), (error) => {
        assert.ok(error instanceof InvalidRequest && error instanceof ApiError);
        assert.deepEqual([error.status, error.code], [said.fails.status, said.fails.code]);
        if (said.fails.pointer !== undefined) assert.ok(error.errors.some((fault) => fault.pointer === said.fails.pointer));
        return true;
      });
      return;
    }
    const created = await this.#client.create(job, options);
    if (said.as !== undefined) this.#jobs.set(said.as, created);
  }

  async #wait(said: Said): Promise<void> {
    const end = AbortSignal.timeout(PATIENCE);
    const ended = ["succeeded", "cancelled", "dead", "failed"].includes(said.status);
    let run: Run;
    do {
      assert.ok(!end.aborted, `${String(said.job)} did not become ${String(said.status)}`);
      // The answer comes when the run has ended; other states are looked for.
      run = await this.#direct.run(this.#job(said.job).run_id ?? "", ended ? { wait: "5s" } : {});
    } while (run.status !== said.status);
    if (said.output !== undefined) assert.deepEqual(run.output, said.output);
    if (said.error !== undefined) assert.equal(run.error, said.error);
    if (said.attempts !== undefined) assert.equal(run.attempts?.length, said.attempts, JSON.stringify(run));
  }

  async #claim(said: Said): Promise<void> {
    const client = said.direct ? this.#direct : this.#client;
    const { runs } = await client.claim(said.worker, [this.#queue], { max: said.max ?? 1, wait: said.wait ?? "5s", lease: said.lease ?? "30s" });
    assert.deepEqual(runs.map((run) => run.run_id), [this.#job(said.of).run_id]);
    const [run] = runs;
    assert.ok(run);
    for (const name of ["attempt", "checkpoint", "previous_error"] as const) if (said[name] !== undefined) assert.deepEqual(run[name], said[name]);
    this.#leases.set(said.as, run);
  }

  #work(said: Said): void {
    const { on_lease_unknown, ...rest } = said.options ?? {};
    const options: WorkerOptions = { url: this.proxy.url, queues: [this.#queue], log: () => undefined, ...rest };
    if (on_lease_unknown !== undefined) options.onLeaseUnknown = on_lease_unknown;
    const played = new Played(new Worker(options));
    for (const [kind, attempts] of Object.entries<Said[]>(said.handlers)) {
      played.worker.handle(kind, (_payload, context) => this.#handle(attempts, context, played));
    }
    played.gone = played.worker.run({ signals: false });
    this.#workers.set(said.as, played);
  }

  async #handle(attempts: Said[], context: Context, played: Played): Promise<unknown> {
    const script = attempts[Math.min(context.attempt, attempts.length) - 1];
    const run = context.runId;
    played.say({ is: "started", run, attempt: context.attempt });
    if (script.saved !== undefined) assert.deepEqual(context.saved, script.saved);
    if (script.checkpoint !== undefined) await context.checkpoint(script.checkpoint);
    if (script.gate !== undefined) {
      const gate = this.#gate(script.gate).wait();
      const stopped = new Promise<never>((_, reject) => {
        const stop = (): void => {
          played.say({ is: "stopped", run, reason: context.stopReason });
          reject(context.signal.reason as Error);
        };
        if (script.deaf) return;
        if (context.signal.aborted) stop();
        context.signal.addEventListener("abort", stop);
      });
      await Promise.race([gate, stopped]);
    }
    played.say({ is: "ended", run });
    if (script.fail !== undefined) {
      if (script.retryable === false) throw new Fail(script.fail);
      throw new Retry(script.fail, script.after === undefined ? {} : { after: script.after });
    }
    if (script.snooze !== undefined) throw new Snooze({ delay: script.snooze });
    if (script.release !== undefined) throw new Release();
    return script.return as unknown;
  }

  /* eslint-enable */

  #job(name: string): Created {
    const job = this.#jobs.get(name);
    assert.ok(job, `no job ${name}`);
    return job;
  }

  #lease(name: string): ClaimedRun {
    const lease = this.#leases.get(name);
    assert.ok(lease, `no lease ${name}`);
    return lease;
  }

  #played(name: string): Played {
    const played = this.#workers.get(name);
    assert.ok(played, `no worker ${name}`);
    return played;
  }

  #gate(name: string): Gate {
    let gate = this.#gates.get(name);
    if (gate === undefined) {
      gate = new Gate();
      this.#gates.set(name, gate);
    }
    return gate;
  }
}
