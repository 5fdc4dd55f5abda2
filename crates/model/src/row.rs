//! What is stored. Rows are the only truth; everything in memory is a view of them.
//!
//! A **change** names the row, the state it expects there, and the row that shall stand there
//! afterwards. If a store finds another state, nothing of the commit is applied: memory and store
//! disagree, and the store is right. Stores hold no rule of a job's or a run's life.

use crate::id::{Epoch, JobId, Namespace, NodeId, RunId, ShardId, Token};
use crate::job::{Bytes, Policy, Spec, Text};
use crate::queue::QueueRow;
use crate::run::{FlowKey, RunState, Status};
use crate::time::{Span, Time};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Run(RunId),
    Lease(RunId),
    Job(JobId),
    Spec(JobId, u32),
    Backlog(BacklogId),
    Idempotency(IdempotencyKey),
    Checkpoint(RunId),
    Hold(Scope),
    /// What a queue allows.
    Queue(Namespace, Text),
    /// One attempt (its token), or what became of a run or occurrence without one (no token).
    History(RunId, Token),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    Run(RunRow),
    Lease(LeaseRow),
    Job(JobRow),
    Spec(Arc<Spec>),
    Backlog(BacklogRow),
    Idempotency(IdempotencyRow),
    Checkpoint(CheckpointRow),
    Hold(HoldRow),
    Queue(QueueRow),
    History(Box<HistoryRow>),
}

impl Row {
    /// The revision a later change of this row must name. Rows that are never changed have 1.
    pub fn rev(&self) -> u32 {
        match self {
            Row::Run(row) => row.rev,
            Row::Lease(row) => row.rev,
            Row::Job(row) => row.rev,
            Row::Backlog(row) => row.rev,
            Row::Checkpoint(row) => row.rev,
            Row::Queue(row) => row.rev,
            Row::Spec(_) | Row::Idempotency(_) | Row::Hold(_) | Row::History(_) => 1,
        }
    }

    /// Where the row lies on the wheel, if it waits for an instant.
    pub fn due(&self) -> Option<Time> {
        match self {
            // A ready run waits for a claimer, a blocked one for another run: neither for time.
            Row::Run(row) if matches!(row.state, RunState::Ready | RunState::Blocked) => None,
            Row::Run(row) => Some(row.due),
            Row::Job(row) => row.due,
            Row::Backlog(row) => Some(row.due),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Absent,
    Rev(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub key: Key,
    pub expect: Expect,
    /// The row that stands there afterwards; none removes it.
    pub row: Option<Row>,
}

/// All that one shard changes at once. The store applies it whole, if the epoch is the shard's and
/// `seq` is the next number, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    pub shard: ShardId,
    pub epoch: Epoch,
    /// Counts the shard's commits without a gap over all its owners: how an owner finds out
    /// whether a commit landed, and whether the store lost a tail.
    pub seq: u64,
    /// The instant these decisions were made at. A store whose clock has not reached it refuses:
    /// the store's clock decides, so that a node's clock that runs wild cannot fire early.
    pub decided: Time,
    /// Shared, because the owner keeps them until they are durable.
    pub changes: Arc<Vec<Change>>,
    /// Nothing on the wheel is due before this: where the next owner begins to read.
    pub floor: Option<Time>,
    pub starts: Starts,
}

/// Where the rest begins that an owner reads when it takes a shard: known of the state that this
/// commit leaves, none if unknown. A store may pass over what lies before; what is there was removed
/// and only waits for the store to forget it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Starts {
    /// No run that is stored as ready, claimed or not, is due before this.
    pub ready: Option<Time>,
    /// No lease has a lower token. Tokens only grow, so this holds from then on.
    pub leases: Option<Token>,
}

impl Starts {
    /// Would nobody who begins here find this row? Never, or the mark is wrong.
    pub fn hide(&self, row: &Row) -> bool {
        match row {
            Row::Run(run) if run.state == RunState::Ready => Some(run.due) < self.ready,
            Row::Lease(lease) => Some(lease.token) < self.leases,
            _ => false,
        }
    }
}

/// A run that is not finished. While it is claimed a lease row stands beside it and this row is
/// left alone: `state` then still says where it was claimed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    pub id: RunId,
    pub rev: u32,
    /// Scheduled, Blocked, Ready, Retrying or Dead.
    pub state: RunState,
    /// When it fires, or fired; its place in its flow. For a dead run: when it expires.
    pub due: Time,
    pub nominal: Time,
    pub flow: FlowKey,
    /// The spec's version; the spec itself is `body` or a row of its own.
    pub version: u32,
    /// Attempts made, and how many of them were spent and lost.
    pub attempts: u16,
    pub retries: u16,
    pub lost: u16,
    /// Times a person gave it a new budget.
    pub replays: u16,
    pub policy: Policy,
    /// Revision of its checkpoint row; 0 = none.
    pub checkpoint: u32,
    /// Counts for its job's overlap policy (fresh runs of recurring jobs do).
    pub fresh: bool,
    /// Not started by then, or not done by then, it expires.
    pub start_by: Option<Time>,
    pub finish_by: Option<Time>,
    /// The spec of a one-off or of a trigger with a payload of its own. Written when the row is
    /// made; in later changes absent means unchanged. Page reads leave it out.
    pub body: Option<Arc<Spec>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRow {
    pub run: RunId,
    pub rev: u32,
    pub attempt: u16,
    pub token: Token,
    pub holder: Holder,
    pub length: Span,
    pub started: Time,
    /// The attempt ends here whatever its holder says.
    pub deadline: Time,
    /// Identifies the claim request, so that asking again returns the same leases.
    pub request: u64,
    /// A person asked the holder to stop.
    pub cancel: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// An executor inside a node: its attempts end with that life of the node.
    Node(NodeId),
    Worker(Text),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    Active,
    Paused,
    /// No occurrence is left.
    Ended,
    /// Cancelled; `sweep` says that runs of it may still have to be cancelled.
    Cancelled,
}

/// The narrow, mutable part of a recurring job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    pub id: JobId,
    pub rev: u32,
    pub namespace: Namespace,
    pub state: JobState,
    /// The version in force.
    pub version: u32,
    pub created: Time,
    /// When the version in force was made: the anchor of its delays and intervals.
    pub versioned: Time,
    /// The last nominal instant decided. Never goes back: the guard against a second firing.
    pub mark: Time,
    /// The next nominal instant, and when it is due after jitter.
    pub next: Option<Time>,
    /// When this row wants to be looked at: the next instant, a pause's end, a sweep.
    pub due: Option<Time>,
    pub fired: u64,
    /// How many unfinished runs name which version: its spec stays as long.
    pub live: Vec<(u32, u32)>,
    /// The fresh run that is unfinished, and the one that waits for it (overlap policies).
    pub active: Option<RunId>,
    pub waiting: Option<RunId>,
    /// Paused; or, while it is active, its next fire was put off until then (`shard::verbs::put_off`).
    pub pause: Option<Pause>,
    pub reruns: u32,
    pub backfills: u16,
    /// Cancelled with runs still to be cancelled.
    pub sweep: bool,
    /// Remove the row when the last run is gone.
    pub delete: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    pub since: Time,
    pub until: Option<Time>,
    pub reason: Text,
}

