//! Attempts under way. A lease is a row in the store (who, which token, how long); when it was
//! last renewed is kept only here, because writing heartbeats would cost more than the work.
//! An owner that loads a lease counts it as renewed at load time.

use crate::command::CommandId;
use crate::entry::Entry;
use crate::limits::{RESCUE_AGAIN, RESCUE_PERCENT, UNHEARD_MAX};
use model::row::{Holder, LeaseRow};
use model::{RunId, Span, Time, Token};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub struct Lease {
    pub row: LeaseRow,
    pub entry: Entry,
    /// Its time may be still to come.
    pub reserved: bool,
    /// When the owner takes the run back.
    ends: Time,
    /// It is being taken back; if that has not happened by then, it is looked at again.
    again: Option<Time>,
}

#[derive(Debug, Default)]
pub struct Leases {
    by_run: BTreeMap<RunId, Lease>,
    ends: BTreeSet<(Time, RunId)>,
    again: BTreeSet<(Time, RunId)>,
    /// Claims by who asked and how they named their request.
    requests: BTreeMap<Request, Requested>,
    /// The requests that callers were told of, or will be when the commit is durable.
    told: BTreeMap<CommandId, Request>,
    /// What was known of the requests whose leases are being loaded again.
    known: BTreeMap<Request, Requested>,
    /// Leases that certainly nobody heard of. That they go back may not become durable, and then
    /// they are loaded again; one that is dropped here ends by its time.
    unheard: BTreeMap<RunId, Token>,
}

/// Who claims, and how they number it.
type Request = (Holder, u64);

#[derive(Debug, Default)]
struct Requested {
    runs: BTreeMap<RunId, Token>,
    /// Callers of this request who heard of its leases, or will. One copy of a request may be late,
    /// and hang up long after another one was heard: only when all have hung up nobody heard.
    told: BTreeSet<CommandId>,
    /// Somebody may have heard who is not among `told`: of a lease that came from the store it is
    /// not known who was told, unless memory still knew that very lease.
    elsewhere: bool,
}

impl Requested {
    fn is_told(&self) -> bool {
        self.elsewhere || !self.told.is_empty()
    }
}

impl Lease {
    pub fn new(row: LeaseRow, entry: Entry, renewed: Time, reserved: bool) -> Lease {
        let ends = end_of(&row, renewed);
        Lease { row, entry, reserved, ends, again: None }
    }
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

    pub fn insert(&mut self, lease: Lease) {
        let run = lease.row.run;
        self.ends.insert((lease.ends, run));
        let request = (lease.row.holder.clone(), lease.row.request);
        self.requests.entry(request).or_default().runs.insert(run, lease.row.token);
        self.by_run.insert(run, lease);
    }

    /// A lease that the store holds.
    pub fn load(&mut self, row: LeaseRow, entry: Entry, renewed: Time) {
        let (run, token) = (row.run, row.token);
        let request = (row.holder.clone(), row.request);
        // Whether its time had come when it was given is not known here.
        self.insert(Lease::new(row, entry, renewed, true));
        let known = self.known.get(&request).filter(|known| known.runs.get(&run) == Some(&token));
        let unheard = self.unheard.get(&run) == Some(&token);
        let Some(requested) = self.requests.get_mut(&request) else { return };
        requested.elsewhere |= known.map_or(!unheard, |known| known.elsewhere);
        for caller in known.iter().flat_map(|known| &known.told) {
            requested.told.insert(*caller);
            self.told.insert(*caller, request.clone());
        }
    }

    pub fn renew(&mut self, run: RunId, at: Time) {
        if let Some(lease) = self.by_run.get(&run) {
            let ends = end_of(&lease.row, at);
            self.end_at(run, ends);
        }
    }

    /// The owner takes the run back then: at once, if its holder is known to be dead.
    pub fn end_at(&mut self, run: RunId, ends: Time) {
        self.unlist(run);
        if let Some(lease) = self.by_run.get_mut(&run) {
            lease.ends = ends;
            self.ends.insert((ends, run));
        }
    }

    /// It is being taken back, which may wait for rows: not to be looked at in every pass.
    pub fn look_again(&mut self, run: RunId, at: Time) {
        self.unlist(run);
        if let Some(lease) = self.by_run.get_mut(&run) {
            lease.again = Some(at);
            self.again.insert((at, run));
        }
    }

