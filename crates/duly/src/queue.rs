//! `duly queue …`, `duly hold`, `duly release`, `duly operation …`.

use crate::failure::Failure;
use crate::job::{Out, given};
use crate::show::{self, Column};
use clap::Subcommand;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// List queues and how long they are.
    List(ListArgs),
    /// Show a queue.
    Show(OneArgs),
    /// Start nothing more of a queue.
    Pause(PauseArgs),
    /// Start runs of a queue again.
    Resume(OneArgs),
}

#[derive(Debug, Subcommand)]
pub enum OperationCommand {
    /// How far is it?
    Show(OneArgs),
    /// Stop it; what it did stays.
    Cancel(OneArgs),
}

#[derive(Debug, clap::Args)]
pub struct ListArgs {
    #[arg(long)]
    limit: Option<String>,
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    out: Out,
}

#[derive(Debug, clap::Args)]
pub struct OneArgs {
    /// Which one
    name: String,
    #[command(flatten)]
    out: Out,
}

#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    /// Which queue
    name: String,
    #[arg(long)]
    reason: Option<String>,
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    #[command(flatten)]
    out: Out,
}

#[derive(Debug, Subcommand)]
pub enum HoldCommand {
    /// List what is held, and why.
    List(HoldListArgs),
}

#[derive(Debug, clap::Args)]
pub struct HoldListArgs {
    #[command(flatten)]
    out: Out,
}

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct HoldArgs {
    #[command(subcommand)]
    command: Option<HoldCommand>,
    /// Only this queue
    #[arg(long)]
    queue: Option<String>,
    /// Why; whoever finds it held will ask
    #[arg(long, required = true)]
    reason: Option<String>,
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    #[command(flatten)]
    out: Out,
}

#[derive(Debug, clap::Args)]
pub struct ReleaseArgs {
    /// Only this queue
    #[arg(long)]
    queue: Option<String>,
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    out: Out,
}

const QUEUES: [Column; 7] = [
    ("QUEUE", &["name"]),
    ("READY", &["ready"]),
    ("RUNNING", &["running"]),
    ("RETRYING", &["retrying"]),
    ("DEAD", &["dead"]),
    ("DUE IN 5M", &["due_next_5m"]),
    ("PAUSED", &["paused.reason"]),
];

pub fn queue(command: &QueueCommand) -> Result<String, Failure> {
    match command {
        QueueCommand::List(args) => {
            let query = show::query(&[
                ("limit", args.limit.as_deref()),
                ("cursor", args.cursor.as_deref()),
            ]);
            let text = args.out.server.get(&format!("/v1/queues{query}"))?;
            args.out.list(&text, &QUEUES, "duly queue list")
        }
        QueueCommand::Show(args) => args.out.one(&args.out.server.get(&path(&args.name, "")?)?),
        QueueCommand::Pause(args) => {
            let body = given(&[("reason", &args.reason), ("until", &args.until)]);
            args.out.one(&args.out.server.post(&path(&args.name, "/pause")?, body.to_string())?)
        }
        QueueCommand::Resume(args) => {
            args.out.one(&args.out.server.post(&path(&args.name, "/resume")?, "{}".to_string())?)
        }
    }
}

fn path(queue: &str, what: &str) -> Result<String, Failure> {
    Ok(format!("/v1/queues/{}{what}", show::checked(queue, "queue")?))
}

pub fn operation(command: &OperationCommand) -> Result<String, Failure> {
    let (args, cancel) = match command {
        OperationCommand::Show(args) => (args, false),
        OperationCommand::Cancel(args) => (args, true),
    };
    let path = format!("/v1/operations/{}", show::checked(&args.name, "operation")?);
    args.out.one(&match cancel {
        true => args.out.server.post(&format!("{path}/cancel"), "{}".to_string())?,
        false => args.out.server.get(&path)?,
    })
}

pub fn hold(args: &HoldArgs) -> Result<String, Failure> {
    if let Some(HoldCommand::List(args)) = &args.command {
        return holds(&args.out);
    }
    let mut body = given(&[("reason", &args.reason), ("until", &args.until)]);
    scoped(&mut body, args.queue.as_deref(), &args.out);
    args.out.one(&args.out.server.post("/v1/hold", body.to_string())?)
}

fn holds(out: &Out) -> Result<String, Failure> {
    let text = out.server.get("/v1/holds")?;
    if out.json {
        return Ok(show::json(&text));
    }
    let value = show::parsed(&text)?;
    let held = value["items"].as_array().cloned().unwrap_or_default();
    if held.is_empty() {
        return Ok("nothing is held\n".to_string());
    }
    let mut rows = vec![["HELD", "REASON", "UNTIL"].map(str::to_string).to_vec()];
    for one in &held {
        let part =
            if one["everywhere"] == json!(false) { " (in a part of the shards)" } else { "" };
        let held = format!("{}{part}", held_words(one));
        rows.push(vec![held, show::plain(&one["reason"]), show::plain(&one["until"])]);
    }
    let mut table = show::grid(&rows);
    if value["complete"] == json!(false) {
        table.push_str("there are more\n");
    }
    Ok(table)
}

/// What a hold stops, in words.
pub fn held_words(hold: &Value) -> String {
    let scope = &hold["scope"];
    let of =
        |kind: &str| scope[kind].as_str().map(|_| format!("{kind} {}", show::plain(&scope[kind])));
    of("queue").or_else(|| of("namespace")).unwrap_or_else(|| "everything".to_string())
}

pub fn release(args: &ReleaseArgs) -> Result<String, Failure> {
    let mut body = given(&[("reason", &args.reason)]);
    scoped(&mut body, args.queue.as_deref(), &args.out);
    args.out.one(&args.out.server.post("/v1/release", body.to_string())?)
}

/// A queue, the namespace that was named, or all that is the caller's.
fn scoped(body: &mut Value, queue: Option<&str>, out: &Out) {
    match (queue, out.server.namespace()) {
        (Some(queue), _) => body["scope"] = json!({"queue": queue}),
        (None, Some(namespace)) => body["scope"] = json!({"namespace": namespace}),
        (None, None) => {}
    }
}
