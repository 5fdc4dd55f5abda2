//! An oracle written from the definitions, sharing no code with the crate: expressions are made as
//! structures that print themselves and answer for themselves; time zones are asked of jiff.
#![allow(dead_code)]

pub mod brute;
pub mod expression;
pub mod rng;

use calendar::Schedule;
use model::{Dialect, Dst, ScheduleSpec, Time, When};

pub fn cron(expression: &str, zone: &str) -> ScheduleSpec {
    let when = When::Cron { expression: expression.to_owned(), dialect: Dialect::Cron };
    ScheduleSpec { timezone: Some(zone.to_owned()), ..ScheduleSpec::new(when) }
}

pub fn schedule(expression: &str, zone: &str, dst: Dst) -> Schedule {
    let spec = ScheduleSpec { dst, ..cron(expression, zone) };
    Schedule::new(&spec, b"seed", Time::MIN).unwrap_or_else(|e| panic!("{expression}: {e}"))
}

/// `2027-03-28T02:30:00+01:00` or with `Z`.
pub fn at(text: &str) -> Time {
    let stamp: jiff::Timestamp = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    Time::from_micros(stamp.as_microsecond())
}
