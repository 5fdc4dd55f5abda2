//! The local times a cron expression matches: a set of dates times a set of times of day.
//!
//! A local time is a number of seconds since 1970-01-01T00:00:00 as a wall clock reads it, without
//! a zone. Zones, gaps and repeats are the next layer's business (`cron`).

use crate::civil::DAY_SECS;
use crate::clock::Clock;
use crate::days::Days;

#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub days: Days,
    pub clock: Clock,
}

fn split(local: i64) -> (i64, u32) {
    (local.div_euclid(DAY_SECS), local.rem_euclid(DAY_SECS) as u32)
}

impl Local {
    pub fn is_never(&self) -> bool {
        self.days.is_never()
    }

    pub fn matches(&self, local: i64) -> bool {
        let (day, second) = split(local);
        self.clock.next(second) == Some(second) && self.days.matches(day)
    }

    /// The first matching local time at or after `local`.
    pub fn next(&self, local: i64) -> Option<i64> {
        let (day, second) = split(local);
        if let Some(second) = self.clock.next(second) {
            let found = self.days.next(day)?;
            let second = if found == day { second } else { self.clock.next(0)? };
            return Some(found * DAY_SECS + i64::from(second));
        }
        Some(self.days.next(day + 1)? * DAY_SECS + i64::from(self.clock.next(0)?))
    }

    /// The last matching local time at or before `local`.
    pub fn previous(&self, local: i64) -> Option<i64> {
        const LAST: u32 = DAY_SECS as u32 - 1;
        let (day, second) = split(local);
        if let Some(second) = self.clock.previous(second) {
            let found = self.days.previous(day)?;
            let second = if found == day { second } else { self.clock.previous(LAST)? };
            return Some(found * DAY_SECS + i64::from(second));
        }
        Some(self.days.previous(day - 1)? * DAY_SECS + i64::from(self.clock.previous(LAST)?))
    }

    /// How many matching local times lie in `[from, to)`.
    pub fn count(&self, from: i64, to: i64) -> i64 {
        if from >= to {
            return 0;
        }
        let ((first, a), (last, b)) = (split(from), split(to));
        let edge = |day, second| {
            if second > 0 && self.days.matches(day) { self.clock.count_before(second) } else { 0 }
        };
        self.days.count(first, last) * self.clock.per_day() + edge(last, b) - edge(first, a)
    }

    /// Is there a match in `[from, to)`?
    pub fn any(&self, from: i64, to: i64) -> bool {
        self.next(from).is_some_and(|found| found < to)
    }
}
