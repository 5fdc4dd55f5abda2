// What a run says of itself while it runs, who holds it, and what is sent for it.
import type { Job, Run } from "../api/client";
import type { WatchedRun } from "../api/maybe";
import { Copy, Panel, pretty, SearchableText, Time } from "./basics";
import { HolderLink } from "./links";

/** What its holder told with its heartbeats, and what the next attempt would go on from. */
export function Progress({ run }: { run: WatchedRun }) {
  const { progress, checkpoint } = run;
  const saved = checkpoint !== undefined && checkpoint !== null;
  if (!progress && !saved) return null;
  const fraction = progress?.fraction;
  const known = typeof fraction === "number";
  const percent = known ? `${(Math.min(Math.max(fraction, 0), 1) * 100).toFixed(0)} %` : undefined;
  return (
    <Panel
      title="Progress"
      note={
        progress?.at ? (
          <>
            told <Time at={progress.at} relative />
          </>
        ) : undefined
      }
    >
      <div className="stack tight">
        {progress && (
          <div data-testid="progress">
            <div className="row spread">
              <span className="break">{progress.message ?? (known ? "under way" : "no message")}</span>
              {percent && <strong>{percent}</strong>}
            </div>
            {known && <progress aria-label="Progress of the run" max={1} value={Math.min(Math.max(fraction, 0), 1)} />}
          </div>
        )}
        {saved && (
          <>
            <h3>Checkpoint</h3>
            <p className="small muted">It is durable: the next attempt of this run goes on from here.</p>
            <SearchableText text={pretty(checkpoint)} label="the checkpoint" />
          </>
        )}
      </div>
    </Panel>
  );
}

export function Lease({ run, since, deadline }: { run: Run; since: string | null | undefined; deadline: string | null | undefined }) {
  const last = run.attempts?.at(-1);
  const holder = run.worker ?? last?.worker;
  const token = run.token ?? last?.token;
  const held = run.status === "running";
  return (
    <Panel title="Lease" note={held ? undefined : "nobody holds it now"}>
      <dl className="facts">
        <dt>Attempt</dt>
        <dd>{run.attempt}</dd>
        <dt>{held ? "Holder" : "Last holder"}</dt>
        <dd>{holder ? <HolderLink holder={holder} /> : held ? "duly itself" : "–"}</dd>
        <dt>Token</dt>
        <dd className="row">
          <span className="mono" data-testid="token">
            {token ?? "–"}
          </span>
          {token !== null && token !== undefined && <Copy text={String(token)} />}
        </dd>
        {held && since && (
          <>
            <dt>Began</dt>
            <dd>
              <Time at={since} /> (<Time at={since} relative />)
            </dd>
          </>
        )}
        {held && deadline && (
          <>
            <dt>Must end by</dt>
            <dd>
              <Time at={deadline} /> (<Time at={deadline} relative />)
            </dd>
          </>
        )}
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
      {token !== null && token !== undefined && (
        <p className="small muted">Tokens only grow: a receiver that writes with its token refuses whoever comes late.</p>
      )}
    </Panel>
  );
}

/** What is sent: the job's target and payload, and what duly adds so that the receiver can check it. */
export function Request({ job, run }: { job: Job; run: Run }) {
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
