import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { api, ApiError, got, type FieldFault, type Schemas } from "../api/client";
import { EMPTY, type JobForm, type JobRequest, payloadOf, sortFaults, TARGETS, targetOf, toRequest } from "../lib/jobform";
import { span } from "../lib/format";
import { jobCode, LANGUAGES } from "../lib/snippets";
import { Head, Panel, Status, Wrong } from "../ui/basics";
import { JobFormFields } from "../ui/job-form";
import { Snippets } from "../ui/snippets";
import { say } from "../ui/toast";

const route = getRouteApi("/jobs/new");
type Created = Schemas["Created"];

export function CreateJob() {
  const client = useQueryClient();
  const { target, ...given } = route.useSearch();
  // A link may bring what it knows already.
  const [form, setForm] = useState<JobForm>(() => ({ ...EMPTY, ...given, target: TARGETS.find((one) => one === target) ?? EMPTY.target }));
  const [faults, setFaults] = useState<FieldFault[]>([]);
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const [made, setMade] = useState<Created>();
  const { request, faults: before } = toRequest(form);
  const { at, other } = sortFaults(faults);
  const change = (next: JobForm) => {
    setForm(next);
    // What was wrong may be mended: only what can be seen here is still said.
    setFaults((old) => old.filter((fault) => toRequest(next).faults.some((one) => one.pointer === fault.pointer)));
  };
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setError(undefined);
    setMade(undefined);
    setFaults(before);
    if (before.length > 0) return;
    setBusy(true);
    try {
      const created = await got(api.POST("/v1/jobs", { body: request as JobRequest }));
      setMade(created);
      say("The job is made.");
      void client.invalidateQueries({ queryKey: ["jobs"] });
    } catch (problem) {
      if (problem instanceof ApiError) {
        setFaults(problem.faults);
        setError(problem);
        // The first field that is marked, for whoever cannot see the marks.
        requestAnimationFrame(() => document.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
      }
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Head title="New job" crumb={<Link to="/jobs">Jobs</Link>} />
      <form onSubmit={(event) => void submit(event)} noValidate>
        <div className="columns wide-left">
          <JobFormFields form={form} onChange={change} faults={at} />
          <div className="stack">
            <Panel title="Make it">
              <div className="stack">
                {made && <Made made={made} />}
                {error && Object.keys(at).length === 0 && <Wrong error={error} />}
                {error && Object.keys(at).length > 0 && (
                  <div className="notice" data-tone="bad" role="alert">
                    <strong>The server refused it.</strong> {Object.keys(at).length === 1 ? "One field is" : `${Object.keys(at).length} fields are`} marked; mend and send it again.
                  </div>
                )}
                {other.map((fault) => (
                  <div key={fault.pointer} className="notice" data-tone="bad">
                    <code>{fault.pointer}</code> {fault.message}
                  </div>
                ))}
                <button type="submit" className="primary" disabled={busy}>
                  Create job
                </button>
              </div>
            </Panel>
            {form.target === "http" && <TestCall form={form} />}
            <Snippets title="The same as code" languages={LANGUAGES} code={(language, where) => jobCode(language, where, request)} />
          </div>
        </div>
      </form>
    </>
  );
}

function Made({ made }: { made: Created }) {
  return (
    <div className="stack tight" data-testid="made">
      <div className="notice" data-tone="good" role="status">
        <strong>Made.</strong>{" "}
        <Link to="/jobs/$job" params={{ job: made.id }}>
          Look at the job
        </Link>
        {made.run_id && (
          <>
            {" or "}
            <Link to="/runs/$run" params={{ run: made.run_id }}>
              at its run
            </Link>
          </>
        )}
        .
      </div>
      {made.warnings.map((warning) => (
        <div key={warning.code + warning.message} className="notice" data-tone="warn">
          {warning.message}
        </div>
      ))}
    </div>
  );
}

/** Calls the webhook once, without a job, and says what its answer would have meant. */
function TestCall({ form }: { form: JobForm }) {
  const [answer, setAnswer] = useState<Schemas["TargetTested"]>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const call = async () => {
    const faults: FieldFault[] = [];
    const target = targetOf(form, faults);
    const payload = payloadOf(form.payload, faults);
    setAnswer(undefined);
    setError(undefined);
    if (faults[0]) {
      setError(new ApiError(422, { detail: faults[0].message }));
      return;
    }
    setBusy(true);
    try {
      const body = { target, payload, timeout: form.timeout || undefined } as Schemas["TargetTestRequest"];
      setAnswer(await got(api.POST("/v1/targets/test", { body })));
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Panel title="Try the webhook" note="one signed call, no job">
      <div className="stack tight">
        <button type="button" onClick={() => void call()} disabled={busy || form.url === ""}>
          {busy ? "Calling…" : "Call it now"}
        </button>
        {error !== undefined && <Wrong error={error} />}
        {answer && (
          <div className="stack tight" data-testid="tested">
            <div className="row">
              <Status status={answer.run_status} />
              <span>{answer.status ? `HTTP ${answer.status}` : "no answer"}</span>
              <span className="muted">{span(answer.duration_ms)}</span>
            </div>
            {answer.error && <div className="notice" data-tone="bad">{answer.error}</div>}
            {answer.body && <pre className="code" tabIndex={0} aria-label="The answer">{answer.body}</pre>}
          </div>
        )}
      </div>
    </Panel>
  );
}
