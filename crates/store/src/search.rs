//! Questions of people: lists of jobs and runs, what was tried, how long queues are; and the end of
//! history. The core asks none of these, so a store may answer them slowly, but never without a
//! bound: a call looks at no more than `SCAN_MAX` rows and then says where to go on, even if it has
//! found nothing yet.
//!
//! Orders never change while a list is read on: jobs newest id first; runs of one job by their
//! kind's own order, latest instant first; all runs of a namespace unfinished ones first (newest
//! job first), then finished ones, last end first. What ends between two pages may be seen twice or
//! not at all; nothing else is.
//!
//! What it does not do: count without a bound, or look into payloads.

pub mod cursor;
pub mod filter;
pub mod scan;

pub use filter::{CauseKind, FindJobs, FindRuns, States};

use crate::{StoreAbout, StoreError};
use model::row::{HistoryRow, JobRow, LeaseRow, RunRow};
use model::{JobId, KeyId, Namespace, RunId, Span, Spec, Text, Time};
use std::sync::Arc;

/// Rows that one call looks at.
pub const SCAN_MAX: usize = 10_000;

pub trait Search: Send + Sync {
    fn find_jobs(&self, find: &FindJobs) -> Result<Found<JobFound>, StoreError>;
    fn find_runs(&self, find: &FindRuns) -> Result<Found<RunFound>, StoreError>;
    /// What was tried for a run, first one first, at most `limit`.
    fn attempts(&self, run: RunId, limit: usize) -> Result<Vec<HistoryRow>, StoreError>;
    /// The rows of a job's instants in `[from, until]` that made no run, or whose run has ended, by
    /// instant, at most `limit`. Ranges that overlap are whole.
    fn verdicts(
        &self,
        job: JobId,
        from: Time,
        until: Time,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError>;
    fn queue_counts(
        &self,
        namespace: Namespace,
        queue: &str,
        soon: Span,
    ) -> Result<QueueCounts, StoreError>;
    /// How much a namespace has, for its quotas. Each count stops at `limit`, and none of them is
    /// cheap enough to be asked for with every request.
    fn namespace_counts(
        &self,
        namespace: Namespace,
        limit: usize,
    ) -> Result<QuotaCounts, StoreError>;
    /// The same of what was made with an API key, where specs say so (`Spec::api_key`): its one-off jobs,
    /// its recurring jobs and their runs.
    fn key_counts(&self, key: KeyId, limit: usize) -> Result<QuotaCounts, StoreError>;
    /// Removes old history, a slice at a time: the caller goes on at `next` until there is none. A
    /// store may keep a day (UTC) until all of it is old.
    fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError>;
    /// Bytes that all of it takes, without room that is free inside.
    fn used_bytes(&self) -> Result<u64, StoreError>;
    /// What it is and what it promises.
    fn about(&self) -> StoreAbout;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<T> {
    pub items: Vec<T>,
    /// Where the list goes on; none = this was the end.
    pub next: Option<Text>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobFound {
    Recurring {
        row: JobRow,
        spec: Arc<Spec>,
    },
    OneOff {
        run: RunFound,
        spec: Arc<Spec>,
    },
    /// A one-off that has ended: all that is left of it.
    Finished(HistoryRow),
}

impl JobFound {
    pub fn id(&self) -> JobId {
        match self {
            JobFound::Recurring { row, .. } => row.id,
            JobFound::OneOff { run, .. } => run.id().job,
            JobFound::Finished(row) => row.run.job,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunFound {
    /// Unfinished, with the attempt under way and the last one that ended.
    Live { row: RunRow, lease: Option<LeaseRow>, last: Option<Box<HistoryRow>> },
    /// Finished: the row of its end.
    Ended(HistoryRow),
}

impl RunFound {
    pub fn id(&self) -> RunId {
        match self {
            RunFound::Live { row, .. } => row.id,
            RunFound::Ended(row) => row.run,
        }
    }
}

/// Numbers that stop counting at `SCAN_MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    pub ready: usize,
    pub running: usize,
    pub retrying: usize,
    pub dead: usize,
    /// Scheduled or retrying, due within the span that was asked for.
    pub due_soon: usize,
    /// When the run that has waited longest became ready.
    pub oldest_ready: Option<Time>,
}

/// What quotas are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaCounts {
    /// Runs that are ready or between two attempts. Those that wait for their time cost nothing but
    /// room, and those that run are on their way out.
    pub waiting: usize,
    /// Recurring jobs that are active or paused.
    pub jobs: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prune {
    /// What ended before goes,
    pub before: Time,
    /// except ends that were not successes: those go if they ended before this.
    pub failures_before: Time,
    /// Go on after a former slice.
    pub after: u64,
    /// Rows looked at in this slice.
    pub limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// Rows, about.
    pub removed: usize,
    /// None: the first row that is too young was met, or the end.
    pub next: Option<u64>,
}
