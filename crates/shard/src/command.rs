//! What a shard can be asked, and what it answers. Commands are plain data: they wait in the
//! inbox, travel between nodes, and can be decided again after a reload.

use model::row::{BacklogId, Holder, Made, Only, Scope};
use model::{Bytes, JobId, Namespace, QueueRow, RunId, RunState, Span, Spec, Text, Time, Token};
use std::sync::Arc;

/// Names a caller's command on one node. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommandId(pub u64);

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// One or many; each has its own answer.
    Submit(Vec<NewJob>),
    Claim(Claim),
    Heartbeat(Vec<Beat>),
    Settle(Vec<Settle>),
    CancelRun(RunId),
    CancelJob(JobId),
    DeleteJob(JobId),
    Pause {
        job: JobId,
        reason: Text,
        until: Option<Time>,
    },
    Resume(JobId),
    Trigger {
        job: JobId,
        id: u64,
        payload: Option<Bytes>,
        key: Option<KeyOf>,
    },
    Update {
        job: JobId,
        spec: Arc<Spec>,
        if_version: Option<u32>,
    },
    Replay {
        run: RunId,
        payload: Option<Bytes>,
    },
    Discard(RunId),
    Rerun {
        run: RunId,
    },
    Backfill {
        job: JobId,
        from: Time,
        to: Time,
        only: Only,
        per_second: u32,
        key: Option<KeyOf>,
    },
    CancelBackfill(BacklogId),
    Hold {
        scope: Scope,
        reason: Text,
        until: Option<Time>,
    },
    Release(Scope),
    /// What a queue allows from now on; nothing in it: everything.
    SetQueue {
        namespace: Namespace,
        queue: Text,
        limits: QueueRow,
    },
}

impl Command {
    /// Does asking again, whatever became of the first time, do it once and tell the true answer? A
    /// submission whose keys are stored with what they made, a settle whose answer the history has.
    pub fn is_repeatable(&self) -> bool {
        match self {
            Command::Submit(jobs) => jobs.iter().all(|job| job.key.is_some()),
            Command::Settle(_) => true,
            _ => false,
        }
    }

    /// Does it make runs or specs? Such commands are refused while the store has no room.
    pub fn adds_work(&self) -> bool {
        matches!(
            self,
            Command::Submit(_)
                | Command::Trigger { .. }
                | Command::Update { .. }
                | Command::Rerun { .. }
                | Command::Backfill { .. }
        )
    }
}

/// An idempotency key and the hash of the body it came with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOf {
    pub key: Text,
    pub body: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewJob {
    /// Minted where the request arrived; carries the slot.
    pub id: JobId,
    pub spec: Arc<Spec>,
    pub key: Option<KeyOf>,
    pub paused: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub holder: Holder,
    pub namespace: Namespace,
    pub queues: Vec<Text>,
    /// What the claimer can run; none means every kind of pull worker.
    pub kinds: Option<Vec<Text>>,
    pub max: usize,
    pub lease: Span,
    /// Asking again with the same number returns the same leases.
    pub request: u64,
    /// Wait so long for work; an empty answer after that.
    pub wait_until: Time,
    /// What falls due soon may be leased before its time; the answer comes at that time.
    pub reserve: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    pub run: RunId,
    pub token: Token,
    pub checkpoint: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Settle {
    pub run: RunId,
    pub token: Token,
    pub end: End,
}

/// How the holder says its attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Succeeded {
        output: Option<Bytes>,
    },
    Failed {
        error: Text,
        code: Option<u16>,
        retryable: bool,
        retry_after: Option<Span>,
    },
    TimedOut,
    Snoozed {
        until: Time,
    },
    Released,
    /// Only said by the core: the claimer hung up, and nobody heard of the lease.
    Unheard,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Submitted(Vec<Result<Submitted, Refused>>),
    Claimed(Vec<Leased>),
    Beats(Vec<(RunId, BeatAnswer)>),
    Settled(Vec<(RunId, SettleAnswer)>),
    /// It is done, and this is how the run or job stands now.
    Run(RunId, RunState),
    Job(JobId, u32),
    Made(Made),
    /// A person asked a running attempt to stop; it is final when the holder answers.
    Stopping(RunId),
    Done,
    Refused(Refused),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitted {
    pub made: Made,
    pub next: Option<Time>,
    /// The answer of an earlier request with the same key.
    pub replayed: bool,
}

/// Why nothing was done. Few kinds; each says what a caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    NotFound,
    /// The same idempotency key came with another body.
    KeyReused,
    /// The id exists already.
    Taken,
    /// The state does not allow it: finished, running, not dead, not recurring …
    Conflict,
    VersionMismatch {
        found: u32,
    },
    Invalid(&'static str),
    /// Too much is waiting: come back later. Nothing was done.
    Busy,
    /// The queue's service level is broken, and this is of low priority: come back later. Nothing was
    /// done.
    Shed,
    /// The store has no room. Nothing was done.
    Full,
    /// Not the owner (any more). Nothing was done.
    NotOwner,
    /// The deadline passed before it was sent to the store. Nothing was done.
    TooLate,
    /// The deadline passed while it was being committed. It may have been done.
    Unknown,
    /// This command alone cannot be stored. Nothing was done.
    Poison,
}

/// A claimed run, as its holder gets it. Payload, target and checkpoint are read beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leased {
    pub run: RunId,
    pub attempt: u16,
    pub token: Token,
    pub nominal: Time,
    pub due: Time,
    pub version: u32,
    pub lease: Span,
    pub deadline: Time,
    /// An earlier attempt left a checkpoint.
    pub checkpoint: bool,
    /// Its time may be still to come: its holder hears of it then.
    pub reserved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeatAnswer {
    /// It holds the run until then, or until its next heartbeat.
    Ok { until: Time },
    /// Stop: a person cancelled the run.
    Cancel,
    /// This token holds nothing any more.
    Stale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleAnswer {
    Ok { state: RunState, next: Option<Time> },
    Stale,
}
