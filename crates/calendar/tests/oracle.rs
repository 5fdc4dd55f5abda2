//! The evaluator against the definition: random expressions around the transitions of every zone of
//! the bundled database, 1970 to 2100, under every policy. `DULY_SEED` repeats a run,
//! `DULY_TRANSITIONS` sets how many transitions of each zone are tried (default: all).

// A test may ask its environment and print; the crate itself may do neither.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]
// Helpers of tests may panic; clippy knows only functions marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use calendar::{DstEffect, Schedule, zone_names};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use model::{Span, Time};
use std::collections::BTreeMap;
use support::brute::{POLICIES, instants, walk};
use support::expression::{Expression, Field};
use support::rng::Rng;
use support::schedule;

/// 1970-01-03 and 2100-01-01, so that a window around them lies inside the schedule's range.
const FIRST: i64 = 172_800;
const LAST: i64 = 4_102_444_800;

fn utc(second: i64) -> DateTime {
    Offset::UTC.to_datetime(Timestamp::from_second(second).unwrap())
}

fn transitions(tz: &TimeZone) -> Vec<i64> {
    tz.following(Timestamp::from_second(FIRST).unwrap())
        .map(|transition| transition.timestamp().as_second())
        .take_while(|at| *at < LAST)
        .collect()
}

type Expected = BTreeMap<i64, Option<DstEffect>>;

/// Compares every question about `[from, to)` with the expected instants.
fn check(rng: &mut Rng, schedule: &Schedule, expected: &Expected, from: i64, to: i64, case: &str) {
    let inside: Vec<Time> = expected.range(from..to).map(|(s, _)| Time::from_secs(*s)).collect();
    let (start, end) = (Time::from_secs(from), Time::from_secs(to));
    let got: Vec<Time> = schedule.instants(start, end).collect();
    assert_eq!(got, inside, "instants of {case}");
    assert_eq!(schedule.count(start, end), inside.len() as u64, "count of {case}");
    for (second, effect) in expected.range(from..to) {
        let got = schedule.occurrence(Time::from_secs(*second)).dst;
        assert_eq!(got, *effect, "DST effect at {second} of {case}");
    }
    for _ in 0..4 {
        // Half of the points lie on an instant, or a microsecond beside it.
        let point = |rng: &mut Rng| {
            let base = if inside.is_empty() || rng.chance(50) {
                Time::from_secs(rng.range(from, to))
            } else {
                inside[rng.below(inside.len() as u64) as usize]
            };
            base.plus(Span::from_micros(rng.range(-1, 1))).clamp(start, end)
        };
        let (a, b) = (point(rng), point(rng));
        let (a, b) = (a.min(b), a.max(b));
        let some = inside.iter().filter(|t| a <= **t && **t < b).count() as u64;
        assert_eq!(schedule.count(a, b), some, "count from {a:?} to {b:?} of {case}");
        let next = schedule.next(a);
        match inside.iter().find(|t| **t > a) {
            Some(first) => assert_eq!(next, Some(*first), "next after {a:?} of {case}"),
            None => assert!(next.is_none_or(|t| t >= end), "next after {a:?} of {case}: {next:?}"),
        }
        let previous = schedule.previous(b);
        match inside.iter().rfind(|t| **t < b) {
            Some(last) => assert_eq!(previous, Some(*last), "previous before {b:?} of {case}"),
            None => {
                assert!(previous.is_none_or(|t| t < start), "before {b:?} of {case}: {previous:?}")
            }
        }
    }
}

#[test]
fn transitions_of_every_zone_under_every_policy() {
    let mut rng = Rng::from_env("transitions_of_every_zone_under_every_policy");
    let most: usize =
        std::env::var("DULY_TRANSITIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000);
    let database = TimeZoneDatabase::bundled();
    let (mut zones, mut cases) = (0, 0);
    for name in zone_names() {
        let tz = database.get(name).unwrap();
        let mut all = transitions(&tz);
        while all.len() > most {
            all.swap_remove(rng.below(all.len() as u64) as usize);
        }
        // A zone without transitions is still a zone.
        if all.is_empty() {
            all.push(rng.range(FIRST, LAST));
        }
        zones += 1;
        for at in all {
            cases += 1;
            around(&mut rng, name, &tz, at);
        }
    }
    println!("{zones} zones, {cases} transitions, 6 policies each");
    assert!(zones > 500 && cases > 5_000, "{zones} zones, {cases} transitions");
}

fn around(rng: &mut Rng, name: &str, tz: &TimeZone, at: i64) {
    let seconds = rng.chance(15);
    let shift = {
        let offset = |s: i64| i64::from(tz.to_offset(Timestamp::from_second(s).unwrap()).seconds());
        (offset(at) - offset(at - 1)).abs()
    };
    // With seconds the walk is sixty times longer, so it stays near the transition.
    let reach = if seconds { shift + 1_800 } else { shift + rng.range(3_600, 90_000) };
    let (from, to) = (at - reach, at + reach);
    let near = tz.to_datetime(Timestamp::from_second(at + rng.range(-shift, shift)).unwrap());
    let expression = Expression::random(rng, near, seconds, false);
    // Local times are less than 26 hours from the same number in UTC.
    let seen = walk(&expression, tz, utc(from - 93_600), utc(to + 93_600));
    for dst in POLICIES {
        let text = expression.text();
        let expected = instants(&seen, expression.wildcard(), dst);
        let case = format!("{text:?} in {name} {dst:?} around {at}");
        check(rng, &schedule(&text, name, dst), &expected, from, to, &case);
    }
}

/// Sparse expressions over decades and many transitions: months, leap years, `L`, `W`, `#`.
#[test]
fn dates_over_decades() {
    let mut rng = Rng::from_env("dates_over_decades");
    let names: Vec<&str> = zone_names().collect();
    let database = TimeZoneDatabase::bundled();
    for _ in 0..600 {
        let name = names[rng.below(names.len() as u64) as usize];
        let tz = database.get(name).unwrap();
        let from = rng.range(FIRST, LAST) / 86_400 * 86_400;
        let to = from + rng.range(1, 12 * 366) * 86_400;
        let mut expression = Expression::random(&mut rng, utc(from), false, true);
        // One time a day keeps the walk short; the time of day is the other test's subject.
        expression.minute = Field::one(rng.range(0, 59));
        expression.hour = Field::one(rng.range(0, 3));
        let seen = walk(&expression, &tz, utc(from - 93_600), utc(to + 93_600));
        let dst = POLICIES[rng.below(6) as usize];
        let expected = instants(&seen, false, dst);
        let text = expression.text();
        let case = format!("{text:?} in {name} {dst:?} from {from} to {to}");
        check(&mut rng, &schedule(&text, name, dst), &expected, from, to, &case);
    }
}
