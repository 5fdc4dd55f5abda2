//! `duly queue …`, `duly hold`, `duly release`, `duly operation …`.

use crate::failure::{EXIT_USAGE, Failure};
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
    /// Set what a queue allows; what is not given is not limited any more.
    Set(SetArgs),
    /// The groups of a queue, the longest line first.
    Groups(OneArgs),
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
pub struct SetArgs {
    /// Which queue
    name: String,
    /// Attempts that run at the same time
    #[arg(long, value_name = "COUNT")]
    max_running: Option<u32>,
    /// Attempts that start in a time, for example 50/s or 100/m
    #[arg(long)]
    rate: Option<String>,
    /// Starts at once after a pause
    #[arg(long, value_name = "COUNT", requires = "rate")]
    burst: Option<u32>,
    /// Attempts of each group that run at the same time
    #[arg(long, value_name = "COUNT")]
    group_max_running: Option<u32>,
    /// Attempts of each group that start in a time
    #[arg(long, value_name = "RATE")]
    group_rate: Option<String>,
    /// Starts of a group at once after a pause
    #[arg(long, value_name = "COUNT", requires = "group_rate")]
    group_burst: Option<u32>,
    /// Starts that a group has in its turn, for example cust-42=3; may be given several times
    #[arg(long, value_name = "GROUP=COUNT")]
    weight: Vec<String>,
    /// The service level: a run that is ready starts within this, for example 30s
    #[arg(long, value_name = "DURATION")]
    start_within: Option<String>,
    /// Take all limits off
    #[arg(long, conflicts_with_all = ["max_running", "rate", "group_max_running", "group_rate", "weight", "start_within"])]
    clear: bool,
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

const GROUPS: [Column; 5] = [
    ("GROUP", &["group"]),
    ("READY", &["ready"]),
    ("RUNNING", &["running"]),
    ("OLDEST MS", &["oldest_ready_ms"]),
    ("WEIGHT", &["weight"]),
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
        QueueCommand::Set(args) => {
            let body = limits(args)?;
            args.out.one(&args.out.server.ask(
                "PUT",
                &path(&args.name, "")?,
                Some(body.to_string()),
            )?)
        }
        QueueCommand::Groups(args) => {
            let text = args.out.server.get(&path(&args.name, "/groups")?)?;
            args.out.list(&text, &GROUPS, "duly queue groups")
        }
        QueueCommand::Pause(args) => {
            let body = given(&[("reason", &args.reason), ("until", &args.until)]);
            args.out.one(&args.out.server.post(&path(&args.name, "/pause")?, body.to_string())?)
        }
        QueueCommand::Resume(args) => {
            args.out.one(&args.out.server.post(&path(&args.name, "/resume")?, "{}".to_string())?)
        }
    }
}

fn usage(message: String) -> Failure {
    Failure { exit: EXIT_USAGE, message, help: "duly queue set --help".to_string() }
}

fn limits(args: &SetArgs) -> Result<Value, Failure> {
    let mut weights = serde_json::Map::new();
    for weight in &args.weight {
        let parsed =
            weight.rsplit_once('=').and_then(|(group, n)| Some((group, n.parse::<u32>().ok()?)));
        let Some((group, count)) = parsed else {
            return Err(usage(format!(
                "--weight {weight}: a group and a whole number are expected, for example --weight cust-42=3"
            )));
        };
        weights.insert(group.to_string(), json!(count));
    }
    let given = args.max_running.is_some()
        || args.rate.is_some()
        || args.group_max_running.is_some()
        || args.group_rate.is_some()
        || args.start_within.is_some()
        || !weights.is_empty();
    if !given && !args.clear {
        return Err(usage(
            "nothing to set: give --max-running, --rate, --group-max-running, --group-rate, --weight or --start-within, or --clear to take all limits off".to_string(),
        ));
    }
    Ok(json!({
        "max_running": args.max_running,
        "rate": args.rate,
        "burst": args.burst,
        "start_within": args.start_within,
        "groups": {
            "max_running": args.group_max_running,
            "rate": args.group_rate,
            "burst": args.group_burst,
            "weights": weights,
        },
    }))
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
