// The limits of a queue, to be looked at and changed.
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { api, ApiError, got, type FieldFault, type Schemas } from "../api/client";
import { type LimitField, limitFaults, type Limits, fromLimits, toLimits } from "../lib/limits";
import { Field, Panel, Wrong } from "./basics";
import { say } from "./toast";

export function QueueLimits({ queue, limits }: { queue: string; limits: Limits }) {
  const client = useQueryClient();
  const now = JSON.stringify(fromLimits(limits));
  const [base, setBase] = useState(now);
  const [form, setForm] = useState(() => fromLimits(limits));
  const [faults, setFaults] = useState<FieldFault[]>([]);
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const same = JSON.stringify(form) === base;
  // Somebody else changed them: shown at once, unless that would throw away what was typed.
  if (now !== base && same) {
    setBase(now);
    setForm(fromLimits(limits));
  }
  const { at, other } = limitFaults(faults);
  const save = async () => {
    const { limits: wanted, faults: before } = toLimits(form, limits);
    setError(undefined);
    setFaults(before);
    if (before.length > 0) return;
    setBusy(true);
    try {
      const answer = await got(api.PUT("/v1/queues/{queue}", { params: { path: { queue } }, body: wanted as Schemas["QueueRequest"] }));
      const fresh = fromLimits(answer.limits);
      setForm(fresh);
      setBase(JSON.stringify(fresh));
      say("The limits are saved.");
      await Promise.all(["queues", "queue"].map((kind) => client.invalidateQueries({ queryKey: [kind] })));
    } catch (problem) {
      setError(problem);
      if (problem instanceof ApiError) setFaults(problem.faults);
    } finally {
      setBusy(false);
    }
  };
  const field = (name: LimitField, label: string, help: ReactNode, placeholder = "no limit") => (
    <Field label={label} help={help} fault={at[name]}>
      {(of) => (
        <input {...of} name={name} autoComplete="off" placeholder={placeholder} value={form[name]} onChange={(event) => setForm({ ...form, [name]: event.target.value })} />
      )}
    </Field>
  );
  return (
    <Panel title="Limits" note="an empty field is no limit">
      <form
        noValidate
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <div className="grid3">
          {field("max_running", "Running at once", "Attempts of this queue, in the whole cluster.")}
          {field("rate", "Starts at most", "Such as 50/s, 100/m or 5/10s.")}
          {field("burst", "In a burst", "Starts that may come at once after a rest.", "those of a second")}
          {field("group_max_running", "Of a group: running at once", "1 makes each group's runs follow one another.")}
          {field("group_rate", "Of a group: starts at most", "Each group has its own.")}
          {field("group_burst", "Of a group: in a burst", "Starts of one group after a rest.", "those of a second")}
          {field("start_within", "Service level: starts within", "Such as 30s. While runs wait longer, priorities below 5 give way.", "none")}
        </div>
        <Field label="Weights of groups" help="One group: weight per line; 1 unless given. A group of weight 3 gets three turns where others get one." fault={at.weights}>
          {(of) => <textarea {...of} name="weights" rows={3} placeholder="cust-42: 3" spellCheck={false} value={form.weights} onChange={(event) => setForm({ ...form, weights: event.target.value })} />}
        </Field>
        {now !== base && (
          <div className="notice" data-tone="warn" role="status">
            Somebody changed the limits in the meantime.{" "}
            <button
              type="button"
              className="link"
              onClick={() => {
                setBase(now);
                setForm(fromLimits(limits));
              }}
            >
              Load them
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
        <div className="row">
          <button type="submit" className="primary" disabled={busy || same}>
            Save the limits
          </button>
          <button type="button" disabled={same} onClick={() => setForm(fromLimits(limits))}>
            Undo
          </button>
        </div>
      </form>
    </Panel>
  );
}
