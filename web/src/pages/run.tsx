import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, ApiError, got, type FieldFault, type Job, type Run } from "../api/client";
import { explain, job as jobQuery, run as runQuery } from "../api/queries";
import { span, words } from "../lib/format";
import { payloadOf } from "../lib/jobform";
import { useRefresh } from "../live/live";
import { Copy, Field, Head, Loading, Panel, pretty, SearchableText, Status, Time, toneOf, useNow, Wrong } from "../ui/basics";
import { Ask } from "../ui/dialog";
import { JobLink } from "../ui/links";
import { say } from "../ui/toast";

const route = getRouteApi("/runs/$run");
const FINAL = new Set(["succeeded", "failed", "cancelled", "expired"]);

export function RunPage() {
  const { run: id } = route.useParams();
  const found = useQuery(runQuery(id));
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
        actions={<Actions run={run} job={job.data} />}
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
            <Attempts run={run} />
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
            <Lease run={run} />
            {job.data && <Request job={job.data} run={run} />}
          </div>
        </div>
      </div>
    </>
  );
}

function Actions({ run, job }: { run: Run; job: Job | undefined }) {
  const client = useQueryClient();
  const params = { path: { run: run.id } };
  const usual = job?.payload === null || job?.payload === undefined ? "" : JSON.stringify(job.payload, null, 2);
  const [payload, setPayload] = useState(usual);
  const changed = () => client.invalidateQueries({ queryKey: ["run", run.id] });
  return (
    <>
      {run.status === "dead" && (
        <Ask
          button="Replay"
          buttonClass="primary"
          title="Replay the run"
          action="Replay it"
          onOpen={() => setPayload(usual)}
          onAct={async () => {
            const faults: FieldFault[] = [];
            const value = payloadOf(payload, faults);
            if (faults[0]) throw new ApiError(422, { detail: faults[0].message });
            const body = payload.trim() === usual.trim() ? {} : { payload: value ?? null };
            await got(api.POST("/v1/runs/{run}/replay", { params, body }));
            say("Replayed: it has a new budget of attempts.");
            await changed();
          }}
        >
          <p>The same run under the same id, with a new budget of attempts. The receiver sees the same Idempotency-Key.</p>
          <Field label="Payload" help="Change it if that was the fault.">
            {(of) => <textarea {...of} rows={5} value={payload} spellCheck={false} onChange={(event) => setPayload(event.target.value)} />}
          </Field>
        </Ask>
      )}
      {run.status === "dead" && (
        <Ask
          button="Discard"
          buttonClass="danger"
          title="Discard the run"
          action="Discard it"
          danger
          onAct={async () => {
            await got(api.POST("/v1/dead-letters/discard", { body: { ids: [run.id] } }));
            say("Discarded: it ends as failed.");
            await changed();
          }}
        >
          <p>It ends as failed and is not tried again.</p>
        </Ask>
      )}
      {!FINAL.has(run.status) && run.status !== "dead" && (
        <Ask
          button="Cancel run"
          buttonClass="danger"
          disabled={run.cancel_requested}
          title="Cancel the run"
          action="Cancel it"
          danger
          onAct={async () => {
            const answer = await got(api.POST("/v1/runs/{run}/cancel", { params }));
            say(answer.cancel_requested ? "Its holder is told to stop." : "Cancelled.");
            await changed();
          }}
        >
          <p>
            {run.status === "running"
              ? "Its holder is told to stop: a webhook's connection is closed, a worker hears it at its next heartbeat. A success that comes first still counts."
              : "It ends as cancelled and is not tried."}
          </p>
        </Ask>
      )}
    </>
  );
}

interface Bar {
  attempt: number;
  status: string;
  from: number;
  to: number;
  code?: number | null;
  error?: string | null;
  worker?: string | null;
  token?: number;
}

