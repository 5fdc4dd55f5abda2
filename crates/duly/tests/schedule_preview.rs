//! `duly schedule preview` on the real binary: every kind of schedule, the JSON shape, the table.
#![allow(clippy::expect_used)] // A helper of a test may fail the test.

use crate::common::{Ran, duly};
use serde_json::{Value, json};

fn preview(args: &[&str]) -> Ran {
    duly(&[&["schedule", "preview"], args].concat())
}

fn preview_json(args: &[&str]) -> Value {
    let ran = preview(&[args, &["--json"]].concat());
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
    assert_eq!(ran.err, "", "{args:?}");
    serde_json::from_str(&ran.out).expect("JSON")
}

fn nominal(args: &[&str]) -> Vec<String> {
    let instants = preview_json(args)["instants"].as_array().cloned().expect("instants");
    instants.iter().map(|one| one["nominal"].as_str().expect("nominal").to_string()).collect()
}

const BERLIN: [&str; 6] =
    ["--cron", "30 2 * * *", "--timezone", "Europe/Berlin", "--after", "2027-03-27T00:00:00Z"];

#[test]
fn the_json_has_exactly_the_promised_shape() {
    let found = preview_json(&[&BERLIN[..], &["--count", "3"]].concat());
    let keys: Vec<&String> = found.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["description", "dst_dates", "instants", "timezone", "tzdb"]);
    assert_eq!(found["timezone"], "Europe/Berlin");
    assert!(found["description"].as_str().expect("words").contains("02:30"), "{found}");
    assert!(found["tzdb"].as_str().is_some_and(|tzdb| tzdb.starts_with("20")), "{found}");
    assert_eq!(
        found["instants"],
        json!([
            {"nominal": "2027-03-27T01:30:00.000Z", "effective": "2027-03-27T01:30:00.000Z", "dst": null},
            {"nominal": "2027-03-28T01:00:00.000Z", "effective": "2027-03-28T01:00:00.000Z", "dst": "gap"},
            {"nominal": "2027-03-29T00:30:00.000Z", "effective": "2027-03-29T00:30:00.000Z", "dst": null},
        ])
    );
    let dates = found["dst_dates"].as_array().expect("dates");
    let days: Vec<&str> = dates.iter().filter_map(|one| one["date"].as_str()).collect();
    assert_eq!(days, ["2027-03-28", "2027-10-31", "2028-03-26", "2028-10-29", "2029-03-25"]);
    assert_eq!(dates[0]["effect"], "gap");
    assert_eq!(dates[0]["transition"], "2027-03-28T01:00:00.000Z");
    assert_eq!(dates[1]["effect"], "repeat");
    assert!(dates.iter().all(|one| one["what"].as_str().is_some_and(|what| !what.is_empty())));
}

#[test]
fn gap_policies() {
    let skip = nominal(&[&BERLIN[..], &["--count", "2", "--dst-gap", "skip"]].concat());
    assert_eq!(skip, ["2027-03-27T01:30:00.000Z", "2027-03-29T00:30:00.000Z"]);
    let run = nominal(&[&BERLIN[..], &["--count", "2", "--dst-gap", "run"]].concat());
    assert_eq!(run, ["2027-03-27T01:30:00.000Z", "2027-03-28T01:00:00.000Z"]);
}

#[test]
fn repeat_policies() {
    let args = ["--cron", "30 2 * * *", "--timezone", "Europe/Berlin"];
    let args = [&args[..], &["--after", "2027-10-30T12:00:00Z", "--count", "2"]].concat();
    let (first, second) = ("2027-10-31T00:30:00.000Z", "2027-10-31T01:30:00.000Z");
    let later = "2027-11-01T01:30:00.000Z";
    assert_eq!(nominal(&args), [first, later]);
    assert_eq!(nominal(&[&args[..], &["--dst-repeat", "first"]].concat()), [first, later]);
    assert_eq!(nominal(&[&args[..], &["--dst-repeat", "second"]].concat()), [second, later]);
    let both = [&args[..], &["--dst-repeat", "both"]].concat();
    assert_eq!(nominal(&both), [first, second]);
    assert_eq!(preview_json(&both)["instants"][1]["dst"], "repeat");
}

#[test]
fn quartz_counts_weekdays_from_one() {
    let args = ["--cron", "0 0 * * 2", "--after", "2027-01-01T00:00:00Z", "--count", "1"];
    assert_eq!(nominal(&args), ["2027-01-05T00:00:00.000Z"], "2 is Tuesday");
    let quartz = [&args[..], &["--dialect", "quartz"]].concat();
    assert_eq!(nominal(&quartz), ["2027-01-04T00:00:00.000Z"], "2 is Monday");
}

#[test]
fn an_interval_counts_from_its_start() {
    let args = ["--every", "15m", "--start-at", "2027-01-01T00:07:00Z", "--count", "2"];
    let later = [&args[..], &["--after", "2027-01-01T10:00:00Z"]].concat();
    assert_eq!(nominal(&later), ["2027-01-01T10:07:00.000Z", "2027-01-01T10:22:00.000Z"]);
    let before = [&args[..], &["--after", "2026-01-01T00:00:00Z"]].concat();
    assert_eq!(nominal(&before), ["2027-01-01T00:07:00.000Z", "2027-01-01T00:22:00.000Z"]);
    assert_eq!(preview_json(&before)["timezone"], "UTC");
    let iso = ["--every", "PT1H30M", "--start-at", "2027-01-01T00:00:00+01:00", "--count", "1"];
    let iso = [&iso[..], &["--after", "2027-01-01T00:00:00Z"]].concat();
    assert_eq!(nominal(&iso), ["2027-01-01T00:30:00.000Z"]);
}

