import { useState } from "react";
import { api, ApiError, got, type FieldFault, type Job } from "../api/client";
import { fromJob, type JobForm, sortFaults, toRequest } from "../lib/jobform";
import { patch } from "../lib/patch";
import { Panel, Wrong } from "./basics";
import { JobFormFields } from "./job-form";
import { say } from "./toast";

/** A change is a patch of what differs, and only of the version that was looked at. */
export function EditJob({ job, changed }: { job: Job; changed: () => Promise<void> }) {
  const [base, setBase] = useState({ job, form: fromJob(job) });
  const [form, setForm] = useState<JobForm>(base.form);
  const [faults, setFaults] = useState<FieldFault[]>([]);
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const { request, faults: before } = toRequest(form);
  const change = patch(toRequest(base.form).request, request);
  const newer = job.version !== base.job.version;
  const { at, other } = sortFaults(faults);
  const begin = (from: Job) => {
    const fresh = { job: from, form: fromJob(from) };
    setBase(fresh);
    setForm(fresh.form);
    setFaults([]);
    setError(undefined);
  };
  const save = async () => {
    setError(undefined);
    setFaults(before);
    if (before.length > 0 || change === undefined) return;
    setBusy(true);
    try {
      const answer = await got(
        api.PATCH("/v1/jobs/{job}", {
          params: { path: { job: job.id } },
          headers: { "If-Match": `"${base.job.version}"` },
          body: change as Record<string, unknown>,
        }),
      );
      begin(answer);
      say(`Saved as version ${answer.version}.`);
      await changed();
    } catch (problem) {
      setError(problem);
      if (problem instanceof ApiError) setFaults(problem.faults);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <div className="columns wide-left">
        <JobFormFields form={form} onChange={setForm} faults={at} fixed />
        <div className="stack">
          <Panel title="Save">
            <div className="stack tight">
              {newer && (
                <div className="notice" data-tone="warn" role="status">
                  Somebody changed it: version {job.version} is there now.{" "}
                  <button type="button" className="link" onClick={() => begin(job)}>
                    Load it
                  </button>{" "}
                  (what you typed is lost).
                </div>
              )}
              {error !== undefined && Object.keys(at).length === 0 && <Wrong error={error} />}
              {other.map((fault) => (
                <div key={fault.pointer} className="notice" data-tone="bad">
                  <code>{fault.pointer}</code> {fault.message}
                </div>
              ))}
              {Object.keys(at).length > 0 && (
                <div className="notice" data-tone="bad" role="alert">
                  Mend what is marked and save again.
                </div>
              )}
              <p className="small muted">Runs that exist keep the version they were made with; the next ones use this.</p>
              <div className="row">
                <button type="submit" className="primary" disabled={busy || change === undefined}>
                  Save changes
                </button>
                <button type="button" disabled={change === undefined} onClick={() => begin(base.job)}>
                  Undo
                </button>
              </div>
            </div>
          </Panel>
          {change !== undefined && (
            <Panel title="What changes">
              <pre className="code" tabIndex={0} aria-label="The patch">
                {JSON.stringify(change, null, 2)}
              </pre>
            </Panel>
          )}
        </div>
      </div>
    </form>
  );
}
