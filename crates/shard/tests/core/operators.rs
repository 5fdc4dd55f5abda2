//! What people and programs do to jobs and runs: cancel, keys, update, trigger, rerun, backfill,
//! delete, hold.

use crate::support::*;
use model::row::{BacklogId, BacklogKind, JobState, Key, Made, Only, Row, Scope};
use model::{Cause, JobId, Lane, Namespace, Overlap, RunId, RunState, Span, Spec, Status, When};
use shard::Event;
use shard::command::{Answer, BeatAnswer, Command, End, NewJob, Refused, SettleAnswer};
use std::sync::Arc;

#[test]
fn cancelling_a_waiting_run_ends_it() {
    for delay in [0, 30, 86_400] {
        let mut world = World::new();
        let run = one_off(world.submit(after(delay)));
        let answer = world.call(Command::CancelRun(run));
        assert_eq!(answer, Answer::Run(run, RunState::Cancelled));
        assert_eq!(world.hot(), []);
        world.secs(delay + 100);
        assert_eq!(world.claim(10), []);
        assert_eq!(world.statuses(run), [Status::Cancelled]);
        let again = world.call(Command::CancelRun(run));
        assert_eq!(again, Answer::Refused(Refused::NotFound));
    }
}

#[test]
fn cancelling_a_running_attempt_tells_its_holder_and_is_final_when_it_answers() {
    let mut world = World::new();
    let run = one_off(world.submit(now()));
    let leased = world.claim_one();
    assert_eq!(world.call(Command::CancelRun(run)), Answer::Stopping(run));
    assert_eq!(world.stops, [run]);
    world.restart();
    assert_eq!(world.beat(&leased), Answer::Beats(vec![(run, BeatAnswer::Cancel)]));
    let cancelled = SettleAnswer::Ok { state: RunState::Cancelled, next: None };
    assert_eq!(world.fail(&leased), cancelled);
    assert_eq!(world.fail(&leased), cancelled);
    assert_eq!(world.hot(), []);
}

#[test]
fn a_success_beats_a_cancel_that_came_first() {
    let mut world = World::new();
    let run = one_off(world.submit(now()));
    let leased = world.claim_one();
    world.call(Command::CancelRun(run));
    world.succeed(&leased);
    assert_eq!(world.statuses(run), [Status::Succeeded]);
    assert!(world.saw(Event::SuccessBeatCancel));
}

#[test]
fn a_cancelled_attempt_whose_holder_vanished_is_cancelled_at_its_leases_end() {
    let mut world = World::new();
    let run = one_off(world.submit(now()));
    world.claim_one();
    world.call(Command::CancelRun(run));
    world.secs(33);
    assert_eq!(world.statuses(run), [Status::Cancelled]);
    assert_eq!(world.hot(), []);
}

#[test]
fn a_key_gives_the_same_answer_to_the_same_body_and_refuses_another() {
    let mut world = World::new();
    let first = world.submit_with(now(), key("k", 1)).unwrap();
    let again = world.submit_with(now(), key("k", 1)).unwrap();
    assert_eq!((again.made, again.replayed), (first.made, true));
    assert_eq!(world.submit_with(now(), key("k", 2)), Err(Refused::KeyReused));
    let other = Spec { queue: "other".into(), ..now() };
    assert!(!world.submit_with(other, key("k", 1)).unwrap().replayed, "keys belong to a queue");
    let leased = world.claim_one();
    world.succeed(&leased);
    world.restart();
    let later = world.submit_with(now(), key("k", 1)).unwrap();
    assert_eq!((later.made, later.replayed), (first.made, true), "the run is over, the key known");
    assert_eq!(world.claim(10), []);
}

#[test]
fn one_command_with_a_key_twice_makes_one_job() {
    let mut world = World::new();
    let jobs: Vec<NewJob> = (0..2)
        .map(|_| NewJob {
            id: world.job_id(),
            spec: Arc::new(now()),
            key: key("k", 1),
            paused: false,
        })
        .collect();
    let answer = world.call(Command::Submit(jobs));
    let Answer::Submitted(answers) = answer else { panic!("{answer:?}") };
    assert!(!answers[0].unwrap().replayed && answers[1].unwrap().replayed);
    world.claim_one();
}

