//! Runs that could not start, or be done, in the time their job allows.

use crate::support::*;
use model::{RunState, Span, Spec, Status, Time, When, Within};
use shard::command::{Command, SettleAnswer};

fn within(start: Option<i64>, finish: Option<i64>) -> Within {
    Within { start: start.map(Span::from_secs), finish: finish.map(Span::from_secs) }
}

fn end_of(world: &World, run: model::RunId) -> (Status, RunState, Time) {
    let all = world.history();
    let row = all.iter().rfind(|row| row.run == run).expect("it ended");
    (row.status, row.after, row.finished)
}

#[test]
fn a_run_that_nobody_started_in_time_expires() {
    let mut world = World::new();
    let begun = world.now;
    let run = one_off(world.submit(Spec { within: within(Some(5), None), ..now() }));
    let other = one_off(world.submit(now()));
    world.run_to(begun.plus(Span::from_millis(4_999)));
    assert!(world.run_row(run).is_some());
    world.run_to(begun.plus(Span::from_secs(6)));
    let (status, after, at) = end_of(&world, run);
    assert_eq!((status, after), (Status::TimedOut, RunState::Expired));
    assert_eq!(at, begun.plus(Span::from_secs(5)), "at that very time");
    assert_eq!(world.claim(9).into_iter().map(|l| l.run).collect::<Vec<_>>(), [other]);
    assert_eq!(world.run_row(run), None);
}

#[test]
fn a_run_that_started_in_time_may_take_longer() {
    let mut world = World::new();
    let run = one_off(world.submit(Spec { within: within(Some(5), None), ..now() }));
    let leased = world.claim_one();
    world.secs(10);
    world.settle(&leased, failed(true, Some(Span::from_secs(60))));
    world.secs(61);
    let leased = world.claim_one();
    assert_eq!((leased.run, leased.attempt), (run, 2), "it had started");
}

#[test]
fn an_attempt_ends_when_its_run_must_be_done() {
    let mut world = World::new();
    let begun = world.now;
    world.submit(Spec { within: within(None, Some(20)), ..now() });
    world.secs(3);
    let leased = world.claim_one();
    assert_eq!(leased.deadline, begun.plus(Span::from_secs(20)));
}

#[test]
fn a_retry_that_would_come_too_late_is_not_waited_for() {
    let mut world = World::new();
    let run = one_off(world.submit(Spec { within: within(None, Some(20)), ..now() }));
    let leased = world.claim_one();
    let answer = world.settle(&leased, failed(true, Some(Span::from_secs(30))));
    assert_eq!(answer, SettleAnswer::Ok { state: RunState::Expired, next: None });
    let (status, after, _) = end_of(&world, run);
    assert_eq!((status, after), (Status::Failed, RunState::Expired));
    assert_eq!(world.run_row(run), None);
}

#[test]
fn expiry_counts_from_its_time_and_survives_a_restart() {
    let mut world = World::new();
    let at = world.now.plus(Span::from_secs(100));
    let run = one_off(world.submit(Spec { within: within(Some(5), None), ..spec(When::At(at)) }));
    world.run_to(at.plus(Span::from_secs(2)));
    world.restart();
    world.run_to(at.plus(Span::from_millis(4_900)));
    assert!(world.run_row(run).is_some());
    world.run_to(at.plus(Span::from_secs(6)));
    assert_eq!(end_of(&world, run).1, RunState::Expired);
}

#[test]
fn down_for_too_long_is_too_late() {
    let mut world = World::new();
    let run = one_off(world.submit(Spec { within: within(Some(5), None), ..now() }));
    world.down_for(Span::from_secs(30));
    assert_eq!(world.claim(9), []);
    assert_eq!(end_of(&world, run).1, RunState::Expired);
}

#[test]
fn an_occurrence_that_expires_makes_way_for_the_next() {
    let mut world = World::new();
    let job = world.submit(Spec { within: within(Some(3), None), ..every(10) });
    world.secs(35);
    let expired = world.history().iter().filter(|row| row.after == RunState::Expired).count();
    assert_eq!(expired, 3);
    assert_eq!(world.job_row(job).active, None);
    world.secs(6);
    assert_eq!(world.claim(9).len(), 1, "the fourth is on time");
}

#[test]
fn a_replay_is_not_bounded_again() {
    let mut world = World::new();
    let run = one_off(world.submit(Spec { within: within(Some(5), Some(9)), ..now() }));
    let leased = world.claim_one();
    world.settle(&leased, failed(false, None));
    world.secs(60);
    world.call(Command::Replay { run, payload: None });
    world.secs(60);
    assert_eq!(world.claim_one().run, run);
}

#[test]
fn runs_behind_the_front_expire_in_their_turn() {
    let mut world = World::new();
    let runs = world.submit_many(&Spec { within: within(Some(5), None), ..now() }, 20_000);
    world.secs(60);
    let ended = world.history().iter().filter(|row| row.after == RunState::Expired).count();
    assert_eq!(ended, runs.len());
    assert_eq!(world.hot(), []);
}
