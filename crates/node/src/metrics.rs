//! What the node counts. Atomics only, so that counting costs the hot path a few nanoseconds; the
//! HTTP interface gives them names. Attempts, retries and the like are counted when the commit that
//! says so is durable, once each.

use crate::limits::QUEUES_SHOWN;
use model::row::{Change, Commit, Expect, Key, Row};
use model::{Cause, Namespace, RunState, Span, Status, Text, Time};
use shard::{CallId, CommitEnd, Event, Host, StoreAnswer};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds in microseconds: what a person distinguishes between "at once" and "far too late".
pub const BUCKETS: [u64; 14] = [
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    5_000_000, 60_000_000,
];

#[derive(Debug, Default)]
pub struct Histogram {
    counts: [Counter; BUCKETS.len() + 1],
    sum: Counter,
}

impl Histogram {
    pub fn observe(&self, length: Span) {
        let micros = length.micros().max(0).unsigned_abs();
        let at = BUCKETS.partition_point(|bound| *bound < micros);
        self.counts[at].add(1);
        self.sum.add(micros);
    }

    /// How many fell into each bucket (the last one is beyond all bounds), and their sum in
    /// microseconds.
    pub fn read(&self) -> ([u64; BUCKETS.len() + 1], u64) {
        (std::array::from_fn(|at| self.counts[at].get()), self.sum.get())
    }
}

/// The names of attempts' ends, in the order of `Metrics::attempts`.
pub const OUTCOMES: [&str; 8] =
    ["succeeded", "failed", "timed_out", "lost", "cancelled", "released", "snoozed", "discarded"];

/// What waits in one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub namespace: Namespace,
    pub queue: Text,
    /// In memory; `more` says that others wait on disk.
    pub ready: u64,
    pub more: bool,
    pub oldest: Option<Time>,
}

#[derive(Debug, Default)]
pub struct Metrics {
    /// From the instant a run was due until its first attempt was handed out.
    pub fire_skew: Histogram,
    pub tick: Histogram,
    pub commit: Histogram,
    pub read: Histogram,
    pub attempts: [Counter; OUTCOMES.len()],
    pub retries: Counter,
    pub dead: Counter,
    pub submitted: Counter,
    pub skipped: Counter,
    /// Fires that came later than their time, because they would have been too much.
    pub delayed: Counter,
    /// New work that gave way while a service level was broken.
    pub shed: Counter,
    pub takeovers: Counter,
    pub renewals: Counter,
    /// Of the store, as it counts them; 0 where it does not.
    pub transactions: AtomicU64,
    pub given: Counter,
    /// Shards that their former owners said they had given, taken at once.
    pub gifts: Counter,
    pub leases_lost: Counter,
    pub divergence: Counter,
    pub lost_tail: Counter,
    pub reloads: Counter,
    pub store_refused: Counter,
    pub store_unknown: Counter,
    /// Destinations that began to fail, that work again, and runs that were kept back meanwhile.
    pub destinations_opened: Counter,
    pub destinations_closed: Counter,
    pub kept_back: Counter,
    pub shards_live: AtomicU64,
    /// When a shard was last taken over, in microseconds of the store's clock; 0 = never.
    pub last_takeover: AtomicI64,
    pub resident: AtomicU64,
    queues: Mutex<Vec<Waiting>>,
    /// Queues that have a service level, and whether it is broken.
    levels: Mutex<Vec<((Namespace, Text), bool)>>,
    /// What the commits under way will have done.
    under_way: Mutex<VecDeque<(CallId, Vec<Summary>)>>,
}

/// What one shard's commit does.
#[derive(Debug, Default)]
struct Summary {
    attempts: [u64; OUTCOMES.len()],
    retries: u64,
    dead: u64,
    submitted: u64,
    skipped: u64,
    delayed: u64,
}

impl Metrics {
    pub fn event(&self, event: &Event) {
        match event {
            Event::Divergence => self.divergence.add(1),
            Event::LostTail => self.lost_tail.add(1),
            Event::Reloaded => self.reloads.add(1),
            Event::Rescued | Event::RescuedAtLoad => self.leases_lost.add(1),
            Event::TookOver => self.takeovers.add(1),
            Event::Gave => self.given.add(1),
            Event::TookGift => self.gifts.add(1),
            Event::Shed => self.shed.add(1),
            _ => {}
        }
    }

