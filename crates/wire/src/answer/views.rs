//! Lists, and what is computed for people: operations, occurrences, explanations, statistics, queues.

use super::{Job, Run};
use schemars::JsonSchema;
use serde::Serialize;

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
    /// planned, paused, delayed (its time has come, and it waits), unfinished, succeeded, failed, or why it
    /// made no run.
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The last instant, where one verdict stands for several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// It fired, or will fire, later than its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed: Option<Delayed>,
    /// gap or repeat, where a change of the clocks concerns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst: Option<&'static str>,
}

/// Why a recurring job fires later than its time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Delayed {
    /// fires_quota, waiting_quota, key_fires_quota, key_waiting_quota or service_level.
    pub reason: String,
    /// When it fired; null while it waits.
    pub fired_at: Option<String>,
    /// When it is tried next; null when it has fired.
    pub until: Option<String>,
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
    /// Of a full limit: how much may run at once, and which runs do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
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
    /// Attempts that became ready, per second, over the last minute. Null while the queue's owner does
    /// not answer.
    pub arrival_per_s: Option<f64>,
    /// Attempts that ended, per second, over the last minute.
    pub service_per_s: Option<f64>,
    /// How many workers would keep up with what comes and work off what waits in a minute. 0 only if
    /// nothing waits, runs or comes.
    pub suggested_workers: Option<u64>,
    pub paused: Option<QueuePaused>,
    pub limits: crate::queue::QueueLimits,
    /// Null: none was set.
    pub service_level: Option<ServiceLevel>,
}

/// Is what was promised of a queue kept?
#[derive(Debug, Serialize, JsonSchema)]
pub struct ServiceLevel {
    /// A run that is ready starts within this.
    pub start_within: String,
    /// False: the oldest ready run has waited longer.
    pub kept: bool,
}

/// Groups that have runs ready or running.
#[derive(Debug, Serialize, JsonSchema)]
pub struct QueueGroups {
    pub items: Vec<QueueGroup>,
    /// False: there are more groups, or more runs in them, than were counted.
    pub complete: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct QueueGroup {
    /// Null: runs without a group.
    pub group: Option<String>,
    pub ready: usize,
    pub running: usize,
    pub oldest_ready_ms: Option<i64>,
    /// Starts in its turn.
    pub weight: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct QueuePaused {
    pub reason: String,
    pub until: Option<String>,
}
