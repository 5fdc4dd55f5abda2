import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { Tabs } from "radix-ui";
import { useCallback, useState } from "react";
import { type Job, type Schemas } from "../api/client";
import { job as jobQuery, jobRuns, jobStats, planned, verdicts } from "../api/queries";
import { count, span, words } from "../lib/format";
import { useRefresh } from "../live/live";
import { Empty, Head, Loading, Panel, Status, Time, toneOf, Wrong } from "../ui/basics";
import { DataTable } from "../ui/table";
import { EditJob } from "../ui/edit-job";
import { Definition, Since } from "../ui/job-definition";
import { JobActions } from "../ui/job-actions";
import { JobPlots } from "../ui/job-plots";
import { JobVersions } from "../ui/job-versions";
import { OperationProgress } from "../ui/operation";
import { runColumns } from "./runs";

const route = getRouteApi("/jobs/$job");
const columns = runColumns.filter((column) => !("accessorKey" in column) || column.accessorKey !== "job_id");
const STRIP = 100;
const RUNS = 50;

export function JobPage() {
  const { job: id } = route.useParams();
  const found = useQuery(jobQuery(id));
  const real = found.data?.id;
  const keys = [["job", id], ...(real === undefined || real === id ? [] : [["job", real]])];
  useRefresh(keys, (changes) => real !== undefined && changes.has("jobs", real), 1_000);
  if (found.isPending) return <Loading lines={8} />;
  if (!found.data) return <Wrong error={found.error} retry={() => void found.refetch()} />;
  return <JobView key={found.data.id} job={found.data} asked={id} />;
}

function JobView({ job, asked }: { job: Job; asked: string }) {
  const client = useQueryClient();
  const [operation, setOperation] = useState<string>();
  const [tab, setTab] = useState("activity");
  const [opened] = useState(job);
  const changed = useCallback(() => client.invalidateQueries({ queryKey: ["job", asked] }), [client, asked]);
  const recurring = job.counts !== null;
  return (
    <>
      <Head
        crumb={<Link to="/jobs">Jobs</Link>}
        title={job.name ?? job.id}
        below={
          <>
            <Status status={job.status} />
            <span>{job.description ?? "once"}</span>
            {recurring && job.status === "active" && (
              <span>
                next <Time at={job.next_due_at ?? job.next_run_at} relative />
              </span>
            )}
            {job.name && <code className="break">{job.id}</code>}
          </>
        }
        actions={<JobActions job={job} recurring={recurring} changed={changed} onOperation={setOperation} />}
      />
      <div className="stack">
        {job.paused && (
          <div className="notice" data-tone="warn" role="status">
            <strong>Paused by {job.paused.by}</strong>
            {job.paused.reason && `: ${job.paused.reason}`}, since <Time at={job.paused.since} />
            {job.paused.until && (
              <>
                {" "}
                until <Time at={job.paused.until} />
              </>
            )}
            . It fires nothing until it is resumed.
          </div>
        )}
        {operation && <OperationProgress id={operation} onOver={() => void changed()} />}
        <Tabs.Root value={tab} onValueChange={setTab} className="stack">
          <Tabs.List className="choices" aria-label="Job">
            <Tabs.Trigger value="activity">Activity</Tabs.Trigger>
            <Tabs.Trigger value="definition">Definition</Tabs.Trigger>
            {recurring && <Tabs.Trigger value="versions">Versions</Tabs.Trigger>}
            <Tabs.Trigger value="edit">Edit</Tabs.Trigger>
          </Tabs.List>
          <Tabs.Content value="activity" className="stack">
            <Activity job={job} recurring={recurring} />
          </Tabs.Content>
          <Tabs.Content value="definition" className="stack">
            <Since job={job} opened={opened} />
            <Definition job={job} />
          </Tabs.Content>
          {recurring && (
            <Tabs.Content value="versions">
              <JobVersions job={job} changed={changed} />
            </Tabs.Content>
          )}
          <Tabs.Content value="edit">
            <EditJob job={job} changed={changed} />
          </Tabs.Content>
        </Tabs.Root>
      </div>
    </>
  );
}

