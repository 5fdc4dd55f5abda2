import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { createColumnHelper } from "@tanstack/react-table";
import { createContext, useCallback, useContext, useMemo, useState } from "react";
import { api, ApiError, got, type Operation, type Run, type Schemas } from "../api/client";
import { dead, deadGroups, type DeadFilter } from "../api/queries";
import { count, errorKind } from "../lib/format";
import { useRefresh } from "../live/live";
import { Empty, Field, Head, Loading, Panel, Status, Time, Wrong } from "../ui/basics";
import { Ask } from "../ui/dialog";
import { Pager, TextFilter } from "../ui/filters";
import { JobLink, RunLink } from "../ui/links";
import { OperationProgress } from "../ui/operation";
import { DataTable } from "../ui/table";
import { say } from "../ui/toast";

const route = getRouteApi("/dead-letters");
type Group = Schemas["Group"];
type Verb = "replay" | "discard";
type Meant = { ids: string[] } | { filter: Record<string, string> };

/** The API takes so many ids at once. */
const IDS_MAX = 1_000;

async function act(verb: Verb, meant: Meant, rate: string): Promise<Operation> {
  const body = { ...meant, rate: Number(rate) || rate } as Schemas["BulkRequest"];
  const path = verb === "replay" ? "/v1/dead-letters/replay" : "/v1/dead-letters/discard";
  return (await got(api.POST(path, { body }))) as Operation;
}

async function wouldBe(filter: Record<string, string>): Promise<string> {
  const answer = await got(api.POST("/v1/dead-letters/replay", { body: { filter, dry_run: true } }));
  const dry = answer as Schemas["DryRun"];
  return `${count(dry.would_run)}${dry.complete ? "" : " or more"}`;
}

/** The runs of a group: the server groups errors without their numbers, so each error is compared so. */
async function idsOf(group: Group): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < 10 && ids.length < IDS_MAX; page += 1) {
    const query = { job: group.job_id ?? undefined, limit: 1_000, cursor };
    const found = await got(api.GET("/v1/dead-letters", { params: { query } }));
    for (const run of found.items) {
      const kind = errorKind(run.error ?? "no error").slice(0, group.error?.length);
      if (group.error === undefined || group.error === null || kind === group.error) ids.push(run.id);
    }
    cursor = found.next_cursor ?? undefined;
    if (!cursor) break;
  }
  return ids.slice(0, IDS_MAX);
}

