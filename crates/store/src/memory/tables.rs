//! One shard's rows. `put` is the only way in: it keeps the rows and the orders over them
//! together, and returns what stood there, so that `apply` can put it back.

use super::history::History;
use super::keys::Keys;
use super::stored::{Placed, Stored, StoredRun};
use super::wheel::{Flows, Wheel, place, wheel_key};
use model::job::Spec;
use model::row::{
    BacklogId, BacklogRow, Change, CheckpointRow, Expect, HoldRow, JobRow, Key, LeaseRow, Row,
    Scope,
};
use model::{JobId, Namespace, QueueRow, RunId, Text, Time};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    /// What lies before it is not shown, so that a simulator finds out when it is wrong.
    pub starts: model::row::Starts,
    pub runs: BTreeMap<RunId, Box<StoredRun>>,
    pub leases: BTreeMap<RunId, Box<LeaseRow>>,
    pub jobs: BTreeMap<JobId, Box<Placed<JobRow>>>,
    pub specs: BTreeMap<(JobId, u32), Arc<Spec>>,
    pub backlogs: BTreeMap<BacklogId, Box<Placed<BacklogRow>>>,
    pub keys: Keys,
    pub checkpoints: BTreeMap<RunId, CheckpointRow>,
    pub holds: BTreeMap<Scope, HoldRow>,
    pub queues: BTreeMap<(Namespace, Text), QueueRow>,
    pub history: History,
    pub wheel: Wheel,
    pub flows: Flows,
}

impl Tables {
    /// Applies all changes, one after the other, or none; `Err` is the index of the one that did
    /// not find what it expected.
    pub fn apply(&mut self, changes: &[Change], now: Time) -> Result<(), usize> {
        let mut replaced = Vec::with_capacity(changes.len());
        for (index, change) in changes.iter().enumerate() {
            if !crate::fits(change) {
                self.put_back(changes, replaced);
                return Err(index);
            }
            let new = change.row.as_ref().map(|row| Stored::new(row, now));
            let old = self.put(&change.key, new);
            let met = match change.expect {
                Expect::Absent => old.is_none(),
                Expect::Rev(rev) => old.as_ref().is_some_and(|old| old.rev() == rev),
            };
            self.keep_body(change, old.as_ref());
            replaced.push(old);
            if !met {
                self.put_back(changes, replaced);
                return Err(index);
            }
        }
        Ok(())
    }

    fn put_back(&mut self, changes: &[Change], mut replaced: Vec<Option<Stored>>) {
        while let Some(old) = replaced.pop() {
            self.put(&changes[replaced.len()].key, old);
        }
    }

    /// A change without a body leaves the run's body as it was.
    fn keep_body(&mut self, change: &Change, old: Option<&Stored>) {
        if let (Some(Row::Run(new)), Some(Stored::Run(old))) = (&change.row, old)
            && new.body.is_none()
            && old.body.is_some()
            && let Some(run) = self.runs.get_mut(&new.id)
        {
            run.body = old.body.clone();
        }
    }