    fn unlist(&mut self, run: RunId) {
        if let Some(lease) = self.by_run.get_mut(&run) {
            self.ends.remove(&(lease.ends, run));
            if let Some(at) = lease.again.take() {
                self.again.remove(&(at, run));
            }
        }
    }

    /// Is it over by now? A clock that ran wild may have said so and come back since.
    pub fn is_over(&self, run: RunId, now: Time) -> bool {
        self.by_run.get(&run).is_some_and(|lease| lease.ends <= now)
    }

    pub fn remove(&mut self, run: RunId) -> Option<Lease> {
        self.unlist(run);
        let lease = self.by_run.remove(&run)?;
        let request = (lease.row.holder.clone(), lease.row.request);
        if let Some(requested) = self.requests.get_mut(&request) {
            requested.runs.remove(&run);
            if requested.runs.is_empty() {
                for caller in &requested.told {
                    self.told.remove(caller);
                }
                self.requests.remove(&request);
            }
        }
        Some(lease)
    }

    /// This caller is the one who hears of these leases.
    pub fn tell(&mut self, holder: &Holder, request: u64, caller: CommandId) {
        let request = (holder.clone(), request);
        if let Some(requested) = self.requests.get_mut(&request) {
            requested.told.insert(caller);
            for run in requested.runs.keys() {
                self.unheard.remove(run);
            }
            self.told.insert(caller, request);
        }
    }

    /// This caller does not hear of its leases: those that nobody else was told of.
    pub fn untell(&mut self, caller: CommandId) -> Vec<(RunId, Token)> {
        let Some(request) = self.told.remove(&caller) else { return Vec::new() };
        let Some(requested) = self.requests.get_mut(&request) else { return Vec::new() };
        requested.told.remove(&caller);
        if requested.is_told() {
            return Vec::new();
        }
        let unheard: Vec<_> = requested.runs.iter().map(|(run, token)| (*run, *token)).collect();
        self.unheard.extend(unheard.iter().copied());
        while self.unheard.len() > UNHEARD_MAX {
            // Ids grow with time: mostly the oldest goes.
            self.unheard.pop_first();
        }
        unheard
    }

    /// Did somebody hear of this lease, or will?
    pub fn is_told(&self, run: RunId) -> bool {
        let Some(row) = self.by_run.get(&run).map(|lease| &lease.row) else { return false };
        let request = (row.holder.clone(), row.request);
        self.requests.get(&request).is_some_and(Requested::is_told)
    }

    /// Everything is forgotten but who was told of what: the leases are loaded again.
    pub fn forget(&mut self) {
        let mut known = std::mem::take(&mut self.known);
        let requests = std::mem::take(&mut self.requests).into_iter();
        known.extend(requests);
        let unheard = std::mem::take(&mut self.unheard);
        *self = Leases { known, unheard, ..Leases::default() };
    }

    /// All are loaded: who was told of others was told of what is over.
    pub fn loaded(&mut self) {
        self.known.clear();
    }

    /// The leases an earlier claim with this request got and that still hold.
    pub fn of_request(&self, holder: &Holder, request: u64) -> Vec<&Lease> {
        match self.requests.get(&(holder.clone(), request)) {
            Some(requested) => {
                requested.runs.keys().filter_map(|run| self.by_run.get(run)).collect()
            }
            None => Vec::new(),
        }
    }

    pub fn next_end(&self) -> Option<Time> {
        let (ends, again) = (self.ends.first(), self.again.first());
        [ends, again].into_iter().flatten().map(|(at, _)| *at).min()
    }

    /// Leases that ended by `now`, at most `limit`.
    pub fn ended(&mut self, now: Time, limit: usize) -> Vec<(RunId, Token)> {
        let late = |at: Time| at <= now || at.since(now) > RESCUE_AGAIN;
        let back: Vec<RunId> =
            self.again.iter().filter(|(at, _)| late(*at)).map(|(_, run)| *run).collect();
        for run in back {
            if let Some(ends) = self.by_run.get(&run).map(|lease| lease.ends) {
                self.end_at(run, ends);
            }
        }
        let ended = self.ends.iter().take_while(|(at, _)| *at <= now).take(limit);
        ended.filter_map(|(_, run)| Some((*run, self.by_run.get(run)?.row.token))).collect()
    }

    pub fn len(&self) -> usize {
        self.by_run.len()
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
