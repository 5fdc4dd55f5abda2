//! `duly job …`: thin, the server decides everything.

use crate::client::Server;
use crate::failure::{EXIT_USAGE, Failure};
use crate::job_args::{
    BackfillArgs, CreateArgs, ListArgs, OccurrencesArgs, PauseArgs, TriggerArgs,
};
use crate::show::{self, Column};
use crate::{job_apply, job_edit, job_versions, wait};
use clap::Subcommand;
use serde_json::{Map, Value, json};

#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Make a job.
    Create(Box<CreateArgs>),
    /// Make or change the jobs of a file; shows what will change first.
    Apply(job_apply::Args),
    /// List jobs, newest first.
    List(ListArgs),
    /// Show a job.
    Show(OneArgs),
    /// Change a job, in your editor or with --patch.
    Edit(job_edit::Args),
    /// Start nothing more of a recurring job.
    Pause(PauseArgs),
    /// Go on with a paused job.
    Resume(OneArgs),
    /// Run a recurring job now, beside its schedule.
    Trigger(TriggerArgs),
    /// Run instants of the past.
    Backfill(BackfillArgs),
    /// End a job: nothing more of it starts.
    Cancel(OneArgs),
    /// What became of a job's instants, and which come next.
    Occurrences(OccurrencesArgs),
    /// How a job's last runs went.
    Stats(OneArgs),
    /// What a job was, who changed it and when.
    Versions(job_versions::VersionsArgs),
    /// Go back to a former version of a job.
    Restore(job_versions::RestoreArgs),
}

#[derive(Debug, clap::Args)]
pub struct OneArgs {
    /// The id or the name
    pub job: String,
    #[command(flatten)]
    pub out: Out,
}

/// What every client command has.
#[derive(Debug, clap::Args)]
pub struct Out {
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub server: Server,
}

impl Out {
    /// One thing: a field per line, or JSON.
    pub fn one(&self, text: &str) -> Result<String, Failure> {
        if self.json { Ok(show::json(text)) } else { show::fields(text) }
    }

    /// A list: a table, or JSON.
    pub fn list(&self, text: &str, columns: &[Column], more: &str) -> Result<String, Failure> {
        if self.json { Ok(show::json(text)) } else { show::table(text, columns, more) }
    }
}

const JOBS: [Column; 6] = [
    ("ID", &["id"]),
    ("NAME", &["name"]),
    ("STATUS", &["status"]),
    ("NEXT", &["next_run_at"]),
    ("QUEUE", &["queue"]),
    ("WHAT", &["description", "target.http.url", "target.worker.kind"]),
];
const OCCURRENCES: [Column; 5] = [
    ("SCHEDULED FOR", &["scheduled_for"]),
    ("DUE", &["due_at"]),
    ("STATUS", &["status"]),
    ("COUNT", &["count"]),
    ("RUN", &["run_id"]),
];

pub fn job(command: &JobCommand) -> Result<String, Failure> {
    match command {
        JobCommand::Create(args) => create(args),
        JobCommand::Apply(args) => job_apply::run(args),
        JobCommand::List(args) => list(args),
        JobCommand::Show(args) => args.out.one(&args.out.server.get(&path(&args.job, "")?)?),
        JobCommand::Edit(args) => job_edit::run(args),
        JobCommand::Pause(args) => pause(args),
        JobCommand::Resume(args) => {
            args.out.one(&args.out.server.post(&path(&args.job, "/resume")?, "{}".to_string())?)
        }
        JobCommand::Trigger(args) => trigger(args),
        JobCommand::Backfill(args) => backfill(args),
        JobCommand::Cancel(args) => args.out.one(&args.out.server.delete(&path(&args.job, "")?)?),
        JobCommand::Occurrences(args) => occurrences(args),
        JobCommand::Stats(args) => args.out.one(&args.out.server.get(&path(&args.job, "/stats")?)?),
        JobCommand::Versions(args) => job_versions::versions(args),
        JobCommand::Restore(args) => job_versions::restore(args),
    }
}

/// The address of something of a job.
pub fn path(job: &str, what: &str) -> Result<String, Failure> {
    Ok(format!("/v1/jobs/{}{what}", show::checked(job, "job")?))
}

fn create(args: &CreateArgs) -> Result<String, Failure> {
    let text = args.out.server.post("/v1/jobs", body(args)?.to_string())?;
    if args.wait {
        let made = show::parsed(&text)?;
        return wait::for_run(&args.out, made["run_id"].as_str().unwrap_or_default());
    }
    args.out.one(&text)
}

