//! Rows that decisions need but memory does not hold by nature: jobs, specs, backlog rows,
//! idempotency keys, runs that are far from their time.
//!
//! **The overlay.** A batch that is not durable yet has changed rows; a read of the store cannot
//! show that. The overlay says which batch changed a row last, and is looked at first. Its entries
//! stay after the batch is acknowledged for as long as a read is under way that began before the
//! acknowledgement: that read may have seen the row as it was. Without this rule two submissions
//! of one idempotency key make two jobs (`tests/core.rs`, planted bug `RetireTooEarly`).
//!
//! **The cache.** Rows that were read, and rows of retired batches, for the next decision. Bounded.

use crate::batch::Batch;
use crate::limits::CACHE_MAX;
use crate::planted::{Bug, Planted};
use model::RunId;
use model::row::{Change, Expect, Key, Row};
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadId(pub u64);

#[derive(Debug, Default)]
pub struct Rows {
    overlay: Overlay,
    /// Acknowledged batches whose rows may not be forgotten yet, with the last read that was begun
    /// before the acknowledgement.
    acknowledged: VecDeque<(Batch, ReadId)>,
    cache: BTreeMap<Key, Option<Row>>,
    planted: Planted,
}

/// Where a row was changed last: number of the batch, index of the change. Runs, which are nearly
/// all of it, stand apart: their short keys make a map that is cheap to search.
#[derive(Debug, Default)]
struct Overlay {
    runs: BTreeMap<RunId, (u64, usize)>,
    others: BTreeMap<Key, (u64, usize)>,
}

impl Overlay {
    fn get(&self, key: &Key) -> Option<(u64, usize)> {
        match key {
            Key::Run(run) => self.runs.get(run).copied(),
            key => self.others.get(key).copied(),
        }
    }

    fn insert(&mut self, key: &Key, place: (u64, usize)) {
        match key {
            Key::Run(run) => self.runs.insert(*run, place),
            key => self.others.insert(key.clone(), place),
        };
    }

    fn remove(&mut self, key: &Key) {
        match key {
            Key::Run(run) => self.runs.remove(run),
            key => self.others.remove(key),
        };
    }
}

impl Rows {
    pub fn new(planted: Planted) -> Rows {
        Rows { planted, ..Rows::default() }
    }

    /// A row as decisions so far have made it; `None` if it must be read first.
    pub fn get<'a>(
        &'a self,
        key: &Key,
        batches: impl Iterator<Item = &'a Batch>,
    ) -> Option<Option<&'a Row>> {
        if !self.planted.is(Bug::ForgetOverlay)
            && let Some((seq, index)) = self.overlay.get(key)
        {
            let batch = batches
                .chain(self.acknowledged.iter().map(|(batch, _)| batch))
                .find(|batch| batch.seq == seq)?;
            return Some(batch.changes[index].row.as_ref());
        }
        self.cache.get(key).map(Option::as_ref)
    }

    /// A decision changed a row: change `index` of the batch with this number.
    pub fn changed(&mut self, change: &Change, seq: u64, index: usize) {
        // Leases are always in memory; attempts that ended are remembered by `recent`.
        if !matches!(change.key, Key::Lease(_) | Key::History(..)) {
            self.overlay.insert(&change.key, (seq, index));
            if !self.cache.is_empty() {
                self.cache.remove(&change.key);
            }
        }
    }

    /// A batch is durable. `last_read` is the newest read begun so far.
    pub fn acknowledge(&mut self, batch: Batch, last_read: ReadId) {
        self.acknowledged.push_back((batch, last_read));
    }

    /// Forgets rows of acknowledged batches that no read under way could contradict.
    pub fn retire(&mut self, oldest_read: Option<ReadId>) {
        while let Some((_, last_read)) = self.acknowledged.front() {
            let wait = oldest_read.is_some_and(|oldest| oldest <= *last_read);
            if wait && !self.planted.is(Bug::RetireTooEarly) {
                break;
            }
            let Some((batch, _)) = self.acknowledged.pop_front() else { break };
            for (index, change) in batch.changes.iter().enumerate() {
                if self.overlay.get(&change.key) == Some((batch.seq, index)) {
                    self.overlay.remove(&change.key);
                    // What was just made may be due in a year; what was changed has fired.
                    let fired = change.expect != Expect::Absent && change.row.is_some();
                    if matches!(change.key, Key::Job(_) | Key::Spec(..)) && fired {
                        self.keep(change.key.clone(), change.row.clone());
                    }
                }
            }
        }
    }

    /// A read brought this row. What a batch changed meanwhile is newer than what was read.
    pub fn read(&mut self, key: Key, row: Option<Row>) {
        if self.overlay.get(&key).is_none() || self.planted.is(Bug::ForgetOverlay) {
            self.keep(key, row);
        }
    }

    fn keep(&mut self, key: Key, row: Option<Row>) {
        if self.cache.len() >= CACHE_MAX {
            // What is dropped here is read again when it is needed; which half goes does not
            // matter for correctness, and ids are time-ordered, so the older jobs go first.
            let middle = self.cache.keys().nth(CACHE_MAX / 2).cloned();
            if let Some(middle) = middle {
                self.cache = self.cache.split_off(&middle);
            }
        }
        self.cache.insert(key, row);
    }

    /// Rows that were read for one decision only and would grow old in the cache.
    pub fn drop_read(&mut self, key: &Key) {
        if !matches!(key, Key::Job(_) | Key::Spec(..)) {
            self.cache.remove(key);
        }
    }

    pub fn waiting_batches(&self) -> usize {
        self.acknowledged.len()
    }
}
