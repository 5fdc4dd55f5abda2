// What a job is: its target, schedule and policy, as its current version says, and what changed under one's eyes.
import type { Job } from "../api/client";
import { count, words } from "../lib/format";
import { catchUpWords, retryWords, targetWords } from "../lib/policy";
import { type Json, patch } from "../lib/patch";
import { Copy, Panel, pretty, Time } from "./basics";
import { QueueLink } from "./links";

/** What a user may change of a job. */
const DEFINES = [
  ...["name", "owner", "tags", "schedule", "target", "payload", "payload_base64", "priority", "retry", "timeout"],
  ...["start_within", "finish_within", "overlap", "catch_up"],
];
const definitionOf = (job: Job) => Object.fromEntries(Object.entries(job).filter(([name]) => DEFINES.includes(name))) as Json;

/** What somebody changed under one's eyes; what was changed before is told by the versions. */
export function Since({ job, opened }: { job: Job; opened: Job }) {
  const change = patch(definitionOf(opened), definitionOf(job));
  if (job.version === opened.version) return null;
  return (
    <Panel title="Changed since you opened this" note={`version ${opened.version} became ${job.version}`}>
      <div className="stack tight">
        <p className="small muted">
          Runs that existed keep the version they were made with. This is what differs, as a patch; null means that it was removed.
        </p>
        <pre className="code" tabIndex={0} aria-label="What changed">
          {change === undefined ? "Nothing that can be seen here." : JSON.stringify(change, null, 2)}
        </pre>
      </div>
    </Panel>
  );
}

export function Definition({ job }: { job: Job }) {
  const payload = job.payload_base64 ?? (job.payload === null || job.payload === undefined ? undefined : pretty(job.payload));
  return (
    <div className="columns">
      <Panel title="What and when">
        <dl className="facts">
          <dt>Target</dt>
          <dd>{targetWords(job.target)}</dd>
          <dt>Schedule</dt>
          <dd>{job.description ?? "once"}</dd>
          <dt>Queue</dt>
          <dd>
            {job.queue ? <QueueLink name={job.queue} /> : "–"}
            {job.group ? `, group ${job.group}` : ""}, priority {job.priority}
          </dd>
          <dt>Owner</dt>
          <dd>{job.owner ?? "–"}</dd>
          <dt>Tags</dt>
          <dd className="row">
            {Object.entries(job.tags ?? {}).map(([name, value]) => (
              <span key={name} className="chip">
                {name}:{value}
              </span>
            ))}
            {Object.keys(job.tags ?? {}).length === 0 && "–"}
          </dd>
          <dt>Retries</dt>
          <dd>{retryWords(job.retry)}</dd>
          <dt>Timeout</dt>
          <dd>{job.timeout ?? "–"}</dd>
          {(job.start_within ?? job.finish_within) && (
            <>
              <dt>Expires</dt>
              <dd>
                {[job.start_within && `if not begun ${job.start_within} after it is due`, job.finish_within && `if not done ${job.finish_within} after it is due`]
                  .filter(Boolean)
                  .join(", ")}
              </dd>
            </>
          )}
          <dt>Overlap</dt>
          <dd>{words(job.overlap ?? "–")}</dd>
          <dt>Catching up</dt>
          <dd>{catchUpWords(job.catch_up)}</dd>
          <dt>Version</dt>
          <dd>
            {job.version}, changed <Time at={job.updated_at} />, made <Time at={job.created_at} />
          </dd>
          {job.counts && (
            <>
              <dt>Counts</dt>
              <dd>
                {count(job.counts.fired)} fired, {count(job.counts.unfinished)} unfinished, {count(job.counts.backfills)} backfills
              </dd>
            </>
          )}
        </dl>
      </Panel>
      <Panel title="As JSON" actions={<Copy text={pretty({ schedule: job.schedule, target: job.target, retry: job.retry, catch_up: job.catch_up })} />}>
        <div className="stack tight">
          <pre className="code" tabIndex={0} aria-label="Definition">
            {pretty({ schedule: job.schedule, target: job.target, retry: job.retry, catch_up: job.catch_up })}
          </pre>
          {payload !== undefined && (
            <>
              <h3>Payload</h3>
              <pre className="code" tabIndex={0} aria-label="Payload">
                {payload}
              </pre>
            </>
          )}
        </div>
      </Panel>
    </div>
  );
}
