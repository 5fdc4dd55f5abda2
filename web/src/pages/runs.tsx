import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { createColumnHelper } from "@tanstack/react-table";
import type { Run } from "../api/client";
import { runs, type RunsFilter } from "../api/queries";
import { fromLocalField, toLocalField } from "../lib/format";
import { useRefresh } from "../live/live";
import { Empty, Field, Head, Status, Time } from "../ui/basics";
import { ChoiceFilter, TextFilter } from "../ui/filters";
import { JobLink, RunLink } from "../ui/links";
import { ListPanel } from "../ui/list";

const route = getRouteApi("/runs");
const column = createColumnHelper<Run>();

const STATES: [string, string][] = [
  ["pending", "Pending (not finished)"],
  ["running", "Running"],
  ["ready", "Ready"],
  ["retrying", "Retrying"],
  ["scheduled", "Scheduled"],
  ["blocked", "Blocked"],
  ["dead", "Dead"],
  ["succeeded", "Succeeded"],
  ["failed", "Failed"],
  ["cancelled", "Cancelled"],
  ["expired", "Expired"],
];
const CAUSES: [string, string][] = [
  ["one_off", "One-off"],
  ["occurrence", "Schedule"],
  ["trigger", "Trigger"],
  ["backfill", "Backfill"],
  ["rerun", "Rerun"],
];

export const runColumns = [
  column.accessor("id", { header: "Run", meta: { main: true }, cell: ({ getValue }) => <RunLink id={getValue()} /> }),
  column.accessor("status", { header: "State", cell: ({ getValue }) => <Status status={getValue()} /> }),
  column.accessor("job_id", { header: "Job", cell: ({ getValue }) => <JobLink id={getValue()} /> }),
  column.accessor("scheduled_for", { header: "Scheduled for", cell: ({ getValue }) => <Time at={getValue()} /> }),
  column.accessor("finished_at", { header: "Ended", cell: ({ getValue }) => <Time at={getValue()} /> }),
  column.accessor("attempt", { header: "Attempts", meta: { number: true } }),
  column.accessor("error", {
    header: "Error",
    meta: { wide: true },
    cell: ({ getValue }) => (
      <span className="clip small muted" title={getValue() ?? undefined}>
        {getValue() ?? ""}
      </span>
    ),
  }),
];

export function Runs() {
  const filter = route.useSearch();
  const navigate = useNavigate();
  const found = useQuery(runs(filter));
  useRefresh([["runs"]], (changes) => changes.runs.size > 0, 2_000);
  const set = (change: Partial<RunsFilter>) =>
    void navigate({ to: "/runs", search: { ...filter, cursor: undefined, ...change }, replace: true });
  return (
    <>
      <Head title="Runs" below="Those that are not finished come first, then the last that ended." />
      <ListPanel
        label="Runs"
        found={found}
        columns={runColumns}
        id={(run) => run.id}
        cursor={filter.cursor}
        go={(cursor) => void navigate({ to: "/runs", search: { ...filter, cursor } })}
        clear={Object.keys(filter).length > 0 ? () => void navigate({ to: "/runs", search: {} }) : undefined}
        many
        filters={
          <>
            <TextFilter label="Error, worker or id holds" search value={filter.q} placeholder="Press / to search" onChange={(q) => set({ q })} />
            <ChoiceFilter label="State" value={filter.status} choices={STATES} onChange={(status) => set({ status })} />
            <TextFilter label="Job" value={filter.job} placeholder="name or id" onChange={(job) => set({ job })} />
            <TextFilter label="Queue" value={filter.queue} onChange={(queue) => set({ queue })} />
            <ChoiceFilter label="Cause" value={filter.cause} choices={CAUSES} onChange={(cause) => set({ cause: cause as RunsFilter["cause"] })} />
            <TextFilter label="Worker" value={filter.worker} onChange={(worker) => set({ worker })} />
            <Field label="Since">
              {(of) => <input {...of} type="datetime-local" step={1} value={toLocalField(filter.since)} onChange={(event) => set({ since: fromLocalField(event.target.value) })} />}
            </Field>
            <Field label="Until">
              {(of) => <input {...of} type="datetime-local" step={1} value={toLocalField(filter.until)} onChange={(event) => set({ until: fromLocalField(event.target.value) })} />}
            </Field>
          </>
        }
        unlike={
          <Empty title="No run is like this">
            <p>History is kept for some weeks. Widen the time, or clear the filters.</p>
          </Empty>
        }
        nothing={
          <Empty title="Nothing has run yet">
            <p>Each time a job is due it makes a run, and each run has attempts. Make a job for now and see.</p>
          </Empty>
        }
      />
    </>
  );
}
