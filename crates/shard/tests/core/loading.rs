//! Filling memory while decisions go on: the horizon, pages of flows, reads that grew old, reload.

use crate::support::*;
use model::read::Read;
use model::row::Key;
use model::{Namespace, RunId, Span, Spec, Time};
use shard::Event;
use shard::command::{Answer, Command, NewJob};
use std::collections::BTreeSet;
use std::sync::Arc;

fn submit_command(world: &mut World, spec: Spec, key: Option<shard::command::KeyOf>) -> Command {
    let id = world.job_id();
    Command::Submit(vec![NewJob { id, spec: Arc::new(spec), key, paused: false }])
}

fn starts_once(world: &mut World, until: Time) -> Vec<RunId> {
    let mut started = Vec::new();
    while world.now < until {
        world.secs(1);
        for _ in 0..25 {
            started.extend(world.claim(1_000).iter().filter(|l| l.attempt == 1).map(|l| l.run));
        }
    }
    let once: BTreeSet<_> = started.iter().copied().collect();
    assert_eq!(once.len(), started.len(), "one started twice");
    started
}

fn is_due(read: &Read) -> bool {
    matches!(read, Read::Due { .. })
}

/// A world whose horizon is about to be raised with the next tick.
fn before_a_raise() -> World {
    let mut world = World::new();
    world.secs(1);
    let at = world.shard.next_tick().unwrap();
    world.set_now(at);
    world
}

#[test]
fn a_submit_due_inside_the_page_whose_batch_is_held_back_fires_exactly_once() {
    let mut world = before_a_raise();
    // Beyond the old horizon, inside the new one; decided before the horizon is raised.
    let due = world.now.plus(Span::from_secs(45));
    world.set_now(world.now.minus(Span::from_millis(1)));
    world.hold_commits = true;
    let command = submit_command(&mut world, spec(model::When::At(due)), None);
    world.send(command);
    assert_eq!(world.held_commits.len(), 1);
    world.hold_reads = true;
    world.set_now(world.now.plus(Span::from_millis(1)));
    world.shard.handle_tick(world.now);
    world.pump();
    assert!(!world.held_reads.iter().any(|(_, read, _)| is_due(read)), "read before it is durable");
    // Decided after the horizon was raised, while the page is still to be read.
    let second = submit_command(&mut world, spec(model::When::At(due)), None);
    world.send(second);
    world.commit_held();
    assert!(world.held_reads.iter().any(|(_, read, _)| is_due(read)));
    world.deliver();
    assert_eq!(starts_once(&mut world, due.plus(Span::from_secs(70))).len(), 2);
}

#[test]
fn a_run_cancelled_while_its_page_is_under_way_does_not_come_back() {
    let mut world = before_a_raise();
    world.set_now(world.now.minus(Span::from_millis(1)));
    let due = world.now.plus(Span::from_secs(45));
    let run = one_off(world.submit(spec(model::When::At(due))));
    let other = one_off(world.submit(spec(model::When::At(due))));
    world.set_now(world.now.plus(Span::from_millis(1)));
    world.hold_reads = true;
    world.shard.handle_tick(world.now);
    world.pump();
    assert!(is_due(&world.held_reads[0].1), "the page holds the run");
    let page = world.held_reads.pop_front().unwrap();
    world.hold_reads = false;
    world.call(Command::CancelRun(run));
    world.shard.handle_read(world.now, page.0, page.2);
    world.pump();
    assert!(world.saw(Event::PageWhileTouched));
    assert_eq!(starts_once(&mut world, due.plus(Span::from_secs(70))), [other]);
}

#[test]
fn what_lies_on_two_pages_of_the_wheel_fires_once_each_in_spite_of_traffic() {
    let mut world = World::new();
    let runs = world.submit_many(&after(200), 3_000);
    world.down_for(Span::from_secs(199));
    let mut cancelled = BTreeSet::new();
    world.hold_reads = true;
    // Every page of the wheel is late by one cancel and one submit.
    for round in 0..2_000 {
        let before = world.held_reads.len();
        world.shard.handle_tick(world.now);
        world.pump();
        if before == 0 && world.held_reads.is_empty() {
            break;
        }
        if world.shard.is_live() && round % 2 == 0 {
            world.hold_reads = false;
            let run = runs[(round * 37) % runs.len()];
            if cancelled.insert(run) {
                world.send(Command::CancelRun(run));
            }
            world.hold_reads = true;
        }
        if let Some((id, _, page)) = world.held_reads.pop_front() {
            world.shard.handle_read(world.now, id, page);
            world.pump();
        }
    }
    world.deliver();
    let until = world.now.plus(Span::from_secs(10));
    let started: BTreeSet<_> = starts_once(&mut world, until).into_iter().collect();
    let expected: BTreeSet<_> = runs.into_iter().filter(|r| !cancelled.contains(r)).collect();
    assert_eq!(started, expected);
}