/// A range of past instants that is being worked off at a rate: missed ones (catch-up), or ones a
/// person asked for (backfill, a durable operation with progress).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BacklogRow {
    pub id: BacklogId,
    pub rev: u32,
    /// Instants in `(cursor, until]` are still to be decided.
    pub cursor: Time,
    pub until: Time,
    pub per_second: u32,
    /// When the next slice is due.
    pub due: Time,
    pub only: Only,
    /// The version in force when the instants were missed.
    pub version: u32,
    pub versioned: Time,
    pub done: u64,
    pub total: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BacklogId {
    pub job: JobId,
    /// 0 and up: backfill number; catch-ups are told apart by where they begin.
    pub kind: BacklogKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BacklogKind {
    CatchUp { from: Time },
    Backfill { operation: u16 },
}

/// Which instants of a backfill are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// Those that made no run.
    Missing,
    /// Those whose last run did not succeed.
    Failed,
    All,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdempotencyKey {
    pub namespace: Namespace,
    pub queue: Text,
    /// In a partitioned queue a group is part of the scope.
    pub group: Option<Text>,
    pub key: Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyRow {
    pub at: Time,
    /// Hash of the body: another body under the same key is refused.
    pub body: u64,
    /// The answer that is repeated.
    pub answer: Made,
}

/// What a creating request made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    Job(JobId),
    Run(RunId),
    Backlog(BacklogId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRow {
    pub rev: u32,
    pub bytes: Bytes,
}

/// What a hold stops: no new attempts start, running ones settle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    All,
    Namespace(Namespace),
    Queue(Namespace, Text),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRow {
    pub reason: Text,
    pub until: Option<Time>,
}

/// One per attempt; verdicts that made no run have the same shape with `until` and `count`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRow {
    pub run: RunId,
    pub token: Token,
    pub attempt: u16,
    pub flow: Option<FlowKey>,
    pub namespace: Namespace,
    pub nominal: Time,
    pub due: Time,
    pub started: Option<Time>,
    pub finished: Time,
    pub version: u32,
    pub status: Status,
    pub worker: Option<Text>,
    pub code: Option<u16>,
    pub error: Option<Text>,
    pub output: Option<Bytes>,
    /// Where the run stood after this, and when its next attempt was due: what a repeated settle
    /// is answered with.
    pub after: RunState,
    pub next: Option<Time>,
    /// A range of verdicts: its last instant and how many there are.
    pub until: Option<Time>,
    pub count: u64,
}
