//! What duly answers about jobs and runs.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

#[derive(Debug, Serialize)]
pub struct Created {
    pub id: String,
    pub run_id: Option<String>,
    pub status: &'static str,
    pub next_run_at: Option<String>,
    pub version: u32,
    pub warnings: Vec<Warning>,
}

#[derive(Debug, Serialize)]
pub struct Warning {
    pub code: &'static str,
    pub message: String,
}

#[derive(Debug, Default, Serialize)]
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

#[derive(Debug, Serialize)]
pub struct LastRun {
    pub id: String,
    pub status: &'static str,
    pub scheduled_for: String,
}

#[derive(Debug, Default, Serialize)]
pub struct Counts {
    /// Occurrences that became runs.
    pub fired: u64,
    pub unfinished: u64,
    pub backfills: u16,
    pub reruns: u32,
}

#[derive(Debug, Serialize)]
pub struct Paused {
    pub by: &'static str,
    pub reason: String,
    pub since: String,
    pub until: Option<String>,
}

#[derive(Debug, Default, Serialize)]
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

#[derive(Debug, Serialize)]
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

#[derive(Debug, Serialize)]
pub struct Claimed {
    pub runs: Vec<ClaimedRun>,
    pub signal: &'static str,
}

#[derive(Debug, Serialize)]
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