#[test]
fn a_prefetch_older_than_an_acknowledged_batch_makes_no_second_job_for_one_key() {
    let mut world = World::new();
    world.hold_reads = true;
    let first = submit_command(&mut world, now(), key("k", 1));
    let first = world.send(first);
    let second = submit_command(&mut world, now(), key("k", 1));
    let second = world.send(second);
    assert_eq!(world.held_reads.len(), 2, "both read the key before it is written");
    let (id, _, page) = world.held_reads.pop_front().unwrap();
    world.shard.handle_read(world.now, id, page);
    world.pump();
    let Answer::Submitted(made) = world.answer(first) else { panic!() };
    // The first is durable and acknowledged; the second decides on what it read before that.
    world.deliver();
    let Answer::Submitted(again) = world.answer(second) else { panic!() };
    assert_eq!((again[0].unwrap().made, again[0].unwrap().replayed), (made[0].unwrap().made, true));
    assert!(world.saw(Event::ReadOlderThanAck));
    world.claim_one();
}

#[test]
fn a_prefetch_older_than_a_deletion_does_not_bring_the_job_back() {
    let mut world = World::new();
    let job = world.submit(every(1_000));
    world.restart();
    world.hold_reads = true;
    let delete = world.send(Command::DeleteJob(job));
    let resume = world.send(Command::Resume(job));
    let (id, _, page) = world.held_reads.pop_front().unwrap();
    world.shard.handle_read(world.now, id, page);
    world.pump();
    world.answer(delete);
    world.deliver();
    assert_eq!(world.answer(resume), Answer::Refused(shard::command::Refused::NotFound));
    let trigger = Command::Trigger { job, id: 1, payload: None, key: None };
    assert_eq!(world.call(trigger), Answer::Refused(shard::command::Refused::NotFound));
    assert_eq!(world.hot(), []);
}

#[test]
fn a_flow_of_20_000_comes_out_in_order_and_once_while_others_arrive_and_are_cancelled() {
    let mut world = World::new();
    let mut expected: BTreeSet<(Time, RunId)> = BTreeSet::new();
    let add = |world: &mut World, expected: &mut BTreeSet<_>, count| {
        let due = world.now;
        for run in world.submit_many(&now(), count) {
            expected.insert((due, run));
        }
    };
    add(&mut world, &mut expected, 20_000);
    assert!(world.shard.resident() <= 8_192 + 1_024, "{}", world.shard.resident());
    let mut last = None;
    let mut round = 0_usize;
    while !expected.is_empty() {
        round += 1;
        world.pass(Span::from_millis(5));
        let leased = world.claim(100);
        assert!(!leased.is_empty(), "{} are left", expected.len());
        for l in leased {
            assert!(last < Some((l.due, l.run)), "out of order");
            last = Some((l.due, l.run));
            assert!(expected.remove(&(l.due, l.run)), "not expected: {l:?}");
            world.succeed(&l);
        }
        if round <= 150 {
            add(&mut world, &mut expected, 40);
            let pick = (round * 7_919) % expected.len();
            let gone = *expected.iter().nth(pick).unwrap();
            assert!(matches!(world.call(Command::CancelRun(gone.1)), Answer::Run(..)));
            expected.remove(&gone);
        }
        if round == 70 {
            world.restart();
            world.pass(Span::from_millis(1));
        }
    }
    assert!(world.saw(Event::PageMerged));
    assert_eq!(world.hot(), []);
}

#[test]
fn runs_that_fire_into_a_flow_whose_page_is_under_way_keep_their_revision() {
    let mut world = World::new();
    let far = world.submit_many(&after(40), 50);
    world.submit_many(&now(), 9_000);
    // Down to a short front, with the page held back.
    world.hold_reads = true;
    for _ in 0..9 {
        for l in world.claim(1_000) {
            world.succeed(&l);
        }
    }
    assert!(world.held_reads.iter().any(|(_, read, _)| matches!(read, Read::Flow { .. })));
    world.secs(40);
    world.deliver();
    let mut started = BTreeSet::new();
    for _ in 0..20 {
        for l in world.claim(1_000) {
            started.insert(l.run);
            world.succeed(&l);
        }
        world.secs(1);
    }
    assert!(far.iter().all(|run| started.contains(run)), "{} of 50", started.len());
    assert_eq!(world.hot(), []);
}

#[test]
fn more_arrivals_than_fit_beside_a_page_are_not_forgotten() {
    let mut world = World::new();
    world.submit_many(&now(), 8_192);
    world.secs(10);
    world.submit_many(&now(), 4_000);
    world.hold_reads = true;
    let mut started = 0;
    for _ in 0..8 {
        started += world.claim(1_000).len();
    }
    assert!(world.held_reads.iter().any(|(_, read, _)| matches!(read, Read::Flow { .. })));
    world.submit_many(&now(), 1_100);
    // No room is left beside the page, and these belong before what it holds.
    world.submit_many(&spec(model::When::At(start_plus(5))), 500);
    world.deliver();
    while started < 13_792 {
        let leased = world.claim(1_000);
        assert!(!leased.is_empty(), "{started} of 13,792 started");
        started += leased.len();
        world.pass(Span::from_millis(1));
    }
}

