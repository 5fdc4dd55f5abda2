//! What duly answers about jobs and runs.

mod cluster;
mod destinations;
mod outbox;
mod quotas;
mod versions;
mod views;
mod workers;

pub use cluster::*;
pub use destinations::*;
pub use outbox::*;
pub use quotas::*;
pub use versions::*;
pub use views::*;
pub use workers::*;

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
    /// Its next fire waits, because it would be too much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed: Option<Delayed>,
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
    pub start_within: Option<String>,
    pub finish_within: Option<String>,
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
    /// What the attempt under way said last of how far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// What an attempt stored for the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Box<RawValue>>,
    /// Oldest first. Absent where only the end is known.
    pub attempts: Option<Vec<Attempt>>,
}

/// How far an attempt is, as its worker said with a heartbeat. Remembered in memory only.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Progress {
    /// From 0 to 1.
    pub fraction: Option<f64>,
    pub message: Option<String>,
    /// When it was heard.
    pub at: String,
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
    pub job_name: Option<String>,
    pub kind: String,
    pub attempt: u16,
    pub token: u64,
    /// The job's group. Its runs count on not overlapping: their handlers stop when their lease is
    /// unknown.
    pub group: Option<String>,
    pub payload: Option<Box<RawValue>>,
    /// A payload that is not JSON, and what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// What the attempt before this one died of.
    pub previous_error: Option<String>,
    pub scheduled_for: String,
    pub due_at: String,
    pub lease_expires_at: String,
    pub deadline: String,
    pub checkpoint: Option<Box<RawValue>>,
    /// W3C Trace Context: a run is one trace, an attempt one span of it.
    pub traceparent: String,
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
    /// Of one that is ok.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_expires_at: Option<String>,
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

/// What is held now, the widest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Holds {
    pub items: Vec<Hold>,
    /// False: there are more than are told.
    pub complete: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Hold {
    /// As `POST /v1/release` takes it.
    pub scope: HoldScope,
    pub reason: String,
    /// When it ends by itself; null: when somebody releases it.
    pub until: Option<String>,
    /// False: only a part of the shards has heard of it, because it is just being set or released, or
    /// because that failed half-way. Ask for the same again.
    pub everywhere: bool,
}

/// `"all"`, `{"namespace": …}` or `{"queue": …}`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HoldScope {
    All,
    Namespace(String),
    Queue(String),
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
    pub store: StoreAbout,
}

/// Where jobs are kept, and what is safe there.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StoreAbout {
    /// `memory`, `sqlite` or `postgres`.
    pub kind: &'static str,
    /// What is safe when it has answered, in words.
    pub durability: String,
    /// Does it answer now? The rest is what it said last.
    pub answers: bool,
    /// What the words rest on, in the store's own names.
    pub facts: std::collections::BTreeMap<&'static str, String>,
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
    /// Null: as many as its namespace; also for those that follow.
    #[serde(default)]
    pub submissions_per_s: Option<u32>,
    /// Of the requests that submit.
    #[serde(default)]
    pub bytes_per_s: Option<u32>,
    /// Runs that wait, of jobs that were made with it.
    #[serde(default)]
    pub waiting: Option<u32>,
    /// Recurring jobs that were made with it.
    #[serde(default)]
    pub jobs: Option<u32>,
    /// Fires of those jobs.
    #[serde(default)]
    pub fires_per_min: Option<u32>,
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
