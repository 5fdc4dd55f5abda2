import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { Worker } from "../api/client";
import type { MeasuredQueue } from "../api/maybe";
import { queue as queueQuery, queueGroups, workers } from "../api/queries";
import { capped, count, rate, span } from "../lib/format";
import { useRefresh } from "../live/live";
import { Empty, Head, Loading, Panel, Status, Time, Wrong } from "../ui/basics";
import { WorkerLink } from "../ui/links";
import { QueueLimits } from "../ui/queue-limits";
import { QueueSwitch } from "../ui/queue-switch";
import { Load, WorkerStatus } from "../ui/worker-parts";

const route = getRouteApi("/queues/$queue");

export function QueuePage() {
  const { queue: name } = route.useParams();
  const found = useQuery(queueQuery(name));
  useRefresh([["queue", name], ["groups", name]], (changes) => changes.runs.size > 0 || changes.types.has("hold.set") || changes.types.has("hold.released"), 2_000);
  if (found.isPending) return <Loading lines={8} />;
  if (!found.data) return <Wrong error={found.error} retry={() => void found.refetch()} />;
  const queue: MeasuredQueue = found.data;
  return (
    <>
      <Head
        crumb={<Link to="/queues">Queues</Link>}
        title={<span className="break">{queue.name}</span>}
        below={
          queue.paused ? (
            <>
              <Status status="paused" />
              <span className="break">{queue.paused.reason}</span>
              {queue.paused.until && (
                <span>
                  until <Time at={queue.paused.until} />
                </span>
              )}
            </>
          ) : undefined
        }
        actions={
          <>
            <Link to="/jobs" search={{ queue: queue.name }} className="button">
              Its jobs
            </Link>
            <QueueSwitch queue={queue} />
          </>
        }
      />
      <div className="stack">
        {queue.service_level?.kept === false && (
          <div className="notice" data-tone="warn" role="status">
            The service level is broken: runs wait longer than {queue.service_level.start_within}. New work with a priority below 5 gives way until they do not.
          </div>
        )}
        <Numbers queue={queue} />
        <Groups queue={queue.name} />
        <QueueLimits key={queue.name} queue={queue.name} limits={queue.limits} />
        <Takers queue={queue} />
      </div>
    </>
  );
}

function Numbers({ queue }: { queue: MeasuredQueue }) {
  const oldest = queue.oldest_ready_ms;
  const linked: [string, string, number, string][] = [
    ["Ready", "ready", queue.ready, oldest === null || oldest === undefined ? "nothing waits" : `the oldest for ${span(oldest)}`],
    ["Running", "running", queue.running, "attempts"],
    ["Retrying", "retrying", queue.retrying, "wait for another try"],
    ["Dead", "dead", queue.dead, "wait for a person"],
  ];
  const told = (n: number | null | undefined, write: (n: number) => string) => (typeof n === "number" ? write(n) : undefined);
  const flow: [string, string | undefined, string][] = [
    ["Arrive", told(queue.arrival_per_s, rate), "per second"],
    ["Are served", told(queue.service_per_s, rate), "per second"],
    ["Workers", told(queue.suggested_workers, count), "would keep up"],
  ];
  return (
    <div className="tiles few" role="group" aria-label="Now">
      {linked.map(([name, status, n, note]) => (
        <Link key={name} to="/runs" search={{ queue: queue.name, status }} className="tile">
          <span className="name">{name}</span>
          <span className="value">{capped(n)}</span>
          <span className="note" title={note}>
            {note}
          </span>
        </Link>
      ))}
      <div className="tile">
        <span className="name">Due</span>
        <span className="value">{capped(queue.due_next_5m)}</span>
        <span className="note">in 5 minutes</span>
      </div>
      {flow
        .filter(([, value]) => value !== undefined)
        .map(([name, value, note]) => (
          <div key={name} className="tile">
            <span className="name">{name}</span>
            <span className="value">{value}</span>
            <span className="note">{note}</span>
          </div>
        ))}
    </div>
  );
}

/** Groups that are listed, the longest line first. */
const GROUPS = 20;

function Groups({ queue }: { queue: string }) {
  const { data } = useQuery(queueGroups(queue));
  // Runs without a group alone are the queue itself.
  if (!data?.items.some((one) => one.group !== null)) return null;
  return (
    <Panel title="Groups" note={`those with most waiting first${data.complete ? "" : "; there is more than was counted"}`} flush>
      <div className="table-wrap">
        <table className="cards" aria-label="Groups">
          <thead>
            <tr>
              <th scope="col">Group</th>
              <th scope="col" className="number">Ready</th>
              <th scope="col" className="number">Oldest waits</th>
              <th scope="col" className="number">Running</th>
              <th scope="col" className="number">Weight</th>
            </tr>
          </thead>
          <tbody>
            {data.items.slice(0, GROUPS).map((one) => (
              <tr key={one.group ?? ""}>
                <td>{one.group === null ? <span className="muted">no group</span> : <span className="break">{one.group}</span>}</td>
                <td data-label="Ready" className="number">
                  {count(one.ready)}
                </td>
                <td data-label="Oldest waits" className="number">
                  {typeof one.oldest_ready_ms === "number" ? span(one.oldest_ready_ms) : "–"}
                </td>
                <td data-label="Running" className="number">
                  {count(one.running)}
                </td>
                <td data-label="Weight" className="number">
                  {one.weight}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function Takers({ queue }: { queue: MeasuredQueue }) {
  const { data } = useQuery(workers());
  const takers: Worker[] = (data?.items ?? []).filter((worker) => worker.queues.includes(queue.name));
  return (
    <Panel title="Workers that take from it" note={takers.length > 0 ? count(takers.length) : undefined} flush>
      {takers.length === 0 ? (
        <Empty title="No worker takes from it">
          <p>
            Webhooks, messages and commands need none: duly sends them itself. Runs for workers wait until one asks for this queue; see{" "}
            <Link to="/workers">Workers</Link>.
          </p>
        </Empty>
      ) : (
        <div className="table-wrap">
          <table className="cards" aria-label="Workers that take from it">
            <thead>
              <tr>
                <th scope="col">Worker</th>
                <th scope="col">State</th>
                <th scope="col">Load</th>
                <th scope="col">Last seen</th>
              </tr>
            </thead>
            <tbody>
              {takers.map((worker) => (
                <tr key={worker.id}>
                  <td>
                    <WorkerLink id={worker.id} />
                  </td>
                  <td data-label="State">
                    <WorkerStatus worker={worker} />
                  </td>
                  <td data-label="Load">
                    <Load worker={worker} />
                  </td>
                  <td data-label="Last seen">
                    <Time at={worker.last_seen_at} relative />
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