#[test]
fn a_reload_with_50_000_ready_runs_reads_a_bounded_number_of_rows() {
    let mut world = World::new();
    world.submit_many(&now(), 50_000);
    world.rows_read = 0;
    world.restart();
    assert!(world.rows_read <= 3_000, "{} rows", world.rows_read);
    assert_eq!(world.claim(1_000).len(), 1_000);
}

#[test]
fn a_reload_with_20_000_flows_keeps_to_the_bound_of_ready_entries() {
    let mut world = World::new();
    for group in 0..20_000 {
        let spec = grouped(&format!("tenant-{group}"));
        let command = submit_command(&mut world, spec, None);
        world.send(command);
    }
    world.restart();
    world.secs(1);
    let mut started = 0;
    for _ in 0..30 {
        started += world.claim(1_000).len();
    }
    assert_eq!(started, 20_000);
}

#[test]
fn a_herd_of_one_namespace_does_not_delay_the_single_run_of_another() {
    let mut world = World::new();
    world.submit_many(&after(20), 20_000);
    let single = world.submit(Spec { namespace: Namespace(2), ..after(20) });
    world.run_to(start_plus(20).minus(Span::from_millis(1)));
    world.set_now(start_plus(20));
    world.hold_commits = true;
    world.shard.handle_tick(world.now);
    world.pump();
    let first = world.held_commits.front().unwrap();
    assert!(first.changes.len() <= 1_024, "{} changes", first.changes.len());
    assert!(first.changes.iter().any(|change| change.key == Key::Run(one_off(single))));
    world.commit_held();
}

#[test]
fn a_herd_of_recurring_jobs_asks_for_no_more_rows_than_fit_into_memory() {
    let mut world = World::new();
    world.submit_many(&every(3_600), 10_000);
    world.restart();
    world.run_to(start_plus(3_600).minus(Span::from_millis(1)));
    world.set_now(start_plus(3_600));
    // The store is slow, and much else wakes the shard meanwhile.
    world.hold_reads = true;
    for _ in 0..40 {
        world.shard.handle_tick(world.now);
        world.pump();
    }
    let keys = |read: &Read| if let Read::Rows(keys) = read { keys.len() } else { 0 };
    let asked: usize = world.held_reads.iter().map(|(_, read, _)| keys(read)).sum();
    assert!((512..=4_096).contains(&asked), "{asked} rows are asked for at once");
    assert!(world.shard.next_tick().is_none_or(|at| at > world.now), "it does not spin meanwhile");
    world.hold_reads = false;
    world.rows_read = 0;
    world.deliver();
    let mut started = 0;
    for _ in 0..40 {
        started += world.claim(1_000).len();
        world.pass(Span::from_millis(1));
    }
    assert_eq!(started, 10_000);
    // The job, then the job again with its description, and a few that were driven out.
    assert!(world.rows_read <= 35_000, "{} rows for 10,000 fires", world.rows_read);
}

#[test]
fn the_next_owner_finds_what_was_overdue_and_not_yet_decided() {
    let mut world = World::new();
    let runs = world.submit_many(&after(100), 20_000);
    // Down over their time by an hour: much is overdue, and the owner dies in the middle of it,
    // having written how far it has come.
    world.hold_commits = true;
    world.down_for(Span::from_secs(3_600));
    for _ in 0..2 {
        world.set_now(world.now.plus(Span::from_secs(11)));
        world.shard.handle_tick(world.now);
        world.pump();
        let held: Vec<_> = world.held_commits.drain(..).collect();
        for commit in held {
            let seq = commit.seq;
            store::Store::commit(&world.store, &[commit]).unwrap();
            world.shard.handle_commit(world.now, seq, shard::CommitEnd::Durable);
        }
    }
    world.hold_commits = false;
    world.restart();
    let until = world.now.plus(Span::from_secs(20));
    let started = starts_once(&mut world, until);
    assert_eq!(started.len(), runs.len());
}

#[test]
fn memory_is_bounded_by_its_limits_not_by_what_is_stored() {
    let mut world = World::new();
    world.submit_many(&now(), 30_000);
    let in_a_minute = after(50);
    world.submit_many(&in_a_minute, 30_000);
    assert!(world.shard.resident() <= 8_192 + 30_000 + 1_024, "{}", world.shard.resident());
    let far = after(86_400);
    world.submit_many(&far, 30_000);
    assert!(world.shard.resident() <= 8_192 + 30_000 + 1_024, "{}", world.shard.resident());
}
