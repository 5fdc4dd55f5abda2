import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useState } from "react";
import { deadGroups, jobs, metrics, queues, runs } from "../api/queries";
import { count, fromNow, rate, span } from "../lib/format";
import { type Histogram, quantile, readHistogram, since } from "../lib/metrics";
import { coming, perMinute } from "../lib/next";
import { useLive, useLiveSecond, useRefresh } from "../live/live";
import { SECONDS, SERIES, type Told } from "../live/tally";
import { Empty, Head, Loading, Panel, Status, Time, useNow, Wrong } from "../ui/basics";
import { Hold } from "../ui/hold";
import { JobLink, RunLink } from "../ui/links";

// Drawing is not needed to read the numbers: it comes a moment later.
const Plot = lazy(() => import("../ui/plot").then(({ Plot }) => ({ default: Plot })));

/** What the service promises of a fire: it begins within this. */
const SKEW_MS_MAX = 1_000;

const SHOWN_SECONDS_MIN = 60;
/** Failing ones that are listed. */
const SHOWN = 8;

const LINES = [
  { label: "Fires", color: "--accent" },
  { label: "Succeeded", color: "--good-line" },
  { label: "Failed", color: "--bad-line" },
  { label: "Retries", color: "--warn-line" },
];

export function Overview() {
  const runsChanged = (changes: { runs: Set<string> }) => changes.runs.size > 0;
  // What costs the server more is asked for less often.
  useRefresh([["queues"], ["runs"]], runsChanged, 3_000);
  useRefresh([["dead"]], (changes) => ["run.dead", "run.started", "operation.over"].some((type) => changes.types.has(type)), 5_000);
  useRefresh([["jobs"]], (changes) => changes.jobs.size > 0, 15_000);
  const first = useQuery(jobs({}, 1));
  const nothing = first.data?.items.length === 0 && !first.data.next_cursor;
  return (
    <>
      <Head title="Overview" actions={<Hold />} />
      <div className="stack">
        {nothing && <Welcome />}
        {first.error && !first.data && <Wrong error={first.error} retry={() => void first.refetch()} />}
        <Tiles />
        <div className="columns wide-left">
          <div className="stack">
            <Rates />
            <Attention />
          </div>
          <div className="stack">
            <Next />
            <Feed />
          </div>
        </div>
      </div>
    </>
  );
}

function Welcome() {
  return (
    <Panel>
      <Empty title="duly is ready">
        <p>A job is what shall happen, and when. Make one and watch it fire here.</p>
        <Link to="/jobs/new" className="button primary">
          Make the first job
        </Link>
        <p className="small">
          To have something that answers, run <code>duly listen</code> and use the address http://127.0.0.1:9000/
        </p>
      </Empty>
    </Panel>
  );
}

function Tiles() {
  const { tally } = useLiveSecond();
  const skew = useSkew();
  const waiting = useQuery(queues());
  const groups = useQuery(deadGroups());
  const retrying = useQuery(runs({ status: "retrying" }, SHOWN));
  const oldest = Math.max(0, ...(waiting.data?.items ?? []).map((queue) => queue.oldest_ready_ms ?? 0));
  const ready = (waiting.data?.items ?? []).reduce((sum, queue) => sum + queue.ready, 0);
  const deadCount = (groups.data?.items ?? []).reduce((sum, group) => sum + group.count, 0);
  const fails = tally.rate("failures");
  return (
    <div className="tiles" role="group" aria-label="Now">
      <Tile name="Fires" value={rate(tally.rate("fires"))} unit="/s" note="attempts begun" />
      <Tile name="Succeeded" value={rate(tally.rate("successes"))} unit="/s" note="runs" />
      <Tile name="Failed" value={rate(fails)} unit="/s" note={fails > 0 ? "look below" : "none"} tone={fails > 0 ? "bad" : undefined} />
      <Tile name="Retries" value={rate(tally.rate("retries"))} unit="/s" note={retrying.data?.items.length ? "some wait now" : "none wait"} />
      <Tile
        name="Fire skew p99"
        value={skew.p99 === undefined ? "–" : span(skew.p99)}
        note={
          skew.p99 === undefined
            ? "nothing fired yet"
            : `p50 ${span(skew.p50 ?? 0)} (${skew.p99 <= SKEW_MS_MAX ? "≤ 1 s" : "over 1 s"})`
        }
        tone={skew.p99 === undefined ? undefined : skew.p99 <= SKEW_MS_MAX ? "good" : "bad"}
      />
      <Tile
        name="Oldest waits"
        to="/queues"
        value={oldest === 0 ? "0 s" : span(oldest)}
        note={ready === 0 ? "nothing is ready" : `${count(ready)} ready`}
      />
      <Tile
        name="Dead letters"
        to="/dead-letters"
        value={groups.data ? `${count(deadCount)}${groups.data.complete ? "" : "+"}` : "–"}
        note={deadCount > 0 ? "wait for a person" : "none"}
        tone={deadCount > 0 ? "bad" : undefined}
      />
    </div>
  );
}