#[test]
fn runs_keep_their_version_and_an_old_spec_is_kept() {
    let mut world = World::new();
    let job = world.submit(with_overlap(10, Overlap::Allow));
    world.secs(20);
    let first = world.claim(1)[0];
    let spec = Arc::new(Spec { payload: bytes("new"), ..with_overlap(10, Overlap::Allow) });
    let stale = Command::Update { job, spec: spec.clone(), if_version: Some(7) };
    assert_eq!(world.call(stale), Answer::Refused(Refused::VersionMismatch { found: 1 }));
    let update = Command::Update { job, spec, if_version: Some(1) };
    assert_eq!(world.call(update), Answer::Job(job, 2));
    world.fail(&first);
    world.secs(15);
    let leased = world.claim(10);
    let versions: Vec<_> = leased.iter().map(|l| (l.run, l.version)).collect();
    let at = |secs| occurrence(job, start_plus(secs));
    assert!(versions.contains(&(at(10), 1)), "a retry keeps its version: {versions:?}");
    assert!(versions.contains(&(at(20), 1)));
    assert!(versions.contains(&(at(30), 2)));
    for leased in &leased {
        assert!(world.row(Key::Spec(job, leased.version)).is_some());
        world.succeed(leased);
    }
    assert!(world.row(Key::Spec(job, 1)).is_some(), "one can go back to it");
    assert!(world.row(Key::Spec(job, 2)).is_some());
}

#[test]
fn a_one_off_can_change_until_it_starts() {
    let mut world = World::new();
    let job = world.submit(after(1_000));
    let sooner = Arc::new(after(5));
    let update = Command::Update { job, spec: sooner, if_version: None };
    assert_eq!(world.call(update.clone()), Answer::Job(job, 2));
    world.secs(5);
    let leased = world.claim_one();
    assert_eq!((leased.version, leased.due), (2, start_plus(5)));
    assert_eq!(world.call(update.clone()), Answer::Refused(Refused::Conflict));
    world.fail(&leased);
    assert_eq!(world.call(update), Answer::Refused(Refused::Conflict), "its retries keep it");
    world.secs(1_000);
    assert_eq!(world.claim_one().attempt, 2, "and it does not fire at its first time");
}

#[test]
fn a_trigger_runs_now_with_its_own_payload_beside_the_schedule() {
    let mut world = World::new();
    let job = world.submit(every(10));
    world.secs(10);
    let fresh = world.claim_one();
    let trigger = |id| Command::Trigger { job, id, payload: Some(bytes("mine")), key: key("t", 1) };
    let run = RunId::new(job, Cause::Trigger(7));
    assert_eq!(world.call(trigger(7)), Answer::Made(Made::Run(run)));
    assert_eq!(world.call(trigger(8)), Answer::Made(Made::Run(run)), "the key says: the same");
    let leased = world.claim_one();
    assert_eq!(leased.run, run);
    let specs = store::Store::specs(&world.store, &[(run, leased.version)]).unwrap();
    assert_eq!(&*specs[0].as_ref().unwrap().payload, b"mine");
    assert_eq!(world.job_row(job).mark, start_plus(10));
    world.succeed(&fresh);
    world.succeed(&leased);
    assert_eq!(world.job_row(job).live, []);
}

#[test]
fn a_rerun_is_a_new_run_of_the_same_instant() {
    let mut world = World::new();
    let job = world.submit(every(100));
    world.secs(100);
    let leased = world.claim_one();
    let rerun = Command::Rerun { run: leased.run };
    assert_eq!(world.call(rerun.clone()), Answer::Refused(Refused::Conflict), "still running");
    world.succeed(&leased);
    for n in [2, 3] {
        let run = RunId::new(job, Cause::Rerun(n));
        assert_eq!(world.call(rerun.clone()), Answer::Made(Made::Run(run)));
        let again = world.claim_one();
        assert_eq!((again.run, again.nominal), (run, leased.nominal));
        world.succeed(&again);
    }
    assert_eq!(world.job_row(job).live, []);
}

#[test]
fn what_never_ran_cannot_be_run_again() {
    let mut world = World::new();
    let job = world.submit(with_overlap(10, Overlap::Skip));
    world.secs(10);
    let leased = world.claim_one();
    world.secs(10);
    world.succeed(&leased);
    world.secs(3);
    let rerun = |at| Command::Rerun { run: occurrence(job, at) };
    // Skipped; not an instant of the schedule; not decided yet; of a backfill that never was.
    for at in [20, 15, 30] {
        let answer = world.call(rerun(start_plus(at)));
        assert_eq!(answer, Answer::Refused(Refused::NotFound), "{at}");
    }
    let backfill = Cause::Backfill { operation: 1, second: start_plus(15).secs() };
    let answer = world.call(Command::Rerun { run: RunId::new(job, backfill) });
    assert_eq!(answer, Answer::Refused(Refused::NotFound));
    assert!(matches!(world.call(rerun(start_plus(10))), Answer::Made(_)));
}

