//! What a queue allows: how much runs at once, how much starts in a time, how long a group's turn is.

use crate::support::*;
use model::row::{Key, Row};
use model::{Namespace, QueueRow, Rate, RunId, Span, Spec, Time};
use shard::command::{Answer, Command, End, Leased, Refused};
use std::collections::BTreeMap;

fn set(world: &mut World, limits: QueueRow) {
    let command = Command::SetQueue { namespace: Namespace(1), queue: "mail".into(), limits };
    assert_eq!(world.call(command), Answer::Done);
}

fn at_most(running: u32) -> QueueRow {
    QueueRow { max_running: Some(running), ..QueueRow::default() }
}

fn per_second(starts: u32, burst: u32) -> Option<Rate> {
    Some(Rate { starts, per: Span::from_secs(1), burst })
}

fn by_group(world: &World, leased: &[Leased]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for one in leased {
        let group = world.run_row(one.run).unwrap().flow.group.unwrap();
        *found.entry(group.to_string()).or_default() += 1;
    }
    found
}

#[test]
fn no_more_run_than_a_queue_allows() {
    let mut world = World::new();
    set(&mut world, at_most(3));
    world.submit_many(&now(), 10);
    let leased = world.claim(10);
    assert_eq!(leased.len(), 3);
    assert_eq!(world.claim(10), []);
    world.succeed(&leased[0]);
    world.settle(&leased[1], End::Released);
    assert_eq!(world.claim(10).len(), 2);
}

#[test]
fn a_waiting_claim_is_served_when_a_place_is_free() {
    let mut world = World::new();
    set(&mut world, at_most(1));
    let runs = world.submit_many(&now(), 2);
    let first = world.claim(1)[0];
    let claim = world.claim_command(1, Span::from_secs(20));
    let waiting = world.send(Command::Claim(claim));
    world.succeed(&first);
    assert_eq!(leases(world.answer(waiting))[0].run, runs[1]);
}

#[test]
fn a_limit_below_what_runs_lets_it_drain() {
    let mut world = World::new();
    world.submit_many(&now(), 10);
    let leased = world.claim(5);
    set(&mut world, at_most(2));
    for one in &leased[..3] {
        assert_eq!(world.claim(10), []);
        world.succeed(one);
    }
    assert_eq!(world.claim(10), []);
    world.succeed(&leased[3]);
    assert_eq!(world.claim(10).len(), 1);
    set(&mut world, QueueRow::default());
    assert_eq!(world.claim(10).len(), 4);
    assert_eq!(world.row(Key::Queue(Namespace(1), "mail".into())), None);
}

#[test]
fn a_new_owner_counts_what_runs() {
    let mut world = World::new();
    set(&mut world, at_most(3));
    world.submit_many(&now(), 10);
    let leased = world.claim(2);
    world.restart();
    assert_eq!(world.claim(10).len(), 1);
    world.succeed(&leased[0]);
    assert_eq!(world.claim(10).len(), 1);
    let Some(Row::Queue(row)) = world.row(Key::Queue(Namespace(1), "mail".into())) else {
        panic!("no row")
    };
    assert_eq!(row, QueueRow { rev: 1, ..at_most(3) });
}

#[test]
fn a_run_that_was_lost_gives_its_place_back() {
    let mut world = World::new();
    set(&mut world, at_most(1));
    world.submit_many(&now(), 2);
    world.claim(1);
    assert_eq!(world.claim(1), []);
    world.secs(34);
    assert_eq!(world.claim(2).len(), 1);
}

#[test]
fn each_group_has_its_own_limit_and_others_go_on() {
    let mut world = World::new();
    let limits = QueueRow { group_max_running: Some(2), ..QueueRow::default() };
    set(&mut world, limits);
    world.submit_many(&grouped("a"), 20);
    world.submit_many(&Spec { priority: 9, ..grouped("a") }, 20);
    world.submit_many(&grouped("b"), 1);
    world.submit_many(&now(), 4);
    let leased = world.claim(100);
    // Those without a group are in none.
    assert_eq!(leased.len(), 7);
    let grouped: Vec<Leased> = leased
        .into_iter()
        .filter(|one| world.run_row(one.run).unwrap().flow.group.is_some())
        .collect();
    assert_eq!(by_group(&world, &grouped), [("a".into(), 2), ("b".into(), 1)].into());
    world.succeed(&grouped[0]);
    assert_eq!(world.claim(100).len(), 1);
}

