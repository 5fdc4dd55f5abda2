//! One seed from beginning to end.

use crate::checker::{CheckSettings, Violation, check};
use crate::faults::FREEZE_MAX;
use crate::world::{CALL_TIMEOUT, World};
use model::Span;
use shard::{Bug, Event};
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Report {
    pub seed: u64,
    pub steps: u64,
    pub trace: u64,
    pub simulated: Span,
    pub events: BTreeMap<Event, u64>,
    pub violations: Vec<Violation>,
    pub ops: usize,
    pub starts: usize,
}

/// Healed, the cluster goes on firing for this long; then jobs are paused and everything ends.
const LIVELY: Span = Span::from_secs(20);
/// How far a node's idea of the store's time may lie behind it: an answer is on its way for as long
/// as a call may take, and then waits for as long as its node is frozen (seed 92: the clock had run
/// wild, so the late answer was all the node had).
const CLOCK_LAG: Span = CALL_TIMEOUT.plus(FREEZE_MAX);
const DRAIN: Span = Span::from_secs(60);
/// No story is longer than this many times the steps asked for.
const STEPS_LIMIT: u64 = 8;

pub fn run(seed: u64, steps: u64, bug: Option<Bug>, verbose: bool) -> Report {
    let mut world = World::new(seed, steps, bug);
    world.verbose = verbose;
    while world.steps < steps && world.step() {}
    world.heal();
    let healed_at = world.now;
    world.quieten();
    let limit = steps * STEPS_LIMIT;
    let lively = world.now.plus(LIVELY);
    run_until(&mut world, lively, limit);
    world.pause_all();
    world.quieten();
    let end = world.now.plus(DRAIN);
    run_until(&mut world, end, limit);
    if verbose {
        for node in &world.nodes {
            println!("AT THE END {:?}", node.host);
        }
    }
    let settings = CheckSettings {
        healed: true,
        healed_at,
        poison: world.options.poison,
        clock_lag: CLOCK_LAG,
        versions_kept: world.options.sizes.versions,
        ..CheckSettings::default()
    };
    let mut violations = check(&world.log, &world.store.inner().dump(), &settings);
    world.look_at_leavers();
    world.look_at_limits();
    violations.append(&mut world.found);
    Report {
        seed,
        steps: world.steps,
        trace: world.trace(),
        simulated: world.now.since(crate::world::BEGIN),
        events: std::mem::take(&mut world.log.events),
        violations,
        ops: world.log.ops.len(),
        starts: world.log.starts.len(),
    }
}

fn run_until(world: &mut World, end: model::Time, limit: u64) {
    while world.next_at().is_some_and(|at| at <= end) && world.steps < limit {
        world.step();
    }
}
