import { useQuery } from "@tanstack/react-query";
import { Link, getRouteApi, useNavigate } from "@tanstack/react-router";
import { createColumnHelper } from "@tanstack/react-table";
import type { Job } from "../api/client";
import { jobs, type JobsFilter } from "../api/queries";
import { count } from "../lib/format";
import { targetWords } from "../lib/policy";
import { useRefresh } from "../live/live";
import { Empty, Head, Status, Time } from "../ui/basics";
import { ChoiceFilter, TextFilter } from "../ui/filters";
import { JobLink } from "../ui/links";
import { ListPanel } from "../ui/list";

const route = getRouteApi("/jobs");
const column = createColumnHelper<Job>();

const STATES: [string, string][] = [
  ["pending", "Pending (all that goes on)"],
  ["active", "Active"],
  ["paused", "Paused"],
  ["scheduled", "Scheduled"],
  ["running", "Running"],
  ["retrying", "Retrying"],
  ["dead", "Dead"],
  ["succeeded", "Succeeded"],
  ["failed", "Failed"],
  ["ended", "Ended"],
  ["cancelled", "Cancelled"],
];

const columns = [
  column.accessor("name", {
    header: "Job",
    meta: { main: true, wide: true },
    cell: ({ row: { original: job } }) => (
      <span className="two">
        <JobLink id={job.id} name={job.name} />
        <span className="small muted clip">{targetWords(job.target)}</span>
      </span>
    ),
  }),
  column.accessor("status", { header: "State", cell: ({ getValue }) => <Status status={getValue()} /> }),
  column.accessor("description", {
    header: "Schedule",
    cell: ({ getValue }) => <span className="clip">{getValue() ?? "once"}</span>,
  }),
  column.accessor("next_run_at", {
    header: "Next",
    cell: ({ row: { original: job } }) => (job.status === "active" || job.status === "scheduled" ? <Time at={job.next_due_at ?? job.next_run_at} relative /> : <span className="muted">–</span>),
  }),
  // A list does not tell how the last run went; that would be a question for each.
  column.accessor("counts", {
    header: "Fired",
    meta: { number: true },
    cell: ({ getValue }) => {
      const fired = getValue()?.fired;
      return fired === undefined ? <span className="muted">–</span> : count(fired);
    },
  }),
  column.accessor("queue", { header: "Queue", cell: ({ getValue }) => <span className="break">{getValue() ?? "–"}</span> }),
  column.accessor("tags", {
    header: "Tags",
    cell: ({ getValue }) => (
      <span className="row">
        {Object.entries(getValue() ?? {}).map(([name, value]) => (
          <span key={name} className="chip">
            {name}:{value}
          </span>
        ))}
      </span>
    ),
  }),
];

export function Jobs() {
  const filter = route.useSearch();
  const navigate = useNavigate();
  const found = useQuery(jobs(filter));
  useRefresh([["jobs"]], (changes) => [...changes.types].some((type) => type.startsWith("job.") || type.startsWith("run.")), 2_000);
  const set = (change: Partial<JobsFilter>) =>
    void navigate({ to: "/jobs", search: { ...filter, cursor: undefined, ...change }, replace: true });
  return (
    <>
      <Head
        title="Jobs"
        actions={
          <Link to="/jobs/new" className="button primary">
            New job
          </Link>
        }
      />
      <ListPanel
        label="Jobs"
        found={found}
        columns={columns}
        id={(job) => job.id}
        cursor={filter.cursor}
        go={(cursor) => void navigate({ to: "/jobs", search: { ...filter, cursor } })}
        clear={Object.keys(filter).length > 0 ? () => void navigate({ to: "/jobs", search: {} }) : undefined}
        filters={
          <>
            <TextFilter label="Name holds" search value={filter.q} placeholder="Press / to search" onChange={(q) => set({ q })} />
            <ChoiceFilter label="State" value={filter.status} choices={STATES} onChange={(status) => set({ status })} />
            <TextFilter label="Queue" value={filter.queue} onChange={(queue) => set({ queue })} />
            <TextFilter label="Tag" value={filter.tag} placeholder="team:billing" onChange={(tag) => set({ tag })} />
            <TextFilter label="Owner" value={filter.owner} onChange={(owner) => set({ owner })} />
          </>
        }
        unlike={
          <Empty title="No job is like this">
            <p>Names hold lower-case letters; tags are written name:value. Clear the filters to see all jobs.</p>
          </Empty>
        }
        nothing={
          <Empty title="No jobs yet">
            <p>A job is what shall happen, and when: a webhook every five minutes, a message at three at night.</p>
            <Link to="/jobs/new" className="button primary">
              Make the first one
            </Link>
            <p className="small">
              or by hand: <code>duly job create --http http://127.0.0.1:9000/hello --every 5m</code>
            </p>
          </Empty>
        }
      />
    </>
  );
}
