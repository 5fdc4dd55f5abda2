//! The flags of `duly job …`; they carry the names of the JSON fields.

use crate::job::Out;

#[derive(Debug, clap::Args)]
pub struct CreateArgs {
    /// Send a webhook to this address
    #[arg(long, value_name = "URL", group = "what", required_unless_present_any = ["kind", "target"])]
    pub http: Option<String>,
    /// Wait for a worker of this kind
    #[arg(long, group = "what")]
    pub kind: Option<String>,
    /// Any target as JSON, such as '{"command": {"argv": ["/usr/local/bin/tidy"]}}'
    #[arg(long, value_name = "JSON", group = "what")]
    pub target: Option<String>,
    /// A name, unique among unfinished jobs
    #[arg(long)]
    pub name: Option<String>,
    /// Any JSON
    #[arg(long, value_name = "JSON")]
    pub payload: Option<String>,
    #[arg(long, group = "when", value_name = "TIME")]
    pub at: Option<String>,
    #[arg(long, group = "when", value_name = "DURATION")]
    pub delay: Option<String>,
    #[arg(long, group = "when", value_name = "DURATION")]
    pub every: Option<String>,
    #[arg(long, group = "when", value_name = "EXPRESSION")]
    pub cron: Option<String>,
    /// The IANA zone in which --cron is read
    #[arg(long, requires = "cron")]
    pub timezone: Option<String>,
    #[arg(long)]
    pub queue: Option<String>,
    #[arg(long)]
    pub group: Option<String>,
    /// 0 to 9, 9 first
    #[arg(long)]
    pub priority: Option<u8>,
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,
    /// A run that has not started so long after it was due expires
    #[arg(long, value_name = "DURATION")]
    pub start_within: Option<String>,
    /// A run that is not done so long after it was due expires
    #[arg(long, value_name = "DURATION")]
    pub finish_within: Option<String>,
    #[arg(long, value_name = "N")]
    pub max_retries: Option<u64>,
    #[arg(long)]
    pub owner: Option<String>,
    /// key=value, as often as you like
    #[arg(long = "tag", value_name = "KEY=VALUE")]
    pub tags: Vec<String>,
    #[arg(long)]
    pub idempotency_key: Option<String>,
    /// Wait for the end of its run; 6 if it ends badly
    #[arg(long, conflicts_with_all = ["every", "cron"])]
    pub wait: bool,
    #[command(flatten)]
    pub out: Out,
}

#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// active, paused, …, or pending, finished, failed
    #[arg(long)]
    pub status: Option<String>,
    #[arg(long)]
    pub queue: Option<String>,
    /// key or key:value
    #[arg(long)]
    pub tag: Option<String>,
    #[arg(long)]
    pub owner: Option<String>,
    /// Text in the name, the id, the target or a tag
    #[arg(long)]
    pub q: Option<String>,
    #[arg(long)]
    pub limit: Option<String>,
    #[arg(long)]
    pub cursor: Option<String>,
    #[command(flatten)]
    pub out: Out,
}

#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    /// The id or the name
    pub job: String,
    /// Why; whoever finds it paused will ask
    #[arg(long)]
    pub reason: Option<String>,
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    #[command(flatten)]
    pub out: Out,
}

#[derive(Debug, clap::Args)]
pub struct TriggerArgs {
    /// The id or the name
    pub job: String,
    /// Any JSON, instead of the job's own
    #[arg(long, value_name = "JSON")]
    pub payload: Option<String>,
    /// Wait for the end of the run; 6 if it ends badly
    #[arg(long)]
    pub wait: bool,
    #[command(flatten)]
    pub out: Out,
}

#[derive(Debug, clap::Args)]
pub struct BackfillArgs {
    /// The id or the name
    pub job: String,
    #[arg(long, value_name = "TIME")]
    pub from: String,
    /// Now unless given
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// missing, failed or all
    #[arg(long)]
    pub only: Option<String>,
    /// Runs per second, such as 10/s
    #[arg(long)]
    pub rate: Option<String>,
    /// Only say what would run
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub out: Out,
}

#[derive(Debug, clap::Args)]
pub struct OccurrencesArgs {
    /// The id or the name
    pub job: String,
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    #[arg(long)]
    pub limit: Option<String>,
    #[arg(long)]
    pub cursor: Option<String>,
    #[command(flatten)]
    pub out: Out,
}
