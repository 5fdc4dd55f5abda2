// A job as the form holds it: every field a text, so that anything can be typed. `toRequest` makes the
// request of it, `fromJob` the form of a job, and `fieldOf` finds the field that a refusal points at.
import type { FieldFault, Job, Schemas } from "../api/client";
import { fromLocalField, toLocalField } from "./format";
import type { Json } from "./patch";

export const SCHEDULES = ["now", "delay", "at", "every", "cron"] as const;
export const TARGETS = ["http", "worker", "command", "redis", "rabbitmq"] as const;
export type ScheduleKind = (typeof SCHEDULES)[number];
export type TargetKind = (typeof TARGETS)[number];

export interface JobForm {
  name: string;
  owner: string;
  tags: string;
  queue: string;
  group: string;
  priority: string;
  schedule: ScheduleKind;
  delay: string;
  at: string;
  every: string;
  cron: string;
  timezone: string;
  gap: string;
  repeat: string;
  jitter: string;
  start_at: string;
  end_at: string;
  max_runs: string;
  target: TargetKind;
  url: string;
  method: string;
  headers: string;
  kind: string;
  argv: string;
  env: string;
  broker: string;
  stream: string;
  max_len: string;
  exchange: string;
  routing_key: string;
  payload: string;
  max_retries: string;
  initial: string;
  factor: string;
  cap: string;
  permanent: string;
  timeout: string;
  start_within: string;
  finish_within: string;
  overlap: string;
  catch_up: string;
  catch_up_window: string;
  catch_up_max: string;
  catch_up_rate: string;
}

export type Field = keyof JobForm;
export type JobRequest = Schemas["JobRequest"];

export const EMPTY: JobForm = {
  name: "",
  owner: "",
  tags: "",
  queue: "",
  group: "",
  priority: "",
  schedule: "now",
  delay: "15m",
  at: "",
  every: "15m",
  cron: "0 3 * * *",
  timezone: "",
  gap: "",
  repeat: "",
  jitter: "",
  start_at: "",
  end_at: "",
  max_runs: "",
  target: "http",
  url: "",
  method: "",
  headers: "",
  kind: "",
  argv: "",
  env: "",
  broker: "",
  stream: "",
  max_len: "",
  exchange: "",
  routing_key: "",
  payload: "",
  max_retries: "",
  initial: "",
  factor: "",
  cap: "",
  permanent: "",
  timeout: "",
  start_within: "",
  finish_within: "",
  overlap: "",
  catch_up: "",
  catch_up_window: "",
  catch_up_max: "",
  catch_up_rate: "",
};

type Faults = FieldFault[];
type Part = { [name: string]: Json };

/** Numbers are sent as numbers; what is none is sent as it is, and the server says what it expects. */
function number(text: string): Json {
  const n = Number(text);
  return text.trim() !== "" && Number.isFinite(n) ? n : text;
}

/** `name: value` or `name=value` per line. */
function pairs(text: string, sign: ":" | "=", pointer: string, faults: Faults): Part {
  const found: Part = {};
  for (const line of text.split("\n").filter((line) => line.trim() !== "")) {
    const at = line.indexOf(sign);
    if (at < 1) {
      faults.push({ pointer, message: `“${line.trim()}” has no ${sign}; write one name${sign}value per line` });
    } else {
      found[line.slice(0, at).trim()] = line.slice(at + 1).trim();
    }
  }
  return found;
}

/** `team:billing, urgent:yes`, with commas or lines between. */
function tags(text: string, faults: Faults): Part {
  return pairs(text.replaceAll(",", "\n"), ":", "/tags", faults);
}

function lines(text: string): string[] {
  return text.split("\n").filter((line) => line !== "");
}

/** Only what was filled in. */
function filled(part: { [name: string]: Json | undefined }): Part {
  const kept = Object.entries(part).filter(([, value]) => {
    if (value === undefined || value === "") return false;
    return typeof value !== "object" || value === null || Array.isArray(value) || Object.keys(value).length > 0;
  });
  return Object.fromEntries(kept) as Part;
}

function local(text: string, pointer: string, faults: Faults): string | undefined {
  const at = fromLocalField(text);
  if (text !== "" && at === undefined) faults.push({ pointer, message: "this is not a date and a time" });
  return at;
}

