//! `duly job create|show` and `duly run show`: thin, the server decides everything.

use crate::client::Server;
use crate::failure::{EXIT_FAILED, Failure};
use clap::Subcommand;
use serde_json::{Map, Value, json};

#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Make a job.
    Create(Box<CreateArgs>),
    /// Show a job.
    Show(ShowArgs),
}

#[derive(Debug, Subcommand)]
pub enum RunCommand {
    /// Show a run.
    Show(ShowArgs),
}

#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The id
    id: String,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
pub struct CreateArgs {
    /// Send a webhook to this address
    #[arg(long, value_name = "URL", required_unless_present = "kind", conflicts_with = "kind")]
    http: Option<String>,
    /// Wait for a worker of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Any JSON
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    #[arg(long, group = "when", value_name = "TIME")]
    at: Option<String>,
    #[arg(long, group = "when", value_name = "DURATION")]
    delay: Option<String>,
    #[arg(long, group = "when", value_name = "DURATION")]
    every: Option<String>,
    #[arg(long, group = "when", value_name = "EXPRESSION")]
    cron: Option<String>,
    /// The IANA zone in which --cron is read
    #[arg(long, requires = "cron")]
    timezone: Option<String>,
    #[arg(long)]
    queue: Option<String>,
    #[arg(long)]
    idempotency_key: Option<String>,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

pub fn job(command: &JobCommand) -> Result<String, Failure> {
    match command {
        JobCommand::Create(args) => create(args),
        JobCommand::Show(args) => show(args, "jobs"),
    }
}

pub fn run(command: &RunCommand) -> Result<String, Failure> {
    let RunCommand::Show(args) = command;
    show(args, "runs")
}

fn create(args: &CreateArgs) -> Result<String, Failure> {
    let mut schedule = Map::new();
    let whens = [("at", &args.at), ("delay", &args.delay), ("every", &args.every)];
    let crons = [("cron", &args.cron), ("timezone", &args.timezone)];
    for (name, value) in whens.into_iter().chain(crons) {
        if let Some(value) = value {
            schedule.insert(name.to_string(), json!(value));
        }
    }
    let target = match (&args.http, &args.kind) {
        (Some(url), _) => json!({"http": {"url": url}}),
        (None, kind) => json!({"worker": {"kind": kind}}),
    };
    let mut body = json!({ "target": target });
    if !schedule.is_empty() {
        body["schedule"] = Value::Object(schedule);
    }
    if let Some(text) = &args.payload {
        body["payload"] = serde_json::from_str(text).map_err(|error| Failure {
            exit: 2,
            message: format!("--payload is not JSON: {error}"),
            help: "duly job create --payload '{\"hello\":\"world\"}' …".to_string(),
        })?;
    }
    for (name, value) in [("queue", &args.queue), ("idempotency_key", &args.idempotency_key)] {
        if let Some(value) = value {
            body[name] = json!(value);
        }
    }
    print(&args.server.post("/v1/jobs", body.to_string())?, args.json)
}

fn show(args: &ShowArgs, what: &str) -> Result<String, Failure> {
    if !args.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        let message = format!("{} is not an id", args.id);
        return Err(Failure { exit: 2, ..Failure::failed(message) });
    }
    print(&args.server.get(&format!("/v1/{what}/{}", args.id))?, args.json)
}

/// One field per line for people; what is absent is left out.
fn print(text: &str, json: bool) -> Result<String, Failure> {
    if json {
        return Ok(format!("{}\n", text.trim_end()));
    }
    let value: Value = serde_json::from_str(text).map_err(|_| Failure {
        exit: EXIT_FAILED,
        ..Failure::failed("the server's answer is not JSON")
    })?;
    let mut lines = String::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let shown = match value {
            Value::Null => continue,
            Value::Array(list) if list.is_empty() => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        lines.push_str(&format!("{name:16} {shown}\n"));
    }
    Ok(lines)
}
