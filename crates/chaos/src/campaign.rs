//! Many worlds, a few at once, and the lines that sum them up.

use crate::bulk::Bulk;
use crate::cluster::{self, Kind, lies};
use crate::limited;
use crate::limits::{LIMITED_PLANTED, WORLDS_AT_ONCE};
use crate::world::{Outcome, World};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Faults of the core that a real crash, or the traffic around it, brings to light.
const PLANTED: [&str; 6] = [
    "ReplyBeforeCommit",
    "DispatchBeforeCommit",
    "AcceptStaleToken",
    "NoIdempotencyRow",
    "ForgetLeases",
    "MarkNotMoved",
];
/// In at most so many worlds.
const PLANTED_WORLDS: u64 = 10;

pub fn seeds(text: &str) -> Result<Range<u64>, String> {
    let range = text.split_once("..").and_then(|(first, last)| {
        Some(first.parse().ok()?..last.parse().ok()?).filter(|range: &Range<u64>| !range.is_empty())
    });
    range.ok_or_else(|| format!("--seeds {text}: FIRST..LAST is expected, for example 1..5"))
}

/// Runs the worlds; true if every promise was kept.
pub fn worlds(binary: &Path, seeds: Range<u64>, keep: Option<PathBuf>) -> Result<bool, String> {
    let begun = Instant::now();
    println!("chaos: seeds {}..{}", seeds.start, seeds.end);
    let next = AtomicU64::new(seeds.start);
    let sum = Mutex::new((Outcome::default(), Vec::<String>::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORLDS_AT_ONCE {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let keep = keep.clone();
                    let outcome = World { binary, seed, planted: None, keep }.run();
                    let Ok(mut sum) = sum.lock() else { return };
                    match outcome {
                        Ok(outcome) => add(&mut sum.0, outcome, seed),
                        Err(why) => sum.1.push(format!("world {seed}: {why}")),
                    }
                }
            });
        }
    });
    let (sum, failed) = sum.into_inner().map_err(|_| "a world panicked".to_string())?;
    if let Some(why) = failed.first() {
        return Err(why.clone());
    }
    let ends: Vec<String> = sum.ends.iter().map(|(end, count)| format!("{end} {count}")).collect();
    println!("chaos: ends: {}", ends.join(", "));
    println!(
        "chaos: {} rounds, {} requests ({} answered), {} attempts, {} s, {} violations",
        sum.rounds,
        sum.requests,
        sum.answered,
        sum.attempts,
        begun.elapsed().as_secs(),
        sum.violations.len()
    );
    Ok(sum.violations.is_empty())
}

fn add(sum: &mut Outcome, outcome: Outcome, seed: u64) {
    for violation in &outcome.violations {
        println!("chaos: world {seed}: {}: {}", violation.invariant, violation.detail);
    }
    sum.rounds += outcome.rounds;
    sum.requests += outcome.requests;
    sum.answered += outcome.answered;
    sum.attempts += outcome.attempts;
    for (end, count) in outcome.ends {
        *sum.ends.entry(end).or_default() += count;
    }
    sum.violations.extend(outcome.violations);
}

/// True if every planted fault was noticed.
pub fn planted(binary: &Path) -> Result<bool, String> {
    let next = AtomicUsize::new(0);
    let caught = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORLDS_AT_ONCE {
            scope.spawn(|| {
                while let Some(fault) = PLANTED.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let said = notice(binary, fault);
                    println!("chaos: {fault}: {}", said.as_deref().unwrap_or("NOT noticed"));
                    if let Ok(mut caught) = caught.lock() {
                        *caught += usize::from(said.is_some());
                    }
                }
            });
        }
    });
    let caught = caught.into_inner().map_err(|_| "a world panicked".to_string())?;
    println!("chaos: planted: {caught} of {} noticed", PLANTED.len());
    Ok(caught == PLANTED.len())
}

