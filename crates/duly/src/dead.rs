//! `duly dead …`: runs that wait for a person.

use crate::failure::{EXIT_USAGE, Failure};
use crate::job::{Out, given};
use crate::run::{ListArgs, RUNS};
use crate::show::{self, Column};
use clap::Subcommand;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub enum DeadCommand {
    /// List dead runs.
    List(Box<ListArgs>),
    /// Dead runs by what they died of.
    Groups(GroupsArgs),
    /// Give dead runs a new budget of attempts.
    Replay(BulkArgs),
    /// End dead runs for good.
    Discard(BulkArgs),
}

#[derive(Debug, clap::Args)]
pub struct GroupsArgs {
    /// job, error or job,error
    #[arg(long)]
    by: Option<String>,
    #[command(flatten)]
    out: Out,
}

#[derive(Debug, clap::Args)]
pub struct BulkArgs {
    /// The runs; or say which with --job, --queue, --q or --all
    runs: Vec<String>,
    /// All of this job, by id or name
    #[arg(long)]
    job: Option<String>,
    /// All of this queue
    #[arg(long)]
    queue: Option<String>,
    /// All whose error holds this text
    #[arg(long)]
    q: Option<String>,
    /// All
    #[arg(long)]
    all: bool,
    /// Runs per second, such as 50/s
    #[arg(long)]
    rate: Option<String>,
    /// Only say how many
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    out: Out,
}

const GROUPS: [Column; 5] = [
    ("COUNT", &["count"]),
    ("JOB", &["job_id"]),
    ("ERROR", &["error"]),
    ("LAST", &["last_at"]),
    ("ONE OF THEM", &["run_id"]),
];

pub fn run(command: &DeadCommand) -> Result<String, Failure> {
    match command {
        DeadCommand::List(args) => {
            let text = args.out.server.get(&format!("/v1/dead-letters{}", args.query()))?;
            args.out.list(&text, &RUNS, "duly dead list")
        }
        DeadCommand::Groups(args) => {
            let query = show::query(&[("by", args.by.as_deref())]);
            let text = args.out.server.get(&format!("/v1/dead-letters/groups{query}"))?;
            args.out.list(&text, &GROUPS, "duly dead groups")
        }
        DeadCommand::Replay(args) => bulk(args, "replay"),
        DeadCommand::Discard(args) => bulk(args, "discard"),
    }
}

fn bulk(args: &BulkArgs, verb: &str) -> Result<String, Failure> {
    let filter = given(&[("job", &args.job), ("queue", &args.queue), ("q", &args.q)]);
    let filtered = filter.as_object().is_some_and(|filter| !filter.is_empty());
    let mut body = match (args.runs.is_empty(), filtered, args.all) {
        (false, false, false) => json!({"ids": args.runs}),
        (true, true, false) | (true, false, true) => json!({ "filter": filter }),
        _ => {
            return Err(Failure {
                exit: EXIT_USAGE,
                message: "say which: runs by their ids, or --job, --queue, --q, or --all"
                    .to_string(),
                help: format!("duly dead {verb} --all --dry-run"),
            });
        }
    };
    if let Some(rate) = &args.rate {
        body["rate"] = json!(rate);
    }
    if args.dry_run {
        body["dry_run"] = Value::Bool(true);
    }
    let text = args.out.server.post(&format!("/v1/dead-letters/{verb}"), body.to_string())?;
    args.out.one(&text)
}
