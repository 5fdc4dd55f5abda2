//! The life of one run: submit, claim, heartbeat, settle, retry, rescue, dead, cancel.

use crate::support::*;
use model::row::Key;
use model::{Policy, RunState, Span, Spec, Status, Time, When};
use shard::Event;
use shard::command::{Answer, Beat, BeatAnswer, Command, End, NewJob, Refused, SettleAnswer};
use std::sync::Arc;

fn over(state: RunState) -> SettleAnswer {
    SettleAnswer::Ok { state, next: None }
}

#[test]
fn a_run_that_succeeded_leaves_one_history_row_and_nothing_else() {
    let mut world = World::new();
    let run = one_off(world.submit(now()));
    let leased = world.claim_one();
    assert_eq!((leased.run, leased.attempt), (run, 1));
    assert_eq!(world.succeed(&leased), over(RunState::Succeeded));
    assert_eq!(world.hot(), []);
    let history = world.history();
    assert_eq!(history.len(), 1);
    assert_eq!((history[0].run, history[0].status), (run, Status::Succeeded));
    assert_eq!(history[0].token, leased.token);
    assert_eq!(world.claim(10), []);
}

#[test]
fn a_scheduled_one_off_fires_at_its_time_and_not_before() {
    for secs in [1, 45, 3_600, 200 * 86_400] {
        let mut world = World::new();
        world.submit(after(secs));
        let due = start_plus(secs);
        world.run_to(due.minus(Span::from_micros(1)));
        assert_eq!(world.claim(1), [], "{secs} s: not before");
        world.run_to(due);
        assert_eq!(world.claim_one().due, due);
    }
}

#[test]
fn an_instant_between_milliseconds_is_never_early() {
    let mut world = World::new();
    let at = START.plus(Span::from_micros(1_500_001));
    world.submit(spec(When::At(at)));
    world.run_to(at);
    assert_eq!(world.claim(1), [], "timers tick in milliseconds, rounded up");
    world.run_to(at.ceil_millis());
    assert_eq!(world.claim_one().due, at);
}

#[test]
fn a_run_that_a_worker_waits_for_is_born_leased() {
    let mut world = World::new();
    let claim = world.claim_command(1, Span::from_secs(20));
    let waiting = world.send(Command::Claim(claim));
    assert!(!world.answers.contains_key(&waiting));
    let commits = world.commits;
    let run = one_off(world.submit(now()));
    assert_eq!(world.commits, commits + 1, "made and leased in one commit");
    let answer = world.answer(waiting);
    assert_eq!(leases(answer)[0].run, run);
}

#[test]
fn a_scheduled_run_that_a_worker_waits_for_is_leased_in_the_commit_that_fires_it() {
    let mut world = World::new();
    let run = one_off(world.submit(after(5)));
    let claim = world.claim_command(1, Span::from_secs(20));
    let waiting = world.send(Command::Claim(claim));
    let commits = world.commits;
    world.secs(5);
    assert_eq!(world.commits, commits + 1);
    assert!(world.saw(Event::BornLeased));
    let leased = leases(world.answer(waiting));
    assert_eq!(leased[0].run, run);
    world.restart();
    assert_eq!(world.claim(1), [], "the next owner knows the lease");
    assert_eq!(world.succeed(&leased[0]), over(RunState::Succeeded));
    assert_eq!(world.hot(), []);
}

#[test]
fn a_wait_ends_with_an_empty_answer() {
    let mut world = World::new();
    let claim = world.claim_command(1, Span::from_secs(20));
    let waiting = world.send(Command::Claim(claim));
    world.secs(20);
    assert_eq!(leases(world.answer(waiting)), []);
    world.submit(now());
    world.claim_one();
}

#[test]
fn a_claim_repeated_with_its_request_returns_the_same_leases() {
    let mut world = World::new();
    world.submit_many(&now(), 5);
    let claim = world.claim_command(2, Span::ZERO);
    let first = leases(world.call(Command::Claim(claim.clone())));
    let again = leases(world.call(Command::Claim(claim.clone())));
    assert_eq!(first.len(), 2);
    assert_eq!(first, again);
    world.restart();
    let again = leases(world.call(Command::Claim(claim)));
    assert_eq!(tokens(&again), tokens(&first), "after a reload too");
}

#[test]
fn a_waiting_claim_repeated_with_its_request_is_one_claim() {
    let mut world = World::new();
    let claim = world.claim_command(1, Span::from_secs(20));
    let first = world.send(Command::Claim(claim.clone()));
    let second = world.send(Command::Claim(claim));
    world.submit_many(&now(), 2);
    let (first, second) = (leases(world.answer(first)), leases(world.answer(second)));
    assert_eq!(first.len(), 1);
    assert_eq!(first, second);
    assert_eq!(world.claim(10).len(), 1, "the second run is still there");
}

