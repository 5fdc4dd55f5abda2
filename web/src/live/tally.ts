// What the stream of events amounts to: counts per second, the last few events, and which jobs and runs
// changed. Counting is cheap and done at once; telling React is done once per frame at most (`live.ts`).

export interface Told {
  type: string;
  at?: string;
  job_id?: string;
  run_id?: string;
  queue?: string;
  error?: string;
  [name: string]: unknown;
}

export const SECONDS = 300;
export const SERIES = ["fires", "successes", "failures", "retries"] as const;
export type Series = (typeof SERIES)[number];

/** The last events that are shown. */
const RECENT_MAX = 60;
/** More ids than this in one frame mean: anything may have changed. */
const CHANGED_MAX = 2_000;

const SERIES_OF: Record<string, Series> = {
  "run.started": "fires",
  "run.succeeded": "successes",
  "run.failed": "failures",
  "run.dead": "failures",
  "run.expired": "failures",
  "run.retrying": "retries",
};

/** Events of a run's life that say little to a person. */
const QUIET = new Set(["run.ready", "run.scheduled", "run.started", "operation.progress"]);

export class Changes {
  jobs = new Set<string>();
  runs = new Set<string>();
  types = new Set<string>();
  /** Events were lost: whatever is shown may be old. */
  all = false;

  has(kind: "jobs" | "runs", id: string): boolean {
    return this.all || this[kind].has(id);
  }
}

export class Tally {
  private readonly counts = new Map<Series, Float64Array>(SERIES.map((name) => [name, new Float64Array(SECONDS)]));
  private second = 0;
  private began = 0;
  recent: (Told & { seq: number })[] = [];
  total = 0;
  private changes = new Changes();

  constructor(now: number) {
    this.second = Math.floor(now / 1_000);
    this.began = this.second;
  }

  /** Empties the seconds that went by. */
  advance(now: number): void {
    const second = Math.floor(now / 1_000);
    const gone = Math.min(second - this.second, SECONDS);
    for (let step = 1; step <= gone; step += 1) {
      for (const ring of this.counts.values()) ring[(this.second + step) % SECONDS] = 0;
    }
    if (second > this.second) this.second = second;
  }

  add(told: Told, now: number): void {
    this.advance(now);
    this.total += 1;
    const series = SERIES_OF[told.type];
    const ring = series && this.counts.get(series);
    if (ring) ring[this.second % SECONDS] = (ring[this.second % SECONDS] ?? 0) + 1;
    if (told.type === "gap") this.changes.all = true;
    this.changes.types.add(told.type);
    if (this.changes.jobs.size < CHANGED_MAX) {
      if (told.job_id) this.changes.jobs.add(told.job_id);
      if (told.run_id) this.changes.runs.add(told.run_id);
    } else {
      this.changes.all = true;
    }
    if (!QUIET.has(told.type)) {
      this.recent.push({ ...told, seq: this.total });
      if (this.recent.length > 2 * RECENT_MAX) this.recent = this.recent.slice(-RECENT_MAX);
    }
  }

  /** Whatever is shown may be old, though no event says so. */
  unsure(): void {
    this.changes.all = true;
  }

  /** What changed since the last time this was asked. */
  take(): Changes {
    const taken = this.changes;
    this.changes = new Changes();
    return taken;
  }

  /** Per second, oldest first, without the second that is not over. */
  series(name: Series): number[] {
    const ring = this.counts.get(name);
    return Array.from({ length: SECONDS - 1 }, (_, at) => ring?.[(this.second + 1 + at) % SECONDS] ?? 0);
  }

  /** Seconds since the page listens: before that nothing is known. */
  listened(): number {
    return Math.min(this.second - this.began, SECONDS - 1);
  }

  lastSecond(): number {
    return this.second - 1;
  }

  /** The mean of the last whole seconds, of those that were listened to. */
  rate(name: Series, seconds = 10): number {
    const known = Math.max(1, Math.min(seconds, this.listened()));
    const last = this.series(name).slice(-known);
    return last.reduce((sum, one) => sum + one, 0) / known;
  }
}
