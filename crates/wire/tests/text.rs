//! Durations and timestamps as text: what is accepted, what is refused and where the finger points.

use proptest::prelude::*;
use wire::{duration, timestamp};

const S: i64 = 1_000_000;

#[test]
fn durations_are_read() {
    for (text, micros) in [
        ("90s", 90 * S),
        ("1h30m", 5_400 * S),
        ("250ms", 250_000),
        ("7us", 7),
        ("2w1d", 15 * 86_400 * S),
        ("1.5s", 1_500_000),
        ("0s", 0),
        ("PT15M", 900 * S),
        ("P1DT2H", 26 * 3_600 * S),
        ("P2W", 14 * 86_400 * S),
        ("PT0.25S", 250_000),
        ("106751d", 106_751 * 86_400 * S),
    ] {
        assert_eq!(duration::parse(text), Ok(micros), "{text}");
    }
}

#[test]
fn durations_are_refused_at_the_right_column() {
    for (text, column, part) in [
        ("", 1, "missing"),
        ("15", 3, "no unit"),
        ("1h30", 5, "no unit"),
        ("h", 1, "number"),
        ("30m1h", 5, "out of order"),
        ("1h1h", 4, "out of order"),
        ("10y", 3, "no fixed length"),
        ("5x", 2, "not a unit"),
        ("-5m", 1, "negative"),
        ("1h 30m", 3, "no spaces"),
        ("15мин", 3, "no spaces or special signs"),
        ("1.2.3s", 1, "not a number"),
        ("1.s", 1, "not a number"),
        ("0.5us", 1, "one microsecond"),
        ("99999999999w", 1, "too long"),
        ("P", 2, "nothing follows P"),
        ("PT", 3, "nothing follows T"),
        ("P1M", 3, "no fixed length"),
        ("P1Y", 3, "no fixed length"),
        ("PT15", 5, "no unit"),
        ("P1DT5X", 6, "not a unit"),
        ("pt15m", 1, "number"),
    ] {
        let error = duration::parse(text).expect_err(text);
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.message.contains(part), "{text}: {error}");
    }
}

#[test]
fn a_hostile_duration_is_not_repeated_in_full() {
    let error = duration::parse(&"9".repeat(100_000)).expect_err("too long");
    assert!(error.message.len() < 200, "{} bytes", error.message.len());
}

#[test]
fn timestamps_are_read() {
    for (text, micros) in [
        ("1970-01-01T00:00:00Z", 0),
        ("2027-03-28T01:00:00Z", 1_806_195_600 * S),
        ("2027-03-28T03:00:00+02:00", 1_806_195_600 * S),
        ("2027-03-28 01:00:00z", 1_806_195_600 * S),
        ("2027-03-28T01:00:00.5Z", 1_806_195_600 * S + 500_000),
        ("2027-03-28T01:00:00.000000001Z", 1_806_195_600 * S + 1),
    ] {
        assert_eq!(timestamp::parse(text), Ok(micros), "{text}");
    }
}

#[test]
fn timestamps_are_refused_at_the_right_column() {
    for (text, column, part) in [
        ("", 1, "not a full time"),
        ("tomorrow", 1, "not a full time"),
        ("2027-03-28", 11, "not a full time"),
        ("2027-03-28T01:00Z", 17, "not a full time"),
        ("2027-03-28T01:00:00", 20, "offset from UTC is missing"),
        ("2027-03-28T01:00:00.Z", 20, "1 to 9 digits"),
        ("2027-03-28T01:00:00+0200", 20, "offset"),
        ("2027-03-28T01:00:00+02:00[Europe/Berlin]", 20, "offset"),
        ("2027-13-01T01:00:00Z", 6, "13 is not a month"),
        ("2027-02-29T01:00:00Z", 9, "no day 29"),
        ("2100-02-29T01:00:00Z", 9, "no day 29"),
        ("2027-01-00T01:00:00Z", 9, "no day 0"),
        ("2027-03-28T24:00:00Z", 12, "no such time of day"),
        ("2027-03-28T23:60:00Z", 12, "no such time of day"),
        ("2016-12-31T23:59:60Z", 12, "no such time of day"),
        ("2027-03-28T01:00:00+24:00", 20, "no such offset"),
        ("1806195600", 5, "not a full time"),
    ] {
        let error = timestamp::parse(text).expect_err(text);
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.message.contains(part), "{text}: {error}");
    }
}

#[test]
fn timestamps_are_written_in_utc_with_milliseconds() {
    assert_eq!(timestamp::format(1_806_195_600 * S), "2027-03-28T01:00:00.000Z");
    assert_eq!(timestamp::format(1), "1970-01-01T00:00:00.001Z", "rounded up, never early");
    assert_eq!(timestamp::format_short(1_806_195_600 * S), "2027-03-28T01:00:00Z");
    assert_eq!(timestamp::format_short(500_000), "1970-01-01T00:00:00.500Z");
    assert_eq!(timestamp::format(253_402_300_799 * S), "9999-12-31T23:59:59.000Z");
    assert_eq!(timestamp::format(-62_167_219_200 * S), "0000-01-01T00:00:00.000Z");
    assert_eq!(timestamp::format(i64::MAX), format!("{}us", i64::MAX));
    assert_eq!(timestamp::format(i64::MIN), format!("{}us", i64::MIN));
}

#[test]
fn local_time_carries_weekday_and_offset() {
    assert_eq!(
        timestamp::format_local(1_806_195_600 * S, "europe/berlin").as_deref(),
        Some("Sun 2027-03-28 03:00:00 +02:00")
    );
    assert_eq!(timestamp::format_local(0, "Mars/Olympus"), None);
    assert_eq!(timestamp::zone_name("europe/berlin").as_deref(), Some("Europe/Berlin"));
    assert_eq!(timestamp::zone_name("Mars/Olympus"), None);
}

proptest! {
    #[test]
    fn what_is_written_reads_back(micros in 0..i64::MAX) {
        prop_assert_eq!(duration::parse(&duration::format(micros)), Ok(micros));
    }

    #[test]
    fn times_read_back_to_the_millisecond(millis in -62_167_219_200_000..253_402_300_800_000i64) {
        prop_assert_eq!(timestamp::parse(&timestamp::format(millis * 1_000)), Ok(millis * 1_000));
    }

    /// The date library is the independent witness, as far as it goes.
    #[test]
    fn dates_are_those_of_the_date_library(millis in -62_135_596_800_000..253_402_200_000_000i64) {
        let theirs = jiff::Timestamp::from_millisecond(millis).expect("in its range");
        prop_assert_eq!(timestamp::format(millis * 1_000), format!("{theirs:.3}"));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        let _ = duration::parse(&text);
        let _ = timestamp::parse(&text);
    }

    #[test]
    fn no_near_miss_panics(text in "[0-9PTWDHMSwdhmsu.:Zz+-]{0,40}") {
        let _ = duration::parse(&text);
        let _ = timestamp::parse(&text);
    }
}