function Tile(props: { name: string; value: string; unit?: string; note?: string; tone?: string; to?: "/queues" | "/dead-letters" }) {
  const inside = (
    <>
      <span className="name">{props.name}</span>
      <span className="value">
        {props.value}
        {props.unit && <small> {props.unit}</small>}
      </span>
      <span className={`note ${props.tone ?? ""}`} title={props.note}>
        {props.note ?? ""}
      </span>
    </>
  );
  if (!props.to) return <div className="tile">{inside}</div>;
  return (
    <Link to={props.to} className="tile">
      {inside}
    </Link>
  );
}

/** Of the last minute; where nothing fired in it, since the node started. */
function useSkew(): { p50?: number; p99?: number } {
  const found = useQuery(metrics());
  const [past, setPast] = useState<Histogram[]>([]);
  useEffect(() => {
    if (found.data) {
      const now = readHistogram(found.data, "duly_fire_skew_seconds");
      setPast((old) => [...old, now].slice(-12));
    }
  }, [found.data, found.dataUpdatedAt]);
  const now = past.at(-1);
  if (!now) return {};
  const recent = past.length > 1 ? since(past[0], now) : now;
  const shown = recent.count > 0 ? recent : now;
  const ms = (q: number) => {
    const seconds = quantile(shown, q);
    return seconds === undefined ? undefined : seconds * 1_000;
  };
  return { p50: ms(0.5), p99: ms(0.99) };
}

function Rates() {
  const { tally } = useLiveSecond();
  const last = tally.lastSecond();
  const listened = Math.max(tally.listened(), 1);
  // Before this page listened nothing is known, which is not the same as nothing.
  const shown = Math.min(Math.max(listened, SHOWN_SECONDS_MIN), SECONDS - 1);
  const seconds = Array.from({ length: shown }, (_, at) => last - shown + 1 + at);
  const known = (list: number[]) => list.slice(-shown).map((n, at) => (at >= shown - listened ? n : null));
  const data: [number[], ...(number | null)[][]] = [seconds, ...SERIES.map((name) => known(tally.series(name)))];
  return (
    <Panel
      title="Per second"
      note="since you opened this"
      actions={
        <span className="legend" aria-hidden="true">
          {LINES.map((line) => (
            <span key={line.label}>
              <i className="swatch" style={{ background: `var(${line.color})` }} />
              {line.label}
            </span>
          ))}
        </span>
      }
    >
      <Suspense fallback={<div className="plot" />}>
        <Plot label="Fires, successes, failures and retries per second" lines={LINES} data={data} format={(n) => rate(n)} />
      </Suspense>
    </Panel>
  );
}

