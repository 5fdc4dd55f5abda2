//! Attempts under way. A lease is a row in the store (who, which token, how long); when it was
//! last renewed is kept only here, because writing heartbeats would cost more than the work.
//! An owner that loads a lease counts it as renewed at load time.

use crate::entry::Entry;
use crate::limits::RESCUE_PERCENT;
use model::row::{Holder, LeaseRow};
use model::{RunId, Span, Time, Token};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub struct Lease {
    pub row: LeaseRow,
    pub entry: Entry,
    /// When the owner takes the run back.
    ends: Time,
}

#[derive(Debug, Default)]
pub struct Leases {
    by_run: BTreeMap<RunId, Lease>,
    ends: BTreeSet<(Time, RunId)>,
    /// Claims by who asked and how they named their request.
    requests: BTreeMap<(Holder, u64), BTreeSet<RunId>>,
}

impl Leases {
    pub fn get(&self, run: RunId) -> Option<&Lease> {
        self.by_run.get(&run)
    }

    pub fn get_mut(&mut self, run: RunId) -> Option<&mut Lease> {
        self.by_run.get_mut(&run)
    }

    pub fn contains(&self, run: RunId) -> bool {
        self.by_run.contains_key(&run)
    }

    pub fn insert(&mut self, row: LeaseRow, entry: Entry, renewed: Time) {
        let run = row.run;
        let ends = end_of(&row, renewed);
        self.ends.insert((ends, run));
        self.requests.entry((row.holder.clone(), row.request)).or_default().insert(run);
        self.by_run.insert(run, Lease { row, entry, ends });
    }

    pub fn renew(&mut self, run: RunId, at: Time) {
        if let Some(lease) = self.by_run.get_mut(&run) {
            self.ends.remove(&(lease.ends, run));
            lease.ends = end_of(&lease.row, at);
            self.ends.insert((lease.ends, run));
        }
    }

    /// When the owner looks at the lease next: at once if its holder is known to be dead.
    pub fn look_again(&mut self, run: RunId, at: Time) {
        if let Some(lease) = self.by_run.get_mut(&run) {
            self.ends.remove(&(lease.ends, run));
            lease.ends = at;
            self.ends.insert((at, run));
        }
    }

    pub fn remove(&mut self, run: RunId) -> Option<Lease> {
        let lease = self.by_run.remove(&run)?;
        self.ends.remove(&(lease.ends, run));
        let request = (lease.row.holder.clone(), lease.row.request);
        if let Some(runs) = self.requests.get_mut(&request) {
            runs.remove(&run);
            if runs.is_empty() {
                self.requests.remove(&request);
            }
        }
        Some(lease)
    }

    /// The leases an earlier claim with this request got and that still hold.
    pub fn of_request(&self, holder: &Holder, request: u64) -> Vec<&Lease> {
        match self.requests.get(&(holder.clone(), request)) {
            Some(runs) => runs.iter().filter_map(|run| self.by_run.get(run)).collect(),
            None => Vec::new(),
        }
    }

    pub fn next_end(&self) -> Option<Time> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// Leases that ended by `now`, at most `limit`.
    pub fn ended(&self, now: Time, limit: usize) -> Vec<(RunId, Token)> {
        let ended = self.ends.iter().take_while(|(at, _)| *at <= now).take(limit);
        ended.filter_map(|(_, run)| Some((*run, self.by_run.get(run)?.row.token))).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.by_run.values()
    }
}

/// A worker must be heard from within its lease and a tenth; an executor inside a node lives and
/// dies with its node, so only the attempt's deadline bounds it.
fn end_of(row: &LeaseRow, renewed: Time) -> Time {
    let grace = row.deadline.plus(Span::from_micros(row.length.micros() / 10));
    match row.holder {
        Holder::Node(_) => grace,
        Holder::Worker(_) => {
            let length = row.length.micros().saturating_mul(RESCUE_PERCENT) / 100;
            renewed.plus(Span::from_micros(length)).min(grace)
        }
    }
}
