//! What one call of the calendar costs.
//!
//! `bench-micro time` prints nanoseconds per call: true on this machine only. `bench-micro run CASE
//! N` does one case N times, for `scripts/check-instructions.sh`, which counts instructions with
//! valgrind: two counts that differ only in N give the cost of a call, the same on every machine
//! with the same compiler. `bench-micro list` names the cases.

use calendar::{Schedule, ScheduleError};
use model::{Dialect, ScheduleSpec, Span, Time, When};
use std::hint::black_box;
use std::time::Instant;

/// 2027-01-01T00:00:00Z.
const NOW: Time = Time::from_secs(1_798_761_600);
const YEAR: Span = Span::from_secs(365 * 86_400);
const NAMES: [&str; 12] = [
    "next_typical",
    "next_hourly",
    "next_at_gap",
    "next_leap_monday",
    "next_fifth_friday",
    "next_never",
    "previous_typical",
    "count_interval_year",
    "count_seconds_year",
    "count_seconds_all",
    "new_cron",
    "new_max_runs",
];

struct Case {
    schedule: Schedule,
    spec: ScheduleSpec,
    call: fn(&Case, Time) -> u64,
}

fn cron(expression: &str, dialect: Dialect) -> ScheduleSpec {
    let when = When::Cron { expression: expression.to_owned(), dialect };
    ScheduleSpec { timezone: Some("Europe/Zurich".to_owned()), ..ScheduleSpec::new(when) }
}

fn next(case: &Case, at: Time) -> u64 {
    case.schedule.next(at).map_or(0, |t| t.micros() as u64)
}

fn previous(case: &Case, at: Time) -> u64 {
    case.schedule.previous(at).map_or(0, |t| t.micros() as u64)
}

fn count_year(case: &Case, at: Time) -> u64 {
    case.schedule.count(at, at.plus(YEAR))
}

fn count_all(case: &Case, at: Time) -> u64 {
    case.schedule.count(Time::MIN.plus(at.since(NOW)), Time::MAX)
}

fn make(case: &Case, at: Time) -> u64 {
    Schedule::new(&case.spec, b"job", at)
        .map_or(0, |s| next(&Case { schedule: s, ..case.copy() }, at))
}

impl Case {
    fn copy(&self) -> Case {
        Case { schedule: self.schedule.clone(), spec: self.spec.clone(), call: self.call }
    }
}

fn case(name: &str) -> Result<Option<Case>, ScheduleError> {
    let (spec, call): (ScheduleSpec, fn(&Case, Time) -> u64) = match name {
        "next_typical" => (cron("30 3 * * 1-5", Dialect::Cron), next),
        "next_hourly" => (cron("*/15 * * * *", Dialect::Cron), next),
        "next_at_gap" => (cron("30 2 28 3 *", Dialect::Cron), next),
        // Both day fields start with a star or a rule, so that both must hold.
        "next_leap_monday" => (cron("0 0 */28 2 1#5", Dialect::Cron), next),
        "next_fifth_friday" => (cron("0 0 ? 2 5#5", Dialect::Cron), next),
        "next_never" => (cron("0 0 30 2 *", Dialect::Cron), next),
        "previous_typical" => (cron("30 3 * * 1-5", Dialect::Cron), previous),
        "count_interval_year" => (ScheduleSpec::new(When::Every(Span::from_secs(7))), count_year),
        "count_seconds_year" => (cron("* * * * * *", Dialect::Cron), count_year),
        "count_seconds_all" => (cron("* * * * * *", Dialect::Cron), count_all),
        "new_cron" => (cron("30 3 * * 1-5", Dialect::Cron), make),
        "new_max_runs" => {
            (ScheduleSpec { max_runs: Some(1_000), ..cron("30 3 * * 1-5", Dialect::Cron) }, make)
        }
        _ => return Ok(None),
    };
    Ok(Some(Case { schedule: Schedule::new(&spec, b"job", NOW)?, spec, call }))
}

/// Calls with instants that move on, so that no branch predictor learns the answer.
fn run(case: &Case, calls: u64) -> u64 {
    let mut sum = 0_u64;
    for n in 0..calls {
        let at = NOW.plus(Span::from_secs((n % 4_096) as i64 * 7_919));
        sum = sum.wrapping_add((case.call)(case, black_box(at)));
    }
    black_box(sum)
}

fn time(name: &str, case: &Case) {
    let mut calls = 1;
    let nanos = loop {
        let start = Instant::now();
        run(case, calls);
        let elapsed = start.elapsed();
        if elapsed.as_millis() >= 100 {
            break elapsed.as_nanos() as f64 / calls as f64;
        }
        calls *= 2;
    };
    println!("{name:<22} {nanos:>12.1} ns");
}

fn main() -> Result<(), ScheduleError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => NAMES.iter().for_each(|name| println!("{name}")),
        ["time"] => {
            for name in NAMES {
                if let Some(case) = case(name)? {
                    time(name, &case);
                }
            }
        }
        ["run", name, calls] => match (case(name)?, calls.parse()) {
            (Some(case), Ok(calls)) => drop(run(&case, calls)),
            _ => eprintln!("no such case, or no number: {name} {calls}"),
        },
        _ => eprintln!("usage: bench-micro list | time | run CASE N"),
    }
    Ok(())
}
