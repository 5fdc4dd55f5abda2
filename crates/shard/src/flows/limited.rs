//! What a queue allows: how much of it runs at once, how much starts in a time, and how long a group's
//! turn is. All of it is counted here and asked here; the runs themselves stand in the flows.
//!
//! **Running** is counted in leases, and a lease leaves memory in the batch that ends it: commits are
//! applied in order, so the store never holds more leases than a limit allows.
//!
//! **A rate** is a bucket of starts that refills. What an owner before us started is not known, so a
//! bucket is empty when it is made: the starts of both together stay within `burst` and the rate. The
//! same when a rate is changed. A start that was given back (its claimer hung up) stays spent.
//!
//! A group at its limit is *shut*: its flows are not shown to those who pick (`Flows::refresh`), so a
//! pick never looks at what it cannot have, however many groups are shut.

use super::FlowId;
use crate::limits::GROUPS_ASIDE_MAX;
use model::{QueueRow, Rate, Text, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Starts that are allowed, counted without fractions: a start costs `rate.per`, and a microsecond
/// brings `rate.starts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    rate: Rate,
    /// When the bucket is full again, in microseconds times `rate.starts`.
    full: i128,
}

impl Bucket {
    pub fn empty(rate: Rate, now: Time) -> Bucket {
        let mut bucket = Bucket { rate, full: 0 };
        bucket.full = bucket.at(now) + bucket.size();
        bucket
    }

    /// Holds its burst.
    pub fn full(rate: Rate, now: Time) -> Bucket {
        let mut bucket = Bucket { rate, full: 0 };
        bucket.full = bucket.at(now);
        bucket
    }

    pub fn rate(&self) -> Rate {
        self.rate
    }

    fn at(&self, now: Time) -> i128 {
        i128::from(now.micros()) * i128::from(self.rate.starts)
    }

    fn cost(&self) -> i128 {
        i128::from(self.rate.per.micros())
    }

    fn size(&self) -> i128 {
        i128::from(self.rate.burst) * self.cost()
    }

    /// When the next start is allowed; in the past if it is now.
    pub fn next(&self, now: Time) -> Time {
        // A clock that ran wild and came back: no bucket is emptier than empty.
        let full = self.full.min(self.at(now) + self.size());
        let wanted = full - self.size() + self.cost();
        let micros = wanted.div_euclid(i128::from(self.rate.starts))
            + i128::from(wanted.rem_euclid(i128::from(self.rate.starts)) > 0);
        i64::try_from(micros).map_or(Time::MAX, Time::from_micros)
    }

    pub fn spend(&mut self, now: Time) {
        let now = self.at(now);
        self.full = self.full.clamp(now, now + self.size()) + self.cost();
    }

    /// Whole starts that are there.
    pub fn left(&self, now: Time) -> u32 {
        let missing = (self.full - self.at(now)).clamp(0, self.size());
        let left = (self.size() - missing) / self.cost().max(1);
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    fn is_full(&self, now: Time) -> bool {
        self.full <= self.at(now)
    }
}

#[derive(Debug, Default)]
struct Group {
    running: u32,
    bucket: Option<Bucket>,
    flows: BTreeSet<FlowId>,
    shut: bool,
    /// It opens then by itself.
    opens: Option<Time>,
}

/// A queue that has a row.
#[derive(Debug)]
pub(super) struct Limited {
    row: QueueRow,
    running: u32,
    bucket: Option<Bucket>,
    groups: BTreeMap<Text, Group>,
    /// Groups that open by themselves, by when.
    opening: BTreeSet<(Time, Text)>,
    /// Somebody was refused because of the queue's rate: then the next start is allowed.
    again: Option<Time>,
    /// Since when starts are counted: of a group that is not here nothing started since then that
    /// its bucket still remembers.
    since: Time,
    /// How many groups were kept when those that nothing names were last forgotten.
    kept: usize,
    /// Its service level is broken (`level.rs`).
    pub(super) late: bool,
}

impl Limited {
    pub(super) fn new(row: QueueRow, now: Time) -> Limited {
        let bucket = row.rate.map(|rate| Bucket::empty(rate, now));
        Limited {
            row,
            running: 0,
            bucket,
            groups: BTreeMap::new(),
            opening: BTreeSet::new(),
            again: None,
            since: now,
            kept: 0,
            late: false,
        }
    }

