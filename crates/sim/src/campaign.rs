//! Many seeds at once, on all cores: what CI runs, and what longer campaigns run.

use crate::run::{Report, run};
use shard::{Bug, Event};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub struct Outcome {
    pub seeds: u64,
    pub steps: u64,
    pub simulated_secs: i64,
    pub ops: u64,
    pub starts: u64,
    pub events: BTreeMap<Event, u64>,
    /// What went wrong, by seed.
    pub failures: BTreeMap<u64, Vec<String>>,
}

/// Runs the seeds; with `twice`, each one again, and its trace must be the same.
pub fn seeds(range: Range<u64>, steps: u64, twice: bool, bug: Option<Bug>) -> Outcome {
    let next = AtomicU64::new(range.start);
    let outcome = Mutex::new(Outcome::default());
    on_all_cores(|| {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= range.end {
                break;
            }
            let report = run(seed, steps, bug, false);
            let again = twice.then(|| run(seed, steps, bug, false).trace);
            if let Ok(mut outcome) = outcome.lock() {
                outcome.add(report, again);
            }
        }
    });
    outcome.into_inner().unwrap_or_default()
}

/// How many seeds of the range it takes until the checker notices this fault.
pub fn caught_at(bug: Bug, range: Range<u64>, steps: u64) -> Option<u64> {
    range.into_iter().find(|seed| !run(*seed, steps, Some(bug), false).violations.is_empty())
}

/// For each planted fault, the seed that caught it; those of limits need worlds with limits.
pub fn planted(range: Range<u64>, limited: Range<u64>, steps: u64) -> Vec<(Bug, Option<u64>)> {
    let next = AtomicU64::new(0);
    let caught = Mutex::new(BTreeMap::new());
    on_all_cores(|| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed) as usize;
            let Some(bug) = Bug::ALL.get(at) else { break };
            let range = if bug.is_of_limits() { limited.clone() } else { range.clone() };
            let seed = caught_at(*bug, range, steps);
            if let Ok(mut caught) = caught.lock() {
                caught.insert(*bug, seed);
            }
        }
    });
    caught.into_inner().unwrap_or_default().into_iter().collect()
}

fn on_all_cores(work: impl Fn() + Sync) {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(&work);
        }
    });
}

impl Outcome {
    fn add(&mut self, report: Report, again: Option<u64>) {
        self.seeds += 1;
        self.steps += report.steps;
        self.simulated_secs += report.simulated.micros() / 1_000_000;
        self.ops += report.ops as u64;
        self.starts += report.starts as u64;
        for (event, count) in report.events {
            *self.events.entry(event).or_default() += count;
        }
        let mut wrong: Vec<String> = report
            .violations
            .iter()
            .map(|violation| format!("{}: {}", violation.invariant, violation.detail))
            .collect();
        if again.is_some_and(|trace| trace != report.trace) {
            wrong.push("the same seed gave another trace".to_owned());
        }
        if !wrong.is_empty() {
            self.failures.insert(report.seed, wrong);
        }
    }

    /// Interesting states that none of the seeds reached.
    pub fn never_reached(&self) -> Vec<Event> {
        self.never_of(Event::SOMETIMES)
    }

    pub fn never_of(&self, events: &[Event]) -> Vec<Event> {
        let reached = |event: &Event| self.events.get(event).is_some_and(|count| *count > 0);
        events.iter().copied().filter(|event| !reached(event)).collect()
    }
}
