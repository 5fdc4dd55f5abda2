import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { explain, job as jobQuery, run as runQuery } from "../api/queries";
import { useRefresh } from "../live/live";
import { Copy, Head, Loading, Panel, pretty, SearchableText, Status, Time, Wrong } from "../ui/basics";
import { JobLink } from "../ui/links";
import { RunActions } from "../ui/run-actions";
import { Attempts } from "../ui/run-attempts";
import { Lease, Progress, Request } from "../ui/run-parts";

const route = getRouteApi("/runs/$run");
/** Progress makes no event: it is looked at while the run runs. */
const RUNNING_MS = 2_000;

export function RunPage() {
  const { run: id } = route.useParams();
  const found = useQuery({ ...runQuery(id), refetchInterval: ({ state }) => (state.data?.status === "running" ? RUNNING_MS : false) });
  const why = useQuery(explain(id));
  const job = useQuery({ ...jobQuery(found.data?.job_id ?? ""), enabled: found.data !== undefined });
  useRefresh([["run", id]], (changes) => changes.has("runs", id), 300);
  if (found.isPending) return <Loading lines={8} />;
  if (!found.data) {
    // An instant that is still to come, or made no run, has an explanation all the same.
    return (
      <>
        <Head crumb={<Link to="/runs">Runs</Link>} title={id} below={why.data && <Status status={why.data.status} />} />
        {why.data ? <Panel title="Why">{why.data.summary}</Panel> : <Wrong error={found.error} retry={() => void found.refetch()} />}
      </>
    );
  }
  const run = found.data;
  const held = run.status === "running" ? why.data?.reasons.find((one) => one.since) : undefined;
  return (
    <>
      <Head
        crumb={
          <>
            <Link to="/runs">Runs</Link> · <JobLink id={run.job_id} name={job.data?.name} />
          </>
        }
        title={<span className="mono">{run.id}</span>}
        below={
          <>
            <Status status={run.status} />
            {run.cancel_requested && <Status status="blocked" text="stop asked for" />}
            <span>
              for <Time at={run.scheduled_for} />
            </span>
            {run.finished_at && (
              <span>
                ended <Time at={run.finished_at} relative />
              </span>
            )}
          </>
        }
        actions={<RunActions run={run} job={job.data} />}
      />
      <div className="stack">
        {why.data && (
          <Panel title="Why it is where it is">
            <ul className="stack tight">
              {why.data.reasons.map((reason) => (
                <li key={reason.code + reason.message}>{reason.message}</li>
              ))}
            </ul>
          </Panel>
        )}
        <div className="columns wide-left">
          <div className="stack">
            <Progress run={run} />
            <Attempts run={run} since={held?.since} />
            {run.error && (
              <Panel title="Error" actions={<Copy text={run.error} />}>
                <SearchableText text={run.error} label="the error" />
              </Panel>
            )}
            {run.output !== null && run.output !== undefined && (
              <Panel title="Output" note="what the receiver answered" actions={<Copy text={pretty(run.output)} />}>
                <SearchableText text={pretty(run.output)} label="the output" />
              </Panel>
            )}
          </div>
          <div className="stack">
            <Lease run={run} since={held?.since} deadline={held?.deadline} />
            {job.data && <Request job={job.data} run={run} />}
          </div>
        </div>
      </div>
    </>
  );
}
