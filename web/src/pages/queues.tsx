import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, getRouteApi, useNavigate } from "@tanstack/react-router";
import { createColumnHelper } from "@tanstack/react-table";
import { useState } from "react";
import { api, got, type Queue } from "../api/client";
import { queues } from "../api/queries";
import { capped, span } from "../lib/format";
import { useRefresh } from "../live/live";
import { Empty, Field, Head, Loading, Status, Wrong } from "../ui/basics";
import { Ask } from "../ui/dialog";
import { Pager } from "../ui/filters";
import { DataTable } from "../ui/table";
import { say } from "../ui/toast";

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
        <strong className="break">{queue.name}</strong>
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
  column.accessor("due_next_5m", { header: "Due in 5 min", meta: { number: true }, cell: ({ getValue }) => capped(getValue()) }),
  column.accessor("dead", { header: "Dead", meta: { number: true }, cell: ({ row, getValue }) => <Numbers queue={row.original.name} status="dead" n={getValue()} /> }),
  column.display({ id: "act", header: "", meta: { number: true }, cell: ({ row }) => <Switch queue={row.original} /> }),
];

function Switch({ queue }: { queue: Queue }) {
  const client = useQueryClient();
  const [reason, setReason] = useState("");
  const params = { path: { queue: queue.name } };
  const done = async (text: string) => {
    say(text);
    await client.invalidateQueries({ queryKey: ["queues"] });
  };
  if (queue.paused) {
    return (
      <Ask
        button="Resume"
        buttonClass="small"
        title={`Resume ${queue.name}`}
        action="Resume the queue"
        onAct={async () => {
          await got(api.POST("/v1/queues/{queue}/resume", { params }));
          await done(`${queue.name} goes on.`);
        }}
      >
        <p>What waited starts again, the most important first.</p>
      </Ask>
    );
  }
  return (
    <Ask
      button="Pause"
      buttonClass="small"
      title={`Pause ${queue.name}`}
      action="Pause the queue"
      onAct={async () => {
        await got(api.POST("/v1/queues/{queue}/pause", { params, body: reason ? { reason } : {} }));
        await done(`${queue.name} is paused.`);
      }}
    >
      <p>Nothing more of this queue starts; what runs goes on to its end, and what becomes due waits.</p>
      <Field label="Reason" help="Others see it here and in explanations of waiting runs.">
        {(of) => <input {...of} value={reason} onChange={(event) => setReason(event.target.value)} maxLength={500} />}
      </Field>
    </Ask>
  );
}

export function Queues() {
  const { cursor } = route.useSearch();
  const navigate = useNavigate();
  const found = useQuery({ ...queues(cursor), refetchInterval: 5_000 });
  useRefresh([["queues"]], (changes) => changes.runs.size > 0 || changes.types.has("hold.set") || changes.types.has("hold.released"), 2_000);
  return (
    <>
      <Head title="Queues" below="Where runs wait. Numbers stop counting at 10,000." />
      <section className="panel" aria-label="Queues">
        {found.isPending && (
          <div className="body">
            <Loading />
          </div>
        )}
        {found.error && !found.data && <Wrong error={found.error} retry={() => void found.refetch()} />}
        {found.data && (
          <DataTable
            label="Queues"
            columns={columns}
            rows={found.data.items}
            id={(queue) => queue.name}
            empty={
              <Empty title="No queue has been used yet">
                <p>
                  A queue appears with the first job in it. Jobs that name none are in <code>default</code>; give work that
                  must not wait behind other work a queue of its own.
                </p>
              </Empty>
            }
          />
        )}
        <Pager first={!cursor} next={found.data?.next_cursor} toFirst={() => void navigate({ to: "/queues", search: {} })} toNext={(next) => void navigate({ to: "/queues", search: { cursor: next } })} />
      </section>
    </>
  );
}