export function scheduleOf(form: JobForm, faults: Faults): Part | undefined {
  if (form.schedule === "now") return undefined;
  if (form.schedule === "delay") return { delay: form.delay };
  if (form.schedule === "at") {
    const at = local(form.at, "/schedule/at", faults);
    if (!at && form.at === "") faults.push({ pointer: "/schedule/at", message: "choose a date and a time" });
    return { at: at ?? "" };
  }
  const common = {
    jitter: form.jitter,
    start_at: local(form.start_at, "/schedule/start_at", faults),
    end_at: local(form.end_at, "/schedule/end_at", faults),
    max_runs: form.max_runs && number(form.max_runs),
  };
  if (form.schedule === "every") return { every: form.every, ...filled(common) };
  const dst = filled({ gap: form.gap, repeat: form.repeat });
  return { cron: form.cron, ...filled({ timezone: form.timezone, dst, ...common }) };
}

export function targetOf(form: JobForm, faults: Faults): Part {
  switch (form.target) {
    case "http": {
      const headers = pairs(form.headers, ":", "/target/http/headers", faults);
      return { http: { url: form.url, ...filled({ method: form.method, headers }) } };
    }
    case "worker":
      return { worker: { kind: form.kind } };
    case "command": {
      const env = pairs(form.env, "=", "/target/command/env", faults);
      return { command: { argv: lines(form.argv), ...filled({ env }) } };
    }
    case "redis": {
      const more = filled({ max_len: form.max_len && number(form.max_len) });
      return { publish: { redis: { url: form.broker, stream: form.stream, ...more } } };
    }
    case "rabbitmq": {
      const more = filled({ exchange: form.exchange });
      return { publish: { rabbitmq: { url: form.broker, routing_key: form.routing_key, ...more } } };
    }
  }
}

export function payloadOf(text: string, faults: Faults): Json | undefined {
  if (text.trim() === "") return undefined;
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    const why = error instanceof Error ? error.message : "it cannot be read";
    faults.push({ pointer: "/payload", message: `this is not JSON: ${why}` });
    return undefined;
  }
}

/** The request, and what is wrong before anybody is asked. */
export function toRequest(form: JobForm): { request: Part; faults: Faults } {
  const faults: Faults = [];
  const codes = form.permanent.split(/[\s,]+/).filter((code) => code !== "");
  const retry = filled({
    max_retries: form.max_retries && number(form.max_retries),
    initial: form.initial,
    factor: form.factor && number(form.factor),
    cap: form.cap,
    permanent: codes.length > 0 ? codes.map(number) : undefined,
  });
  const catch_up = filled({
    policy: form.catch_up,
    window: form.catch_up_window,
    max: form.catch_up_max && number(form.catch_up_max),
    rate: form.catch_up_rate && number(form.catch_up_rate),
  });
  const payload = payloadOf(form.payload, faults);
  const request: Part = {
    ...filled({ name: form.name, owner: form.owner, tags: tags(form.tags, faults) }),
    ...filled({ schedule: scheduleOf(form, faults) }),
    target: targetOf(form, faults),
    ...(payload === undefined ? {} : { payload }),
    ...filled({
      queue: form.queue,
      group: form.group,
      priority: form.priority && number(form.priority),
      retry,
      timeout: form.timeout,
      start_within: form.start_within,
      finish_within: form.finish_within,
      overlap: form.overlap,
      catch_up,
    }),
  };
  return { request, faults };
}

function text(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : String(value as number);
}

function part(value: unknown): { [name: string]: unknown } {
  return typeof value === "object" && value !== null ? (value as { [name: string]: unknown }) : {};
}

function written(pairs: unknown, sign: string): string {
  return Object.entries(part(pairs))
    .map(([name, value]) => `${name}${sign}${text(value)}`)
    .join("\n");
}

