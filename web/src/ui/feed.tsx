// What just happened, event by event, at a pace that can be read.
import { useEffect, useState } from "react";
import { count } from "../lib/format";
import { useLive } from "../live/live";
import type { Told } from "../live/tally";
import { Empty, Panel, Status, Time } from "./basics";
import { JobLink, RunLink } from "./links";

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

export function Feed() {
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
