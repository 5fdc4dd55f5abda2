import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { createColumnHelper } from "@tanstack/react-table";
import type { Worker } from "../api/client";
import { workers } from "../api/queries";
import { count } from "../lib/format";
import { workerCode, WORKER_LANGUAGES } from "../lib/snippets";
import { Empty, Head, Panel, Time } from "../ui/basics";
import { WorkerLink } from "../ui/links";
import { ListPanel } from "../ui/list";
import { Snippets } from "../ui/snippets";
import { KindChips, Load, QueueChips, WorkerActions, WorkerStatus } from "../ui/worker-parts";

const route = getRouteApi("/workers");
const column = createColumnHelper<Worker>();

const columns = [
  column.accessor("id", {
    header: "Worker",
    meta: { main: true },
    cell: ({ row: { original: worker } }) => (
      <span className="two">
        <WorkerLink id={worker.id} />
        <span className="row small muted">
          {worker.version && <span className="break">version {worker.version}</span>}
          {Object.entries(worker.labels).map(([name, value]) => (
            <span key={name} className="chip">
              {name}:{value}
            </span>
          ))}
        </span>
      </span>
    ),
  }),
  column.accessor("status", { header: "State", cell: ({ row }) => <WorkerStatus worker={row.original} /> }),
  column.accessor("running", { header: "Load", cell: ({ row }) => <Load worker={row.original} /> }),
  column.accessor("queues", { header: "Queues", cell: ({ getValue }) => <QueueChips names={getValue()} /> }),
  column.accessor("kinds", { header: "Kinds", cell: ({ getValue }) => <KindChips kinds={getValue()} /> }),
  column.accessor("last_seen_at", { header: "Last seen", cell: ({ getValue }) => <Time at={getValue()} relative /> }),
  column.display({ id: "act", header: "", meta: { number: true }, cell: ({ row }) => <WorkerActions worker={row.original} small /> }),
];

export function Workers() {
  const { cursor } = route.useSearch();
  const navigate = useNavigate();
  const found = useQuery(workers(cursor));
  const items = found.data?.items ?? [];
  const [room, runs] = [sum(items, "capacity"), sum(items, "running")];
  const part = Boolean(cursor ?? found.data?.next_cursor);
  const none = found.data !== undefined && items.length === 0 && !cursor;
  return (
    <>
      <Head
        title="Workers"
        below={items.length > 0 ? `${count(items.length)} ${part ? "on this page" : "heard of lately"}; ${count(runs)} of ${count(room)} handlers run.` : "Your processes, which take runs and work on them."}
      />
      {none ? (
        <FirstWorker />
      ) : (
        <ListPanel
          label="Workers"
          found={found}
          columns={columns}
          id={(worker) => worker.id}
          cursor={cursor}
          go={(next) => void navigate({ to: "/workers", search: { cursor: next } })}
          nothing={
            <Empty title="No more workers">
              <p>Those that were here have gone, or were not heard of for long. Go back to the first page.</p>
            </Empty>
          }
        />
      )}
    </>
  );
}

/** Those that have vanished run nothing. */
function sum(items: Worker[], what: "capacity" | "running"): number {
  return items.filter((worker) => worker.status !== "vanished").reduce((all, worker) => all + (worker[what] ?? 0), 0);
}

function FirstWorker() {
  return (
    <div className="columns">
      <Panel>
        <Empty title="No worker has been heard of">
          <p>
            A worker is a process of yours that asks duly for runs of the kinds it knows, and says how each ended. duly sends it no
            requests: it may stand behind a firewall, and there may be as many as you like.
          </p>
          <ol className="steps">
            <li>Copy the code and run it. The worker appears here the moment it asks for work.</li>
            <li>Make a job of the kind that it handles, and watch its run.</li>
          </ol>
          <Link to="/jobs/new" search={{ target: "worker", kind: "hello", payload: '{"name": "world"}' }} className="button primary">
            Make a job for it
          </Link>
          <p className="small">
            A worker that is not heard of for an hour is forgotten here; its runs stay. Webhooks, messages and commands need no worker.
          </p>
        </Empty>
      </Panel>
      <Snippets title="A first worker" languages={WORKER_LANGUAGES} code={workerCode} />
    </div>
  );
}
