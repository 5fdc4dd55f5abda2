//! Schedules in words.

// Helpers of tests may panic; clippy knows only functions marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use calendar::Schedule;
use model::{Dialect, ScheduleSpec, Span, Time, When};
use support::{at, cron};

fn words(spec: &ScheduleSpec) -> String {
    Schedule::new(spec, b"job", at("2027-01-01T00:00:00Z")).unwrap().describe()
}

#[test]
fn cron_in_words() {
    let cases = [
        ("0 3 * * 1-5", "At 03:00 on weekdays"),
        ("30 2,14 L * *", "At 02:30 and 14:30 on the last day of the month"),
        ("*/15 * * * *", "Every 15 minutes"),
        ("* * * * *", "Every minute"),
        ("0 * * * *", "Every hour"),
        ("15 * * * *", "Every hour at minute 15"),
        ("0 */2 * * *", "Every 2 hours"),
        ("30 1-23/2 * * *", "Every 2 hours from 01:30"),
        ("0 */5 * * *", "At 00:00, 05:00, 10:00, 15:00 and 20:00"),
        ("0 9-17 * * 1-5", "Every hour from 09:00 to 17:00 on weekdays"),
        ("*/10 9-17 * * *", "Every 10 minutes from 09:00 to 17:59"),
        ("5/10 * * * *", "Every 10 minutes from minute 5"),
        ("*/7 * * * *", "At minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour"),
        ("0-5 8,12,20 * * *", "At minutes 0 to 5 of the hours 08, 12 and 20"),
        ("* * * * * *", "Every second"),
        ("*/10 * * * * *", "Every 10 seconds"),
        ("30 0 3 * * *", "At 03:00:30"),
        ("30 */5 * * * *", "Every 5 minutes at second 30"),
        ("* 30 2 * * *", "Every second of the minute 02:30"),
        ("0,1 */30 2,5 * * *", "At seconds 0 and 1 of minutes 0 and 30 in the hours 02 and 05"),
        ("0 0 1 1 *", "At 00:00 on day 1 of January"),
        ("0 0 1,15 * *", "At 00:00 on days 1 and 15 of the month"),
        ("0 0 1-7,20 * *", "At 00:00 on days 1 to 7 and 20 of the month"),
        ("0 0 13 * 5", "At 00:00 on day 13 of the month or on Fridays"),
        ("0 0 13 5 5", "At 00:00 on day 13 of May or on Fridays in May"),
        ("0 0 */15 * 0,6", "At 00:00 on days 1, 16 and 31 of the month, only on weekends"),
        ("0 0 * * 0,1,3", "At 00:00 on Mondays, Wednesdays and Sundays"),
        ("0 0 * 6-8 *", "At 00:00 from June to August"),
        ("0 0 L 6-8 *", "At 00:00 on the last day of each month from June to August"),
        ("0 0 */15 5 0,6", "At 00:00 on days 1, 16 and 31 of May, only on weekends"),
        ("0 0 1 5 5L", "At 00:00 on day 1 of May or on the last Friday of May"),
        ("0 0 * 1,3 2", "At 00:00 on Tuesdays in January and March"),
        ("0 0 LW * *", "At 00:00 on the last weekday of the month"),
        ("0 0 L-1 * *", "At 00:00 on the day before the last day of the month"),
        ("0 0 L-3 * *", "At 00:00 on the day 3 days before the last day of the month"),
        ("0 0 15W * *", "At 00:00 on the weekday nearest to day 15 of the month"),
        ("0 0 1,L 2 *", "At 00:00 on day 1 of February and on the last day of February"),
        ("0 0 * * 1#2", "At 00:00 on the 2nd Monday of the month"),
        ("0 0 * * 5L", "At 00:00 on the last Friday of the month"),
        ("0 0 * * 1,5L", "At 00:00 on Mondays and on the last Friday of the month"),
        ("0 0 1-31 * 1", "At 00:00"),
    ];
    for (expression, expected) in cases {
        assert_eq!(words(&cron(expression, "europe/zurich")), format!("{expected}, Europe/Zurich"));
    }
}

#[test]
fn the_zone_is_told_where_it_matters() {
    let plain = |expression: &str| ScheduleSpec { timezone: None, ..cron(expression, "UTC") };
    assert_eq!(words(&plain("*/15 * * * *")), "Every 15 minutes");
    assert_eq!(words(&plain("0 3 * * *")), "At 03:00, UTC");
    assert_eq!(words(&plain("* * 1 * *")), "Every minute on day 1 of the month, UTC");
}

#[test]
fn years_of_quartz() {
    let year = |expression: &str| {
        let when = When::Cron { expression: expression.to_owned(), dialect: Dialect::Quartz };
        words(&ScheduleSpec::new(when))
    };
    assert_eq!(year("0 0 9 ? * 2-6 2027"), "At 09:00 on weekdays in 2027, UTC");
    assert_eq!(
        year("0 0 9 1 1 ? 2027-2030,2055"),
        "At 09:00 on day 1 of January in 2027 to 2030 and 2055, UTC"
    );
    assert_eq!(year("0 0 9 1 1 ? 1998-2001"), "At 09:00 on day 1 of January in 1998 to 2001, UTC");
    assert_eq!(year("0 0 9 1 1 ? *"), "At 09:00 on day 1 of January until 2099, UTC");
}

#[test]
fn other_kinds_bounds_and_spread() {
    let start = at("2027-03-01T09:00:00Z");
    let spec = |when| ScheduleSpec::new(when);
    assert_eq!(words(&spec(When::Now)), "Once, immediately");
    assert_eq!(words(&spec(When::At(start))), "Once at 2027-03-01T09:00:00Z");
    assert_eq!(
        words(&spec(When::Delay(Span::from_secs(900)))),
        "Once, 15 minutes after creation, at 2027-01-01T00:15:00Z"
    );
    assert_eq!(words(&spec(When::Every(Span::from_secs(60)))), "Every minute");
    assert_eq!(words(&cron("@every 90s", "UTC")), "Every 1 minute 30 seconds");
    let bounded = ScheduleSpec {
        start_at: Some(start),
        end_at: Some(Time::from_micros(start.micros() + 1)),
        max_runs: Some(10),
        jitter: Some(Span::from_secs(600)),
        ..cron("0 3 * * *", "UTC")
    };
    assert_eq!(
        words(&bounded),
        "At 03:00, UTC, from 2027-03-01T09:00:00Z, until 2027-03-01T09:00:00.000001Z, at most 10 \
         times, spread over 10 minutes"
    );
}