#[test]
fn a_group_that_is_full_keeps_newcomers_of_other_levels_back() {
    let mut world = World::new();
    set(&mut world, QueueRow { group_max_running: Some(1), ..QueueRow::default() });
    world.submit_many(&grouped("a"), 1);
    let first = world.claim(1)[0];
    // A flow that did not exist when the group was shut.
    world.submit_many(&Spec { priority: 8, ..grouped("a") }, 1);
    assert_eq!(world.claim(9), []);
    world.succeed(&first);
    assert_eq!(world.claim(9).len(), 1);
}

#[test]
fn no_more_start_than_a_rate_allows() {
    let mut world = World::new();
    set(&mut world, QueueRow { rate: per_second(10, 3), ..QueueRow::default() });
    world.submit_many(&now(), 100);
    assert_eq!(world.claim(100), [], "what was spent before is not known");
    world.secs(1);
    assert_eq!(world.claim(100).len(), 3, "the burst");
    assert_eq!(world.claim(100), []);
    world.pass(Span::from_millis(99));
    assert_eq!(world.claim(100), []);
    world.pass(Span::from_millis(1));
    assert_eq!(world.claim(100).len(), 1);
}

#[test]
fn a_waiting_claim_is_served_when_the_rate_allows_it() {
    let mut world = World::new();
    set(&mut world, QueueRow { rate: per_second(2, 1), ..QueueRow::default() });
    let runs = world.submit_many(&now(), 2);
    let claim = world.claim_command(1, Span::from_secs(20));
    let waiting = world.send(Command::Claim(claim));
    let begun = world.now;
    world.pass(Span::from_millis(500));
    let leased = leases(world.answer(waiting))[0];
    assert_eq!(leased.run, runs[0]);
    assert_eq!(world.now.since(begun), Span::from_millis(500));
}

#[test]
fn a_rate_is_kept_over_a_change_of_owner() {
    let mut world = World::new();
    set(&mut world, QueueRow { rate: per_second(1, 7), ..QueueRow::default() });
    world.submit_many(&now(), 100);
    world.secs(60);
    assert_eq!(world.claim(100).len(), 7);
    for _ in 0..3 {
        world.restart();
        assert_eq!(world.claim(100), []);
    }
    world.secs(2);
    assert_eq!(world.claim(100).len(), 2);
}

#[test]
fn each_group_has_its_own_rate() {
    let mut world = World::new();
    set(&mut world, QueueRow { group_rate: per_second(1, 2), ..QueueRow::default() });
    world.submit_many(&grouped("a"), 20);
    world.submit_many(&grouped("b"), 20);
    world.secs(5);
    let leased = world.claim(100);
    assert_eq!(by_group(&world, &leased), [("a".into(), 2), ("b".into(), 2)].into());
    let claim = world.claim_command(10, Span::from_secs(20));
    let waiting = world.send(Command::Claim(claim));
    world.secs(1);
    let leased = leases(world.answer(waiting));
    assert!(!leased.is_empty(), "a group opens by itself");
}

#[test]
fn starts_are_shared_by_weight() {
    let mut world = World::new();
    let weights = [("a".into(), 5), ("c".into(), 2)].into();
    set(&mut world, QueueRow { weights, ..QueueRow::default() });
    for group in ["a", "b", "c"] {
        world.submit_many(&grouped(group), 1_000);
    }
    let leased = world.claim(800);
    let found = by_group(&world, &leased);
    for (group, expected) in [("a", 500_i64), ("b", 100), ("c", 200)] {
        let off = (found[group] as i64 - expected).abs();
        assert!(off * 20 <= expected, "{found:?}: {group} has {off} off");
    }
}