#[test]
fn a_rerun_of_a_backfilled_run_has_its_exact_instant() {
    let mut world = World::new();
    let job = world.submit(spec(When::Every(Span::from_millis(2_500))));
    world.pass(Span::from_millis(2_600));
    let fresh = world.claim_one();
    world.succeed(&fresh);
    let (from, to) = (start_plus(0), world.now);
    world.call(Command::Backfill { job, from, to, only: Only::All, per_second: 9, key: None });
    world.pass(Span::from_millis(100));
    let backfilled = world.claim_one();
    assert!(matches!(backfilled.run.cause(), Cause::Backfill { .. }));
    world.succeed(&backfilled);
    world.call(Command::Rerun { run: backfilled.run });
    let again = world.claim_one();
    assert!(matches!(again.run.cause(), Cause::Rerun(_)));
    assert_eq!(again.nominal, START.plus(Span::from_millis(2_500)));
}

#[test]
fn a_rerun_that_waits_for_history_survives_a_reload() {
    let mut world = World::new();
    let job = world.submit(every(100));
    world.secs(100);
    let leased = world.claim_one();
    world.succeed(&leased);
    world.hold_reads = true;
    let rerun = world.send(Command::Rerun { run: occurrence(job, start_plus(100)) });
    world.shard.handle_lost_tail();
    world.pump();
    world.held_reads.retain(|(_, read, _)| !matches!(read, model::read::Read::Outcomes { .. }));
    world.deliver();
    assert!(matches!(world.answer(rerun), Answer::Made(_)));
}

/// A job with instants 10 (failed), 20 (succeeded), 30 (never ran: skipped).
fn mixed(world: &mut World) -> JobId {
    let job = world.submit(with_overlap(10, Overlap::Skip));
    world.secs(10);
    let leased = world.claim_one();
    world.settle(&leased, failed(false, None));
    world.call(Command::Discard(leased.run));
    world.secs(10);
    let leased = world.claim_one();
    world.secs(10);
    world.succeed(&leased);
    world.call(Command::Pause { job, reason: "".into(), until: None });
    job
}

fn backfilled(only: Only) -> Vec<i64> {
    let mut world = World::new();
    let job = mixed(&mut world);
    let (from, to) = (start_plus(0), start_plus(31).min(world.now));
    let backfill = Command::Backfill { job, from, to, only, per_second: 100, key: key("b", 1) };
    let id = BacklogId { job, kind: BacklogKind::Backfill { operation: 0 } };
    world.secs(5);
    assert_eq!(world.call(backfill.clone()), Answer::Made(Made::Backlog(id)));
    assert_eq!(world.call(backfill), Answer::Made(Made::Backlog(id)), "the key says: the same");
    world.secs(5);
    assert_eq!(world.row(Key::Backlog(id)), None, "it is worked off");
    let mut leased = world.claim(10);
    leased.sort_by_key(|l| l.nominal);
    for l in &leased {
        assert!(matches!(l.run.cause(), Cause::Backfill { operation: 0, .. }));
        assert_eq!(world.run_row(l.run).unwrap().flow.lane, Lane::Backfill);
        world.succeed(l);
    }
    assert_eq!(world.job_row(job).live, []);
    leased.iter().map(|l| l.nominal.since(START).micros() / 1_000_000).collect()
}

#[test]
fn a_backfill_runs_the_missing_the_failed_or_all_instants() {
    assert_eq!(backfilled(Only::All), [10, 20]);
    assert_eq!(backfilled(Only::Failed), [10]);
    assert_eq!(backfilled(Only::Missing), []);
}

#[test]
fn a_backfill_of_missing_instants_runs_those_before_the_job_was_made() {
    let mut world = World::at(start_plus(100_000));
    let mut spec = every(3_600);
    spec.schedule.start_at = Some(START);
    let job = world.submit(spec);
    let (from, to) = (START, start_plus(7 * 3_600));
    let only = Only::Missing;
    world.call(Command::Backfill { job, from, to, only, per_second: 3, key: None });
    world.pass(Span::from_millis(10));
    assert_eq!(world.claim(100).len(), 3, "three at once, by its rate");
    world.restart();
    world.secs(10);
    assert_eq!(world.claim(100).len(), 4);
    assert_eq!(world.job_row(job).live, [(1, 7)]);
}

#[test]
fn a_backfill_of_failed_instants_over_years_of_seconds_is_worked_in_bounded_slices() {
    let mut world = World::at(start_plus(400 * 86_400));
    let mut spec = every(1);
    spec.schedule.start_at = Some(START);
    let job = world.submit(spec);
    let (from, to) = (START, start_plus(20_000));
    let id = BacklogId { job, kind: BacklogKind::Backfill { operation: 0 } };
    let only = Only::Failed;
    world.call(Command::Backfill { job, from, to, only, per_second: 1_000, key: None });
    let Some(Row::Backlog(row)) = world.row(Key::Backlog(id)) else { panic!("all in one slice") };
    assert!(row.done < 20_000, "{} at once", row.done);
    world.secs(60);
    assert_eq!(world.row(Key::Backlog(id)), None);
}