#[test]
fn the_same_settle_twice_gets_the_same_answer() {
    let mut world = World::new();
    world.submit(now());
    let leased = world.claim_one();
    let first = world.fail(&leased);
    assert!(matches!(first, SettleAnswer::Ok { state: RunState::Retrying, next: Some(_) }));
    assert_eq!(world.fail(&leased), first);
    world.restart();
    assert_eq!(world.fail(&leased), first, "from the history");
    assert_eq!(world.succeed(&leased), first, "whatever it says now");
    assert_eq!(world.history().len(), 1);
    world.secs(20);
    let leased = world.claim_one();
    assert_eq!(world.succeed(&leased), over(RunState::Succeeded));
    assert_eq!(world.succeed(&leased), over(RunState::Succeeded));
    world.restart();
    assert_eq!(world.succeed(&leased), over(RunState::Succeeded));
    assert_eq!(world.hot(), []);
}

#[test]
fn one_command_may_settle_one_run_twice() {
    let mut world = World::new();
    world.submit(now());
    let leased = world.claim_one();
    let settle = shard::command::Settle {
        run: leased.run,
        token: leased.token,
        end: End::Succeeded { output: None },
    };
    let answer = world.call(Command::Settle(vec![settle.clone(), settle]));
    let ok = (leased.run, over(RunState::Succeeded));
    assert_eq!(answer, Answer::Settled(vec![ok, ok]));
}

#[test]
fn a_heartbeat_does_not_extend_the_lease_past_the_deadline() {
    let mut world = World::new();
    let policy = Policy { timeout: Span::from_secs(40), ..Policy::default() };
    world.submit(Spec { policy, ..now() });
    let leased = world.claim_one();
    world.secs(20);
    let until = start_plus(40);
    assert_eq!(world.beat(&leased), Answer::Beats(vec![(leased.run, BeatAnswer::Ok { until })]));
}

#[test]
fn a_heartbeat_extends_the_lease_and_the_owner_rescues_at_110_percent() {
    let mut world = World::new();
    let policy = Policy { timeout: Span::from_secs(3_600), ..Policy::default() };
    world.submit(Spec { policy, ..now() });
    let leased = world.claim_one();
    world.secs(20);
    let until = start_plus(50);
    assert_eq!(world.beat(&leased), Answer::Beats(vec![(leased.run, BeatAnswer::Ok { until })]));
    // 30 s of lease from the heartbeat at 20 s, and a tenth.
    world.run_to(start_plus(53).minus(Span::from_micros(1)));
    assert_eq!(world.claim(1), []);
    world.run_to(start_plus(53));
    let second = world.claim_one();
    assert_eq!((second.run, second.attempt), (leased.run, 2));
    assert!(second.token > leased.token);
    assert_eq!(world.beat(&leased), Answer::Beats(vec![(leased.run, BeatAnswer::Stale)]));
    assert_eq!(world.succeed(&leased), SettleAnswer::Stale, "the old token holds nothing");
    assert_eq!(world.statuses(leased.run), [Status::Lost]);
    assert_eq!(world.succeed(&second), over(RunState::Succeeded));
    assert_eq!(world.statuses(leased.run), [Status::Lost, Status::Succeeded]);
    world.restart();
    assert_eq!(world.succeed(&leased), SettleAnswer::Stale, "and from the history");
}

#[test]
fn heartbeats_are_not_answered_when_the_nodes_own_lease_may_be_over() {
    let mut world = World::new();
    world.submit(now());
    let leased = world.claim_one();
    world.shard.handle_trust(world.now);
    assert_eq!(world.beat(&leased), Answer::Refused(Refused::NotOwner));
}

#[test]
fn a_checkpoint_outlives_its_attempt_and_goes_with_its_run() {
    let mut world = World::new();
    world.submit(now());
    let leased = world.claim_one();
    for text in ["a", "b"] {
        let beat = Beat { run: leased.run, token: leased.token, checkpoint: Some(bytes(text)) };
        world.call(Command::Heartbeat(vec![beat]));
    }
    world.fail(&leased);
    world.restart();
    world.secs(15);
    let second = world.claim_one();
    assert!(second.checkpoint);
    let stored = world.row(Key::Checkpoint(leased.run));
    assert!(matches!(stored, Some(model::row::Row::Checkpoint(row)) if &*row.bytes == b"b"));
    world.succeed(&second);
    assert_eq!(world.hot(), []);
}

