//! `duly run …`.

use crate::failure::Failure;
use crate::job::{Out, payload};
use crate::show::{self, Column};
use crate::{events, wait};
use clap::Subcommand;
use serde_json::json;

#[derive(Debug, Subcommand)]
pub enum RunCommand {
    /// List runs: unfinished ones first, then the last that ended.
    List(Box<ListArgs>),
    /// Show a run and its attempts.
    Show(OneArgs),
    /// Follow a run to its end; 6 if it ends badly.
    Watch(OneArgs),
    /// Why is it not running?
    Explain(OneArgs),
    /// Cancel a run.
    Cancel(OneArgs),
    /// Give a dead run a new budget of attempts.
    Replay(ReplayArgs),
}

#[derive(Debug, clap::Args)]
pub struct OneArgs {
    /// The id
    run: String,
    #[command(flatten)]
    out: Out,
}

#[derive(Debug, clap::Args)]
pub struct ReplayArgs {
    /// The id
    run: String,
    /// Any JSON, instead of the job's own
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// Wait for its end; 6 if it ends badly
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    out: Out,
}

#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// A job, by id or name
    #[arg(long)]
    job: Option<String>,
    /// ready, running, …, or pending, finished, failed
    #[arg(long)]
    status: Option<String>,
    #[arg(long)]
    queue: Option<String>,
    #[arg(long)]
    worker: Option<String>,
    /// one_off, occurrence, trigger, backfill or rerun
    #[arg(long)]
    cause: Option<String>,
    /// Text in the id, the error or the worker
    #[arg(long)]
    q: Option<String>,
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    #[arg(long)]
    limit: Option<String>,
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    pub out: Out,
}

impl ListArgs {
    pub fn query(&self) -> String {
        show::query(&[
            ("job", self.job.as_deref()),
            ("status", self.status.as_deref()),
            ("queue", self.queue.as_deref()),
            ("worker", self.worker.as_deref()),
            ("cause", self.cause.as_deref()),
            ("q", self.q.as_deref()),
            ("since", self.since.as_deref()),
            ("until", self.until.as_deref()),
            ("limit", self.limit.as_deref()),
            ("cursor", self.cursor.as_deref()),
        ])
    }
}

pub const RUNS: [Column; 6] = [
    ("ID", &["id"]),
    ("STATUS", &["status"]),
    ("ATTEMPT", &["attempt"]),
    ("SCHEDULED FOR", &["scheduled_for"]),
    ("ENDED", &["finished_at", "next_attempt_at"]),
    ("ERROR", &["error"]),
];

pub fn run(command: &RunCommand) -> Result<String, Failure> {
    let (args, what) = match command {
        RunCommand::List(args) => {
            let text = args.out.server.get(&format!("/v1/runs{}", args.query()))?;
            return args.out.list(&text, &RUNS, "duly run list");
        }
        RunCommand::Replay(args) => return replay(args),
        RunCommand::Watch(args) => return events::watch(&args.out, &args.run),
        RunCommand::Show(args) => (args, ""),
        RunCommand::Explain(args) => (args, "/explain"),
        RunCommand::Cancel(args) => {
            let path = format!("/v1/runs/{}/cancel", show::checked(&args.run, "run")?);
            return args.out.one(&args.out.server.post(&path, "{}".to_string())?);
        }
    };
    let path = format!("/v1/runs/{}{what}", show::checked(&args.run, "run")?);
    let text = args.out.server.get(&path)?;
    if what == "/explain" && !args.out.json {
        let found = show::parsed(&text)?;
        let reasons = found["reasons"].as_array().cloned().unwrap_or_default();
        let lines: String =
            reasons.iter().map(|one| format!("{}\n", show::plain(&one["message"]))).collect();
        return Ok(lines);
    }
    args.out.one(&text)
}

fn replay(args: &ReplayArgs) -> Result<String, Failure> {
    let run = show::checked(&args.run, "run")?;
    let mut body = json!({});
    if let Some(text) = &args.payload {
        body["payload"] = payload(text, "duly run replay")?;
    }
    let text = args.out.server.post(&format!("/v1/runs/{run}/replay"), body.to_string())?;
    if args.wait { wait::for_run(&args.out, run) } else { args.out.one(&text) }
}
