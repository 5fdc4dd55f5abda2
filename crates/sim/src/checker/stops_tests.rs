use super::super::testing::*;
use model::row::Scope;
use model::{Cause, Namespace, Overlap, RunId, RunState, Spec, Status, Time};
use shard::command::{Answer, Command};

fn run() -> RunId {
    RunId::new(job_id(1), Cause::OneOff)
}

fn occurrence(secs: i64) -> RunId {
    RunId::new(job_id(1), Cause::Occurrence(at(secs)))
}

fn hold(scope: Scope, until: Option<Time>) -> Command {
    Command::Hold { scope, reason: "stop".into(), until }
}

#[test]
fn a_claim_under_a_hold_is_found() {
    let mut world = World::new();
    let scope = Scope::Queue(Namespace(1), "q".into());
    world.now = at(200);
    world.ask(hold(scope.clone(), None), Answer::Done);
    world.attempt(run(), 1, |row| row.started = Some(at(200)));
    world.start(run(), 1, |start| start.at = at(251));
    assert!(!world.broken("holds_stop_claims"), "claimed before it was answered");
    world.shard().history[0].started = Some(at(250));
    assert!(world.broken("holds_stop_claims"));
    world.now = at(250);
    world.send(Command::Release(scope));
    assert!(!world.broken("holds_stop_claims"), "released before it began");
}

#[test]
fn a_hold_ends_with_its_time_and_with_a_lost_tail() {
    let mut world = World::new();
    world.now = at(200);
    world.ask(hold(Scope::Queue(Namespace(1), "q".into()), Some(at(240))), Answer::Done);
    world.attempt(run(), 1, |row| row.started = Some(at(230)));
    world.start(run(), 1, |start| start.at = at(231));
    assert!(world.broken("holds_stop_claims"));
    world.log.starts[0].at = at(250);
    assert!(!world.broken("holds_stop_claims"));
    world.log.starts[0].at = at(231);
    world.log.tail_lost.push(at(220));
    assert!(!world.broken("holds_stop_claims"));
}

#[test]
fn wide_holds_are_checked_where_they_reached_every_shard() {
    let mut world = World::new();
    world.now = at(200);
    world.ask(hold(Scope::All, None), Answer::Done);
    world.lease(run(), 1, |lease| lease.started = at(250));
    assert!(!world.broken("holds_stop_claims"));
    world.settings.holds_everywhere = true;
    assert!(world.broken("holds_stop_claims"));
}

#[test]
fn a_claim_after_a_cancel_is_found() {
    let mut world = World::new();
    world.now = at(200);
    world.ask(Command::CancelRun(run()), Answer::Run(run(), RunState::Cancelled));
    world.attempt(run(), 1, |row| row.started = Some(at(190)));
    assert!(!world.broken("cancelled_runs_stay_cancelled"));
    world.shard().history[0].started = Some(at(300));
    assert!(world.broken("cancelled_runs_stay_cancelled"));
}

#[test]
fn a_cancelled_job_that_fires_is_found() {
    let mut world = World::new();
    world.now = at(200);
    world.ask(Command::CancelJob(job_id(1)), Answer::Job(job_id(1), 1));
    world.attempt(occurrence(200), 1, |_| {});
    assert!(!world.broken("cancelled_jobs_fire_no_more"));
    world.attempt(occurrence(300), 2, |_| {});
    assert!(world.broken("cancelled_jobs_fire_no_more"));
}

#[test]
fn a_run_of_a_cancelled_job_does_not_wait_for_ever() {
    let mut world = World::new();
    world.now = at(200);
    world.ask(Command::DeleteJob(job_id(1)), Answer::Done);
    world.run(run_row(occurrence(190)));
    assert!(!world.broken("cancelled_jobs_fire_no_more"));
    world.settings.healed = true;
    assert!(world.broken("cancelled_jobs_fire_no_more"));
    world.lease(occurrence(190), 1, |_| {});
    assert!(!world.broken("cancelled_jobs_fire_no_more"), "its holder has been asked to stop");
}

#[test]
fn a_cancel_that_nobody_asked_for_is_found() {
    let mut world = World::new();
    world.ended_waiting(run(), Status::Cancelled);
    assert!(world.broken("cancelled_only_if_asked"));
    world.send(Command::CancelJob(job_id(1)));
    assert!(!world.broken("cancelled_only_if_asked"));
    world.log.ops.clear();
    world.submit(1, Spec { overlap: Overlap::CancelRunning, ..every(10) });
    assert!(!world.broken("cancelled_only_if_asked"));
}

#[test]
fn a_discard_that_nobody_asked_for_is_found() {
    let mut world = World::new();
    world.ended_waiting(run(), Status::Discarded);
    world.shard().history[0].due = at(1_000_000);
    assert!(world.broken("cancelled_only_if_asked"));
    world.send(Command::Discard(run()));
    assert!(!world.broken("cancelled_only_if_asked"));
}

#[test]
fn a_paused_job_that_fires_is_found() {
    let mut world = World::new();
    let job = job_id(1);
    world.now = at(200);
    let pause = Command::Pause { job, reason: "broken".into(), until: Some(at(400)) };
    world.ask(pause, Answer::Job(job, 1));
    world.start(occurrence(200), 1, |start| start.at = at(250));
    world.start(occurrence(399), 2, |start| start.at = at(401));
    assert!(!world.broken("paused_jobs_do_not_fire"));
    world.start(occurrence(300), 3, |start| start.at = at(301));
    assert!(world.broken("paused_jobs_do_not_fire"));
    world.now = at(290);
    world.send(Command::Resume(job));
    assert!(!world.broken("paused_jobs_do_not_fire"), "it may have been resumed before");
}