#[test]
fn one_instant_and_a_delay() {
    let at = ["--at", "2027-03-28T03:00:00+02:00", "--after", "2027-01-01T00:00:00Z"];
    assert_eq!(nominal(&at), ["2027-03-28T01:00:00.000Z"]);
    let past = ["--at", "2027-03-28T03:00:00+02:00", "--after", "2028-01-01T00:00:00Z"];
    assert_eq!(nominal(&past), Vec::<String>::new());
    let delay = ["--delay", "15m", "--after", "2027-01-01T00:00:00Z"];
    assert_eq!(nominal(&delay), ["2027-01-01T00:15:00.000Z"]);
}

#[test]
fn bounds_end_a_schedule() {
    let daily = ["--cron", "0 0 * * *", "--after", "2027-01-01T00:00:00Z", "--count", "100"];
    let bounds = ["--start-at", "2027-02-01T00:00:00Z", "--end-at", "2027-02-03T00:00:00Z"];
    let found = nominal(&[&daily[..], &bounds].concat());
    let all = ["2027-02-01T00:00:00.000Z", "2027-02-02T00:00:00.000Z", "2027-02-03T00:00:00.000Z"];
    assert_eq!(found, all, "both bounds are inclusive");
    let two = nominal(&[&daily[..], &bounds, &["--max-runs", "2"]].concat());
    assert_eq!(two, all[..2]);
    let table = preview(&[&daily[..], &bounds].concat()).out;
    assert!(table.contains("No instant after these."), "{table}");
}

#[test]
fn jitter_is_fixed_by_the_seed_and_stays_inside_its_window() {
    let args = ["--cron", "0 * * * *", "--after", "2027-01-01T00:00:00Z", "--count", "3"];
    let spread = |seed: &str| {
        let found = preview_json(&[&args[..], &["--jitter", "10m", "--seed", seed]].concat());
        found["instants"].as_array().cloned().expect("instants")
    };
    assert_eq!(spread("job_a"), spread("job_a"));
    assert_ne!(spread("job_a"), spread("job_b"));
    for one in spread("job_a") {
        let at = |key: &str| one[key].as_str().and_then(|text| wire::timestamp::parse(text).ok());
        let (nominal, effective) =
            (at("nominal").expect("a time"), at("effective").expect("a time"));
        assert!((0..600_000_000).contains(&(effective - nominal)), "{one}");
    }
    let table = preview(&[&args[..], &["--jitter", "10m"]].concat()).out;
    assert!(table.contains("EFFECTIVE"), "{table}");
    assert!(!preview(&args).out.contains("EFFECTIVE"), "no column that says nothing");
}

#[test]
fn the_table_is_for_people() {
    let table = preview(&[&BERLIN[..], &["--count", "3"]].concat()).out;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].contains("02:30") && lines[0].contains("Europe/Berlin"), "{table}");
    assert!(lines[2].starts_with("NOMINAL"), "{table}");
    assert!(
        lines[3].starts_with("2027-03-27T01:30:00Z  Sat 2027-03-27 02:30:00 +01:00"),
        "{table}"
    );
    assert!(
        lines[4].starts_with("2027-03-28T01:00:00Z  Sun 2027-03-28 03:00:00 +02:00  gap"),
        "{table}"
    );
    assert!(
        table.contains("Clock changes of the next two years that alter what it does (tzdb "),
        "{table}"
    );
    assert!(table.contains("\n  2027-03-28  "), "{table}");
}

#[test]
fn the_zone_is_named_as_the_database_spells_it() {
    let args = ["--cron", "0 0 * * *", "--timezone", "europe/berlin", "--count", "1"];
    assert_eq!(preview_json(&args)["timezone"], "Europe/Berlin");
}

#[test]
fn without_after_it_starts_now() {
    let before = std::time::SystemTime::now();
    let next = nominal(&["--cron", "* * * * * *", "--count", "1"]);
    let next = wire::timestamp::parse(&next[0]).expect("a time");
    let now = before.duration_since(std::time::UNIX_EPOCH).expect("a clock").as_micros() as i64;
    assert!((0..60_000_000).contains(&(next - now)), "{next} is not right after {now}");
}

#[test]
fn the_largest_count_is_shown_in_full() {
    let args = ["--cron", "0 3 29 2 1", "--after", "1970-01-01T00:00:00Z", "--count", "1000"];
    let found = nominal(&args);
    assert_eq!(found.len(), 1000);
    assert!(found.is_sorted() && found.windows(2).all(|two| two[0] != two[1]));
}

#[test]
fn the_last_hours_of_time_are_shown_too() {
    let args = ["--cron", "0 * * * *", "--timezone", "Europe/Berlin", "--count", "9"];
    let args = [&args[..], &["--after", "9999-12-30T21:30:00Z"]].concat();
    assert_eq!(nominal(&args).last().map(String::as_str), Some("9999-12-31T00:00:00.000Z"));
    assert_eq!(preview(&args).code, 0);
}

#[test]
fn a_schedule_that_never_matches_says_so() {
    let args = ["--cron", "0 0 30 2 *", "--after", "2027-01-01T00:00:00Z"];
    let ran = preview(&args);
    // Either answer is honest: refused as impossible, or shown as empty.
    assert!(ran.code == 2 || ran.out.contains("No instant after 2027-01-01T00:00:00Z."), "{ran:?}");
}

#[test]
fn the_version_is_told() {
    let ran = duly(&["--version"]);
    assert_eq!((ran.code, ran.out.trim()), (0, concat!("duly ", env!("CARGO_PKG_VERSION"))));
}