fn body(args: &CreateArgs) -> Result<Value, Failure> {
    let mut schedule = Map::new();
    let whens = [("at", &args.at), ("delay", &args.delay), ("every", &args.every)];
    let crons = [("cron", &args.cron), ("timezone", &args.timezone)];
    for (name, value) in whens.into_iter().chain(crons) {
        if let Some(value) = value {
            schedule.insert(name.to_string(), json!(value));
        }
    }
    let target = match (&args.http, &args.kind, &args.target) {
        (Some(url), ..) => json!({"http": {"url": url}}),
        (_, _, Some(text)) => target(text)?,
        (_, kind, _) => json!({"worker": {"kind": kind}}),
    };
    let mut body = json!({ "target": target });
    if !schedule.is_empty() {
        body["schedule"] = Value::Object(schedule);
    }
    if let Some(text) = &args.payload {
        body["payload"] = payload(text, "duly job create")?;
    }
    let texts = [
        ("name", &args.name),
        ("queue", &args.queue),
        ("group", &args.group),
        ("timeout", &args.timeout),
        ("start_within", &args.start_within),
        ("finish_within", &args.finish_within),
        ("owner", &args.owner),
        ("idempotency_key", &args.idempotency_key),
    ];
    for (name, value) in texts.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)))
    {
        body[name] = json!(value);
    }
    if let Some(priority) = args.priority {
        body["priority"] = json!(priority);
    }
    if let Some(retries) = args.max_retries {
        body["retry"] = json!({"max_retries": retries});
    }
    for tag in &args.tags {
        let Some((key, value)) = tag.split_once('=') else {
            let help = "duly job create --tag team=billing …".to_string();
            let message = format!("--tag {tag:?} has no =");
            return Err(Failure { exit: EXIT_USAGE, message, help });
        };
        body["tags"][key] = json!(value);
    }
    Ok(body)
}

pub fn payload(text: &str, command: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| Failure {
        exit: EXIT_USAGE,
        message: format!("--payload is not JSON: {error}"),
        help: format!("{command} --payload '{{\"hello\":\"world\"}}' …"),
    })
}

fn target(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| Failure {
        exit: EXIT_USAGE,
        message: format!("--target is not JSON: {error}"),
        help: "duly job create --target '{\"worker\":{\"kind\":\"mail\"}}' …".to_string(),
    })
}

fn list(args: &ListArgs) -> Result<String, Failure> {
    let query = show::query(&[
        ("status", args.status.as_deref()),
        ("queue", args.queue.as_deref()),
        ("tag", args.tag.as_deref()),
        ("owner", args.owner.as_deref()),
        ("q", args.q.as_deref()),
        ("limit", args.limit.as_deref()),
        ("cursor", args.cursor.as_deref()),
    ]);
    let text = args.out.server.get(&format!("/v1/jobs{query}"))?;
    args.out.list(&text, &JOBS, "duly job list")
}

fn pause(args: &PauseArgs) -> Result<String, Failure> {
    let body = given(&[("reason", &args.reason), ("until", &args.until)]);
    args.out.one(&args.out.server.post(&path(&args.job, "/pause")?, body.to_string())?)
}

/// An object of the texts that are there.
pub fn given(pairs: &[(&str, &Option<String>)]) -> Value {
    let there =
        pairs.iter().filter_map(|(name, value)| Some((name.to_string(), json!(value.as_ref()?))));
    Value::Object(there.collect())
}

fn trigger(args: &TriggerArgs) -> Result<String, Failure> {
    let mut body = json!({});
    if let Some(text) = &args.payload {
        body["payload"] = payload(text, "duly job trigger")?;
    }
    let text = args.out.server.post(&path(&args.job, "/trigger")?, body.to_string())?;
    if args.wait {
        let made = show::parsed(&text)?;
        return wait::for_run(&args.out, made["run_id"].as_str().unwrap_or_default());
    }
    args.out.one(&text)
}

fn backfill(args: &BackfillArgs) -> Result<String, Failure> {
    let mut body = given(&[("to", &args.to), ("only", &args.only), ("rate", &args.rate)]);
    body["from"] = json!(args.from);
    if args.dry_run {
        body["dry_run"] = json!(true);
    }
    args.out.one(&args.out.server.post(&path(&args.job, "/backfill")?, body.to_string())?)
}

fn occurrences(args: &OccurrencesArgs) -> Result<String, Failure> {
    let query = show::query(&[
        ("from", args.from.as_deref()),
        ("to", args.to.as_deref()),
        ("limit", args.limit.as_deref()),
        ("cursor", args.cursor.as_deref()),
    ]);
    let text = args.out.server.get(&path(&args.job, &format!("/occurrences{query}"))?)?;
    args.out.list(&text, &OCCURRENCES, &format!("duly job occurrences {}", args.job))
}
