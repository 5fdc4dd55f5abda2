//! `cargo run -p sim --release -- --seed N` replays one seed; `--seeds A..B` runs many; `--ci` does
//! what CI does: every seed twice, every interesting state reached, every planted fault caught.

use shard::{Bug, Event};
use sim::campaign::{self, Outcome};
use sim::limited::LIMITED;
use sim::run::run;
use std::ops::Range;
use std::process::ExitCode;

/// What CI runs.
const CI_SEEDS: Range<u64> = 0..2_000;
/// Worlds whose queues have limits.
const CI_LIMITED: Range<u64> = LIMITED..LIMITED + 250;
const STEPS: u64 = 20_000;
/// Failures printed of one seed, and seeds printed.
const SHOWN: usize = 5;

/// Seeds that once found something: `seed steps  # what it found`.
const KEPT: &str = include_str!("../seeds/kept.txt");

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let value = |name: &str| {
        args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)).cloned()
    };
    let steps = value("--steps").and_then(|text| text.parse().ok()).unwrap_or(STEPS);
    let bug = value("--bug").and_then(|name| {
        Bug::ALL.iter().copied().find(|bug| format!("{bug:?}").eq_ignore_ascii_case(&name))
    });
    if has("--ci") {
        return ci();
    }
    if has("--planted") {
        return exit(planted());
    }
    if let Some(seed) = value("--seed").and_then(|text| text.parse().ok()) {
        return exit(one(seed, steps, bug, has("--verbose")));
    }
    let range = value("--seeds").and_then(|text| {
        let (from, to) = text.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    let Some(range) = range else {
        eprintln!(
            "usage: sim --seed N | --seeds A..B [--twice] | --planted | --ci\n       \
             [--steps {STEPS}] [--bug NAME] [--verbose]"
        );
        return ExitCode::from(2);
    };
    let outcome = campaign::seeds(range, steps, has("--twice"), bug);
    report(&outcome);
    exit(outcome.failures.is_empty())
}

fn exit(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(seed: u64, steps: u64, bug: Option<Bug>, verbose: bool) -> bool {
    let report = run(seed, steps, bug, verbose);
    println!("seed {seed}: {} steps, trace {:016x}", report.steps, report.trace);
    for violation in &report.violations {
        println!("  {}: {}", violation.invariant, violation.detail);
    }
    for (event, count) in &report.events {
        println!("  {event:?}: {count}");
    }
    report.violations.is_empty()
}

fn report(outcome: &Outcome) {
    for (seed, wrong) in &outcome.failures {
        println!("seed {seed}: {} violations", wrong.len());
        for line in wrong.iter().take(SHOWN) {
            println!("  {line}");
        }
    }
    println!(
        "{} seeds, {} steps, {} s simulated, {} commands, {} attempts started, {} seeds failed",
        outcome.seeds,
        outcome.steps,
        outcome.simulated_secs,
        outcome.ops,
        outcome.starts,
        outcome.failures.len()
    );
    for (event, count) in &outcome.events {
        println!("  {event:?}: {count}");
    }
}

fn planted() -> bool {
    let mut survivors = 0;
    for (bug, caught) in campaign::planted(CI_SEEDS, CI_LIMITED, STEPS) {
        match caught {
            Some(seed) => println!("  {bug:?}: caught by seed {seed}"),
            None => {
                println!("  {bug:?}: SURVIVED");
                survivors += 1;
            }
        }
    }
    println!("planted: {} passed, {survivors} failed", Bug::ALL.len() - survivors);
    survivors == 0
}

fn ci() -> ExitCode {
    let outcome = campaign::seeds(CI_SEEDS, STEPS, true, None);
    report(&outcome);
    let mut never = outcome.never_reached();
    let mut kept_failed = 0;
    let kept: Vec<(u64, u64)> = KEPT
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        })
        .collect();
    for (seed, steps) in &kept {
        kept_failed += usize::from(!run(*seed, *steps, None, false).violations.is_empty());
    }
    println!("kept seeds: {} passed, {kept_failed} failed", kept.len() - kept_failed);
    let limited = campaign::seeds(CI_LIMITED, STEPS, true, None);
    report(&limited);
    never.extend(limited.never_of(Event::SOMETIMES_LIMITED));
    for event in &never {
        println!("never reached: {event:?}");
    }
    let failed = outcome.failures.len() + never.len() + limited.failures.len();
    println!(
        "simulator: {} passed, {failed} failed",
        (outcome.seeds + limited.seeds) as usize - outcome.failures.len() - limited.failures.len()
    );
    let caught = planted();
    exit(failed == 0 && kept_failed == 0 && caught)
}
