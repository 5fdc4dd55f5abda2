//! Named cases: what Debian's rule says where other schedulers lost or doubled jobs.

// Helpers of tests may panic; clippy knows only functions marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use calendar::{DstEffect, Schedule};
use model::{Dst, Gap, Repeat};
use support::{at, schedule};

const SECOND: Dst = Dst { gap: Gap::Run, repeat: Repeat::Second };
const BOTH: Dst = Dst { gap: Gap::Run, repeat: Repeat::Both };
const SKIP: Dst = Dst { gap: Gap::Skip, repeat: Repeat::First };

/// The instants of a stretch, in UTC.
fn instants(schedule: &Schedule, from: &str, to: &str) -> Vec<String> {
    let stamps = schedule.instants(at(from), at(to));
    stamps.map(|t| jiff::Timestamp::from_second(t.secs()).unwrap().to_string()).collect()
}

#[track_caller]
fn day(expression: &str, zone: &str, dst: Dst, from: &str, to: &str, expected: &[&str]) {
    let got = instants(&schedule(expression, zone, dst), from, to);
    let expected: Vec<String> =
        expected.iter().map(|t| t.parse::<jiff::Timestamp>().unwrap().to_string()).collect();
    assert_eq!(got, expected, "{expression} in {zone}");
}

/// New York, 2027-03-14: clocks go from 02:00 -05 to 03:00 -04.
#[track_caller]
fn spring(expression: &str, dst: Dst, expected: &[&str]) {
    let (from, to) = ("2027-03-14T00:00:00-05:00", "2027-03-15T00:00:00-04:00");
    day(expression, "America/New_York", dst, from, to, expected);
}

/// New York, 2027-11-07: clocks go back from 02:00 -04 to 01:00 -05.
#[track_caller]
fn autumn(expression: &str, dst: Dst, expected: &[&str]) {
    let (from, to) = ("2027-11-07T00:00:00-04:00", "2027-11-08T00:00:00-05:00");
    day(expression, "America/New_York", dst, from, to, expected);
}

#[test]
fn a_gap_moves_fixed_times_to_the_transition() {
    let transition = "2027-03-14T03:00:00-04:00";
    let afternoon = "2027-03-14T14:30:00-04:00";
    spring("30 2 * * *", Dst::default(), &[transition]);
    spring("30 2,14 * * *", Dst::default(), &[transition, afternoon]);
    spring("30 2,14 * * *", SKIP, &[afternoon]);
    spring("0,15,30 2 * * *", Dst::default(), &[transition]);
    spring("0 2,3 * * *", Dst::default(), &[transition]);
    spring("0 2,3 * * *", SKIP, &[transition]);
    spring("* 30 2 * * *", Dst::default(), &[transition]);
}

#[test]
fn a_gap_removes_times_of_wildcard_jobs() {
    spring("*/30 2 * * *", Dst::default(), &[]);
    spring(
        "30 */2 * * *",
        SKIP,
        &[
            "2027-03-14T00:30:00-05:00",
            "2027-03-14T04:30:00-04:00",
            "2027-03-14T06:30:00-04:00",
            "2027-03-14T08:30:00-04:00",
            "2027-03-14T10:30:00-04:00",
            "2027-03-14T12:30:00-04:00",
            "2027-03-14T14:30:00-04:00",
            "2027-03-14T16:30:00-04:00",
            "2027-03-14T18:30:00-04:00",
            "2027-03-14T20:30:00-04:00",
            "2027-03-14T22:30:00-04:00",
        ],
    );
}

#[test]
fn a_repeat_runs_fixed_times_as_told() {
    let (first, second) = ("2027-11-07T01:30:00-04:00", "2027-11-07T01:30:00-05:00");
    let afternoon = "2027-11-07T13:30:00-05:00";
    autumn("30 1 * * *", Dst::default(), &[first]);
    autumn("30 1,13 * * *", Dst::default(), &[first, afternoon]);
    autumn("30 1,13 * * *", SECOND, &[second, afternoon]);
    autumn("30 1,13 * * *", BOTH, &[first, second, afternoon]);
}

#[test]
fn a_repeat_runs_wildcard_jobs_twice_whatever_the_policy() {
    let both = [
        "2027-11-07T01:00:00-04:00",
        "2027-11-07T01:30:00-04:00",
        "2027-11-07T01:00:00-05:00",
        "2027-11-07T01:30:00-05:00",
    ];
    autumn("*/30 1 * * *", Dst::default(), &both);
    autumn("*/30 1 * * *", SECOND, &both);
    let hourly = schedule("15 * * * *", "America/New_York", Dst::default());
    assert_eq!(hourly.count(at("2027-11-07T00:00:00-04:00"), at("2027-11-08T00:00:00-05:00")), 25);
    assert_eq!(hourly.count(at("2027-03-14T00:00:00-05:00"), at("2027-03-15T00:00:00-04:00")), 23);
}

#[test]
fn shifts_of_half_an_hour_and_midnight_gaps() {
    let zone = "Australia/Lord_Howe";
    day(
        "15 2 * * *",
        zone,
        Dst::default(),
        "2027-10-02T12:00:00Z",
        "2027-10-03T12:00:00Z",
        &["2027-10-03T02:30:00+11:00"],
    );
    day(
        "45 1 * * *",
        zone,
        Dst::default(),
        "2027-04-03T12:00:00Z",
        "2027-04-04T12:00:00Z",
        &["2027-04-04T01:45:00+11:00"],
    );
    let (from, to) = ("2024-03-30T12:00:00Z", "2024-03-31T12:00:00Z");
    day("0 0 * * *", "Asia/Beirut", Dst::default(), from, to, &["2024-03-31T01:00:00+03:00"]);
    day("0 0 * * *", "Asia/Beirut", SKIP, from, to, &[]);
    let (from, to) = ("2024-04-25T12:00:00Z", "2024-04-26T12:00:00Z");
    day("0 0 * * *", "Africa/Cairo", Dst::default(), from, to, &["2024-04-26T01:00:00+03:00"]);
}

