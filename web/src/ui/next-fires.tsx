// What fires in the next hour, minute by minute, and the next few by name.
import { useQuery } from "@tanstack/react-query";
import { jobs, runs } from "../api/queries";
import { count, fromNow } from "../lib/format";
import { coming, perMinute } from "../lib/next";
import { Panel, useNow } from "./basics";
import { JobLink } from "./links";

/** So many jobs are looked at for the next hour; the API has no forecast. */
const LOOKED = 200;

export function NextFires() {
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