export function fromJob(job: Job): JobForm {
  const [schedule, target, retry, catch_up] = [job.schedule, job.target, job.retry, job.catch_up].map(part) as [
    Part,
    Part,
    Part,
    Part,
  ];
  const kind = SCHEDULES.find((one) => schedule[one] !== undefined) ?? "now";
  const publish = part(target.publish);
  const [http, command, redis, rabbit] = [target.http, target.command, publish.redis, publish.rabbitmq].map(part) as [
    Part,
    Part,
    Part,
    Part,
  ];
  const which: TargetKind = target.worker
    ? "worker"
    : target.command
      ? "command"
      : publish.redis
        ? "redis"
        : publish.rabbitmq
          ? "rabbitmq"
          : "http";
  const dst = part(schedule.dst);
  const permanent = Array.isArray(retry.permanent) ? retry.permanent.map(text).join(", ") : "";
  return {
    ...EMPTY,
    name: job.name ?? "",
    owner: job.owner ?? "",
    tags: Object.entries(job.tags ?? {})
      .map(([name, value]) => `${name}:${value}`)
      .join(", "),
    queue: job.queue ?? "",
    group: job.group ?? "",
    priority: text(job.priority),
    schedule: kind,
    delay: text(schedule.delay) || EMPTY.delay,
    at: toLocalField(text(schedule.at)),
    every: text(schedule.every) || EMPTY.every,
    cron: text(schedule.cron) || EMPTY.cron,
    timezone: text(schedule.timezone),
    gap: text(dst.gap),
    repeat: text(dst.repeat),
    jitter: text(schedule.jitter),
    start_at: toLocalField(text(schedule.start_at)),
    end_at: toLocalField(text(schedule.end_at)),
    max_runs: text(schedule.max_runs),
    target: which,
    url: text(http.url),
    method: text(http.method),
    headers: written(http.headers, ": "),
    kind: text(part(target.worker).kind),
    argv: Array.isArray(command.argv) ? command.argv.map(text).join("\n") : "",
    env: written(command.env, "="),
    broker: text(redis.url ?? rabbit.url),
    stream: text(redis.stream),
    max_len: text(redis.max_len),
    exchange: text(rabbit.exchange),
    routing_key: text(rabbit.routing_key),
    payload: job.payload === undefined || job.payload === null ? "" : JSON.stringify(job.payload, null, 2),
    max_retries: text(retry.max_retries),
    initial: text(retry.initial),
    factor: text(retry.factor),
    cap: text(retry.cap),
    permanent,
    timeout: job.timeout ?? "",
    start_within: job.start_within ?? "",
    finish_within: job.finish_within ?? "",
    overlap: job.overlap ?? "",
    catch_up: text(catch_up.policy),
    catch_up_window: text(catch_up.window),
    catch_up_max: text(catch_up.max),
    catch_up_rate: text(catch_up.rate),
  };
}

const PLACES: [string, Field][] = [
  ["/target/publish/rabbitmq/routing_key", "routing_key"],
  ["/target/publish/rabbitmq/exchange", "exchange"],
  ["/target/publish/redis/max_len", "max_len"],
  ["/target/publish/redis/stream", "stream"],
  ["/target/publish", "broker"],
  ["/target/http/headers", "headers"],
  ["/target/http/method", "method"],
  ["/target/http", "url"],
  ["/target/worker", "kind"],
  ["/target/command/env", "env"],
  ["/target/command", "argv"],
  ["/schedule/timezone", "timezone"],
  ["/schedule/dst/gap", "gap"],
  ["/schedule/dst/repeat", "repeat"],
  ["/schedule/jitter", "jitter"],
  ["/schedule/start_at", "start_at"],
  ["/schedule/end_at", "end_at"],
  ["/schedule/max_runs", "max_runs"],
  ["/schedule/delay", "delay"],
  ["/schedule/at", "at"],
  ["/schedule/every", "every"],
  ["/schedule/cron", "cron"],
  ["/retry/max_retries", "max_retries"],
  ["/retry/initial", "initial"],
  ["/retry/factor", "factor"],
  ["/retry/cap", "cap"],
  ["/retry/permanent", "permanent"],
  ["/catch_up/window", "catch_up_window"],
  ["/catch_up/max", "catch_up_max"],
  ["/catch_up/rate", "catch_up_rate"],
  ["/catch_up", "catch_up"],
  ["/payload", "payload"],
  ["/name", "name"],
  ["/owner", "owner"],
  ["/tags", "tags"],
  ["/queue", "queue"],
  ["/group", "group"],
  ["/priority", "priority"],
  ["/timeout", "timeout"],
  ["/start_within", "start_within"],
  ["/finish_within", "finish_within"],
  ["/overlap", "overlap"],
];

/** The field that a pointer means; undefined where none is. */
export function fieldOf(pointer: string): Field | undefined {
  return PLACES.find(([place]) => pointer === place || pointer.startsWith(`${place}/`))?.[1];
}

/** What stands at each field, and what stands at none. */
export function sortFaults(faults: Faults): { at: Partial<Record<Field, string>>; other: Faults } {
  const at: Partial<Record<Field, string>> = {};
  const other: Faults = [];
  for (const fault of faults) {
    const field = fieldOf(fault.pointer);
    const message = fault.did_you_mean ? `${fault.message}; did you mean ${fault.did_you_mean}?` : fault.message;
    if (field) at[field] ??= message;
    else other.push({ ...fault, message });
  }
  return { at, other };
}

/** The same by hand. */
export function curlOf(origin: string, path: string, body: unknown, key: boolean): string {
  const quoted = JSON.stringify(body, null, 2).replaceAll("'", `'\\''`);
  const bearer = key ? ` \\\n  -H "Authorization: Bearer $DULY_API_KEY"` : "";
  return `curl -sS ${origin}${path} \\\n  -H 'Content-Type: application/json'${bearer} \\\n  -d '${quoted}'`;
}
