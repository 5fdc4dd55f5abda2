// The same as code: what the form would send, and a first worker, in each language that has a client.
import { curlOf } from "./jobform";
import { literal, PYTHON, RUST, shellWord, TYPESCRIPT } from "./literals";
import type { Json } from "./patch";

export const LANGUAGES = ["python", "typescript", "rust", "curl", "cli"] as const;
export type Language = (typeof LANGUAGES)[number];

export const LANGUAGE_WORDS: Record<Language, string> = {
  python: "Python",
  typescript: "TypeScript",
  rust: "Rust",
  curl: "curl",
  cli: "CLI",
};

/** What must be there before the code runs. */
export const NEEDS: Record<Language, string> = {
  python: "pip install ./sdks/python",
  typescript: "npm install ./sdks/typescript",
  rust: "cargo add --path sdks/rust && cargo add serde_json tokio --features tokio/full",
  curl: "",
  cli: "",
};

export interface Where {
  origin: string;
  /** The server asks for a key; it is never written into code. */
  key: boolean;
}

type Job = { [name: string]: Json };
type Code = (where: Where, job: Job) => string;

const asked = (sign: string, { key }: Where) => (key ? ` ${sign} the key comes from DULY_API_KEY` : "");

const JOB: Record<Language, Code> = {
  python: (where, job) =>
    [
      "import duly",
      "",
      `client = duly.Client(${PYTHON.text(where.origin)})${asked(" #", where)}`,
      `made = client.create(${literal(job, PYTHON)})`,
      `print(made["id"])`,
    ].join("\n"),
  typescript: (where, job) =>
    [
      `import { Client } from "duly-client";`,
      "",
      `const client = new Client(${TYPESCRIPT.text(where.origin)});${asked("//", where)}`,
      `const made = await client.create(${literal(job, TYPESCRIPT)});`,
      "console.log(made.id);",
    ].join("\n"),
  rust: (where, job) =>
    [
      "use duly_client::{Client, JobRequest};",
      "use serde_json::json;",
      "",
      "#[tokio::main]",
      "async fn main() -> Result<(), Box<dyn std::error::Error>> {",
      `    let client = Client::at(${RUST.text(where.origin)})?;${asked("//", where)}`,
      `    let job: JobRequest = serde_json::from_value(json!(${literal(job, RUST, 1)}))?;`,
      "    let made = client.create(&job).await?;",
      `    println!("{}", made.id);`,
      "    Ok(())",
      "}",
    ].join("\n"),
  curl: (where, job) => curlOf(where.origin, "/v1/jobs", job, where.key),
  cli: (where, job) => commandOf(where, job),
};

/** A job as code that makes it. */
export function jobCode(language: Language, where: Where, job: Job): string {
  return JOB[language](where, job);
}

const isPart = (value: Json | undefined): value is Job => typeof value === "object" && value !== null && !Array.isArray(value);

/** What the flags of `duly job create` say, and the names of what they do not. */
function flagsOf(job: Job): { flags: [string, string][]; left: string[] } {
  const flags: [string, string][] = [];
  const left: string[] = [];
  const plain = (value: Json) => (typeof value === "string" ? value : JSON.stringify(value));
  const { target, schedule, retry, tags, payload, ...rest } = job;
  const some = (part: Job, names: string[], at: string) => {
    for (const [name, value] of Object.entries(part)) {
      if (names.includes(name)) flags.push([name.replaceAll("_", "-"), plain(value)]);
      else left.push(`${at}${name}`);
    }
  };
  const [http, worker] = isPart(target) ? [target.http, target.worker] : [];
  if (isPart(http) && Object.keys(http).length === 1) flags.push(["http", plain(http.url ?? "")]);
  else if (isPart(worker)) flags.push(["kind", plain(worker.kind ?? "")]);
  else flags.push(["target", JSON.stringify(target ?? null)]);
  if (payload !== undefined) flags.push(["payload", JSON.stringify(payload)]);
  some(isPart(schedule) ? schedule : {}, ["at", "delay", "every", "cron", "timezone"], "schedule.");
  some(isPart(retry) ? retry : {}, ["max_retries"], "retry.");
  for (const [name, value] of Object.entries(isPart(tags) ? tags : {})) {
    if (name.includes("=")) left.push(`tags.${name}`);
    else flags.push(["tag", `${name}=${plain(value)}`]);
  }
  some(rest, ["name", "owner", "queue", "group", "priority", "timeout", "start_within", "finish_within"], "");
  return { flags, left };
}

function commandOf({ origin }: Where, job: Job): string {
  const { flags, left } = flagsOf(job);
  const words = [...flags, ["url", origin] as [string, string]].map(([name, value]) => {
    // A value that begins with a dash would be read as a flag.
    const sign = value.startsWith("-") ? "=" : " ";
    return `--${name}${sign}${shellWord(value)}`;
  });
  const command = ["duly job create", ...words].join(" \\\n  ");
  if (left.length === 0) return command;
  return `# There is no flag for ${left.map((one) => one.replace(/\p{C}/gu, " ")).join(", ")}: use curl, or a file with duly job apply.\n${command}`;
}

const WORKER: Partial<Record<Language, (where: Where) => string>> = {
  python: (where) =>
    [
      "import duly",
      "",
      `worker = duly.Worker(${PYTHON.text(where.origin)}, queues=["default"])${asked(" #", where)}`,
      "",
      "",
      `@worker.handler("hello")`,
      "def hello(payload, ctx):",
      `    return {"greeting": f"hello {payload['name']}"}`,
      "",
      "",
      "worker.run()",
    ].join("\n"),
  typescript: (where) =>
    [
      `import { Worker } from "duly-client";`,
      "",
      `const worker = new Worker({ url: ${TYPESCRIPT.text(where.origin)}, queues: ["default"] });${asked("//", where)}`,
      "",
      `worker.handle("hello", (payload) => ({ greeting: \`hello \${payload.name}\` }));`,
      "",
      "await worker.run();",
    ].join("\n"),
  rust: (where) =>
    [
      "use duly_client::{Client, Context, End, Worker};",
      "use serde_json::{Value, json};",
      "",
      "async fn hello(payload: Value, _: Context) -> Result<Value, End> {",
      `    let name = payload["name"].as_str().unwrap_or("you");`,
      `    Ok(json!({"greeting": format!("hello {name}")}))`,
      "}",
      "",
      "#[tokio::main]",
      "async fn main() -> Result<(), Box<dyn std::error::Error>> {",
      `    let client = Client::at(${RUST.text(where.origin)})?;${asked("//", where)}`,
      `    let mut worker = Worker::builder(&client).queues(["default"]).build()?;`,
      `    worker.handle("hello", hello)?;`,
      "    worker.run().await?;",
      "    Ok(())",
      "}",
    ].join("\n"),
};

/** Languages that a worker is shown in. */
export const WORKER_LANGUAGES = LANGUAGES.filter((language) => WORKER[language] !== undefined);

/** A worker that does something, to begin with. */
export function workerCode(language: Language, where: Where): string {
  return WORKER[language]?.(where) ?? "";
}
