//! The protocol of workers. [`Worker`](crate::Worker) speaks it for you.

use crate::setters::{plain, texts};
use crate::time::{Length, When};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// What a worker is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Signal {
    /// Nothing in particular.
    #[default]
    None,
    /// Take nothing more for now.
    Quiet,
    /// Take nothing more, finish, and go.
    Terminate,
    /// What a later server says; means nothing here.
    #[serde(other)]
    Unknown,
}

/// A run with its lease. The token goes with every heartbeat and settle, and can fence writes of your own.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct ClaimedRun {
    /// The same on every attempt.
    pub run_id: String,
    /// Its job.
    pub job_id: String,
    /// Its job's name, if it has one.
    #[serde(default)]
    pub job_name: Option<String>,
    /// Which handler.
    pub kind: String,
    /// 1 for the first.
    pub attempt: u32,
    /// Larger for every later attempt.
    pub token: u64,
    /// The job's group, if it has one.
    #[serde(default)]
    pub group: Option<String>,
    /// JSON as it was submitted.
    #[serde(default)]
    pub payload: Option<Box<RawValue>>,
    /// A payload that is not JSON.
    #[serde(default)]
    pub payload_base64: Option<String>,
    /// Of a payload that is not JSON.
    #[serde(default)]
    pub content_type: Option<String>,
    /// What the attempt before this one died of.
    #[serde(default)]
    pub previous_error: Option<String>,
    /// The instant the schedule says.
    pub scheduled_for: String,
    /// When it was due, after jitter.
    pub due_at: String,
    /// By the server's clock.
    pub lease_expires_at: String,
    /// When this attempt must be over, by the server's clock.
    pub deadline: String,
    /// What a former attempt stored.
    #[serde(default)]
    pub checkpoint: Option<Box<RawValue>>,
    /// W3C Trace Context.
    #[serde(default)]
    pub traceparent: String,
}

/// The answer to a claim.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Claimed {
    /// What came.
    pub runs: Vec<ClaimedRun>,
    /// What the worker is told.
    #[serde(default)]
    pub signal: Signal,
}

/// How a claim asks.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ClaimOptions {
    pub(crate) kinds: Option<Vec<String>>,
    pub(crate) max: Option<usize>,
    pub(crate) wait: Option<std::time::Duration>,
    pub(crate) lease: Option<Length>,
    pub(crate) request_id: Option<String>,
}

impl ClaimOptions {
    /// The defaults: 50 runs at most, waiting 20 s for the first, under leases of 30 s.
    pub fn new() -> ClaimOptions {
        ClaimOptions::default()
    }

    texts! {
        /// Only runs of these kinds.
        kinds: Vec<String>,
        /// How long the runs are held without a heartbeat.
        lease: Length,
        /// Makes a repetition return the same leases. A new one is sent if none is given.
        request_id: String,
    }

    plain! {
        /// At most so many.
        max: usize,
        /// For the first.
        wait: std::time::Duration,
    }
}

/// A run whose lease shall be renewed.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct BeatItem {
    run_id: String,
    token: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<Value>,
}

impl BeatItem {
    /// Of a run that was claimed.
    pub fn new(run: &ClaimedRun) -> BeatItem {
        let (run_id, token) = (run.run_id.clone(), run.token);
        BeatItem { run_id, token, progress: None, checkpoint: None }
    }

    texts! {
        /// `{"fraction": 0.5, "message": "…"}`, for people.
        progress: Value,
        /// Stored for the next attempt.
        checkpoint: Value,
    }
}

/// What a heartbeat says of one run.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Beat {
    /// The run.
    pub run_id: String,
    /// `ok`, `cancel` or `stale`.
    pub status: String,
    /// Of one that is ok.
    #[serde(default)]
    pub lease_expires_at: Option<String>,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Beats {
    /// In the order of the request.
    pub results: Vec<Beat>,
    /// What the worker is told.
    #[serde(default)]
    pub signal: Signal,
}

/// How a run ended.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SettleItem {
    run_id: String,
    token: u64,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retryable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<When>,
}

impl SettleItem {
    fn new(run: &ClaimedRun, outcome: &'static str) -> SettleItem {
        SettleItem {
            run_id: run.run_id.clone(),
            token: run.token,
            outcome,
            output: None,
            error: None,
            retryable: None,
            retry_after: None,
            until: None,
        }
    }

    /// It is done.
    pub fn succeeded(run: &ClaimedRun) -> SettleItem {
        SettleItem::new(run, "succeeded")
    }

    /// It failed; the job's policy retries.
    pub fn failed(run: &ClaimedRun, message: &str) -> SettleItem {
        let error = Some(serde_json::json!({ "message": message }));
        SettleItem { error, ..SettleItem::new(run, "failed") }
    }

    /// It is put off and spends no retry.
    pub fn snoozed(run: &ClaimedRun, until: impl Into<When>) -> SettleItem {
        SettleItem { until: Some(until.into()), ..SettleItem::new(run, "snoozed") }
    }

    /// It is handed back and spends no retry.
    pub fn released(run: &ClaimedRun) -> SettleItem {
        SettleItem::new(run, "released")
    }

    texts! {
        /// Of one that succeeded: any JSON of at most 16 KiB.
        output: Value,
        /// Of one that failed: when it is tried again.
        retry_after: Length,
    }

    plain! {
        /// Of one that failed: would trying again help?
        retryable: bool,
    }
}

/// What became of a settle.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct SettledRun {
    /// The run.
    pub run_id: String,
    /// `ok`, or `stale`: the run belongs to another by now, and nothing changed.
    pub status: String,
    /// The run's state after it.
    #[serde(default)]
    pub run_status: Option<String>,
    /// Of one that is retried.
    #[serde(default)]
    pub next_attempt_at: Option<String>,
}