function Attention() {
  const groups = useQuery(deadGroups());
  const retrying = useQuery(runs({ status: "retrying" }, SHOWN));
  const failed = useQuery(runs({ status: "failed,expired" }, SHOWN));
  if (groups.isPending || retrying.isPending) {
    return (
      <Panel title="Failing first">
        <Loading />
      </Panel>
    );
  }
  const error = groups.error ?? retrying.error ?? failed.error;
  if (error && !groups.data) {
    return (
      <Panel title="Failing first">
        <Wrong error={error} />
      </Panel>
    );
  }
  const rows = [
    ...(groups.data?.items ?? []).map((group) => ({
      key: `dead ${group.run_id}`,
      status: "dead",
      job: group.job_id ?? "",
      run: group.run_id,
      count: group.count,
      at: group.last_at,
      error: group.error,
    })),
    ...(retrying.data?.items ?? []).map((run) => ({
      key: run.id,
      status: "retrying",
      job: run.job_id,
      run: run.id,
      count: 1,
      at: run.next_attempt_at,
      error: run.error,
    })),
    ...(failed.data?.items ?? [])
      .filter((run) => run.status === "failed" || run.status === "expired")
      .map((run) => ({ key: run.id, status: run.status, job: run.job_id, run: run.id, count: 1, at: run.finished_at, error: run.error })),
  ].slice(0, SHOWN);
  return (
    <Panel
      title="Failing first"
      note={rows.length > 0 ? "dead, retrying, failed" : undefined}
      actions={rows.some((row) => row.status === "dead") ? <Link to="/dead-letters">Dead letters</Link> : undefined}
      flush
    >
      {rows.length === 0 ? (
        <Empty title="Nothing fails">
          <p>Runs that failed, wait for another try, or died and wait for a person are listed here.</p>
        </Empty>
      ) : (
        <div className="table-wrap">
          <table className="cards" aria-label="Failing jobs">
            <thead>
              <tr>
                <th scope="col">Job</th>
                <th scope="col">State</th>
                <th scope="col">Error</th>
                <th scope="col">When</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.key}>
                  <td className="nowrap">
                    <JobLink id={row.job} />
                  </td>
                  <td data-label="State">
                    <Status status={row.status} text={row.count > 1 ? `${count(row.count)} ${row.status}` : undefined} />
                  </td>
                  <td data-label="Error" className="wide">
                    <span className="clip small" title={row.error ?? undefined}>
                      <RunLink id={row.run} text={row.error ?? "look at the run"} />
                    </span>
                  </td>
                  <td data-label="When" className="small muted">
                    <Time at={row.at} relative />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

/** So many jobs are looked at for the next hour; the API has no forecast. */
const LOOKED = 200;

function Next() {
  const now = useNow();
  const minute = Math.floor(now / 10_000) * 10_000;
  const recurring = useQuery(jobs({ status: "active" }, LOOKED));
  const single = useQuery(runs({ status: "scheduled" }, LOOKED));
  const [activeJobs, scheduled] = [recurring.data?.items ?? [], single.data?.items ?? []];
  const minutes = perMinute(activeJobs, scheduled, minute);
  const most = Math.max(1, ...minutes);
  const list = coming(activeJobs, scheduled, now);
  const part = Boolean(recurring.data?.next_cursor ?? single.data?.next_cursor);
  const sum = Math.round(minutes.reduce((all, n) => all + n, 0));
  return (
    <Panel title="Fires next" note={part ? `of the newest ${LOOKED} jobs` : "the next hour"}>
      <div className="hour" role="img" aria-label={`About ${count(sum)} fires in the next hour`}>
        {minutes.map((n, at) => (
          <i key={at} data-some={n > 0} style={{ height: `${n > 0 ? 12 + (88 * n) / most : 5}%` }} title={`In ${at} min: ${count(Math.round(n))}`} />
        ))}
      </div>
      <div className="scale" aria-hidden="true">
        <span>now</span>
        <span>15 min</span>
        <span>30 min</span>
        <span>45 min</span>
        <span>1 h</span>
      </div>
      {list.length === 0 ? (
        <p className="small muted">Nothing is planned in the next hour.</p>
      ) : (
        <ol className="list" style={{ margin: "8px -16px -14px" }}>
          {list.slice(0, 6).map((one) => (
            <li key={one.run ?? one.job}>
              <span className="grow">
                <JobLink id={one.job} name={one.run ? undefined : one.name} />
              </span>
              <time dateTime={new Date(one.at).toISOString()} title={new Date(one.at).toISOString()}>
                {fromNow(one.at, now)}
              </time>
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}

const EVENT_WORDS: Record<string, [string, string]> = {
  "run.succeeded": ["succeeded", "succeeded"],
  "run.failed": ["failed", "failed"],
  "run.dead": ["dead", "died"],
  "run.expired": ["expired", "expired"],
  "run.retrying": ["retrying", "will retry"],
  "run.cancelled": ["cancelled", "cancelled"],
  "run.stopping": ["blocked", "stopping"],
  "run.blocked": ["blocked", "blocked"],
  "run.handed_back": ["ready", "handed back"],
  "job.created": ["active", "created"],
  "job.updated": ["active", "changed"],
  "job.paused": ["paused", "paused"],
  "job.resumed": ["active", "resumed"],
  "job.ended": ["ended", "ended"],
  "job.cancelled": ["cancelled", "cancelled"],
  "occurrence.skipped": ["skipped", "skipped"],
  "hold.set": ["held", "held"],
  "hold.released": ["active", "released"],
  "operation.over": ["done", "operation over"],
};

/** Faster than this nobody reads. */
const FEED_MS = 500;
const FEED_SHOWN = 8;

function Feed() {
  const { tally } = useLive();
  const [shown, setShown] = useState<{ at: number; list: (Told & { seq: number })[] }>({ at: 0, list: [] });
  const newest = tally.recent.at(-1)?.seq;
  useEffect(() => {
    if (newest === shown.list[0]?.seq) return undefined;
    const wait = Math.max(0, shown.at + FEED_MS - performance.now());
    const timer = setTimeout(() => setShown({ at: performance.now(), list: tally.recent.slice(-FEED_SHOWN).reverse() }), wait);
    return () => clearTimeout(timer);
  }, [newest, shown, tally]);
  return (
    <Panel title="Just happened" note={tally.total > 0 ? `${count(tally.total)} events since you opened this` : undefined} flush>
      {shown.list.length === 0 ? (
        <Empty title="Listening">
          <p>What happens to jobs and runs appears here the moment it does.</p>
        </Empty>
      ) : (
        <ol className="list feed">
          {shown.list.map((told) => {
            const [status, word] = EVENT_WORDS[told.type] ?? ["calm", told.type];
            return (
              <li key={told.seq}>
                <Status status={status} text={word} />
                <span className="grow">{told.job_id ? <JobLink id={told.job_id} /> : <span className="muted">{told.type}</span>}</span>
                {told.run_id && <RunLink id={told.run_id} text="run" />}
                <Time at={told.at} />
              </li>
            );
          })}
        </ol>
      )}
    </Panel>
  );
}
