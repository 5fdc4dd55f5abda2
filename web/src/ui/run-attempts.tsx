// The attempts of a run on one line of time.
import type { Run } from "../api/client";
import { span, words } from "../lib/format";
import { Panel, Status, toneOf, useNow } from "./basics";
import { HolderLink } from "./links";

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

export function Attempts({ run, since }: { run: Run; since: string | null | undefined }) {
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
              {bar.worker && (
                <>
                  , <HolderLink holder={bar.worker} />
                </>
              )}
              {bar.error ? `: ${bar.error}` : ""}
            </span>
          </li>
        ))}
      </ol>
    </Panel>
  );
}