#[test]
fn a_skipped_day_is_a_gap_like_any_other() {
    let (from, to) = ("2011-12-29T00:00:00-10:00", "2012-01-01T00:00:00+14:00");
    let zone = "Pacific/Apia";
    let (before, after) = ("2011-12-29T12:00:00-10:00", "2011-12-31T12:00:00+14:00");
    let transition = "2011-12-31T00:00:00+14:00";
    day("0 12 * * *", zone, Dst::default(), from, to, &[before, transition, after]);
    day("0 12 * * *", zone, SKIP, from, to, &[before, after]);
    day("0 12 30 12 *", zone, Dst::default(), from, to, &[transition]);
    day("0 0 * * *", zone, Dst::default(), from, to, &["2011-12-29T00:00:00-10:00", transition]);
}

#[test]
fn a_change_that_keeps_the_offset_changes_nothing() {
    // Greenland's standard time became its summer time; jiff sees a repeat at this hour.
    let (from, to) = ("2023-10-28T12:00:00Z", "2023-10-29T12:00:00Z");
    for dst in [Dst::default(), SECOND, BOTH] {
        day("0 23 * * *", "America/Godthab", dst, from, to, &["2023-10-29T01:00:00Z"]);
    }
}

#[test]
fn star_steps_in_a_day_field_narrow_the_other_one() {
    // Odd days that are Saturdays or Sundays, as Vixie's DOM_STAR says; not odd days or weekends.
    let got = instants(
        &schedule("0 0 */2 * 0,6", "UTC", Dst::default()),
        "2027-05-01T00:00:00Z",
        "2027-06-01T00:00:00Z",
    );
    let days: Vec<&str> = got.iter().map(|t| &t[8..10]).collect();
    assert_eq!(days, ["01", "09", "15", "23", "29"]);
    let either = schedule("0 0 1-31/2 * 0,6", "UTC", Dst::default());
    assert_eq!(either.count(at("2027-05-01T00:00:00Z"), at("2027-06-01T00:00:00Z")), 21);
}

/// A search from afar must not jump past the first pass of a repeat, nor past a gap.
#[test]
fn rare_dates_that_meet_a_transition_are_found_from_afar() {
    let repeat = schedule("30 2 31 10 *", "Europe/Berlin", Dst::default());
    let first = at("2027-10-31T02:30:00+02:00");
    assert_eq!(repeat.next(at("2026-11-05T00:00:00Z")), Some(first));
    assert_eq!(repeat.previous(at("2028-10-01T00:00:00Z")), Some(first));
    let gap = schedule("30 2 28 3 *", "Europe/Berlin", Dst::default());
    let transition = at("2027-03-28T03:00:00+02:00");
    assert_eq!(gap.next(at("2026-04-05T00:00:00Z")), Some(transition));
    assert_eq!(gap.previous(at("2028-03-01T00:00:00Z")), Some(transition));
}

#[test]
fn the_effect_of_dst_is_told() {
    let daily = schedule("30 2 * * *", "Europe/Berlin", Dst::default());
    let effect = |t: &str| daily.occurrence(at(t)).dst;
    assert_eq!(effect("2027-03-28T03:00:00+02:00"), Some(DstEffect::Gap));
    assert_eq!(effect("2027-10-31T02:30:00+02:00"), Some(DstEffect::Repeat));
    assert_eq!(effect("2027-10-30T02:30:00+02:00"), None);
    let dates = daily.dst_dates(at("2027-01-01T00:00:00Z"), at("2029-01-01T00:00:00Z"));
    let told: Vec<&str> = dates.iter().map(|d| d.date.as_str()).collect();
    assert_eq!(told, ["2027-03-28", "2027-10-31", "2028-03-26", "2028-10-29"]);
    assert_eq!(
        dates[0].what,
        "02:30 does not exist on 2027-03-28 in Europe/Berlin (clocks go from 02:00 to 03:00): runs \
         once at 03:00 instead."
    );
    assert_eq!(
        dates[1].what,
        "02:30 comes twice on 2027-10-31 in Europe/Berlin (clocks go back from 03:00 to 02:00): \
         runs the first time only."
    );
}

#[test]
fn a_rhythm_that_does_not_notice_has_no_dst_dates() {
    let years = |e: &str, zone: &str| {
        let dates = schedule(e, zone, Dst::default())
            .dst_dates(at("2027-01-01T00:00:00Z"), at("2029-01-01T00:00:00Z"));
        dates.len()
    };
    assert_eq!(years("*/15 * * * *", "Europe/Berlin"), 0);
    assert_eq!(years("15 * * * *", "Europe/Berlin"), 0);
    assert_eq!(years("15 * * * *", "Australia/Lord_Howe"), 2);
    assert_eq!(years("0 12 * * *", "Europe/Berlin"), 0);
    assert_eq!(years("*/30 2 * * *", "Europe/Berlin"), 4);
    assert_eq!(years("30 2 * * *", "UTC"), 0);
}