#[test]
fn a_backfill_can_be_stopped() {
    let mut world = World::at(start_plus(100_000));
    let mut spec = every(10);
    spec.schedule.start_at = Some(START);
    let job = world.submit(spec);
    let id = BacklogId { job, kind: BacklogKind::Backfill { operation: 0 } };
    let only = Only::Missing;
    let (from, to) = (START, start_plus(50_000));
    world.call(Command::Backfill { job, from, to, only, per_second: 1, key: None });
    world.pass(Span::from_millis(2_500));
    assert_eq!(world.call(Command::CancelBackfill(id)), Answer::Done);
    let made = world.claim(100).len();
    world.secs(5);
    assert_eq!((made, world.claim(100).len()), (3, 0));
    assert_eq!(world.job_row(job).live, [(1, 3)]);
}

#[test]
fn a_cancelled_job_fires_no_more_and_its_runs_are_cancelled() {
    let mut world = World::new();
    let job = world.submit(with_overlap(10, Overlap::Allow));
    world.secs(40);
    let leased = world.claim(1)[0];
    assert_eq!(world.call(Command::CancelJob(job)), Answer::Job(job, 1));
    world.secs(20);
    assert_eq!(world.claim(10), []);
    assert_eq!(world.stops, [leased.run]);
    world.fail(&leased);
    let row = world.job_row(job);
    assert_eq!((row.state, row.live, row.sweep), (JobState::Cancelled, vec![], false));
    for secs in [10, 20, 30, 40] {
        assert_eq!(world.statuses(occurrence(job, start_plus(secs))), [Status::Cancelled]);
    }
}

#[test]
fn a_deleted_job_goes_with_its_last_run_however_many_there_are() {
    let mut world = World::new();
    let job = world.submit(with_overlap(1, Overlap::Allow));
    world.secs(3_000);
    let leased = world.claim(1)[0];
    assert_eq!(world.call(Command::DeleteJob(job)), Answer::Done);
    world.restart();
    world.secs(1);
    assert_eq!(world.claim(10), []);
    assert_eq!(world.hot().len(), 4, "job, spec, the running run and its lease: {:?}", world.hot());
    world.settle(&leased, End::Released);
    assert_eq!(world.hot(), []);
    assert_eq!(world.history().len(), 3_000);
}

#[test]
fn a_delete_without_runs_leaves_nothing() {
    let mut world = World::new();
    let recurring = world.submit(every(10));
    let one_off = world.submit(after(100));
    assert_eq!(world.call(Command::DeleteJob(recurring)), Answer::Done);
    assert_eq!(world.call(Command::DeleteJob(one_off)), Answer::Done);
    assert_eq!(world.hot(), []);
    assert_eq!(world.call(Command::DeleteJob(recurring)), Answer::Refused(Refused::NotFound));
    world.secs(200);
    assert_eq!(world.claim(1), []);
}

#[test]
fn a_hold_stops_new_attempts_until_it_is_released() {
    let queue = Scope::Queue(Namespace(1), "mail".into());
    for scope in [Scope::All, Scope::Namespace(Namespace(1)), queue] {
        let mut world = World::new();
        world.submit_many(&now(), 2);
        let running = world.claim(1)[0];
        let hold = Command::Hold { scope: scope.clone(), reason: "fire".into(), until: None };
        assert_eq!(world.call(hold), Answer::Done);
        assert_eq!(world.claim(10), []);
        world.succeed(&running);
        world.restart();
        let claim = world.claim_command(1, Span::from_secs(100));
        let waiting = world.send(Command::Claim(claim));
        assert!(!world.answers.contains_key(&waiting));
        assert_eq!(world.call(Command::Release(scope)), Answer::Done);
        assert_eq!(leases(world.answer(waiting)).len(), 1, "who waits is served at once");
        assert!(!world.hot().iter().any(|key| matches!(key, Key::Hold(_))));
    }
}

#[test]
fn a_hold_with_an_end_releases_itself_and_other_scopes_are_free() {
    let mut world = World::new();
    world.submit(now());
    let other = Scope::Queue(Namespace(1), "other".into());
    world.call(Command::Hold { scope: other, reason: "".into(), until: None });
    let until = Some(start_plus(50));
    world.call(Command::Hold { scope: Scope::All, reason: "".into(), until });
    let claim = world.claim_command(1, Span::from_secs(100));
    let waiting = world.send(Command::Claim(claim));
    world.secs(49);
    assert!(!world.answers.contains_key(&waiting));
    world.secs(1);
    assert_eq!(leases(world.answer(waiting)).len(), 1);
}