    /// Puts a row under the key, or nothing, and returns what stood there. The row's kind is the
    /// key's: `fits` was asked, and what was stored once fits.
    fn put(&mut self, key: &Key, new: Option<Stored>) -> Option<Stored> {
        let new_place = new.as_ref().and_then(place);
        let old = match (key, new) {
            (Key::Run(id), Some(Stored::Run(run))) => self.put_run(*id, Some(run)).map(Stored::Run),
            (Key::Run(id), _) => self.put_run(*id, None).map(Stored::Run),
            (Key::Lease(id), Some(Stored::Lease(row))) => {
                self.leases.insert(*id, row).map(Stored::Lease)
            }
            (Key::Lease(id), _) => self.leases.remove(id).map(Stored::Lease),
            (Key::Job(id), Some(Stored::Job(row))) => self.jobs.insert(*id, row).map(Stored::Job),
            (Key::Job(id), _) => self.jobs.remove(id).map(Stored::Job),
            (Key::Spec(id, version), Some(Stored::Spec(spec))) => {
                self.specs.insert((*id, *version), spec).map(Stored::Spec)
            }
            (Key::Spec(id, version), _) => self.specs.remove(&(*id, *version)).map(Stored::Spec),
            (Key::Backlog(id), Some(Stored::Backlog(row))) => {
                self.backlogs.insert(*id, row).map(Stored::Backlog)
            }
            (Key::Backlog(id), _) => self.backlogs.remove(id).map(Stored::Backlog),
            (Key::Idempotency(key), Some(Stored::Idempotency(row))) => {
                self.keys.put(key, Some(*row)).map(|old| Stored::Idempotency(Box::new(old)))
            }
            (Key::Idempotency(key), _) => {
                self.keys.put(key, None).map(|old| Stored::Idempotency(Box::new(old)))
            }
            (Key::Checkpoint(id), Some(Stored::Checkpoint(row))) => {
                self.checkpoints.insert(*id, row).map(Stored::Checkpoint)
            }
            (Key::Checkpoint(id), _) => self.checkpoints.remove(id).map(Stored::Checkpoint),
            (Key::Hold(scope), Some(Stored::Hold(row))) => {
                self.holds.insert(scope.clone(), row).map(Stored::Hold)
            }
            (Key::Hold(scope), _) => self.holds.remove(scope).map(Stored::Hold),
            (Key::Queue(namespace, queue), Some(Stored::Queue(row))) => {
                self.queues.insert((*namespace, queue.clone()), row).map(Stored::Queue)
            }
            (Key::Queue(namespace, queue), _) => {
                self.queues.remove(&(*namespace, queue.clone())).map(Stored::Queue)
            }
            (Key::History(run, token), Some(Stored::History(row))) => {
                self.history.put(*run, *token, Some(row)).map(Stored::History)
            }
            (Key::History(run, token), _) => {
                self.history.put(*run, *token, None).map(Stored::History)
            }
        };
        if let Some(key) = wheel_key(key) {
            let old_bucket = old.as_ref().and_then(place).map(|(bucket, _)| bucket);
            self.wheel.put(key, old_bucket, new_place);
        }
        old
    }

    fn put_run(&mut self, id: RunId, new: Option<Box<StoredRun>>) -> Option<Box<StoredRun>> {
        let Some(new) = new else {
            let old = self.runs.remove(&id);
            self.flows.put(old.as_ref().map(|old| &old.row), None);
            return old;
        };
        match self.runs.entry(id) {
            Entry::Occupied(mut entry) => {
                self.flows.put(Some(&entry.get().row), Some(&new.row));
                Some(entry.insert(new))
            }
            Entry::Vacant(entry) => {
                self.flows.put(None, Some(&new.row));
                entry.insert(new);
                None
            }
        }
    }

    /// The row under a key, a run without its body.
    pub fn get(&self, key: &Key) -> Option<Row> {
        match key {
            Key::Run(id) => self.runs.get(id).map(|run| Row::Run(run.row.clone())),
            Key::Lease(id) => self.leases.get(id).map(|row| Row::Lease(LeaseRow::clone(row))),
            Key::Job(id) => self.jobs.get(id).map(|job| Row::Job(job.row.clone())),
            Key::Spec(id, version) => self.specs.get(&(*id, *version)).cloned().map(Row::Spec),
            Key::Backlog(id) => self.backlogs.get(id).map(|row| Row::Backlog(row.row.clone())),
            Key::Idempotency(key) => self.keys.get(key).cloned().map(Row::Idempotency),
            Key::Checkpoint(id) => self.checkpoints.get(id).cloned().map(Row::Checkpoint),
            Key::Hold(scope) => self.holds.get(scope).cloned().map(Row::Hold),
            Key::Queue(namespace, queue) => {
                self.queues.get(&(*namespace, queue.clone())).cloned().map(Row::Queue)
            }
            Key::History(run, token) => {
                self.history.get(*run, *token).map(|row| Row::History(Box::new(row.clone())))
            }
        }
    }

    pub fn spec(&self, run: RunId, version: u32) -> Option<Arc<Spec>> {
        let body = self.runs.get(&run).and_then(|run| run.body.clone());
        body.or_else(|| self.specs.get(&(run.job, version)).cloned())
    }
}