export function Dead() {
  const search = route.useSearch();
  const { operation, ...filter } = search;
  const navigate = useNavigate();
  const client = useQueryClient();
  const groups = useQuery(deadGroups());
  const found = useQuery(dead(filter));
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  useRefresh([["dead"]], (changes) => changes.types.has("run.dead") || changes.types.has("operation.over") || changes.runs.size > 0, 1_500);
  const set = (change: Partial<DeadFilter>) =>
    void navigate({ to: "/dead-letters", search: { ...search, cursor: undefined, ...change }, replace: true });
  const begun = useCallback(
    (made: Operation) => {
      setChosen(new Set());
      say("It has begun.");
      void navigate({ to: "/dead-letters", search: { ...search, operation: made.id }, replace: true });
    },
    [navigate, search],
  );
  const over = useCallback(() => void client.invalidateQueries({ queryKey: ["dead"] }), [client]);
  const choice = useMemo(
    () => ({
      has: (id: string) => chosen.has(id),
      set: (id: string, wanted: boolean) =>
        setChosen((old) => {
          const next = new Set(old);
          if (wanted) next.add(id);
          else next.delete(id);
          return next;
        }),
    }),
    [chosen],
  );
  const items = found.data?.items ?? [];
  const picked = items.filter((run) => chosen.has(run.id)).map((run) => run.id);
  const asFilter = Object.fromEntries(Object.entries(filter).filter(([name, value]) => name !== "cursor" && value)) as Record<string, string>;
  const filtered = Object.keys(asFilter).length > 0;
  const nothing = groups.data?.items.length === 0;
  return (
    <>
      <Head title="Dead letters" below="Runs that used up their attempts. They wait for a person for 90 days; then they fail." />
      <div className="stack">
        {operation && <OperationProgress id={operation} onOver={over} />}
        {groups.error && !groups.data && <Wrong error={groups.error} retry={() => void groups.refetch()} />}
        {nothing && !filtered && (
          <Panel>
            <Empty title="No dead letters">
              <p>A run that fails is tried again by its policy. When its attempts are used up it comes here, with its error, to be replayed or discarded.</p>
            </Empty>
          </Panel>
        )}
        {groups.data && !nothing && <Groups groups={groups.data.items} complete={groups.data.complete} begun={begun} />}
        {!(nothing && !filtered) && (
          <section className="panel" aria-label="Dead runs">
            <div className="filters" role="search">
              <TextFilter label="Error holds" search value={filter.q} placeholder="Press / to search" onChange={(q) => set({ q })} />
              <TextFilter label="Job" value={filter.job} placeholder="name or id" onChange={(job) => set({ job })} />
              <TextFilter label="Queue" value={filter.queue} onChange={(queue) => set({ queue })} />
            </div>
            <div className="pager" style={{ borderTop: 0, borderBottom: "1px solid var(--line)" }}>
              <span className="small muted" role="status">
                {picked.length > 0 ? `${count(picked.length)} chosen` : filtered ? "All that match the filter" : "Choose some, or take all"}
              </span>
              <span className="row">
                <Bulk verb="replay" ids={picked} filter={asFilter} begun={begun} />
                <Bulk verb="discard" ids={picked} filter={asFilter} begun={begun} />
              </span>
            </div>
            {found.isPending && <Loading />}
            {found.error && <Wrong error={found.error} />}
            {found.data && !found.error && (
              <Chosen value={choice}>
                <DataTable
                  label="Dead runs"
                  columns={columns}
                  rows={items}
                  id={(run) => run.id}
                  stale={found.isPlaceholderData}
                  empty={
                    <Empty title={filtered ? "No dead run is like this" : "None"}>
                      <p>Change the filter, or look at the groups above.</p>
                    </Empty>
                  }
                />
              </Chosen>
            )}
            <Pager
              first={!filter.cursor}
              next={found.data?.next_cursor}
              toFirst={() => void navigate({ to: "/dead-letters", search: { ...search, cursor: undefined } })}
              toNext={(cursor) => void navigate({ to: "/dead-letters", search: { ...search, cursor } })}
            />
          </section>
        )}
      </div>
    </>
  );
}

const column = createColumnHelper<Run>();

/** What is chosen lives beside the table: its columns stay the same, and a box keeps the focus. */
const Chosen = createContext<{ has: (id: string) => boolean; set: (id: string, chosen: boolean) => void }>({
  has: () => false,
  set: () => undefined,
});

function Choose({ id }: { id: string }) {
  const chosen = useContext(Chosen);
  return (
    <input type="checkbox" aria-label={`Choose ${id}`} checked={chosen.has(id)} onChange={(event) => chosen.set(id, event.target.checked)} />
  );
}

const columns = [
  column.display({ id: "choose", header: "", cell: ({ row }) => <Choose id={row.original.id} /> }),
  column.accessor("id", { header: "Run", meta: { main: true }, cell: ({ getValue }) => <RunLink id={getValue()} /> }),
  column.accessor("job_id", { header: "Job", cell: ({ getValue }) => <JobLink id={getValue()} /> }),
  column.accessor("scheduled_for", { header: "Scheduled for", cell: ({ getValue }) => <Time at={getValue()} /> }),
  column.accessor("attempt", { header: "Attempts", meta: { number: true } }),
  column.accessor("error", {
    header: "Error",
    meta: { wide: true },
    cell: ({ getValue }) => (
      <span className="clip small" title={getValue() ?? undefined}>
        {getValue() ?? ""}
      </span>
    ),
  }),
];

