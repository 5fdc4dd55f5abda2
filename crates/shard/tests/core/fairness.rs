//! Which run starts next: levels, lanes, groups, and the oldest.

use crate::support::*;
use model::{Lane, Namespace, RunId, Span, Spec};
use shard::command::{Command, NewJob};
use std::collections::BTreeMap;

fn at_priority(priority: u8) -> Spec {
    Spec { priority, ..now() }
}

#[test]
fn one_start_in_eight_goes_to_the_run_that_has_waited_longest() {
    let mut world = World::new();
    let old: Vec<RunId> = world.submit_many(&at_priority(0), 10);
    world.secs(1);
    world.submit_many(&at_priority(9), 200);
    let leased = world.claim(80);
    let places: Vec<usize> = leased
        .iter()
        .enumerate()
        .filter(|(_, l)| old.contains(&l.run))
        .map(|(place, _)| place + 1)
        .collect();
    assert_eq!(places, [8, 16, 24, 32, 40, 48, 56, 64, 72, 80]);
}

#[test]
fn the_highest_priority_starts_first() {
    let mut world = World::new();
    for priority in [3, 0, 9, 5] {
        world.submit_many(&at_priority(priority), 1);
    }
    let mut order = Vec::new();
    for l in world.claim(10) {
        order.push(world.run_row(l.run).unwrap().flow.priority);
    }
    assert_eq!(order, [9, 5, 3, 0]);
}

#[test]
fn groups_of_a_level_take_turns() {
    let mut world = World::new();
    world.submit_many(&grouped("a"), 50);
    world.submit_many(&grouped("b"), 5);
    world.submit_many(&grouped("c"), 5);
    let mut starts: BTreeMap<String, usize> = BTreeMap::new();
    for l in world.claim(15) {
        let group = world.run_row(l.run).unwrap().flow.group.unwrap();
        *starts.entry(group.to_string()).or_default() += 1;
    }
    // Every eighth start goes to the oldest, which is one of a's.
    assert!(starts["b"] >= 4 && starts["c"] >= 4, "{starts:?}");
}

#[test]
fn lanes_share_a_level_eight_to_four_to_one() {
    let mut world = World::new();
    let retries = world.submit_many(&now(), 100);
    for l in world.claim(100) {
        world.settle(&l, failed(true, Some(Span::from_secs(5))));
    }
    let dead = world.submit_many(&now(), 100);
    for l in world.claim(100) {
        world.settle(&l, failed(false, None));
    }
    world.secs(5);
    for run in &dead {
        world.call(Command::Replay { run: *run, payload: None });
    }
    let fresh = world.submit_many(&now(), 200);
    let mut count = [0_i32; 3];
    for l in world.claim(104) {
        let lane = world.run_row(l.run).unwrap().flow.lane;
        let of = [(Lane::Fresh, &fresh), (Lane::Retry, &retries), (Lane::Backfill, &dead)];
        assert!(of.iter().any(|(other, runs)| *other == lane && runs.contains(&l.run)));
        count[lane as usize] += 1;
    }
    // 91 starts by share, 13 by age (the retries are the oldest here).
    let by_share = [91 * 8 / 13, 91 * 4 / 13 + 13, 91 / 13];
    for (count, expected) in count.into_iter().zip(by_share) {
        assert!((count - expected).abs() <= 2, "{count} instead of {expected}");
    }
}

#[test]
fn a_claimer_gets_only_kinds_it_offers() {
    let mut world = World::new();
    let http = model::Target::Http { url: "x".into(), method: "POST".into(), headers: vec![] };
    let web = one_off(world.submit(Spec { target: http, ..now() }));
    let own = one_off(world.submit(now()));
    let mut claim = world.claim_command(10, Span::ZERO);
    claim.kinds = Some(vec!["http".into()]);
    let leased = leases(world.call(Command::Claim(claim)));
    assert_eq!(leased.iter().map(|l| l.run).collect::<Vec<_>>(), [web]);
    assert_eq!(world.claim_one().run, own);
}

#[test]
fn waiting_claims_are_served_in_the_order_they_came() {
    let mut world = World::new();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let claim = world.claim_command(1, Span::from_secs(20));
            world.send(Command::Claim(claim))
        })
        .collect();
    for id in waiting {
        let run = one_off(world.submit(now()));
        assert_eq!(leases(world.answer(id))[0].run, run);
    }
}

fn of(namespace: u32, spec: Spec) -> Spec {
    Spec { namespace: Namespace(namespace), ..spec }
}

