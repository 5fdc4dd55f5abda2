// The form of a job, for making one and for changing one. It shows what the schedule will do while it is
// typed, and what the server refuses, at the field that it means.
import { useQuery } from "@tanstack/react-query";
import { ToggleGroup } from "radix-ui";
import { type ReactNode, useEffect, useState } from "react";
import { ApiError } from "../api/client";
import { preview } from "../api/queries";
import { type Field as Name, type JobForm, SCHEDULES, scheduleOf, sortFaults, TARGETS } from "../lib/jobform";
import { Field, Time } from "./basics";

export type Faults = Partial<Record<Name, string>>;

interface Props {
  form: JobForm;
  onChange: (form: JobForm) => void;
  faults: Faults;
  /** A job that exists keeps its name, queue and group. */
  fixed?: boolean;
}

const SCHEDULE_WORDS = { now: "Now", delay: "After a delay", at: "At an instant", every: "Every so often", cron: "Cron" };
const TARGET_WORDS = { http: "Webhook", worker: "Worker", command: "Command", redis: "Redis stream", rabbitmq: "RabbitMQ" };
const METHODS = ["POST", "PUT", "PATCH", "DELETE", "GET"];
const SETTLE_MS = 200;
const SHOWN = 5;

export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

function Choices<T extends string>(props: { label: string; value: T; choices: readonly T[]; words: Record<T, string>; onChange: (value: T) => void }) {
  return (
    <ToggleGroup.Root
      type="single"
      className="choices"
      aria-label={props.label}
      value={props.value}
      onValueChange={(value) => value && props.onChange(value as T)}
    >
      {props.choices.map((choice) => (
        <ToggleGroup.Item key={choice} value={choice}>
          {props.words[choice]}
        </ToggleGroup.Item>
      ))}
    </ToggleGroup.Root>
  );
}