function Activity({ job, recurring }: { job: Job; recurring: boolean }) {
  const stats = useQuery(jobStats(job.id));
  const runs = useQuery(jobRuns(job.id, RUNS));
  const numbers = stats.data && stats.data.runs > 0 && <Numbers stats={stats.data} />;
  return (
    <>
      {recurring && (
        <div className="columns wide-left">
          <div className="stack">
            <Strip job={job.id} />
            {numbers}
          </div>
          <NextFires job={job.id} status={job.status} />
        </div>
      )}
      {!recurring && numbers}
      {runs.data && recurring && <JobPlots runs={runs.data.items} />}
      <Panel title="Runs" actions={<Link to="/runs" search={{ job: job.id }}>Search its runs</Link>} flush>
        {runs.isPending && <Loading />}
        {runs.error && !runs.data && <Wrong error={runs.error} />}
        {runs.data && (
          <DataTable
            label="Runs of this job"
            columns={columns}
            rows={runs.data.items}
            id={(run) => run.id}
            empty={
              <Empty title="It has not run yet">
                <p>{job.status === "active" ? "Its first run comes at its next instant. Trigger it to see one now." : "Nothing is planned."}</p>
              </Empty>
            }
          />
        )}
      </Panel>
    </>
  );
}

const VERDICTS: [string, string][] = [
  ["succeeded", "succeeded"],
  ["failed", "failed"],
  ["skipped", "skipped or coalesced"],
  ["unfinished", "not finished"],
];

function Strip({ job }: { job: string }) {
  const found = useQuery(verdicts(job, STRIP));
  return (
    <Panel title="Last occurrences" note={found.data?.length ? `${found.data.length}, oldest first` : undefined}>
      {found.isPending && <Loading lines={2} />}
      {found.error && <Wrong error={found.error} />}
      {found.data?.length === 0 && <p className="muted">No instant of its schedule has come yet.</p>}
      {found.data && found.data.length > 0 && (
        <div className="stack tight">
          <ol className="strip" aria-label="Verdicts of the last occurrences">
            {found.data.map((one) => {
              const times = one.count && one.count > 1 ? ` (${count(one.count)} instants)` : "";
              const says = `${one.scheduled_for.replace("T", " ").replace("Z", " UTC")}: ${words(one.status)}${times}`;
              return (
                <li key={one.scheduled_for}>
                  {one.run_id ? (
                    <Link to="/runs/$run" params={{ run: one.run_id }} data-tone={toneOf(one.status)} title={says} aria-label={says} />
                  ) : (
                    <span className="cell" role="img" data-tone={toneOf(one.status)} title={says} aria-label={says} />
                  )}
                </li>
              );
            })}
          </ol>
          <div className="legend strip" aria-hidden="true">
            {VERDICTS.map(([status, word]) => (
              <span key={status}>
                <i className="cell" data-tone={toneOf(status)} />
                {word}
              </span>
            ))}
          </div>
        </div>
      )}
    </Panel>
  );
}

function NextFires({ job, status }: { job: string; status: string }) {
  const found = useQuery(planned(job, 5));
  const items = found.data?.items.filter((one) => one.status === "planned" || one.status === "paused") ?? [];
  return (
    <Panel title="Next fires" flush>
      {found.error && <Wrong error={found.error} />}
      {found.data && items.length === 0 && <Empty title={status === "active" ? "None within a year" : "None"} />}
      <ol className="list">
        {items.map((one) => (
          <li key={one.scheduled_for}>
            <span className="grow">
              <Time at={one.due_at} />
              {one.dst && <span className="small"> clocks change ({one.dst})</span>}
            </span>
            {one.status === "paused" ? <Status status="paused" /> : <Time at={one.due_at} relative />}
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function Numbers({ stats }: { stats: Schemas["Stats"] }) {
  const spread = (of: Schemas["Spread"] | null | undefined) => (of ? `${span(of.p50)} / ${span(of.p95)} / ${span(of.max)}` : "–");
  return (
    <Panel title="Its last runs" note={`${count(stats.runs)} looked at`}>
      <dl className="facts">
        <dt>Success</dt>
        <dd>
          {stats.success_rate === null ? "–" : `${(stats.success_rate * 100).toFixed(1)} %`} ({count(stats.succeeded)} succeeded, {count(stats.failed)} failed
          {stats.cancelled > 0 ? `, ${count(stats.cancelled)} cancelled` : ""})
        </dd>
        <dt>Took p50 / p95 / max</dt>
        <dd>{spread(stats.duration_ms)}</dd>
        <dt>Late p50 / p95 / max</dt>
        <dd>{spread(stats.delay_ms)}</dd>
        {stats.last_error && (
          <>
            <dt>Last error</dt>
            <dd>{stats.last_error}</dd>
          </>
        )}
      </dl>
    </Panel>
  );
}