    pub fn sent(&self, id: CallId, commits: &[Commit]) {
        let summaries = commits.iter().map(Summary::of).collect();
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.push_back((id, summaries));
    }

    pub fn answered(&self, id: CallId, answer: &StoreAnswer) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = under_way.iter().position(|(call, _)| *call == id) else { return };
        let Some((_, summaries)) = under_way.remove(at) else { return };
        match answer {
            StoreAnswer::Commit { ends, .. } => {
                let durable =
                    summaries.iter().zip(ends).filter(|(_, end)| **end == CommitEnd::Durable);
                durable.for_each(|(summary, _)| self.count(summary));
            }
            StoreAnswer::Refused(_) => self.store_refused.add(1),
            _ => self.store_unknown.add(1),
        }
    }

    fn count(&self, summary: &Summary) {
        for (counter, more) in self.attempts.iter().zip(summary.attempts) {
            counter.add(more);
        }
        self.delayed.add(summary.delayed);
        self.retries.add(summary.retries);
        self.dead.add(summary.dead);
        self.submitted.add(summary.submitted);
        self.skipped.add(summary.skipped);
    }

    /// Looks at what waits in memory. Costs as much as there are flows; called now and then.
    pub fn look(&self, host: &Host) {
        let mut queues: BTreeMap<(Namespace, Text), Waiting> = BTreeMap::new();
        let mut resident = 0;
        let mut levels = Vec::new();
        for shard in host.shards() {
            resident += shard.resident() as u64;
            let room = QUEUES_SHOWN.saturating_sub(levels.len());
            let of = shard.levels().take(room);
            levels.extend(of.map(|(queue, broken)| (queue.clone(), broken)));
            for (key, ready, more, oldest) in shard.waiting() {
                let name = (key.namespace, key.queue.clone());
                // Labels are bounded: the first queues by name are shown.
                if queues.len() >= QUEUES_SHOWN && !queues.contains_key(&name) {
                    continue;
                }
                let (namespace, queue) = name.clone();
                let nothing = Waiting { namespace, queue, ready: 0, more: false, oldest: None };
                let entry = queues.entry(name).or_insert(nothing);
                entry.ready += ready as u64;
                entry.more |= more;
                entry.oldest = match (entry.oldest, oldest) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
        }
        self.resident.store(resident, Ordering::Relaxed);
        *self.queues.lock().unwrap_or_else(PoisonError::into_inner) =
            queues.into_values().collect();
        *self.levels.lock().unwrap_or_else(PoisonError::into_inner) = levels;
    }

    /// The first queues that have a service level, and whether it is broken.
    pub fn levels(&self) -> Vec<((Namespace, Text), bool)> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn waiting(&self) -> Vec<Waiting> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Summary {
    fn of(commit: &Commit) -> Summary {
        let mut summary = Summary::default();
        commit.changes.iter().for_each(|change| summary.change(change));
        summary
    }

    fn change(&mut self, change: &Change) {
        match (&change.key, &change.row) {
            (Key::History(..), Some(Row::History(row))) => match outcome(row.status) {
                Some(at) => self.attempts[at] += 1,
                None if row.status == Status::Delayed => self.delayed += 1,
                None => self.skipped += row.count.max(1),
            },
            (Key::Run(_), Some(Row::Run(row))) => {
                self.retries += u64::from(row.state == RunState::Retrying);
                self.dead += u64::from(row.state == RunState::Dead);
            }
            _ => {}
        }
        if change.expect == Expect::Absent {
            self.submitted += u64::from(match &change.row {
                Some(Row::Job(_)) => true,
                Some(Row::Run(row)) => row.id.cause() == Cause::OneOff,
                _ => false,
            });
        }
    }
}

fn outcome(status: Status) -> Option<usize> {
    Some(match status {
        Status::Succeeded => 0,
        Status::Failed => 1,
        Status::TimedOut => 2,
        Status::Lost => 3,
        Status::Cancelled => 4,
        Status::Released => 5,
        Status::Snoozed => 6,
        Status::Discarded => 7,
        Status::SkippedOverlap
        | Status::SkippedPaused
        | Status::Coalesced
        | Status::Missed
        | Status::Delayed => {
            return None;
        }
    })
}
