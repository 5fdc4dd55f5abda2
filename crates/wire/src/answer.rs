//! What duly answers about jobs and runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

#[derive(Debug, Serialize, JsonSchema)]
pub struct Created {
    pub id: String,
    pub run_id: Option<String>,
    pub status: &'static str,
    pub next_run_at: Option<String>,
    pub version: u32,
    pub warnings: Vec<Warning>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Warning {
    pub code: &'static str,
    pub message: String,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Job {
    pub id: String,
    pub status: &'static str,
    pub version: u32,
    /// The run of a one-off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The schedule in words.
    pub description: Option<String>,
    /// The next instant of the schedule, and when it is due after jitter.
    pub next_run_at: Option<String>,
    pub next_due_at: Option<String>,
    pub created_at: Option<String>,
    pub updated_at: Option<String>,
    /// Attempts of a one-off's run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u16>,
    pub last_run: Option<LastRun>,
    /// Runs that are not finished.
    pub running: Vec<String>,
    pub counts: Option<Counts>,
    pub paused: Option<Paused>,
    // What the user wrote.
    pub name: Option<String>,
    pub owner: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    pub schedule: Option<Value>,
    pub target: Option<Value>,
    pub payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    pub queue: Option<String>,
    pub priority: Option<u8>,
    pub group: Option<String>,
    pub retry: Option<Value>,
    pub timeout: Option<String>,
    pub overlap: Option<&'static str>,
    pub catch_up: Option<Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct LastRun {
    pub id: String,
    pub status: &'static str,
    pub scheduled_for: String,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Counts {
    /// Occurrences that became runs.
    pub fired: u64,
    pub unfinished: u64,
    pub backfills: u16,
    pub reruns: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Paused {
    pub by: &'static str,
    pub reason: String,
    pub since: String,
    pub until: Option<String>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Run {
    pub id: String,
    pub job_id: String,
    pub status: &'static str,
    /// A stop was asked for and the holder has not answered yet.
    pub cancel_requested: bool,
    pub scheduled_for: Option<String>,
    pub due_at: Option<String>,
    pub attempt: u16,
    pub token: Option<u64>,
    pub worker: Option<String>,
    pub next_attempt_at: Option<String>,
    pub finished_at: Option<String>,
    pub error: Option<String>,
    pub output: Option<Box<RawValue>>,
    /// Oldest first. Absent where only the end is known.
    pub attempts: Option<Vec<Attempt>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Attempt {
    pub attempt: u16,
    pub token: u64,
    pub status: &'static str,
    pub started_at: Option<String>,
    pub finished_at: String,
    pub code: Option<u16>,
    pub error: Option<String>,
    pub worker: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Claimed {
    pub runs: Vec<ClaimedRun>,
    pub signal: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ClaimedRun {
    pub run_id: String,
    pub job_id: String,
    pub kind: String,
    pub attempt: u16,
    pub token: u64,
    pub payload: Option<Box<RawValue>>,
    pub scheduled_for: String,
    pub due_at: String,
    pub lease_expires_at: String,
    pub deadline: String,
    pub checkpoint: Option<Box<RawValue>>,
}

/// What became of a job that somebody changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JobChanged {
    pub id: String,
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Of a one-off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// An attempt is under way and was told to stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_requested: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Triggered {
    pub id: String,
    pub run_id: String,
    pub status: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RunChanged {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_requested: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Batch {
    /// In the order of the request.
    pub results: Vec<BatchItem>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct BatchItem {
    pub status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<BatchError>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct BatchError {
    pub code: String,
    pub detail: String,
    pub errors: Vec<crate::FieldFault>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Beats {
    pub results: Vec<Beat>,
    pub signal: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Beat {
    pub run_id: String,
    /// ok, cancel or stale.
    pub status: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Settled {
    pub results: Vec<SettledRun>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SettledRun {
    pub run_id: String,
    /// ok or stale.
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Held {
    pub held: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Health {
    pub status: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Version {
    pub version: &'static str,
    /// The version of the time zone database.
    pub tzdb: &'static str,
}

/// What `GET /v1/doctor` counted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Doctor {
    pub memory: MemoryCounts,
    /// Claimed runs in the store.
    pub stored_leases: usize,
    /// What is wrong; empty if nothing is.
    pub findings: Vec<Finding>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct MemoryCounts {
    pub shards: usize,
    /// Ready runs at the fronts of their flows.
    pub ready: usize,
    /// What waits for an instant of the next minute.
    pub timers: usize,
    pub leases: usize,
    pub claims_waiting: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Finding {
    /// The shard it was found in, if it was found in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<u16>,
    pub what: String,
    /// What to do.
    pub help: String,
}

/// What may be told of an API key.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ApiKey {
    pub id: String,
    pub scope: String,
    /// Null: an admin of all namespaces.
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub created_at: String,
    pub revoked_at: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ApiKeyMade {
    /// For the header Authorization: Bearer …; it is shown only now.
    pub key: String,
    #[serde(flatten)]
    pub about: ApiKey,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ApiKeys {
    pub items: Vec<ApiKey>,
}

/// A page of jobs, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Jobs {
    pub items: Vec<Job>,
    /// Ask again with it as `cursor`; null at the end. A page may be empty and have one.
    pub next_cursor: Option<String>,
}

/// A page of runs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Runs {
    pub items: Vec<Run>,
    pub next_cursor: Option<String>,
}

/// Work that was accepted and goes on by itself.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Operation {
    pub id: String,
    /// backfill, catch_up, replay or discard.
    pub kind: String,
    /// running, done or cancelled.
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    pub done: Option<u64>,
    /// Null where it was not counted.
    pub total: Option<u64>,
    pub failed: u64,
    pub rate: Option<String>,
    pub created_at: Option<String>,
}

/// What an operation would do.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DryRun {
    pub dry_run: bool,
    /// Instants in the range, of a backfill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instants: Option<u64>,
    pub would_run: u64,
    /// False: there are more than were counted.
    pub complete: bool,
    pub takes_about: String,
}

/// A job's instants, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Occurrences {
    pub items: Vec<Occurrence>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Occurrence {
    pub scheduled_for: String,
    pub due_at: String,
    /// planned, paused, unfinished, succeeded, failed, or why it made no run.
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The last instant, where one verdict stands for several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// gap or repeat, where a change of the clocks concerns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst: Option<&'static str>,
}

/// Why a run is where it is.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Explained {
    pub run_id: String,
    pub status: &'static str,
    pub summary: String,
    pub reasons: Vec<Reason>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Reason {
    pub code: &'static str,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries_left: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_it: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a job's last runs went.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Stats {
    pub job_id: String,
    /// Finished runs that were looked at: the last ones.
    pub runs: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub expired: u64,
    pub unfinished: u64,
    /// Of those that succeeded or failed; null without any.
    pub success_rate: Option<f64>,
    /// How long the last attempt took, in milliseconds.
    pub duration_ms: Option<Spread>,
    /// From the instant it was due to the beginning of the last attempt, in milliseconds.
    pub delay_ms: Option<Spread>,
    pub last_error: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Spread {
    pub p50: i64,
    pub p95: i64,
    pub max: i64,
}

/// Dead runs that died alike.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Groups {
    pub items: Vec<Group>,
    /// False: there are more dead runs than were looked at.
    pub complete: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Group {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub count: u64,
    /// When the first and the last of them died.
    pub first_at: Option<String>,
    pub last_at: Option<String>,
    /// One of them.
    pub run_id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Queues {
    pub items: Vec<Queue>,
    pub next_cursor: Option<String>,
}

/// Numbers stop counting at 10,000.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Queue {
    pub name: String,
    pub ready: usize,
    pub running: usize,
    pub retrying: usize,
    pub dead: usize,
    pub due_next_5m: usize,
    pub oldest_ready_ms: Option<i64>,
    pub paused: Option<QueuePaused>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct QueuePaused {
    pub reason: String,
    pub until: Option<String>,
}
