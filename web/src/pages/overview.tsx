import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { deadGroups, jobs, metrics, queues, runs } from "../api/queries";
import { count, rate, span } from "../lib/format";
import { type Histogram, quantile, readHistogram, since } from "../lib/metrics";
import { useLiveSecond, useRefresh } from "../live/live";
import { Attention, FAILING_SHOWN } from "../ui/attention";
import { Empty, Head, Panel, Wrong } from "../ui/basics";
import { Feed } from "../ui/feed";
import { HoldBanner, HoldButton } from "../ui/hold";
import { NextFires } from "../ui/next-fires";
import { Rates } from "../ui/rates";

/** What the service promises of a fire: it begins within this. */
const SKEW_MS_MAX = 1_000;


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
      <Head title="Overview" actions={<HoldButton />} />
      <div className="stack">
        <HoldBanner />
        {nothing && <Welcome />}
        {first.error && !first.data && <Wrong error={first.error} retry={() => void first.refetch()} />}
        <Tiles />
        <div className="columns wide-left">
          <div className="stack">
            <Rates />
            <Attention />
          </div>
          <div className="stack">
            <NextFires />
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
  const retrying = useQuery(runs({ status: "retrying" }, FAILING_SHOWN));
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
