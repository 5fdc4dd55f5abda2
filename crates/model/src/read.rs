//! What a shard asks its store for, and the shapes of the answers. Every read is bounded by a
//! limit; none is a cursor that stays open.

use crate::id::{JobId, RunId};
use crate::job::Spec;
use crate::row::{BacklogId, Key, Row, RunRow};
use crate::run::FlowKey;
use crate::time::{Span, Time};
use std::sync::Arc;

/// The wheel on disk: rows lie in the minute they are due in, those of the far future in the hour,
/// so that random due dates insert like appends and drain in sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket {
    pub start: Time,
}

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;
/// From here on a row lies in an hour's bucket.
pub const FAR: Span = Span::from_micros(2 * HOUR);

impl Bucket {
    pub fn of(due: Time, now: Time) -> Bucket {
        let size = if due.since(now) >= FAR { HOUR } else { MINUTE };
        Bucket { start: Time::from_micros(due.micros().div_euclid(size) * size) }
    }

    /// The earliest start of a bucket that may hold a row due at `due`.
    pub fn earliest(due: Time) -> Bucket {
        Bucket { start: Time::from_micros(due.micros().div_euclid(HOUR) * HOUR) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// These rows, in this order; a run without its body.
    Rows(Vec<Key>),
    /// Rows of the wheel with `from <= due < before`, in (bucket, key) order. The store may start
    /// at the bucket that can hold `from`.
    Due {
        from: Time,
        before: Time,
        after: Option<WheelCursor>,
        limit: usize,
    },
    /// Ready runs of one flow in (due, id) order, strictly after the cursor.
    Flow {
        flow: FlowKey,
        after: Option<(Time, RunId)>,
        limit: usize,
    },
    /// Flows that have ready runs, in key order, strictly after the cursor.
    Flows {
        after: Option<FlowKey>,
        limit: usize,
    },
    Leases {
        after: Option<RunId>,
        limit: usize,
    },
    Holds,
    /// What queues allow.
    Queues,
    /// Unfinished runs of a job, strictly after the cursor.
    RunsOf {
        job: JobId,
        after: Option<RunId>,
        limit: usize,
    },
    /// What an unfinished run shall do: its body, or its job's spec of that version.
    Spec {
        run: RunId,
        version: u32,
    },
    /// What became of a job's nominal instants in `(after, until]`: its history and its unfinished
    /// runs, the last one of each instant, oldest first.
    Outcomes {
        job: JobId,
        after: Time,
        until: Time,
        limit: usize,
    },
}

/// Where a page of the wheel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WheelCursor {
    pub bucket: Bucket,
    pub key: WheelKey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WheelKey {
    Run(RunId),
    Job(JobId),
    Backlog(BacklogId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    Rows(Vec<Option<Row>>),
    /// `next` continues the page; none means that there is no more.
    Due {
        rows: Vec<Row>,
        next: Option<WheelCursor>,
    },
    /// Fewer rows than the limit means that there is no more.
    Runs(Vec<RunRow>),
    Flows(Vec<FlowKey>),
    Leases(Vec<(crate::row::LeaseRow, RunRow)>),
    Holds(Vec<(crate::row::Scope, crate::row::HoldRow)>),
    Queues(Vec<((crate::Namespace, crate::Text), crate::QueueRow)>),
    Spec(Option<Arc<Spec>>),
    /// For each instant: did a run of it exist, and did the last one succeed?
    Outcomes(Vec<Outcome>),
}

/// The recorded verdict of a nominal instant or, for range verdicts, of all in `[nominal, until]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub nominal: Time,
    pub until: Time,
    /// A run was made for it.
    pub ran: bool,
    pub succeeded: bool,
    /// A run of it is unfinished.
    pub live: bool,
}