/// One namespace sends more than can be decided; another sends one job now and then.
#[test]
fn a_flood_of_submissions_leaves_a_trickle_on_time() {
    let mut world = World::new();
    // Nothing is decided while the batch before is on its way: what comes waits in the inbox.
    world.hold_commits = true;
    let flood = std::sync::Arc::new(of(7, now()));
    let many = |world: &mut World, jobs: usize| {
        let jobs = (0..jobs)
            .map(|_| NewJob { id: world.job_id(), spec: flood.clone(), key: None, paused: false })
            .collect();
        world.send(Command::Submit(jobs))
    };
    let floods: Vec<_> = (0..200).map(|_| many(&mut world, 500)).collect();
    let trickle: Vec<_> = (0..5)
        .map(|_| {
            let spec = std::sync::Arc::new(of(8, now()));
            let job = NewJob { id: world.job_id(), spec, key: None, paused: false };
            world.send(Command::Submit(vec![job]))
        })
        .collect();
    let mut commits = 0;
    while let Some(commit) = world.held_commits.pop_front() {
        world.commit_one(commit);
        commits += 1;
        if trickle.iter().all(|id| world.answers.contains_key(id)) {
            break;
        }
    }
    let before = floods.iter().filter(|id| world.answers.contains_key(id)).count();
    assert!(trickle.iter().all(|id| world.answers.contains_key(id)), "after {commits} commits");
    assert!(before < 40, "{before} of 200 floods were answered before the trickle");
}

#[test]
fn there_is_always_room_for_another_namespace() {
    let mut world = World::new();
    world.hold_commits = true;
    let one = |world: &mut World, namespace| {
        let spec = std::sync::Arc::new(of(namespace, now()));
        let job = NewJob { id: world.job_id(), spec, key: None, paused: false };
        let id = world.send(Command::Submit(vec![job]));
        world.answers.remove(&id)
    };
    // The first commit takes some of them along before it is held.
    let refused = (0..16_000).filter(|_| one(&mut world, 7).is_some()).count();
    assert!(refused > 1_000, "{refused}");
    for _ in 0..1_000 {
        assert_eq!(one(&mut world, 8), None, "it waits, and is not refused");
    }
}

/// Tens of thousands of runs of one namespace fall due in the same second as a few of another.
#[test]
fn a_herd_that_falls_due_leaves_others_on_time() {
    let mut world = World::new();
    world.submit_many(&of(7, after(10)), 30_000);
    let few: Vec<RunId> = (0..20).flat_map(|_| world.submit_many(&of(8, after(10)), 1)).collect();
    world.hold_commits = true;
    world.set_now(start_plus(10));
    world.shard.handle_tick(world.now);
    world.pump();
    let is_ready = |world: &World, run: &RunId| {
        world.run_row(*run).is_some_and(|row| row.state == model::RunState::Ready)
    };
    let mut commits = 0;
    while few.iter().any(|run| !is_ready(&world, run)) {
        let commit = world.held_commits.pop_front().expect("more to commit");
        world.commit_one(commit);
        commits += 1;
        assert!(commits <= 2, "the herd goes first");
    }
}

/// The bound that the guide states: a run starts at the latest with the eighth start for each run that was
/// ready before it, itself included; whatever comes afterwards, of whatever level and group. And a claim
/// is never given less than there is.
#[test]
fn nobody_waits_for_more_than_eight_starts_for_each_run_before_it() {
    for seed in 0..40_u64 {
        let mut state = seed;
        let mut below = |n: u64| {
            state = model::hash::mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
            state % n
        };
        let mut world = World::new();
        let mut latest: BTreeMap<RunId, usize> = BTreeMap::new();
        let mut started = 0;
        for step in 0..60 {
            for _ in 0..below(3) {
                let group = ["a", "b", "c", "d"][below(4) as usize];
                let priority = [0, 3, 5, 9, 9][below(5) as usize];
                let spec = Spec { priority, ..grouped(group) };
                let new = world.submit_many(&spec, 1 + below(9) as usize);
                // Of those that came at the same instant nobody was before the others.
                let before = latest.len() + new.len();
                latest.extend(new.into_iter().map(|run| (run, started + 8 * before)));
                world.secs(1);
            }
            let (asked, waiting) = (below(8) as usize, latest.len());
            let leased = if asked == 0 { Vec::new() } else { world.claim(asked) };
            assert_eq!(leased.len(), asked.min(waiting), "seed {seed}, step {step}");
            for one in leased {
                started += 1;
                let bound = latest.remove(&one.run).expect("it waited");
                assert!(started <= bound, "seed {seed}, step {step}: start {started} of {bound}");
                world.succeed(&one);
            }
        }
    }
}
