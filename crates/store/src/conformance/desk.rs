//! Where a test sits: one owner of one shard, that counts its commits.

use super::TestStore;
use crate::{Outcome, StoreError};
use model::cluster::{Take, Taken};
use model::id::{NodeId, ShardId};
use model::read::{Page, Read, WheelCursor};
use model::row::{Change, Commit, Expect, Key, LeaseRow, Row, RunRow, Starts};
use model::{Epoch, FlowKey, RunId, Span, Time};

pub const NODE: NodeId = NodeId { node: 1, boot: 10 };
pub const OTHER: NodeId = NodeId { node: 2, boot: 20 };

#[allow(missing_debug_implementations)] // a store has none
pub struct Desk<'a> {
    pub store: &'a dyn TestStore,
    pub shard: ShardId,
    pub epoch: Epoch,
    /// Number of the last commit that was durable.
    pub seq: u64,
}

impl<'a> Desk<'a> {
    /// Takes a shard that nobody had.
    pub fn open(store: &'a dyn TestStore, shard: u16) -> Desk<'a> {
        let taken = take(store, ShardId(shard), NODE, Epoch(0), 1).expect("a fresh shard is free");
        Desk { store, shard: ShardId(shard), epoch: taken.epoch, seq: taken.seq }
    }

    pub fn build(&self, changes: Vec<Change>) -> Commit {
        let (shard, epoch, seq) = (self.shard, self.epoch, self.seq + 1);
        Commit {
            shard,
            epoch,
            seq,
            decided: Time::MIN,
            changes: changes.into(),
            floor: None,
            starts: Starts::default(),
        }
    }

    pub fn send(&mut self, commit: Commit) -> Outcome {
        let seq = commit.seq;
        let outcome = self.store.commit(&[commit]).expect("the store answers").outcomes[0];
        if outcome == Outcome::Durable {
            self.seq = seq;
        }
        outcome
    }

    pub fn try_commit(&mut self, changes: Vec<Change>) -> Outcome {
        let commit = self.build(changes);
        self.send(commit)
    }

    #[track_caller]
    pub fn commit(&mut self, changes: Vec<Change>) {
        assert_eq!(self.try_commit(changes), Outcome::Durable);
    }

    pub fn now(&self) -> Time {
        self.store.commit(&[]).expect("the store tells the time").now
    }

    pub fn read(&self, read: Read) -> Page {
        self.read_of(self.shard, read)
    }

    pub fn read_of(&self, shard: ShardId, read: Read) -> Page {
        let mut pages = self.store.read(&[(shard, read)]).expect("the store answers");
        assert_eq!(pages.len(), 1);
        pages.remove(0)
    }

    pub fn row(&self, key: Key) -> Option<Row> {
        match self.read(Read::Rows(vec![key])) {
            Page::Rows(mut rows) if rows.len() == 1 => rows.remove(0),
            page => panic!("not one row: {page:?}"),
        }
    }

    pub fn due_page(
        &self,
        (from, before): (Time, Time),
        after: Option<WheelCursor>,
        limit: usize,
    ) -> (Vec<Row>, Option<WheelCursor>) {
        match self.read(Read::Due { from, before, after, limit }) {
            Page::Due { rows, next } => (rows, next),
            page => panic!("not a page of the wheel: {page:?}"),
        }
    }

    /// All that is due in `[from, before)`, read in pages of `limit`.
    pub fn due(&self, from: Time, before: Time, limit: usize) -> Vec<Row> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let (rows, next) = self.due_page((from, before), after, limit);
            assert!(rows.len() <= limit, "a page is bounded");
            all.extend(rows);
            assert!(next.is_none() || next > after, "a cursor goes forward");
            after = next;
            if next.is_none() {
                return all;
            }
        }
    }

    pub fn due_all(&self) -> Vec<Row> {
        self.due(Time::MIN, Time::MAX.plus(Span::from_secs(86_400)), 100)
    }

    pub fn flow(&self, flow: &FlowKey, after: Option<(Time, RunId)>, limit: usize) -> Vec<RunRow> {
        runs(self.read(Read::Flow { flow: flow.clone(), after, limit }))
    }

    pub fn flows(&self, after: Option<FlowKey>, limit: usize) -> Vec<FlowKey> {
        match self.read(Read::Flows { after, limit }) {
            Page::Flows(flows) => flows,
            page => panic!("not flows: {page:?}"),
        }
    }

    pub fn leases(&self, after: Option<RunId>, limit: usize) -> Vec<(LeaseRow, RunRow)> {
        match self.read(Read::Leases { after, limit }) {
            Page::Leases(leases) => leases,
            page => panic!("not leases: {page:?}"),
        }
    }
}

pub fn runs(page: Page) -> Vec<RunRow> {
    match page {
        Page::Runs(runs) => runs,
        page => panic!("not runs: {page:?}"),
    }
}

pub fn take(
    store: &dyn TestStore,
    shard: ShardId,
    node: NodeId,
    epoch: Epoch,
    by: u32,
) -> Option<Taken> {
    let taken: Result<_, StoreError> = store.take(&[Take { shard, node, epoch, by }]);
    taken.expect("the store answers").remove(0)
}

pub fn insert(key: Key, row: Row) -> Change {
    Change { key, expect: Expect::Absent, row: Some(row) }
}

pub fn update(key: Key, rev: u32, row: Row) -> Change {
    Change { key, expect: Expect::Rev(rev), row: Some(row) }
}

pub fn remove(key: Key, rev: u32) -> Change {
    Change { key, expect: Expect::Rev(rev), row: None }
}

pub fn insert_run(run: &RunRow) -> Change {
    insert(Key::Run(run.id), Row::Run(run.clone()))
}

/// The run's row as it shall be, on top of revision `rev`.
pub fn update_run(run: &RunRow, rev: u32) -> Change {
    update(Key::Run(run.id), rev, Row::Run(run.clone()))
}

pub fn insert_lease(lease: &LeaseRow) -> Change {
    insert(Key::Lease(lease.run), Row::Lease(lease.clone()))
}
