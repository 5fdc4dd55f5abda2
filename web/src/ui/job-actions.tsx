// What can be done with a job: pause, resume, trigger, backfill, cancel.
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { api, ApiError, got, type FieldFault, type Job, type Schemas } from "../api/client";
import { count, fromLocalField, toLocalField } from "../lib/format";
import { payloadOf } from "../lib/jobform";
import { Field } from "./basics";
import { Ask } from "./dialog";
import { useSettled } from "./job-form";
import { say } from "./toast";

export function JobActions(props: { job: Job; recurring: boolean; changed: () => Promise<void>; onOperation: (id: string) => void }) {
  const { job, recurring, changed } = props;
  const params = { path: { job: job.id } };
  const over = ["ended", "cancelled", "succeeded", "failed", "expired"].includes(job.status);
  const [reason, setReason] = useState("");
  if (!recurring) {
    return (
      <>
        {job.run_id && (
          <Link to="/runs/$run" params={{ run: job.run_id }} className="button">
            Look at its run
          </Link>
        )}
        {!over && <CancelJob job={job} changed={changed} />}
      </>
    );
  }
  return (
    <>
      {job.status === "active" && (
        <Ask
          button="Pause"
          title="Pause the job"
          action="Pause"
          onAct={async () => {
            await got(api.POST("/v1/jobs/{job}/pause", { params, body: reason ? { reason } : {} }));
            say("Paused.");
            await changed();
          }}
        >
          <p>Its schedule makes no more runs; those that exist go on.</p>
          <Field label="Reason">{(of) => <input {...of} value={reason} maxLength={500} onChange={(event) => setReason(event.target.value)} />}</Field>
        </Ask>
      )}
      {job.status === "paused" && (
        <Ask
          button="Resume"
          buttonClass="primary"
          title="Resume the job"
          action="Resume"
          onAct={async () => {
            await got(api.POST("/v1/jobs/{job}/resume", { params }));
            say("Resumed.");
            await changed();
          }}
        >
          <p>It fires again from its next instant on. Instants of the pause are treated as its catch-up policy says.</p>
        </Ask>
      )}
      {!over && <Trigger job={job} changed={changed} />}
      {!over && <Backfill job={job} onOperation={props.onOperation} />}
      {!over && <CancelJob job={job} changed={changed} />}
    </>
  );
}

function CancelJob({ job, changed }: { job: Job; changed: () => Promise<void> }) {
  return (
    <Ask
      button="Cancel job"
      buttonClass="danger"
      title="Cancel the job"
      action="Cancel it"
      danger
      onAct={async () => {
        await got(api.DELETE("/v1/jobs/{job}", { params: { path: { job: job.id } } }));
        say("Cancelled.");
        await changed();
      }}
    >
      <p>It makes no more runs, for ever. A run under way is told to stop. To stop it for a while only, pause it.</p>
    </Ask>
  );
}

function Trigger({ job, changed }: { job: Job; changed: () => Promise<void> }) {
  const usual = job.payload === null || job.payload === undefined ? "" : JSON.stringify(job.payload, null, 2);
  const [payload, setPayload] = useState(usual);
  const [fault, setFault] = useState<string>();
  return (
    <Ask
      button="Trigger"
      title="Run it now"
      action="Run it now"
      onOpen={() => setPayload(usual)}
      onAct={async () => {
        const faults: FieldFault[] = [];
        const value = payloadOf(payload, faults);
        setFault(faults[0]?.message);
        if (faults[0]) throw new ApiError(422, { detail: "The payload is not JSON" });
        const body = payload.trim() === usual.trim() ? {} : { payload: value ?? null };
        const made = await got(api.POST("/v1/jobs/{job}/trigger", { params: { path: { job: job.id } }, body }));
        say(`Triggered: ${made.run_id}`);
        await changed();
      }}
    >
      <p>One run beside its schedule, at once.</p>
      <Field label="Payload" help="Change it for this run only." fault={fault}>
        {(of) => <textarea {...of} rows={6} value={payload} spellCheck={false} onChange={(event) => setPayload(event.target.value)} />}
      </Field>
    </Ask>
  );
}

const ONLY: [string, string][] = [
  ["missing", "instants without a run"],
  ["failed", "instants whose run failed"],
  ["all", "all instants"],
];

/** The count comes before it starts. */
function Backfill({ job, onOperation }: { job: Job; onOperation: (id: string) => void }) {
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const [only, setOnly] = useState("missing");
  const [rate, setRate] = useState("10");
  const [said, setSaid] = useState<string>();
  const [opened, setOpened] = useState(false);
  const params = { path: { job: job.id } };
  const body = { from: fromLocalField(from) ?? "", to: fromLocalField(to), only, rate: Number(rate) || rate };
  const asked = useSettled(JSON.stringify(body), 300);
  useEffect(() => {
    if (!opened) return undefined;
    const gone = new AbortController();
    const request = { ...(JSON.parse(asked) as Schemas["BackfillRequest"]), dry_run: true };
    if (!request.from) return undefined;
    got(api.POST("/v1/jobs/{job}/backfill", { params: { path: { job: job.id } }, body: request, signal: gone.signal }))
      .then((answer) => {
        const dry = answer as Schemas["DryRun"];
        const more = dry.complete ? "" : " or more";
        setSaid(`${count(dry.would_run)}${more} runs would be made of ${count(dry.instants ?? dry.would_run)} instants, in about ${dry.takes_about}.`);
      })
      .catch((error: unknown) => {
        if (!gone.signal.aborted) setSaid(error instanceof ApiError ? error.message : "The count is not known.");
      });
    return () => gone.abort();
  }, [asked, opened, job.id]);
  return (
    <Ask
      button="Backfill"
      title="Runs for instants of the past"
      action="Start the backfill"
      onOpen={() => {
        setOpened(true);
        setFrom(toLocalField(new Date(Date.now() - 86_400_000).toISOString()));
        setTo(toLocalField(new Date().toISOString()));
      }}
      onAct={async () => {
        const made = (await got(api.POST("/v1/jobs/{job}/backfill", { params, body: body as Schemas["BackfillRequest"] }))) as Schemas["Operation"];
        onOperation(made.id);
        say("The backfill has begun.");
      }}
    >
      <div className="grid2">
        <Field label="From">{(of) => <input {...of} type="datetime-local" step={1} value={from} onChange={(event) => setFrom(event.target.value)} />}</Field>
        <Field label="To">{(of) => <input {...of} type="datetime-local" step={1} value={to} onChange={(event) => setTo(event.target.value)} />}</Field>
        <Field label="Only">
          {(of) => (
            <select {...of} value={only} onChange={(event) => setOnly(event.target.value)}>
              {ONLY.map(([value, name]) => (
                <option key={value} value={value}>
                  {name}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Runs per second">{(of) => <input {...of} inputMode="numeric" value={rate} onChange={(event) => setRate(event.target.value)} />}</Field>
      </div>
      <div className="notice" role="status" data-testid="dry-run">
        {said ?? "Counting…"}
      </div>
    </Ask>
  );
}
