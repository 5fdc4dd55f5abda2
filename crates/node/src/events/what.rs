//! What can happen, and its name in the public contract.

use model::row::{BacklogId, Scope};
use model::{JobId, Namespace, RunId, RunState, Status, Text, Time, Token};

#[derive(Clone, Debug)]
pub struct Happened {
    pub seq: u64,
    /// When it was decided, by the store's clock.
    pub at: Time,
    pub what: What,
    /// None only where the job is so old that nothing is remembered of it.
    pub namespace: Option<Namespace>,
    pub queue: Option<Text>,
    pub job: Option<JobId>,
    pub run: Option<RunId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    JobCreated,
    JobUpdated {
        version: u32,
    },
    JobPaused {
        reason: Text,
        until: Option<Time>,
    },
    JobResumed,
    JobEnded,
    JobCancelled,
    JobRemoved,
    RunScheduled {
        due: Time,
    },
    RunBlocked,
    RunReady,
    RunStarted {
        attempt: u16,
        token: Token,
        worker: Option<Text>,
    },
    RunStopping,
    AttemptEnded(Ended),
    /// Instants that made no run.
    Skipped {
        status: Status,
        from: Time,
        until: Time,
        count: u64,
    },
    Held {
        scope: Scope,
        reason: Text,
        until: Option<Time>,
    },
    Released {
        scope: Scope,
    },
    Operation {
        id: BacklogId,
        done: u64,
        total: u64,
    },
    OperationOver {
        id: BacklogId,
    },
    /// An operation over many runs.
    Bulk {
        id: Text,
        done: u64,
        total: Option<u64>,
        over: bool,
    },
    /// A destination fails: its runs wait.
    DestinationOpened {
        host: Text,
        until: Time,
    },
    DestinationClosed {
        host: Text,
    },
    /// Runs of a queue wait longer than its service level allows; they do not any more.
    LevelBroken,
    LevelKept,
    /// A recurring job fired later than its time, because it would have been too much.
    FiredLate {
        due: Time,
        reason: Text,
    },
    /// Something may have happened here that nobody can tell.
    Gap,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub status: Status,
    pub after: RunState,
    pub attempt: u16,
    pub code: Option<u16>,
    pub error: Option<Text>,
    pub next: Option<Time>,
    /// When the attempt was due, and when it began; None if none did.
    pub due: Time,
    pub started: Option<Time>,
}

impl What {
    /// The event's type in the public contract.
    pub fn name(&self) -> &'static str {
        match self {
            What::JobCreated => "job.created",
            What::JobUpdated { .. } => "job.updated",
            What::JobPaused { .. } => "job.paused",
            What::JobResumed => "job.resumed",
            What::JobEnded => "job.ended",
            What::JobCancelled => "job.cancelled",
            What::JobRemoved => "job.removed",
            What::RunScheduled { .. } => "run.scheduled",
            What::RunBlocked => "run.blocked",
            What::RunReady => "run.ready",
            What::RunStarted { .. } => "run.started",
            What::RunStopping => "run.stopping",
            What::AttemptEnded(ended) => match ended.after {
                RunState::Succeeded => "run.succeeded",
                RunState::Failed => "run.failed",
                RunState::Cancelled => "run.cancelled",
                RunState::Expired => "run.expired",
                RunState::Dead => "run.dead",
                RunState::Retrying => "run.retrying",
                _ => "run.handed_back",
            },
            What::Skipped { .. } => "occurrence.skipped",
            What::Held { .. } => "hold.set",
            What::Released { .. } => "hold.released",
            What::Operation { .. } => "operation.progress",
            What::OperationOver { .. } => "operation.over",
            What::Bulk { over: false, .. } => "operation.progress",
            What::Bulk { .. } => "operation.over",
            What::DestinationOpened { .. } => "destination.opened",
            What::DestinationClosed { .. } => "destination.closed",
            What::LevelBroken => "queue.level_broken",
            What::LevelKept => "queue.level_kept",
            What::FiredLate { .. } => "occurrence.delayed",
            What::Gap => "gap",
        }
    }
}

impl Happened {
    pub fn gap(at: Time) -> Happened {
        Happened { seq: 0, at, what: What::Gap, namespace: None, queue: None, job: None, run: None }
    }

    /// The run has ended, or waits for a person.
    pub fn is_end(&self) -> bool {
        match &self.what {
            What::AttemptEnded(ended) => ended.after.is_final() || ended.after == RunState::Dead,
            _ => false,
        }
    }
}