function Attempts({ run }: { run: Run }) {
  const now = useNow();
  const bars: Bar[] = (run.attempts ?? []).map((one) => ({
    attempt: one.attempt,
    status: one.status,
    from: Date.parse(one.started_at ?? one.finished_at),
    to: Date.parse(one.finished_at),
    code: one.code,
    error: one.error,
    worker: one.worker,
    token: one.token,
  }));
  const why = useQuery(explain(run.id));
  const since = why.data?.reasons.find((one) => one.since && run.status === "running")?.since;
  if (run.status === "running" && since) {
    bars.push({ attempt: run.attempt, status: "running", from: Date.parse(since), to: now, worker: run.worker, token: run.token ?? undefined });
  }
  if (bars.length === 0) {
    return (
      <Panel title="Attempts">
        <p className="muted">
          {run.attempt === 0 ? "None yet." : `${run.attempt} so far; those of an earlier life of the server are not listed.`}
        </p>
      </Panel>
    );
  }
  const begin = Math.min(...bars.map((bar) => bar.from));
  const end = Math.max(...bars.map((bar) => bar.to), begin + 1);
  const place = (at: number) => (100 * (at - begin)) / (end - begin);
  return (
    <Panel title="Attempts" note={`${bars.length} in ${span(end - begin)}`}>
      <ol className="attempts">
        {bars.map((bar) => (
          <li key={`${bar.attempt} ${bar.token ?? ""}`} className="attempt">
            <Status status={bar.status} text={`#${bar.attempt}`} />
            <div className="lane" role="img" aria-label={`Attempt ${bar.attempt}: ${words(bar.status)}, began after ${span(bar.from - begin)}, took ${span(bar.to - bar.from)}`}>
              <i data-tone={toneOf(bar.status)} style={{ left: `${Math.min(place(bar.from), 98.5)}%`, width: `${Math.max(place(bar.to) - place(bar.from), 0.8)}%` }} />
            </div>
            <span className="small nowrap">{span(Math.max(bar.to - bar.from, 0))}</span>
            <span className="why">
              {words(bar.status)}
              {bar.code ? `, code ${bar.code}` : ""}
              {bar.worker ? `, ${bar.worker}` : ""}
              {bar.error ? `: ${bar.error}` : ""}
            </span>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function Lease({ run }: { run: Run }) {
  const last = run.attempts?.at(-1);
  return (
    <Panel title="Lease">
      <dl className="facts">
        <dt>Attempt</dt>
        <dd>{run.attempt}</dd>
        <dt>Holder</dt>
        <dd>{run.worker ?? last?.worker ?? (run.status === "running" ? "duly itself" : "nobody")}</dd>
        <dt>Token</dt>
        <dd className="mono">{run.token ?? last?.token ?? "–"}</dd>
        <dt>Due</dt>
        <dd>
          <Time at={run.status === "dead" ? run.scheduled_for : run.due_at} />
        </dd>
        {run.next_attempt_at && (
          <>
            <dt>Next attempt</dt>
            <dd>
              <Time at={run.next_attempt_at} /> (<Time at={run.next_attempt_at} relative />)
            </dd>
          </>
        )}
      </dl>
    </Panel>
  );
}

/** What is sent: the job's target and payload, and what duly adds so that the receiver can check it. */
function Request({ job, run }: { job: Job; run: Run }) {
  const http = (job.target as { http?: { url: string; method?: string; headers?: Record<string, string> } } | null)?.http;
  const payload = job.payload === null || job.payload === undefined ? undefined : pretty(job.payload);
  const code = run.attempts?.at(-1)?.code;
  return (
    <Panel title="Request" note={code ? `last answered ${code}` : undefined}>
      <div className="stack tight">
        <pre className="code" tabIndex={0} aria-label="Request">
          {http
            ? [
                `${http.method ?? "POST"} ${http.url}`,
                ...Object.entries(http.headers ?? {}).map(([name, value]) => `${name}: ${value}`),
                `Idempotency-Key: ${run.id}`,
                `X-Attempt: ${run.attempt}`,
              ].join("\n")
            : pretty(job.target)}
        </pre>
        {payload !== undefined && <SearchableText text={payload} label="the payload" />}
      </div>
    </Panel>
  );
}
