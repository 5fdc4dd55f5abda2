//! Instants at a fixed distance: anchor + k × interval.
//!
//! They depend on nothing but the anchor: no drift, no memory of the last run, no zone.

use model::{Span, Time};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    first: i64,
    every: i64,
}

impl Interval {
    /// `first` is the first instant, `every` positive.
    pub fn new(first: Time, every: Span) -> Interval {
        Interval { first: first.micros(), every: every.micros().max(1) }
    }

    pub fn every(&self) -> Span {
        Span::from_micros(self.every)
    }

    /// How many instants lie before `end`.
    fn before(&self, end: Time) -> i64 {
        if end.micros() <= self.first {
            return 0;
        }
        // Both are microseconds of a bounded calendar or saturated ones: the difference may overflow.
        let past = end.micros().saturating_sub(self.first) - 1;
        past / self.every + 1
    }

    fn at(&self, k: i64) -> Option<Time> {
        let instant = self.every.checked_mul(k)?.checked_add(self.first)?;
        (instant <= Time::MAX.micros()).then_some(Time::from_micros(instant))
    }

    pub fn next(&self, after: Time) -> Option<Time> {
        self.at(self.before(after.plus(Span::from_micros(1))))
    }

    pub fn previous(&self, before: Time) -> Option<Time> {
        let end = before.min(Time::MAX.plus(Span::from_micros(1)));
        self.at(self.before(end).checked_sub(1).filter(|k| *k >= 0)?)
    }

    pub fn count(&self, from: Time, to: Time) -> u64 {
        let to = to.min(Time::MAX.plus(Span::from_micros(1)));
        self.before(to).saturating_sub(self.before(from)).max(0) as u64
    }
}
