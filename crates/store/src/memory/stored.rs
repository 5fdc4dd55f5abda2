//! A row as the tables hold it: beside its columns it knows its bucket, because the bucket depends
//! on when the row was written and cannot be computed again.

use super::keys::Kept;
use model::Time;
use model::job::Spec;
use model::read::Bucket;
use model::row::{BacklogRow, CheckpointRow, HistoryRow, HoldRow, JobRow, LeaseRow, Row, RunRow};
use std::sync::Arc;

/// Large rows are boxed: maps shift their entries and a commit keeps what it replaced.
#[derive(Clone, Debug)]
pub(super) enum Stored {
    Run(Box<StoredRun>),
    Lease(Box<LeaseRow>),
    Job(Box<Placed<JobRow>>),
    Spec(Arc<Spec>),
    Backlog(Box<Placed<BacklogRow>>),
    Idempotency(Box<Kept>),
    Checkpoint(CheckpointRow),
    Hold(HoldRow),
    Queue(model::QueueRow),
    History(Box<HistoryRow>),
}

#[derive(Clone, Debug)]
pub(super) struct Placed<T> {
    pub row: T,
    pub bucket: Option<Bucket>,
}

#[derive(Clone, Debug)]
pub(super) struct StoredRun {
    /// Without its body, so that pages copy no spec.
    pub row: RunRow,
    pub body: Option<Arc<Spec>>,
    pub bucket: Option<Bucket>,
}

impl Stored {
    pub fn new(row: &Row, now: Time) -> Stored {
        let bucket = row.due().map(|due| Bucket::of(due, now));
        match row {
            Row::Run(row) => {
                let mut row = row.clone();
                let body = row.body.take();
                Stored::Run(Box::new(StoredRun { row, body, bucket }))
            }
            Row::Lease(row) => Stored::Lease(Box::new(row.clone())),
            Row::Job(row) => Stored::Job(Box::new(Placed { row: row.clone(), bucket })),
            Row::Spec(spec) => Stored::Spec(spec.clone()),
            Row::Backlog(row) => Stored::Backlog(Box::new(Placed { row: row.clone(), bucket })),
            Row::Idempotency(row) => Stored::Idempotency(Box::new(Kept::new(row.clone()))),
            Row::Checkpoint(row) => Stored::Checkpoint(row.clone()),
            Row::Hold(row) => Stored::Hold(row.clone()),
            Row::Queue(row) => Stored::Queue(row.clone()),
            Row::History(row) => Stored::History(row.clone()),
        }
    }

    pub fn rev(&self) -> u32 {
        match self {
            Stored::Run(run) => run.row.rev,
            Stored::Lease(row) => row.rev,
            Stored::Job(job) => job.row.rev,
            Stored::Backlog(backlog) => backlog.row.rev,
            Stored::Checkpoint(row) => row.rev,
            Stored::Queue(row) => row.rev,
            Stored::Spec(_) | Stored::Idempotency(_) | Stored::Hold(_) | Stored::History(_) => 1,
        }
    }
}