#[test]
fn an_attempt_that_runs_past_its_deadline_is_timed_out_and_spends_a_retry() {
    let mut world = World::new();
    world.submit(now());
    let leased = world.claim_one();
    world.secs(20);
    world.beat(&leased);
    // The deadline is 30 s after the start, the grace a tenth of the lease.
    world.run_to(start_plus(33));
    assert_eq!(world.statuses(leased.run), [Status::TimedOut]);
    let row = world.run_row(leased.run).unwrap();
    assert_eq!((row.state, row.retries, row.lost), (RunState::Retrying, 1, 0));
    assert_eq!(world.succeed(&leased), SettleAnswer::Stale);
}

#[test]
fn lost_attempts_spend_no_retry_and_end_at_their_own_bound() {
    let mut world = World::new();
    let policy = Policy {
        max_retries: 0,
        max_lost: 2,
        initial: Span::from_secs(10),
        timeout: Span::from_secs(600),
        ..Policy::default()
    };
    let run = one_off(world.submit(Spec { policy, ..now() }));
    world.claim_one();
    world.secs(33);
    assert_eq!(world.claim_one().attempt, 2, "the first rescue is immediate");
    world.secs(33);
    assert_eq!(world.claim(1), [], "the second one backs off");
    world.secs(12);
    assert_eq!(world.claim_one().attempt, 3);
    world.secs(33);
    let row = world.run_row(run).unwrap();
    assert_eq!((row.state, row.attempts, row.retries, row.lost), (RunState::Dead, 3, 0, 2));
    assert_eq!(world.statuses(run), [Status::Lost; 3]);
}

#[test]
fn a_failed_attempt_is_retried_after_its_backoff_until_the_retries_are_spent() {
    let mut world = World::new();
    let policy = Policy { max_retries: 2, ..Policy::default() };
    let run = one_off(world.submit(Spec { policy, ..now() }));
    for expected in [10, 40] {
        let leased = world.claim_one();
        let SettleAnswer::Ok { state, next: Some(next) } = world.fail(&leased) else { panic!() };
        assert_eq!(state, RunState::Retrying);
        let delay = next.since(world.now).micros();
        assert!((delay - expected * 1_000_000).abs() <= expected * 200_000, "{delay}");
        world.run_to(Time::from_micros(next.micros() - 1));
        assert_eq!(world.claim(1), []);
        world.run_to(next.ceil_millis());
    }
    let leased = world.claim_one();
    assert_eq!(leased.attempt, 3);
    assert_eq!(world.fail(&leased), over(RunState::Dead));
    assert_eq!(world.run_row(run).unwrap().state, RunState::Dead);
    world.secs(86_400);
    assert_eq!(world.claim(1), [], "a dead run waits for a person");
}

#[test]
fn retry_after_is_honoured_up_to_a_day() {
    let mut world = World::new();
    world.submit(now());
    let leased = world.claim_one();
    let answer = world.settle(&leased, failed(true, Some(Span::from_secs(7))));
    let retrying = |next| SettleAnswer::Ok { state: RunState::Retrying, next: Some(next) };
    assert_eq!(answer, retrying(start_plus(7)));
    world.secs(7);
    let leased = world.claim_one();
    let answer = world.settle(&leased, failed(true, Some(Span::from_secs(10 * 86_400))));
    assert_eq!(answer, retrying(start_plus(7 + 86_400)));
}

#[test]
fn a_permanent_failure_is_dead_at_once() {
    let mut world = World::new();
    let run = one_off(world.submit(now()));
    let leased = world.claim_one();
    assert_eq!(world.settle(&leased, failed(false, None)), over(RunState::Dead));
    assert_eq!(world.statuses(run), [Status::Failed]);
}

fn dead(world: &mut World) -> model::RunId {
    let run = one_off(world.submit(now()));
    let leased = world.claim_one();
    world.settle(&leased, failed(false, None));
    run
}

#[test]
fn a_replay_is_the_same_run_with_a_new_budget() {
    let mut world = World::new();
    let policy = Policy { max_retries: 1, ..Policy::default() };
    let run = one_off(world.submit(Spec { policy, ..now() }));
    for _ in 0..2 {
        let leased = world.claim_one();
        world.fail(&leased);
        world.secs(15);
    }
    let replay = Command::Replay { run, payload: None };
    assert_eq!(world.call(replay.clone()), Answer::Run(run, RunState::Ready));
    assert_eq!(world.call(replay), Answer::Refused(Refused::Conflict), "it is not dead any more");
    let leased = world.claim_one();
    assert_eq!((leased.run, leased.attempt), (run, 3));
    assert!(matches!(world.fail(&leased), SettleAnswer::Ok { state: RunState::Retrying, .. }));
    world.secs(15);
    let leased = world.claim_one();
    assert_eq!(world.succeed(&leased), over(RunState::Succeeded));
    assert_eq!(world.hot(), []);
}

