//! What expressions mean, and what is said about those that mean nothing.

// Helpers of tests may panic; clippy knows only functions marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use calendar::{Schedule, ScheduleError};
use model::{Dialect, Dst, ScheduleSpec, Time, When};
use support::{at, schedule};

fn read(expression: &str, dialect: Dialect, seed: &[u8]) -> Result<Schedule, ScheduleError> {
    let when = When::Cron { expression: expression.to_owned(), dialect };
    Schedule::new(&ScheduleSpec::new(when), seed, Time::MIN)
}

/// The dates of 2027 (days only, with the month) that an expression names.
fn dates(expression: &str, dialect: Dialect) -> Vec<String> {
    let schedule =
        read(expression, dialect, b"seed").unwrap_or_else(|e| panic!("{expression}: {e}"));
    let (from, to) = (at("2027-01-01T00:00:00Z"), at("2028-01-01T00:00:00Z"));
    let stamps = schedule.instants(from, to);
    stamps
        .map(|t| jiff::Timestamp::from_second(t.secs()).unwrap().to_string()[5..10].to_owned())
        .collect()
}

#[test]
fn two_ways_to_write_the_same() {
    let cases = [
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * SUN", "0 0 * * 0"),
        ("0 0 * * fri-sun", "0 0 * * 5,6,0"),
        ("0 0 * * 5-7", "0 0 * * 5,6,0"),
        ("0 0 * jan-Mar MON", "0 0 * 1-3 1"),
        ("  0\t0  * * *  ", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@Yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("0 30 2 * * *", "30 2 * * *"),
        ("5/20 * * * *", "5,25,45 * * * *"),
        ("10-30/10 * * * *", "10,20,30 * * * *"),
        ("*/90 * * * *", "0 * * * *"),
        ("0 0 ? * 1", "0 0 * * 1"),
        ("0 0 * * FRIL", "0 0 * * 5L"),
        ("0 0 * * FRI#2", "0 0 * * 5#2"),
        ("0 0 l * *", "0 0 L * *"),
        // Every other day field is full, so "either" is every day.
        ("0 0 1-31 * 1", "0 0 * * *"),
    ];
    let (from, to) = (at("2027-01-01T00:00:00Z"), at("2029-01-01T00:00:00Z"));
    for (a, b) in cases {
        let all = |e| schedule(e, "UTC", Dst::default()).instants(from, to).collect::<Vec<_>>();
        assert_eq!(all(a), all(b), "{a} and {b}");
    }
}

#[test]
fn days_that_depend_on_the_month() {
    let cron = |e| dates(e, Dialect::Cron);
    assert_eq!(cron("0 0 L 2,4,12 *"), ["02-28", "04-30", "12-31"]);
    assert_eq!(cron("0 0 L-27 2,3 *"), ["02-01", "03-04"]);
    assert_eq!(cron("0 0 L-30 2,3 *"), ["03-01"]);
    // 31 January 2027 is a Sunday, 28 February too, 31 October too.
    assert_eq!(cron("0 0 LW 1,2,10 *"), ["01-29", "02-26", "10-29"]);
    // 1 May is a Saturday: not back into April. 15 August is a Sunday. 31 has no September.
    assert_eq!(cron("0 0 1W 5 *"), ["05-03"]);
    assert_eq!(cron("0 0 15W 8 *"), ["08-16"]);
    assert_eq!(cron("0 0 31W 9,10 *"), ["10-29"]);
    assert_eq!(cron("0 0 L-1W 5 *"), ["05-31"]);
    assert_eq!(cron("0 0 1,L 2 *"), ["02-01", "02-28"]);
    assert_eq!(cron("0 0 * 1-6 5#5"), ["01-29", "04-30"]);
    assert_eq!(cron("0 0 * 12 5L"), ["12-31"]);
    assert_eq!(cron("0 0 * 12 0L"), ["12-26"]);
    assert_eq!(cron("0 0 * 1 1#1,1#3"), ["01-04", "01-18"]);
}

#[test]
fn quartz_counts_from_sunday_and_wraps_round() {
    let quartz = |e| dates(e, Dialect::Quartz);
    assert_eq!(quartz("0 0 0 ? 1 1"), ["01-03", "01-10", "01-17", "01-24", "01-31"]);
    assert_eq!(quartz("0 0 0 ? 1 6#2"), ["01-08"]);
    assert_eq!(quartz("0 0 0 ? 1 6L"), ["01-29"]);
    assert_eq!(quartz("0 0 0 ? 1 L"), quartz("0 0 0 ? 1 SAT"));
    assert_eq!(quartz("0 0 0 ? 1 FRI-MON"), quartz("0 0 0 ? 1 1,2,6,7"));
    assert_eq!(quartz("0 0 0 1 11-2 ?"), ["01-01", "02-01", "11-01", "12-01"]);
    assert_eq!(quartz("0 0 0 1 1 ? 2027-2030"), ["01-01"]);
    assert!(quartz("0 0 0 1 1 ? 2028,2030").is_empty());
    let last = read("0 0 0 1 1 ? 2030", Dialect::Quartz, b"").unwrap();
    assert_eq!(last.next(at("2027-01-01T00:00:00Z")), Some(at("2030-01-01T00:00:00Z")));
    assert_eq!(last.next(at("2030-01-01T00:00:00Z")), None);
}

#[test]
fn hashes_are_promises() {
    // Worked out with an implementation of `hash` in Python.
    let words = |e: &str, seed: &[u8]| read(e, Dialect::Cron, seed).unwrap().describe();
    assert_eq!(words("H H * * *", b"job_1"), "At 08:10, UTC");
    assert_eq!(words("H H * * *", b"job_2"), "At 08:05, UTC");
    assert_eq!(words("H H(0-5) H * *", b"job_1"), "At 02:10 on day 9 of the month, UTC");
    assert_eq!(words("H/15 * * * *", b"job_1"), "Every 15 minutes from minute 2");
    assert_eq!(words("H(30-59)/10 3 * * *", b"job_1"), "At 03:31, 03:41 and 03:51, UTC");
    let minutes: std::collections::BTreeSet<String> =
        (0..2_000).map(|n| words("H 0 * * *", format!("job_{n}").as_bytes())).collect();
    assert_eq!(minutes.len(), 60, "every minute is used");
}

#[test]
fn errors_name_the_field_the_column_and_what_is_allowed() {
    let cases = [
        ("60 * * * *", 1, "minute: 60 is out of range, allowed 0-59", ""),
        ("* 24 * * *", 3, "hour: 24 is out of range, allowed 0-23", ""),
        ("* * 0 * *", 5, "day-of-month: 0 is out of range, allowed 1-31", ""),
        ("* * * 13 *", 7, "month: 13 is out of range, allowed 1-12 or JAN-DEC", ""),
        ("* * * * 8", 9, "day-of-week: 8 is out of range, allowed 0-7 or SUN-SAT", ""),
        ("* * * * MOM", 9, "day-of-week: MOM is not known, allowed 0-7 or SUN-SAT", "MON"),
        ("* * * SEPT *", 7, "month: SEPT is not known, allowed 1-12 or JAN-DEC", "SEP"),
        ("99 * * * * *", 1, "second: 99 is out of range, allowed 0-59", ""),
        ("*/0 * * * *", 3, "minute: a step of 0 is not allowed, 1 or more is", ""),
        ("*/ * * * *", 3, "minute: found the end of the field, expected a step", ""),
        ("5- * * * *", 3, "minute: found the end of the field, expected 0-59", ""),
        ("1,,2 * * * *", 3, "minute: found ',', expected 0-59", ""),
        ("*5 * * * *", 2, "minute: found '5', expected", ""),
        ("* 22-2 * * *", 3, "hour: the range 22-2 runs backwards; write it as a list", ""),
        ("* * * * 5-1", 9, "day-of-week: the range 5-1 runs backwards", ""),
        ("? * * * *", 1, "minute: '?' is allowed in day-of-month and day-of-week only", ""),
        ("* L * * *", 3, "hour: L is allowed in day-of-month and day-of-week only", ""),
        ("* * * * L", 9, "day-of-week: L needs a weekday in front", ""),
        ("* * 5L * *", 6, "day-of-month: L after a number is allowed in day-of-week", ""),
        ("* * * * 5W", 10, "day-of-week: W is allowed in day-of-month", ""),
        ("* * * * 5#6", 11, "day-of-week: after # 1-5 is allowed", ""),
        ("* * L-31 * *", 7, "day-of-month: after L- 0-30 is allowed", ""),
        ("H(9-3) * * * *", 3, "minute: H(9-3) runs backwards", ""),
        ("H(3 * * * *", 4, "minute: found the end of the field, expected '-'", ""),
        (
            "* * * *",
            8,
            "found 4 fields, expected 5 (minute hour day-of-month month day-of-week)",
            "",
        ),
        ("* * * * * * *", 13, "found 7 fields, expected 5", ""),
        ("", 1, "empty; expected 5 fields", ""),
        ("@reboot", 1, "@reboot is not allowed", ""),
        ("@dayly", 1, "@dayly is not known", "@daily"),
        ("@daily 5", 8, "nothing may follow @daily", ""),
        ("@every", 7, "@every needs a length of time", ""),
        ("@every 90", 10, "a unit is missing", ""),
        ("* * ü * *", 5, "'ü' is not allowed", ""),
        ("* * * *\n*", 8, "'\\n' is not allowed", ""),
    ];
    for (expression, column, message, hint) in cases {
        let Err(error) = read(expression, Dialect::Cron, b"") else {
            panic!("{expression} was taken")
        };
        assert_eq!((error.field, error.column), ("cron", Some(column)), "{expression}: {error}");
        assert!(error.message.starts_with(message), "{expression}: {error}");
        assert_eq!(error.did_you_mean.as_deref().unwrap_or(""), hint, "{expression}: {error}");
    }
    let long = "1,".repeat(600);
    assert!(read(&long, Dialect::Cron, b"").unwrap_err().message.contains("1024"));
}

#[test]
fn what_cannot_be_is_never() {
    for expression in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 L-29 2 *", "0 0 31W 2 *"] {
        let never = schedule(expression, "Europe/Zurich", Dst::default());
        assert_eq!(never.next(Time::MIN), None, "{expression}");
        assert_eq!(never.previous(Time::MAX), None);
        assert_eq!(never.count(Time::MIN, Time::MAX), 0);
        assert!(never.describe().ends_with("(never: there is no such date)"));
    }
    let year = read("0 0 0 29 2 ? 2027", Dialect::Quartz, b"").unwrap();
    assert_eq!(year.next(Time::MIN), None);
}