    /// Takes over what still counts from the limits before. What is not known of a rate is taken to
    /// be spent.
    pub(super) fn succeeds(&mut self, before: Limited) {
        self.late = before.late;
        if self.row.rate == before.row.rate {
            self.bucket = before.bucket;
        }
        if self.row.group_rate == before.row.group_rate {
            self.since = before.since;
            for (name, group) in before.groups {
                if group.bucket.is_some() {
                    self.groups.entry(name).or_default().bucket = group.bucket;
                }
            }
        }
    }

    pub(super) fn row(&self) -> &QueueRow {
        &self.row
    }

    pub(super) fn limits_groups(&self) -> bool {
        self.row.group_max_running.is_some() || self.row.group_rate.is_some()
    }

    pub(super) fn weight(&self, group: Option<&Text>) -> u32 {
        group.and_then(|group| self.row.weights.get(group)).copied().unwrap_or(1).max(1)
    }

    /// May a run of this queue start, as far as the queue itself is concerned?
    pub(super) fn is_open(&self, now: Time) -> bool {
        self.row.max_running.is_none_or(|max| self.running < max)
            && self.bucket.is_none_or(|bucket| bucket.next(now) <= now)
    }

    /// Somebody asked and was refused: if only time is missing, it is remembered.
    pub(super) fn refused(&mut self, now: Time) {
        if let Some(bucket) = &self.bucket {
            let next = bucket.next(now);
            self.again = (next > now).then_some(next);
        }
    }

    /// When something starts to be allowed that was not.
    pub(super) fn next(&self) -> Option<Time> {
        let opening = self.opening.first().map(|(at, _)| *at);
        [opening, self.again].into_iter().flatten().min()
    }

    pub(super) fn is_shut(&self, group: Option<&Text>) -> bool {
        group.and_then(|group| self.groups.get(group)).is_some_and(|group| group.shut)
    }

    /// A flow of this group stands in memory.
    pub(super) fn add_flow(&mut self, group: Option<&Text>, flow: FlowId) {
        if let Some(group) = group.filter(|_| self.limits_groups()) {
            self.groups.entry(group.clone()).or_default().flows.insert(flow);
        }
    }

    pub(super) fn remove_flow(&mut self, group: Option<&Text>, flow: FlowId) {
        if let Some(group) = group.and_then(|group| self.groups.get_mut(group)) {
            group.flows.remove(&flow);
        }
    }

    /// A lease that the store holds.
    pub(super) fn count(&mut self, group: Option<&Text>) {
        self.running += 1;
        if let Some(group) = group.filter(|_| self.limits_groups()) {
            self.groups.entry(group.clone()).or_default().running += 1;
        }
    }

    /// A run started now. Returns the flows that are to be looked at again, if its group shut.
    pub(super) fn start(&mut self, group: Option<&Text>, now: Time) -> Vec<FlowId> {
        if let Some(bucket) = &mut self.bucket {
            bucket.spend(now);
        }
        if let (Some(name), Some(rate)) = (group, self.row.group_rate) {
            let empty = Bucket::empty(rate, self.since);
            let group = self.groups.entry(name.clone()).or_default();
            group.bucket.get_or_insert(empty).spend(now);
        }
        self.start_free(group, now)
    }

    /// The same without its price.
    pub(super) fn start_free(&mut self, group: Option<&Text>, now: Time) -> Vec<FlowId> {
        self.count(group);
        let Some(name) = group.filter(|_| self.limits_groups()) else { return Vec::new() };
        self.judge(name, now)
    }

    /// A run ended, or waits again. Was the queue full? And the flows of its group if that opened.
    pub(super) fn end(&mut self, group: Option<&Text>, now: Time) -> (bool, Vec<FlowId>) {
        let was_full = self.row.max_running.is_some_and(|max| self.running >= max);
        self.running = self.running.saturating_sub(1);
        let Some(name) = group.filter(|_| self.limits_groups()) else {
            return (was_full, Vec::new());
        };
        if let Some(group) = self.groups.get_mut(name) {
            group.running = group.running.saturating_sub(1);
        }
        let opened = self.judge(name, now);
        self.forget_idle(now);
        (was_full, opened)
    }

