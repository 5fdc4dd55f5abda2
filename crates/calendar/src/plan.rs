//! The instants of a schedule before its bounds: one, evenly spaced, or by the calendar.
//!
//! A new kind (RRULE, a schedule minus excluded dates) is a new variant with the same three verbs;
//! bounds, spread and counting of runs work on these verbs alone.

use crate::cron::Cron;
use crate::interval::Interval;
use model::{Span, Time};

#[derive(Clone, Debug)]
pub(crate) enum Plan {
    Once(Time),
    Interval(Interval),
    Cron(Box<Cron>),
}

/// The first whole second that is not before this instant.
pub(crate) fn ceil_secs(time: Time) -> i64 {
    time.minus(Span::from_micros(1)).secs().saturating_add(1)
}

impl Plan {
    pub fn next(&self, after: Time) -> Option<Time> {
        match self {
            Plan::Once(time) => (*time > after).then_some(*time),
            Plan::Interval(interval) => interval.next(after),
            Plan::Cron(cron) => cron.next(after.secs().saturating_add(1)).map(Time::from_secs),
        }
    }

    pub fn previous(&self, before: Time) -> Option<Time> {
        match self {
            Plan::Once(time) => (*time < before).then_some(*time),
            Plan::Interval(interval) => interval.previous(before),
            Plan::Cron(cron) => {
                cron.previous(ceil_secs(before).saturating_sub(1)).map(Time::from_secs)
            }
        }
    }

    pub fn count(&self, from: Time, to: Time) -> u64 {
        match self {
            Plan::Once(time) => u64::from(from <= *time && *time < to),
            Plan::Interval(interval) => interval.count(from, to),
            Plan::Cron(cron) => cron.count(ceil_secs(from), ceil_secs(to)),
        }
    }

    /// The n-th instant from `begin` on (the first is 1), found by counting. Steps double until they
    /// hold n instants, so the cost follows the distance to the answer; then halving steps walk to
    /// the last place that still has fewer than n instants behind it.
    pub fn nth(&self, begin: Time, n: u64) -> Option<Time> {
        // 2^58 µs is more than all time up to the year 9999.
        let holds = |bit: &u32| self.count(begin, begin.plus(Span::from_micros(1 << bit))) >= n;
        let enough = (30..=58).find(holds)?;
        let mut at = begin;
        let mut left = n;
        for bit in (0..enough).rev() {
            let to = at.plus(Span::from_micros(1 << bit));
            let count = self.count(at, to);
            if count < left {
                left -= count;
                at = to;
            }
        }
        Some(at)
    }
}