#[test]
fn weights_do_not_starve_the_light() {
    let mut world = World::new();
    let weights = [("a".into(), 1_000)].into();
    set(&mut world, QueueRow { weights, ..QueueRow::default() });
    world.submit_many(&grouped("b"), 100);
    world.secs(1);
    world.submit_many(&grouped("a"), 2_000);
    let leased = world.claim(160);
    let found = by_group(&world, &leased);
    assert!(found["b"] >= 16, "at least one start in eight goes to the oldest: {found:?}");
}

#[test]
fn a_newcomer_waits_for_few_dispatches_also_after_a_restart() {
    let mut world = World::new();
    world.submit_many(&grouped("big"), 3_000);
    world.restart();
    let late = world.submit_many(&grouped("small"), 1);
    world.secs(1);
    let leased: Vec<RunId> = world.claim(4).into_iter().map(|one| one.run).collect();
    assert!(leased.contains(&late[0]), "{leased:?}");
}

#[test]
fn limits_that_cannot_be_kept_are_refused_and_nothing_is_written() {
    let mut world = World::new();
    for limits in [
        QueueRow { rate: per_second(0, 1), ..QueueRow::default() },
        QueueRow { group_rate: per_second(1, 0), ..QueueRow::default() },
        QueueRow { weights: [("a".into(), 0)].into(), ..QueueRow::default() },
    ] {
        let command = Command::SetQueue { namespace: Namespace(1), queue: "mail".into(), limits };
        let answer = world.call(command);
        assert!(matches!(answer, Answer::Refused(Refused::Invalid(_))), "{answer:?}");
    }
    assert_eq!(world.row(Key::Queue(Namespace(1), "mail".into())), None);
}

#[test]
fn nothing_stands_still_while_something_may_start() {
    let mut random = Random(0x5eed);
    for round in 0..60 {
        let mut world = World::new();
        let (queue, group) = (1 + random.below(7) as u32, 1 + random.below(3) as u32);
        let limits = QueueRow {
            max_running: Some(queue),
            group_max_running: Some(group),
            weights: [("g1".into(), 1 + random.below(4) as u32)].into(),
            ..QueueRow::default()
        };
        set(&mut world, limits);
        let mut running: Vec<Leased> = Vec::new();
        let mut waiting: BTreeMap<String, usize> = BTreeMap::new();
        for step in 0..60 {
            let name = format!("g{}", random.below(4));
            let count = random.below(4) as usize;
            world.submit_many(&grouped(&name), count);
            *waiting.entry(name).or_default() += count;
            if step % 17 == 16 {
                world.restart();
                world.secs(1);
            }
            let leased = world.claim(1 + random.below(9) as usize);
            let asked_all = leased.len();
            for (name, count) in by_group(&world, &leased) {
                *waiting.get_mut(&name).unwrap() -= count;
            }
            running.extend(leased);
            let held = by_group(&world, &running);
            assert!(running.len() <= queue as usize, "round {round}");
            assert!(held.values().all(|count| *count <= group as usize), "round {round}: {held:?}");
            let rest = world.claim(100);
            for (name, count) in by_group(&world, &rest) {
                *waiting.get_mut(&name).unwrap() -= count;
            }
            running.extend(rest);
            let held = by_group(&world, &running);
            let could = waiting.iter().any(|(name, count)| {
                *count > 0 && held.get(name).copied().unwrap_or(0) < group as usize
            });
            assert!(
                running.len() == queue as usize || !could,
                "round {round}, step {step}: {asked_all} started, {waiting:?} wait, {held:?} run"
            );
            while running.len() > random.below(6) as usize {
                let one = running.swap_remove(random.below(running.len() as u64) as usize);
                world.succeed(&one);
            }
        }
    }
}

/// Printed with a failure by its round.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

#[test]
fn a_clock_that_came_back_does_not_shut_a_rate_for_long() {
    let mut world = World::new();
    set(&mut world, QueueRow { rate: per_second(1, 1), ..QueueRow::default() });
    world.submit_many(&now(), 9);
    world.secs(2);
    assert_eq!(world.claim(9).len(), 1);
    let before: Time = world.now;
    world.set_now(before.plus(Span::from_secs(1)));
    assert_eq!(world.claim(9).len(), 1);
}