    /// Shuts or opens a group by what it may do now. Returns its flows if that changed.
    pub(super) fn judge(&mut self, name: &Text, now: Time) -> Vec<FlowId> {
        let unknown = self.row.group_rate.map(|rate| Bucket::empty(rate, self.since));
        let Some(group) = self.groups.get_mut(name) else { return Vec::new() };
        let full = self.row.group_max_running.is_some_and(|max| group.running >= max);
        let next = unknown.map(|unknown| group.bucket.unwrap_or(unknown).next(now));
        let opens = next.filter(|next| !full && *next > now);
        if group.opens != opens {
            if let Some(at) = group.opens.take() {
                self.opening.remove(&(at, name.clone()));
            }
            if let Some(at) = opens {
                self.opening.insert((at, name.clone()));
            }
            group.opens = opens;
        }
        let shut = full || opens.is_some();
        let changed = group.shut != shut;
        group.shut = shut;
        if changed { group.flows.iter().copied().collect() } else { Vec::new() }
    }

    /// Time has passed: the flows of groups that opened, and whether somebody may ask again.
    pub(super) fn pass(&mut self, now: Time) -> (bool, Vec<FlowId>) {
        let asked = self.again.is_some_and(|at| at <= now);
        if asked {
            self.again = None;
        }
        let mut opened = Vec::new();
        while let Some((at, name)) = self.opening.first().cloned()
            && at <= now
        {
            opened.extend(self.judge(&name, now));
            // Judging removes it; a group that is not there any more has nothing to open.
            self.opening.remove(&(at, name));
        }
        (asked, opened)
    }

    /// Groups with nothing waiting, nothing running and a full bucket are like groups never seen.
    fn forget_idle(&mut self, now: Time) {
        if self.groups.len() <= self.kept.saturating_mul(2).max(GROUPS_ASIDE_MAX) {
            return;
        }
        self.groups.retain(|_, group| {
            group.running > 0
                || group.shut
                || !group.flows.is_empty()
                || group.bucket.is_some_and(|bucket| !bucket.is_full(now))
        });
        self.kept = self.groups.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Span;

    fn at(millis: i64) -> Time {
        Time::from_micros(millis * 1_000)
    }

    fn rate(starts: u32, burst: u32) -> Rate {
        Rate { starts, per: Span::from_secs(1), burst }
    }

    #[test]
    fn a_bucket_is_empty_when_it_is_made_and_holds_its_burst_when_it_is_full() {
        let mut bucket = Bucket::empty(rate(3, 2), at(0));
        assert_eq!(bucket.next(at(0)), Time::from_micros(333_334));
        let now = at(10_000);
        for _ in 0..2 {
            assert!(bucket.next(now) <= now);
            bucket.spend(now);
        }
        assert_eq!(bucket.next(now), now.plus(Span::from_micros(333_334)));
    }

    #[test]
    fn a_clock_that_came_back_from_years_ahead_shuts_a_bucket_for_no_longer_than_an_empty_one() {
        let mut bucket = Bucket::empty(rate(1, 5), at(0));
        bucket.spend(at(1_000_000_000_000));
        assert_eq!(bucket.next(at(50_000)), at(51_000));
    }

    #[test]
    fn in_no_stretch_of_time_start_more_than_the_burst_and_the_rate() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |n: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % n
        };
        for _ in 0..200 {
            let rate = rate(1 + random(20) as u32, 1 + random(7) as u32);
            let mut bucket = Bucket::empty(rate, at(0));
            let mut starts = Vec::new();
            let mut now = at(0);
            for step in 0..400 {
                now = now.plus(Span::from_micros(random(200_000) as i64));
                if step % 97 == 96 {
                    // Another owner: it knows nothing of what was spent.
                    bucket = Bucket::empty(rate, now);
                }
                while bucket.next(now) <= now {
                    bucket.spend(now);
                    starts.push(now);
                }
            }
            assert!(starts.len() > 20, "{rate:?} started {}", starts.len());
            for (first, from) in starts.iter().enumerate() {
                for (last, until) in starts.iter().enumerate().skip(first) {
                    let micros = i128::from(until.since(*from).micros());
                    let refilled = micros * i128::from(rate.starts) / 1_000_000;
                    let allowed = i128::from(rate.burst) + refilled;
                    assert!((last - first + 1) as i128 <= allowed, "{rate:?}");
                }
            }
        }
    }
}
