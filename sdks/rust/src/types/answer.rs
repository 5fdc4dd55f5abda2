//! Answers about jobs, runs and queues. Their fields are those of the API's document; an instant is text
//! in UTC, and a field that a server does not send has its type's default.
#![allow(missing_docs)] // The API's document describes each field once.

use crate::error::Fault;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What will surprise about a job that was made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Warning {
    pub code: String,
    pub message: String,
}

/// A job that was made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Created {
    pub id: String,
    /// Of a job that runs once.
    pub run_id: Option<String>,
    pub status: String,
    pub next_run_at: Option<String>,
    pub version: u32,
    pub warnings: Vec<Warning>,
}

/// What became of one job of a batch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct BatchItem {
    pub status: u16,
    pub id: Option<String>,
    pub error: Option<BatchError>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct BatchError {
    pub code: String,
    pub detail: String,
    pub errors: Vec<Fault>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Job {
    pub id: String,
    pub status: String,
    pub version: u32,
    pub run_id: Option<String>,
    pub description: Option<String>,
    pub next_run_at: Option<String>,
    pub next_due_at: Option<String>,
    pub created_at: Option<String>,
    pub updated_at: Option<String>,
    pub attempts: Option<u32>,
    pub last_run: Option<Value>,
    pub running: Vec<String>,
    pub counts: Option<Value>,
    pub paused: Option<Value>,
    pub name: Option<String>,
    pub owner: Option<String>,
    pub tags: BTreeMap<String, String>,
    pub schedule: Option<Value>,
    pub target: Option<Value>,
    pub payload: Option<Value>,
    pub payload_base64: Option<String>,
    pub content_type: Option<String>,
    pub queue: Option<String>,
    pub priority: Option<u8>,
    pub group: Option<String>,
    pub retry: Option<Value>,
    pub timeout: Option<String>,
    pub overlap: Option<String>,
    pub catch_up: Option<Value>,
}

/// What became of a job that somebody changed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct JobChanged {
    pub id: String,
    pub status: String,
    pub version: Option<u32>,
    pub run_id: Option<String>,
    pub cancel_requested: Option<bool>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Triggered {
    pub id: String,
    pub run_id: String,
    pub status: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Attempt {
    pub attempt: u32,
    pub token: u64,
    pub status: String,
    pub started_at: Option<String>,
    pub finished_at: String,
    pub code: Option<u32>,
    pub error: Option<String>,
    pub worker: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Run {
    pub id: String,
    pub job_id: String,
    pub status: String,
    pub cancel_requested: bool,
    pub scheduled_for: Option<String>,
    pub due_at: Option<String>,
    pub attempt: u32,
    pub token: Option<u64>,
    pub worker: Option<String>,
    pub next_attempt_at: Option<String>,
    pub finished_at: Option<String>,
    pub error: Option<String>,
    pub output: Option<Value>,
    /// What the attempt under way said last of how far it is.
    pub progress: Option<Progress>,
    /// What the last attempt stored for the next one.
    pub checkpoint: Option<Value>,
    /// Oldest first.
    pub attempts: Option<Vec<Attempt>>,
}

/// How far an attempt is, as it said itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Progress {
    pub fraction: Option<f64>,
    pub message: Option<String>,
    pub at: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RunChanged {
    pub id: String,
    pub status: Option<String>,
    pub cancel_requested: Option<bool>,
}

/// Work that was accepted and goes on by itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Operation {
    pub id: String,
    pub kind: String,
    pub status: String,
    pub job_id: Option<String>,
    pub done: Option<u64>,
    pub total: Option<u64>,
    pub failed: u64,
    pub rate: Option<String>,
    pub created_at: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Occurrence {
    pub scheduled_for: String,
    pub due_at: String,
    pub status: String,
    pub run_id: Option<String>,
    pub until: Option<String>,
    pub count: Option<u64>,
    pub dst: Option<String>,
}

/// A queue: how long it is, and how fast it moves.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Queue {
    pub name: String,
    pub ready: u64,
    pub running: u64,
    pub retrying: u64,
    pub dead: u64,
    pub due_next_5m: u64,
    pub oldest_ready_ms: Option<u64>,
    pub arrival_per_s: Option<f64>,
    pub service_per_s: Option<f64>,
    pub suggested_workers: Option<u64>,
    pub paused: Option<Value>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SigningSecret {
    pub id: String,
    pub secret: String,
    pub created_at: String,
    pub expires_at: Option<String>,
}

/// A worker as the server knows it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct WorkerInfo {
    pub id: String,
    pub status: String,
    pub last_seen_at: String,
    pub running: Option<u64>,
    pub capacity: Option<u64>,
    pub version: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub queues: Vec<String>,
    pub kinds: Option<Vec<String>>,
}