/// In which world, and as what, the fault was noticed.
fn notice(binary: &Path, fault: &str) -> Option<String> {
    (0..PLANTED_WORLDS).find_map(|seed| {
        let planted = Some(fault.to_string());
        let outcome = World { binary, seed, planted, keep: None }.run().ok()?;
        let first = outcome.violations.first()?;
        Some(format!("noticed in world {seed} as {}", first.invariant))
    })
}

#[derive(Debug)]
pub struct Clusters {
    pub seeds: Range<u64>,
    pub nodes: u32,
    pub faults: usize,
    pub only: Vec<Kind>,
    pub lies: bool,
    pub old: Option<PathBuf>,
    pub bulk: Bulk,
    pub people: bool,
    pub until: Option<u64>,
    pub full_cpu: Duration,
    /// Queues with limits, and a load that fills them.
    pub limited: bool,
    /// Each node in a network namespace of its own.
    pub namespaces: bool,
}

impl Clusters {
    fn run<'a>(&self, binary: &'a Path, seed: u64) -> cluster::Run<'a> {
        cluster::Run {
            binary,
            seed,
            nodes: self.nodes,
            faults: self.faults,
            only: self.only.clone(),
            old: self.old.clone(),
            bulk: self.bulk,
            people: self.people,
            until: self.until,
            full_cpu: self.full_cpu,
            limited: self.limited.then(|| Arc::new(limited::queues())),
            namespaces: self.namespaces,
            planted: None,
            lies: false,
            keep: None,
        }
    }
}

/// Faults of limits that only a failover, or any start, brings to light.
const PLANTED_LIMITS: [&str; 3] = ["LoadForgetsRunning", "ForgetLimits", "LimitNotCounted"];

/// True if every planted fault of limits was noticed by what looks at limits.
pub fn planted_limits(binary: &Path, all: &Clusters) -> Result<bool, String> {
    let mut noticed = 0;
    for fault in PLANTED_LIMITS {
        let mut run = all.run(binary, all.seeds.start);
        (run.faults, run.planted) = (LIMITED_PLANTED, Some(fault));
        let outcome = run.run().map_err(|why| format!("{fault}: {why}"))?;
        let names: BTreeSet<&str> = outcome.violations.iter().map(|one| one.invariant).collect();
        let found = names.iter().any(|name| name.starts_with("limits_hold"));
        noticed += usize::from(found);
        println!("chaos: {fault}: {} as {names:?}", if found { "noticed" } else { "NOT noticed" });
    }
    println!("chaos: planted limits: {noticed} of {} noticed", PLANTED_LIMITS.len());
    Ok(noticed == PLANTED_LIMITS.len())
}

/// One cluster after the other; true if every promise was kept and every lie noticed.
pub fn clusters(binary: &Path, all: &Clusters, keep: Option<PathBuf>) -> Result<bool, String> {
    let begun = Instant::now();
    let (mut good, mut lied) = (true, !all.lies);
    let mut sum = cluster::Measured::default();
    for seed in all.seeds.clone() {
        let mut run = all.run(binary, seed);
        (run.lies, run.keep) = (!lied, keep.clone());
        let started = Instant::now();
        let outcome = run.run().map_err(|why| format!("cluster {seed}: {why}"))?;
        for violation in &outcome.violations {
            println!("chaos: cluster {seed}: {}: {}", violation.invariant, violation.detail);
        }
        let kept = outcome.violations.is_empty();
        println!("{}", outcome.measured);
        if let Some(held) = &outcome.held {
            println!("{held}");
        }
        println!(
            "chaos: cluster {seed}: {} violations, {} s",
            outcome.violations.len(),
            begun.elapsed().as_secs()
        );
        let took = started.elapsed();
        println!("chaos: row: {}", outcome.measured.row(seed, took, outcome.violations.len()));
        good &= kept;
        if let (Some(evidence), true, false) = (&outcome.evidence, kept, lied) {
            good &= lies::told(evidence);
            lied = true;
        }
        sum.add(outcome.measured);
    }
    if all.seeds.end - all.seeds.start > 1 {
        println!("chaos: all clusters:\n{sum}");
    }
    Ok(good && lied)
}
