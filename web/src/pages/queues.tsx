import { useQuery } from "@tanstack/react-query";
import { Link, getRouteApi, useNavigate } from "@tanstack/react-router";
import { createColumnHelper } from "@tanstack/react-table";
import type { Queue } from "../api/client";
import { queues } from "../api/queries";
import { capped, span } from "../lib/format";
import { useRefresh } from "../live/live";
import { Empty, Head, Status } from "../ui/basics";
import { Destinations } from "../ui/destinations";
import { QueueLink } from "../ui/links";
import { ListPanel } from "../ui/list";
import { QueueSwitch } from "../ui/queue-switch";

const route = getRouteApi("/queues");
const column = createColumnHelper<Queue>();

function Numbers({ queue, status, n }: { queue: string; status: string; n: number }) {
  if (n === 0) return <span className="muted">0</span>;
  return (
    <Link to="/runs" search={{ queue, status }}>
      {capped(n)}
    </Link>
  );
}

const columns = [
  column.accessor("name", {
    header: "Queue",
    meta: { main: true },
    cell: ({ row: { original: queue } }) => (
      <span className="row">
        <QueueLink name={queue.name} />
        {queue.paused && <Status status="paused" />}
        {queue.paused && <span className="small muted break">{queue.paused.reason}</span>}
      </span>
    ),
  }),
  column.accessor("ready", { header: "Ready", meta: { number: true }, cell: ({ row, getValue }) => <Numbers queue={row.original.name} status="ready" n={getValue()} /> }),
  column.accessor("oldest_ready_ms", {
    header: "Oldest waits",
    meta: { number: true },
    cell: ({ getValue }) => {
      const ms = getValue();
      return ms === null || ms === undefined ? <span className="muted">–</span> : span(ms);
    },
  }),
  column.accessor("running", { header: "Running", meta: { number: true }, cell: ({ row, getValue }) => <Numbers queue={row.original.name} status="running" n={getValue()} /> }),
  column.accessor("retrying", { header: "Retrying", meta: { number: true }, cell: ({ row, getValue }) => <Numbers queue={row.original.name} status="retrying" n={getValue()} /> }),
  column.accessor("due_next_5m", { header: "Due in 5 min", meta: { number: true }, cell: ({ getValue }) => (getValue() === 0 ? <span className="muted">0</span> : capped(getValue())) }),
  column.accessor("dead", { header: "Dead", meta: { number: true }, cell: ({ row, getValue }) => <Numbers queue={row.original.name} status="dead" n={getValue()} /> }),
  column.display({ id: "act", header: "", meta: { number: true }, cell: ({ row }) => <QueueSwitch queue={row.original} small /> }),
];

export function Queues() {
  const { cursor } = route.useSearch();
  const navigate = useNavigate();
  const found = useQuery({ ...queues(cursor), refetchInterval: 5_000 });
  useRefresh([["queues"]], (changes) => changes.runs.size > 0 || changes.types.has("hold.set") || changes.types.has("hold.released"), 2_000);
  return (
    <>
      <Head title="Queues" below="Where runs wait. Numbers stop counting at 10,000." />
      <div className="stack">
        <ListPanel
          label="Queues"
          found={found}
          columns={columns}
          id={(queue) => queue.name}
          cursor={cursor}
          go={(next) => void navigate({ to: "/queues", search: { cursor: next } })}
          nothing={
            <Empty title="No queue has been used yet">
              <p>
                A queue appears with the first job in it. Jobs that name none are in <code>default</code>; give work that must not wait
                behind other work a queue of its own.
              </p>
            </Empty>
          }
        />
        <Destinations />
      </div>
    </>
  );
}