#[test]
fn a_discarded_run_has_failed_for_ever() {
    let mut world = World::new();
    let run = dead(&mut world);
    assert_eq!(world.call(Command::Discard(run)), Answer::Run(run, RunState::Failed));
    assert_eq!(world.hot(), []);
    assert_eq!(world.statuses(run), [Status::Discarded, Status::Failed]);
    let replay = Command::Replay { run, payload: None };
    assert_eq!(world.call(replay), Answer::Refused(Refused::NotFound));
    world.secs(91 * 86_400);
    assert_eq!(world.statuses(run).len(), 2);
}

#[test]
fn a_dead_run_is_discarded_after_90_days() {
    let mut world = World::new();
    let run = dead(&mut world);
    world.restart();
    world.run_to(start_plus(90 * 86_400).minus(Span::from_micros(1)));
    assert!(world.run_row(run).is_some());
    world.run_to(start_plus(90 * 86_400));
    assert_eq!(world.hot(), []);
    assert_eq!(world.statuses(run), [Status::Discarded, Status::Failed]);
}

#[test]
fn snooze_and_release_spend_nothing() {
    let mut world = World::new();
    let policy = Policy { max_retries: 0, ..Policy::default() };
    let run = one_off(world.submit(Spec { policy, ..now() }));
    let leased = world.claim_one();
    let answer = world.settle(&leased, End::Snoozed { until: start_plus(100) });
    assert_eq!(answer, SettleAnswer::Ok { state: RunState::Retrying, next: Some(start_plus(100)) });
    world.secs(99);
    assert_eq!(world.claim(1), []);
    world.secs(1);
    let leased = world.claim_one();
    assert_eq!(world.settle(&leased, End::Released), over(RunState::Ready));
    let leased = world.claim_one();
    assert_eq!(leased.attempt, 3);
    let row = world.run_row(run).unwrap();
    assert_eq!((row.retries, row.lost), (0, 0));
    assert_eq!(world.succeed(&leased), over(RunState::Succeeded));
    assert_eq!(world.statuses(run), [Status::Snoozed, Status::Released, Status::Succeeded]);
}

#[test]
fn a_key_asked_again_tells_when_its_job_is_due_while_it_is_unfinished() {
    let mut world = World::new();
    let first = world.submit_with(after(100), key("k", 1)).unwrap();
    world.secs(10);
    let again = world.submit_with(after(100), key("k", 1)).unwrap();
    assert_eq!((again.made, again.next, again.replayed), (first.made, Some(start_plus(100)), true));
    let hourly = world.submit_with(every(3_600), key("h", 1)).unwrap();
    assert!(hourly.next.is_some());
    let again = world.submit_with(every(3_600), key("h", 1)).unwrap();
    assert_eq!((again.made, again.next), (hourly.made, hourly.next));
    world.run_to(start_plus(101));
    let leased = world.claim_one();
    world.succeed(&leased);
    assert_eq!(world.submit_with(after(100), key("k", 1)).unwrap().next, None, "it is over");
}

#[test]
fn an_id_that_is_in_use_is_taken_and_the_others_of_the_request_are_made() {
    for spec in [now(), every(3_600)] {
        let mut world = World::new();
        let id = world.submit(spec.clone());
        world.secs(1);
        world.may_differ = true;
        let job = |id| NewJob { id, spec: Arc::new(spec.clone()), key: None, paused: false };
        let other = world.job_id();
        let answer = world.call(Command::Submit(vec![job(other), job(id)]));
        let Answer::Submitted(answers) = answer else { panic!("{answer:?}") };
        assert!(answers[0].is_ok(), "{answers:?}");
        assert_eq!(answers[1], Err(Refused::Taken));
        let jobs = world.hot().iter().filter(|key| !matches!(key, Key::Spec(..))).count();
        assert_eq!(jobs, 2);
    }
}

#[test]
fn a_replay_may_bring_another_payload_for_one_offs_and_for_occurrences() {
    for spec in [now(), every(10)] {
        let mut world = World::new();
        let once = Policy { max_retries: 0, ..Policy::default() };
        world.submit(Spec { policy: once, ..spec });
        world.secs(10);
        let leased = world.claim_one();
        world.fail(&leased);
        let payload = Some(bytes("mended"));
        let replay = Command::Replay { run: leased.run, payload };
        assert_eq!(world.call(replay), Answer::Run(leased.run, RunState::Ready));
        let again = world.claim_one();
        let specs = store::Store::specs(&world.store, &[(again.run, again.version)]).unwrap();
        let spec = specs[0].as_ref().unwrap();
        assert_eq!((&*spec.payload, &*spec.queue), (&b"mended"[..], "mail"));
        world.succeed(&again);
        assert_eq!(world.statuses(leased.run), [Status::Failed, Status::Succeeded]);
    }
}