function Rate({ rate, setRate }: { rate: string; setRate: (rate: string) => void }) {
  return (
    <Field label="Per second, at most" help="A receiver that has just recovered is thankful for a low one.">
      {(of) => <input {...of} inputMode="numeric" value={rate} onChange={(event) => setRate(event.target.value)} />}
    </Field>
  );
}

const SAYS = {
  replay: "Each gets a new budget of attempts, under the same id.",
  discard: "Each ends as failed and is not tried again.",
};

function Groups({ groups, complete, begun }: { groups: Group[]; complete: boolean; begun: (made: Operation) => void }) {
  const [rate, setRate] = useState("50");
  return (
    <Panel title="By job and error" note={complete ? undefined : "of the first that were looked at; there are more"} flush>
      <div className="table-wrap">
        <table className="cards" aria-label="Groups of dead letters">
          <thead>
            <tr>
              <th scope="col">Job</th>
              <th scope="col" className="number">Dead</th>
              <th scope="col">Error</th>
              <th scope="col">Last died</th>
              <th scope="col" aria-label="Actions" />
            </tr>
          </thead>
          <tbody>
            {groups.map((group) => (
              <tr key={`${group.job_id} ${group.error}`}>
                <td>{group.job_id ? <JobLink id={group.job_id} /> : "any"}</td>
                <td data-label="Dead" className="number">
                  <Status status="dead" text={count(group.count)} />
                </td>
                <td data-label="Error" className="wide">
                  <span className="clip small" title={group.error ?? undefined}>
                    <RunLink id={group.run_id} text={group.error ?? "look at one"} />
                  </span>
                </td>
                <td data-label="Last died" className="small muted">
                  <Time at={group.last_at} relative />
                </td>
                <td className="number">
                  <span className="row" style={{ justifyContent: "flex-end", flexWrap: "nowrap" }}>
                    {(["replay", "discard"] as const).map((verb) => (
                      <Ask
                        key={verb}
                        button={verb === "replay" ? "Replay group" : "Discard group"}
                        buttonClass={`small ${verb === "discard" ? "danger" : ""}`}
                        title={verb === "replay" ? "Replay the group" : "Discard the group"}
                        action={verb === "replay" ? "Replay them" : "Discard them"}
                        danger={verb === "discard"}
                        onAct={async () => {
                          const ids = await idsOf(group);
                          if (ids.length === 0) throw new ApiError(404, { detail: "None of them is dead any more" });
                          begun(await act(verb, { ids }, rate));
                        }}
                      >
                        <p>
                          {count(Math.min(group.count, IDS_MAX))} runs that died of “{group.error}”. {SAYS[verb]}
                          {group.count > IDS_MAX ? ` At most ${count(IDS_MAX)} at once; repeat it for the others.` : ""}
                        </p>
                        <Rate rate={rate} setRate={setRate} />
                      </Ask>
                    ))}
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

/** Those that were chosen, else all that match the filter. */
function Bulk(props: { verb: Verb; ids: string[]; filter: Record<string, string>; begun: (made: Operation) => void }) {
  const [rate, setRate] = useState("50");
  const [known, setKnown] = useState<string>();
  const { verb, ids, filter } = props;
  const some = ids.length > 0;
  const word = verb === "replay" ? "Replay" : "Discard";
  const meant = some ? count(ids.length) : (known ?? "…");
  return (
    <Ask
      button={some ? `${word} ${count(ids.length)}` : `${word} all that match`}
      buttonClass={`small ${verb === "discard" ? "danger" : some ? "primary" : ""}`}
      title={some ? `${word} ${count(ids.length)} runs` : `${word} all that match`}
      action={`${word} them`}
      danger={verb === "discard"}
      onOpen={() => {
        setKnown(undefined);
        if (!some) void wouldBe(filter).then(setKnown, () => setKnown("?"));
      }}
      onAct={async () => props.begun(await act(verb, some ? { ids } : { filter }, rate))}
    >
      <p>
        {meant} dead {meant === "1" ? "run" : "runs"}. {SAYS[verb]}
      </p>
      <Rate rate={rate} setRate={setRate} />
    </Ask>
  );
}