export function JobFormFields(props: Props) {
  const { form, faults } = props;
  const set = (name: Name) => (value: string) => props.onChange({ ...form, [name]: value });
  const text = (name: Name, label: string, more: { help?: ReactNode; placeholder?: string; mono?: boolean; className?: string; disabled?: boolean; type?: string; list?: string } = {}) => (
    <Field label={label} help={more.help} fault={faults[name]} className={more.className}>
      {(of) => (
        <input
          {...of}
          name={name}
          type={more.type ?? "text"}
          step={more.type === "datetime-local" ? 1 : undefined}
          className={more.mono ? "mono" : undefined}
          placeholder={more.placeholder}
          disabled={more.disabled}
          list={more.list}
          autoComplete="off"
          spellCheck={false}
          value={form[name]}
          onChange={(event) => set(name)(event.target.value)}
        />
      )}
    </Field>
  );
  const area = (name: Name, label: string, more: { help?: ReactNode; placeholder?: string; rows?: number } = {}) => (
    <Field label={label} help={more.help} fault={faults[name]} className="span-all">
      {(of) => (
        <textarea
          {...of}
          name={name}
          rows={more.rows ?? 3}
          placeholder={more.placeholder}
          spellCheck={false}
          value={form[name]}
          onChange={(event) => set(name)(event.target.value)}
        />
      )}
    </Field>
  );
  const choice = (name: Name, label: string, choices: [string, string][], help?: ReactNode) => (
    <Field label={label} help={help} fault={faults[name]}>
      {(of) => (
        <select {...of} name={name} value={form[name]} onChange={(event) => set(name)(event.target.value)}>
          {choices.map(([value, word]) => (
            <option key={value} value={value}>
              {word}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
  const recurring = form.schedule === "every" || form.schedule === "cron";
  return (
    <div className="stack">
      <section className="panel" aria-label="What">
        <header>
          <h2>What</h2>
        </header>
        <div className="body stack">
          <Choices label="Kind of target" value={form.target} choices={TARGETS} words={TARGET_WORDS} onChange={(target) => props.onChange({ ...form, target })} />
          <div className="grid2">
            {form.target === "http" && (
              <>
                {text("url", "URL", { placeholder: "http://127.0.0.1:9000/hello", mono: true, className: "span-all", help: "It gets a signed request; a 2xx answer is a success." })}
                {choice("method", "Method", [["", "POST (usual)"], ...METHODS.slice(1).map((one): [string, string] => [one, one])])}
                {text("timeout", "Timeout", { placeholder: "30s", help: "For the whole answer." })}
                {area("headers", "Headers", { placeholder: "Authorization: Bearer …", help: "One name: value per line.", rows: 2 })}
              </>
            )}
            {form.target === "worker" && (
              <>
                {text("kind", "Kind", { placeholder: "bill", mono: true, help: "Workers of yours ask for runs of this kind by POST /v1/work/claim." })}
                {text("timeout", "Timeout", { placeholder: "1h" })}
              </>
            )}
            {form.target === "command" && (
              <>
                {area("argv", "Program and arguments", { placeholder: "/usr/local/bin/tidy\n--all", help: "One per line, without a shell. Whoever runs the server allows programs with --allow-command.", rows: 3 })}
                {area("env", "Environment", { placeholder: "LEVEL=2", help: "One NAME=value per line.", rows: 2 })}
                {text("timeout", "Timeout", { placeholder: "1h" })}
              </>
            )}
            {form.target === "redis" && (
              <>
                {text("broker", "Server", { placeholder: "redis://127.0.0.1:6379", mono: true, className: "span-all" })}
                {text("stream", "Stream", { placeholder: "jobs", mono: true })}
                {text("max_len", "Keep at most", { placeholder: "no limit", help: "Entries of the stream, about." })}
              </>
            )}
            {form.target === "rabbitmq" && (
              <>
                {text("broker", "Server", { placeholder: "amqp://user:password@127.0.0.1:5672", mono: true, className: "span-all" })}
                {text("exchange", "Exchange", { placeholder: "the default one", mono: true })}
                {text("routing_key", "Routing key", { placeholder: "jobs", mono: true })}
              </>
            )}
            {area("payload", "Payload", { placeholder: '{"customer": 42}', help: "Any JSON; it is sent as it is.", rows: 4 })}
          </div>
        </div>
      </section>

      <section className="panel" aria-label="When">
        <header>
          <h2>When</h2>
        </header>
        <div className="body stack">
          <Choices label="Kind of schedule" value={form.schedule} choices={SCHEDULES} words={SCHEDULE_WORDS} onChange={(schedule) => props.onChange({ ...form, schedule })} />
          <div className="grid2">
            {form.schedule === "delay" && text("delay", "Delay", { placeholder: "15m", mono: true, help: "Such as 90s, 1h30m, 2d." })}
            {form.schedule === "at" && text("at", "Instant, in your time zone", { type: "datetime-local" })}
            {form.schedule === "every" && text("every", "Every", { placeholder: "15m", mono: true, help: "Such as 10s, 15m, 1d. It does not drift." })}
            {form.schedule === "cron" && (
              <>
                {text("cron", "Cron expression", { placeholder: "0 3 * * *", mono: true, help: "Minute, hour, day, month, weekday; seconds in front if you like." })}
                {text("timezone", "Time zone", { placeholder: "UTC", list: "zones", help: `Yours is ${Intl.DateTimeFormat().resolvedOptions().timeZone}.` })}
                <Zones />
              </>
            )}
          </div>
          {form.schedule !== "now" && <Preview form={form} />}
          {recurring && (
            <details>
              <summary>Start, end, spread{form.schedule === "cron" ? ", clock changes" : ""}</summary>
              <div className="grid2">
                {text("start_at", "Not before", { type: "datetime-local" })}
                {text("end_at", "Not after", { type: "datetime-local" })}
                {text("max_runs", "At most so many runs", { placeholder: "no limit" })}
                {text("jitter", "Spread over", { placeholder: "none", help: "Each job has its own place in this window." })}
                {form.schedule === "cron" &&
                  choice("gap", "A time that does not exist", [["", "run as the clocks jump (usual)"], ["run", "run as the clocks jump"], ["skip", "skip it"]], "The night the clocks go forward.")}
                {form.schedule === "cron" &&
                  choice("repeat", "A time that comes twice", [["", "run the first time (usual)"], ["first", "run the first time"], ["second", "run the second time"], ["both", "run both times"]], "The night the clocks go back.")}
              </div>
            </details>
          )}
        </div>
      </section>

      <section className="panel" aria-label="Name and place">
        <header>
          <h2>Name and place</h2>
        </header>
        <div className="body grid2">
          {text("name", "Name", { placeholder: "nightly-billing", mono: true, help: "Lower-case letters, digits, . _ -. Without one it has its id only." })}
          {text("owner", "Owner", { placeholder: "billing@corp" })}
          {text("queue", "Queue", { placeholder: "default", disabled: props.fixed, help: props.fixed ? "A job stays in its queue." : undefined })}
          {text("tags", "Tags", { placeholder: "team:billing, tier:gold" })}
        </div>
      </section>

      <details>
        <summary>Retries, limits of time, overlap, catching up, priority</summary>
        <section className="panel" aria-label="Policy">
          <div className="body grid3">
            {text("max_retries", "Retries", { placeholder: "5" })}
            {text("initial", "First retry after", { placeholder: "10s" })}
            {text("factor", "Then times", { placeholder: "4" })}
            {text("cap", "At most", { placeholder: "1h" })}
            {text("permanent", "Answers not retried", { placeholder: "400, 422" })}
            {text("priority", "Priority", { placeholder: "5", help: "0 to 9, 9 first." })}
            {text("start_within", "Not begun after", { placeholder: "no limit", help: "From when it is due; then it expires." })}
            {text("finish_within", "Not done after", { placeholder: "no limit", help: "Of all its attempts together." })}
            {text("group", "Group", { placeholder: "cust-42", disabled: props.fixed, help: "Groups of a queue take turns." })}
            {recurring &&
              choice("overlap", "When the last run still runs", [["", "wait for it (usual)"], ["queue_one", "wait for it"], ["skip", "skip this one"], ["allow", "run beside it"], ["cancel_running", "cancel the former"]])}
            {recurring &&
              choice("catch_up", "Instants missed while away", [["", "run once (usual)"], ["once", "run once"], ["skip", "skip them"], ["all", "run all"]])}
            {recurring && form.catch_up === "all" && text("catch_up_window", "Not older than", { placeholder: "24h" })}
            {recurring && form.catch_up === "all" && text("catch_up_max", "At most so many", { placeholder: "100" })}
            {recurring && form.catch_up === "all" && text("catch_up_rate", "Per second", { placeholder: "10" })}
          </div>
        </section>
      </details>
    </div>
  );
}

let zones: string[] | undefined;
function Zones() {
  zones ??= typeof Intl.supportedValuesOf === "function" ? Intl.supportedValuesOf("timeZone") : [];
  return (
    <datalist id="zones">
      {zones.map((zone) => (
        <option key={zone} value={zone} />
      ))}
    </datalist>
  );
}

/** The schedule in words, its next instants and the nights that change it. */
export function Preview({ form }: { form: JobForm }) {
  const schedule = useSettled(JSON.stringify(scheduleOf(form, []) ?? null), SETTLE_MS);
  const found = useQuery({ ...preview(JSON.parse(schedule) as unknown, SHOWN), enabled: schedule !== "null" });
  if (found.error) {
    const { at, other } = sortFaults(found.error instanceof ApiError ? found.error.faults : []);
    const said = [...Object.values(at), ...other.map((one) => one.message)];
    return (
      <div className="notice" data-tone="warn" role="status" data-testid="preview">
        {said.length > 0 ? said.join("; ") : found.error.message}
      </div>
    );
  }
  if (!found.data) return <div className="notice" data-testid="preview">…</div>;
  const { description, instants, dst_dates } = found.data;
  return (
    <div className="notice stack tight" role="status" data-testid="preview">
      <strong>{description}</strong>
      <ol className="row small">
        {instants.map((one) => (
          <li key={one.nominal} className="chip">
            <Time at={one.effective} />
            {one.dst ? ` (${one.dst})` : ""}
          </li>
        ))}
        {instants.length === 0 && <li className="muted">It never comes.</li>}
      </ol>
      {dst_dates.slice(0, 2).map((date) => (
        <p key={date.transition} className="small muted">
          {date.what}
        </p>
      ))}
    </div>
  );
}
