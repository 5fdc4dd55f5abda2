import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { createColumnHelper } from "@tanstack/react-table";
import { ApiError, type Run, type Worker } from "../api/client";
import { runs, worker as workerQuery } from "../api/queries";
import { useRefresh } from "../live/live";
import { Empty, Head, Loading, Panel, Status, Time, Wrong } from "../ui/basics";
import { JobLink, RunLink } from "../ui/links";
import { DataTable } from "../ui/table";
import { KindChips, Load, QueueChips, WorkerActions, WorkerStatus } from "../ui/worker-parts";

const route = getRouteApi("/workers/$worker");
const column = createColumnHelper<Run>();
const HELD = 50;
const ENDED = 25;

const base = [
  column.accessor("id", { header: "Run", meta: { main: true }, cell: ({ getValue }) => <RunLink id={getValue()} /> }),
  column.accessor("job_id", { header: "Job", cell: ({ getValue }) => <JobLink id={getValue()} /> }),
];

const heldColumns = [
  ...base,
  column.accessor("attempt", { header: "Attempt", meta: { number: true } }),
  column.accessor("token", { header: "Token", meta: { number: true }, cell: ({ getValue }) => <span className="mono">{getValue() ?? "–"}</span> }),
  column.accessor("scheduled_for", { header: "Scheduled for", cell: ({ getValue }) => <Time at={getValue()} /> }),
];

const endedColumns = [
  ...base,
  column.accessor("status", { header: "State", cell: ({ getValue }) => <Status status={getValue()} /> }),
  column.accessor("finished_at", { header: "Ended", cell: ({ getValue }) => <Time at={getValue()} relative /> }),
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

export function WorkerPage() {
  const { worker: id } = route.useParams();
  const found = useQuery(workerQuery(id));
  const held = useQuery(runs({ worker: id, status: "running" }, HELD));
  const ended = useQuery(runs({ worker: id, status: "finished" }, ENDED));
  useRefresh([["runs"]], (changes) => changes.runs.size > 0, 1_500);
  const gone = found.error instanceof ApiError && found.error.status === 404;
  if (found.isPending) return <Loading lines={8} />;
  if (!found.data && !gone) return <Wrong error={found.error} retry={() => void found.refetch()} />;
  const worker = gone ? undefined : found.data;
  return (
    <>
      <Head
        crumb={<Link to="/workers">Workers</Link>}
        title={<span className="break">{id}</span>}
        below={
          worker && (
            <>
              <WorkerStatus worker={worker} />
              <span>
                last seen <Time at={worker.last_seen_at} relative />
              </span>
            </>
          )
        }
        actions={worker && <WorkerActions worker={worker} />}
      />
      <div className="stack">
        {!worker && (
          <div className="notice" role="status">
            <strong>This worker is not known now.</strong> It left, or was not heard of for long. Its runs are below as long as they are kept.
          </div>
        )}
        {worker?.status === "vanished" && (
          <div className="notice" data-tone="bad" role="status">
            <strong>It should have been heard of by now.</strong> What it held is taken back when its leases end, and comes again for others.
            If it lives it is noted again with its next word; look at its log and its network.
          </div>
        )}
        <div className="columns wide-left">
          <div className="stack">
            <Panel title="Holds now" note={held.data ? words(held.data.items.length, HELD) : undefined} flush>
              {held.data ? (
                <DataTable
                  label="Runs that it holds"
                  columns={heldColumns}
                  rows={held.data.items}
                  id={(run) => run.id}
                  empty={
                    <Empty title="It holds nothing">
                      <p>It waits for a run of its queues and kinds.</p>
                    </Empty>
                  }
                />
              ) : (
                <div className="body">{held.error ? <Wrong error={held.error} /> : <Loading />}</div>
              )}
            </Panel>
            <Panel
              title="Its last runs"
              actions={
                <Link to="/runs" search={{ worker: id }}>
                  All its runs
                </Link>
              }
              flush
            >
              {ended.data ? (
                <DataTable
                  label="Its last runs"
                  columns={endedColumns}
                  rows={ended.data.items}
                  id={(run) => run.id}
                  empty={
                    <Empty title="None has ended">
                      <p>Runs that it worked on last are listed here.</p>
                    </Empty>
                  }
                />
              ) : (
                <div className="body">{ended.error ? <Wrong error={ended.error} /> : <Loading />}</div>
              )}
            </Panel>
          </div>
          {worker && <Facts worker={worker} />}
        </div>
      </div>
    </>
  );
}

const words = (n: number, most: number) => (n === 0 ? undefined : n >= most ? `the first ${most}` : `${n} ${n === 1 ? "run" : "runs"}`);

function Facts({ worker }: { worker: Worker }) {
  const labels = Object.entries(worker.labels);
  return (
    <Panel title="About it" note="as it said itself">
      <dl className="facts">
        <dt>Load</dt>
        <dd>
          <Load worker={worker} />
        </dd>
        <dt>Version</dt>
        <dd>{worker.version ?? "–"}</dd>
        <dt>Queues</dt>
        <dd>
          <QueueChips names={worker.queues} />
        </dd>
        <dt>Kinds</dt>
        <dd>
          <KindChips kinds={worker.kinds} />
        </dd>
        <dt>Labels</dt>
        <dd className="row">
          {labels.map(([name, value]) => (
            <span key={name} className="chip">
              {name}:{value}
            </span>
          ))}
          {labels.length === 0 && "–"}
        </dd>
        <dt>Last seen</dt>
        <dd>
          <Time at={worker.last_seen_at} />
        </dd>
      </dl>
    </Panel>
  );
}
