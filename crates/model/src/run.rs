//! The words for where a run is and how an attempt ended. The moves between states are in
//! `shard::lifecycle`, in one table.

use crate::id::Namespace;
use crate::job::Text;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunState {
    /// Its time has not come.
    Scheduled,
    /// Waits for another run of its job to end.
    Blocked,
    Ready,
    Running,
    /// Waits out a backoff.
    Retrying,
    /// Out of retries; waits for a person.
    Dead,
    Succeeded,
    /// A dead run that was discarded or expired.
    Failed,
    Cancelled,
    /// Could not start or finish in its time.
    Expired,
}

impl RunState {
    pub const ALL: [RunState; 10] = [
        RunState::Scheduled,
        RunState::Blocked,
        RunState::Ready,
        RunState::Running,
        RunState::Retrying,
        RunState::Dead,
        RunState::Succeeded,
        RunState::Failed,
        RunState::Cancelled,
        RunState::Expired,
    ];

    /// A finished run stays finished.
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            RunState::Succeeded | RunState::Failed | RunState::Cancelled | RunState::Expired
        )
    }
}

/// How one attempt, or one occurrence that made no run, ended. One list, because both are rows of
/// one history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    Succeeded,
    Failed,
    TimedOut,
    /// The holder vanished.
    Lost,
    Cancelled,
    /// Handed back unfinished; spends nothing.
    Released,
    /// Asked to be tried later; spends nothing.
    Snoozed,
    /// Given up by a person, or after waiting for one too long.
    Discarded,
    // Verdicts of occurrences that made no run of their own.
    SkippedOverlap,
    SkippedPaused,
    /// One other run stands for it.
    Coalesced,
    /// Too late for the job's catch-up policy.
    Missed,
    /// A note beside a run: it was made later than its time, because more would have been too much.
    Delayed,
}

impl Status {
    /// Is this the verdict of an occurrence that made no run?
    pub const fn is_verdict_only(self) -> bool {
        matches!(
            self,
            Status::SkippedOverlap | Status::SkippedPaused | Status::Coalesced | Status::Missed
        )
    }
}

/// How urgent a job is: 0 to 9, 9 first.
#[derive(Clone, Copy, Debug)]
pub struct Priority;

impl Priority {
    /// Of a job that does not say.
    pub const USUAL: u8 = 5;

    /// Below what a job has that does not say: it gives way first.
    pub const fn is_low(priority: u8) -> bool {
        priority < Priority::USUAL
    }
}

/// Fresh work, retries and backfill share a queue without drowning each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    Fresh,
    Retry,
    Backfill,
}

impl Lane {
    pub const ALL: [Lane; 3] = [Lane::Fresh, Lane::Retry, Lane::Backfill];
}

/// Runs of one flow start first in, first out, by the instant they became ready: an order that
/// never changes, so it can be stored and paged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowKey {
    pub namespace: Namespace,
    pub queue: Text,
    /// What a claimer must offer: part of the flow so that a worker never steps over runs that it
    /// cannot take.
    pub kind: Text,
    pub priority: u8,
    pub lane: Lane,
    pub group: Option<Text>,
}
