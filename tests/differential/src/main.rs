//! Writes random schedules with our calendar's instants, one JSON object per line. A script next
//! to this crate (`peers/`) asks an independent implementation the same questions and compares.
//!
//!     differential cronsim|croner|systemd CASES SEED

mod cases;
mod field;
mod rng;
mod zones;

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use calendar::Schedule;
use model::{Dialect, ScheduleSpec, Time, When};
use serde::Serialize;

use cases::Case;

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    case: &'a Case,
    /// Seconds since 1970; shorter than `count` when the schedule ends.
    instants: Vec<i64>,
    /// Our refusal. A generated expression is always meant to be good.
    error: Option<String>,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let parsed = match args.as_slice() {
        [peer, count, seed] => count
            .parse::<u64>()
            .ok()
            .zip(seed.parse::<u64>().ok())
            .and_then(|(count, seed)| Some((cases::maker(peer)?, count, seed))),
        _ => None,
    };
    let Some((mut make, count, seed)) = parsed else {
        eprintln!("usage: differential cronsim|croner|systemd CASES SEED");
        return ExitCode::from(2);
    };
    let mut rng = rng::Rng::new(seed);
    let mut out = BufWriter::new(std::io::stdout().lock());
    for id in 0..count {
        let case = make(id, &mut rng);
        let written = serde_json::to_writer(&mut out, &answer(&case))
            .map_err(std::io::Error::from)
            .and_then(|()| out.write_all(b"\n"));
        if let Err(error) = written {
            eprintln!("differential: {error}");
            return ExitCode::FAILURE;
        }
    }
    match out.flush() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer(case: &Case) -> Line<'_> {
    let dialect = if case.quartz { Dialect::Quartz } else { Dialect::Cron };
    let mut spec = ScheduleSpec::new(When::Cron { expression: case.cron.clone(), dialect });
    spec.timezone = Some(case.zone.clone());
    let after = Time::from_secs(case.after);
    match Schedule::new(&spec, b"differential", after) {
        Ok(schedule) => {
            let mut instants = Vec::new();
            let mut from = after;
            for _ in 0..case.count {
                let Some(next) = schedule.next(from) else { break };
                instants.push(next.secs());
                from = next;
            }
            Line { case, instants, error: None }
        }
        Err(error) => Line { case, instants: Vec::new(), error: Some(error.message) },
    }
}
