//! `cargo run -p sim --release -- --seed N` replays one seed; `--seeds A..B` runs many.

use shard::Bug;
use sim::run::run;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)).cloned()
    };
    let steps = value("--steps").and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let bug = value("--bug").and_then(|name| {
        Bug::ALL.iter().copied().find(|bug| format!("{bug:?}").eq_ignore_ascii_case(&name))
    });
    let verbose = args.iter().any(|arg| arg == "--verbose");
    let range = match (value("--seed"), value("--seeds")) {
        (Some(seed), _) => seed.parse::<u64>().map(|seed| seed..seed + 1).unwrap_or(0..1),
        (None, Some(range)) => {
            let mut ends = range.split("..").filter_map(|end| end.parse::<u64>().ok());
            ends.next().unwrap_or(0)..ends.next().unwrap_or(1)
        }
        (None, None) => 0..100,
    };
    let mut failed = 0;
    let (mut steps_run, mut simulated) = (0, 0);
    let mut events = std::collections::BTreeMap::new();
    let total = range.end - range.start;
    for seed in range {
        let report = run(seed, steps, bug, verbose);
        steps_run += report.steps;
        simulated += report.simulated.micros() / 1_000_000;
        for (event, count) in report.events {
            *events.entry(event).or_insert(0) += count;
        }
        if !report.violations.is_empty() {
            failed += 1;
            println!(
                "seed {seed}: {} violations, trace {:016x}",
                report.violations.len(),
                report.trace
            );
            for violation in report.violations.iter().take(5) {
                println!("  {}: {}", violation.invariant, violation.detail);
            }
        }
    }
    println!("{total} seeds, {steps_run} steps, {simulated} s simulated, {failed} failed");
    for (event, count) in events {
        println!("  {event:?}: {count}");
    }
    if failed > 0 {
        std::process::exit(1);
    }
}
