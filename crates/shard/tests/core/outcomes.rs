//! How commits end, and what callers hear then.

use crate::support::*;
use model::row::{Key, Made};
use model::{RunState, Span};
use shard::Event;
use shard::command::{Answer, Command, CommandId, End, NewJob, Refused, Settle, SettleAnswer};
use std::sync::Arc;

fn submit_command(world: &mut World) -> (model::JobId, Command) {
    let id = world.job_id();
    let job = NewJob { id, spec: Arc::new(now()), key: None, paused: false };
    (id, Command::Submit(vec![job]))
}

fn made(answer: &Answer) -> Made {
    match answer {
        Answer::Submitted(answers) => answers[0].unwrap().made,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_leaves_before_its_commit_is_durable() {
    let mut world = World::new();
    world.hold_commits = true;
    let (_, command) = submit_command(&mut world);
    let submit = world.send(command);
    let claim = world.claim_command(1, Span::ZERO);
    let claim = world.send(Command::Claim(claim));
    world.secs(1);
    assert!(world.answers.is_empty());
    assert_eq!(world.held_commits.len(), 1, "the second batch waits for the first");
    world.commit_held();
    world.answer(submit);
    assert_eq!(leases(world.answer(claim)).len(), 1);
}

#[test]
fn an_unknown_commit_that_landed_gives_its_true_answers_and_its_claims_once() {
    let mut world = World::new();
    let claim = world.claim_command(5, Span::from_secs(20));
    let waiting = world.send(Command::Claim(claim));
    world.fates.push_back(Fate::Landed);
    let (id, command) = submit_command(&mut world);
    let submit = world.send(command);
    let answer = world.answer(submit);
    assert_eq!(made(&answer), Made::Job(id));
    let leased = leases(world.answer(waiting));
    assert_eq!(leased.len(), 1);
    assert!(world.saw(Event::UnknownLandedWithClaims));
    assert_eq!(world.claim(10), [], "dispatched once");
    assert_eq!(
        world.succeed(&leased[0]),
        SettleAnswer::Ok { state: RunState::Succeeded, next: None }
    );
    assert_eq!(world.hot(), []);
}

#[test]
fn an_unknown_commit_that_did_not_land_is_decided_again() {
    let mut world = World::new();
    let claim = world.claim_command(5, Span::from_secs(20));
    let waiting = world.send(Command::Claim(claim));
    world.fates.push_back(Fate::Lost);
    let (id, command) = submit_command(&mut world);
    let submit = world.send(command);
    let answer = world.answer(submit);
    assert_eq!(made(&answer), Made::Job(id));
    assert_eq!(leases(world.answer(waiting)).len(), 1);
    assert!(world.saw(Event::UnknownLost));
    assert_eq!(world.hot().len(), 2, "one run and its lease");
}

#[test]
fn what_was_built_on_an_unknown_commit_is_decided_again() {
    for fate in [Fate::Landed, Fate::Lost] {
        let mut world = World::new();
        world.hold_commits = true;
        let (_, first) = submit_command(&mut world);
        let first = world.send(first);
        let (_, second) = submit_command(&mut world);
        let second = world.send(second);
        let claim = world.claim_command(5, Span::from_secs(1));
        let claim = world.send(Command::Claim(claim));
        world.fates.push_back(fate);
        world.commit_held();
        world.answer(first);
        world.answer(second);
        assert_eq!(leases(world.answer(claim)).len(), 2, "{fate:?}");
        assert_eq!(world.hot().len(), 4, "two runs, two leases");
    }
}

#[test]
fn a_lost_tail_does_not_decide_a_commit_again_that_landed() {
    let mut world = World::new();
    world.hold_commits = true;
    let (_, command) = submit_command(&mut world);
    let submit = world.send(command);
    let commit = world.held_commits.pop_front().unwrap();
    store::Store::commit(&world.store, &[commit]).unwrap();
    // The answer never comes; instead the node learns that the store is another one.
    world.shard.handle_lost_tail();
    world.hold_commits = false;
    world.pump();
    world.answer(submit);
    assert_eq!(world.hot().len(), 1);
}

#[test]
fn without_room_submissions_are_refused_and_settles_pass() {
    let mut world = World::new();
    world.submit_many(&now(), 2);
    let leased = world.claim(2);
    world.hold_commits = true;
    let (_, first) = submit_command(&mut world);
    let first = world.send(first);
    let settle =
        Settle { run: leased[0].run, token: leased[0].token, end: End::Succeeded { output: None } };
    let settle = world.send(Command::Settle(vec![settle]));
    let (_, second) = submit_command(&mut world);
    let second = world.send(second);
    world.fates.push_back(Fate::NoRoom);
    world.commit_held();
    assert_eq!(world.answer(first), Answer::Refused(Refused::Full));
    assert_eq!(world.answer(second), Answer::Refused(Refused::Full), "for a moment all are");
    assert!(matches!(world.answer(settle), Answer::Settled(_)));
    world.secs(2);
    world.submit(now());
}

/// A store with a full disk: what adds runs is refused, what ends them has room.
#[test]
fn a_full_store_costs_few_reloads_and_what_ends_work_goes_on() {
    let mut world = World::new();
    let policy = model::Policy { timeout: Span::from_secs(3_600), ..model::Policy::default() };
    world.submit_many(&model::Spec { policy, ..now() }, 120);
    let job = world.submit(every(10));
    world.full = true;
    let epoch = world.shard.epoch().0;
    for _ in 0..100 {
        let (_, command) = submit_command(&mut world);
        let submit = world.send(command);
        let leased = world.claim(1);
        assert_eq!(leased.len(), 1, "what is ready goes on");
        assert_eq!(
            world.succeed(&leased[0]),
            SettleAnswer::Ok { state: RunState::Succeeded, next: None }
        );
        assert_eq!(world.answer(submit), Answer::Refused(Refused::Full));
        let trigger = Command::Trigger { job, id: 1, payload: None, key: None };
        assert_eq!(world.call(trigger), Answer::Refused(Refused::Full));
        world.secs(1);
    }
    let taken = world.shard.epoch().0 - epoch;
    assert!(taken <= 8, "{taken} reloads in 100 s");
    world.full = false;
    world.secs(33);
    let fired = world.claim(100).into_iter().filter(|leased| leased.run.job == job).count();
    assert!(fired >= 1, "the schedule goes on");
    world.submit(now());
}

/// A full store holds a job back, and more is near than memory holds: what lies further away is
/// forgotten and read again by its due time, which must not happen to what was held back.
#[test]
fn what_a_full_store_held_back_is_not_forgotten_with_what_lies_further_away() {
    let mut world = World::new();
    let sizes = shard::limits::Sizes::default();
    world.shard.set_sizes(shard::limits::Sizes { timer_max: 8, page: 20, ..sizes });
    let job = world.submit(every(10));
    for number in 0..20 {
        let at = START.plus(Span::from_millis(10_100 + 40 * number));
        world.submit(spec(model::When::At(at)));
    }
    world.run_to(START.plus(Span::from_millis(9_500)));
    world.full = true;
    let (_, command) = submit_command(&mut world);
    let refused = world.send(command);
    assert_eq!(world.answer(refused), Answer::Refused(Refused::Full));
    world.run_to(START.plus(Span::from_secs(12)));
    assert!(world.saw(Event::HorizonLowered));
    world.full = false;
    world.secs(60);
    assert!(world.claim(100).iter().any(|leased| leased.run.job == job), "it fires");
}

/// What was held back is overdue, and the floor must not pass it.
#[test]
fn what_a_full_store_held_back_is_found_by_the_next_owner() {
    let mut world = World::new();
    let job = world.submit(every(10));
    let policy = model::Policy { timeout: Span::from_secs(3_600), ..model::Policy::default() };
    world.submit_many(&model::Spec { policy, ..now() }, 100);
    let leased = world.claim(100);
    world.full = true;
    let (_, command) = submit_command(&mut world);
    let refused = world.send(command);
    assert_eq!(world.answer(refused), Answer::Refused(Refused::Full));
    // Ends of work are committed all along, with a floor now and then.
    for leased in &leased[..90] {
        world.secs(1);
        world.succeed(leased);
    }
    // There is room again, and somebody's submission finds out first.
    world.full = false;
    world.set_now(world.now.plus(Span::from_secs(33)));
    let (_, command) = submit_command(&mut world);
    world.send(command);
    for leased in &leased[90..] {
        world.succeed(leased);
        world.set_now(world.now.plus(Span::from_millis(1)));
    }
    world.restart();
    world.secs(1);
    assert!(world.claim(100).iter().any(|leased| leased.run.job == job), "it goes on");
}

#[test]
fn a_commit_refused_for_time_or_room_is_sent_again() {
    for fate in [Fate::NotNow, Fate::NoRoom] {
        let mut world = World::new();
        world.submit(now());
        let leased = world.claim_one();
        world.fates.extend([fate; 5]);
        let settle =
            Settle { run: leased.run, token: leased.token, end: End::Succeeded { output: None } };
        let id = world.send(Command::Settle(vec![settle]));
        assert!(!world.answers.contains_key(&id));
        let epoch = world.shard.epoch();
        world.secs(2);
        assert!(matches!(world.answer(id), Answer::Settled(_)));
        assert_eq!(world.shard.epoch(), epoch, "nothing was thrown away");
        assert_eq!(world.hot(), []);
    }
}

#[test]
fn an_answer_that_changed_nothing_does_not_count_as_a_submission() {
    let mut world = World::new();
    world.submit_with(now(), key("k", 1)).unwrap();
    let leased = world.claim_one();
    world.submit_with(now(), key("k", 1)).unwrap();
    world.fates.push_back(Fate::NoRoom);
    let epoch = world.shard.epoch();
    let settle =
        Settle { run: leased.run, token: leased.token, end: End::Succeeded { output: None } };
    let id = world.send(Command::Settle(vec![settle]));
    world.secs(1);
    world.answer(id);
    assert_eq!(world.shard.epoch(), epoch);
}

#[test]
fn of_eight_commands_in_a_batch_only_the_bad_one_is_refused() {
    for bad in 0..8 {
        let mut world = World::new();
        world.hold_commits = true;
        let (_, blocker) = submit_command(&mut world);
        let blocker = world.send(blocker);
        let sent: Vec<_> = (0..8)
            .map(|n| {
                let (id, command) = submit_command(&mut world);
                if n == bad {
                    world.poison.push(Key::Run(one_off(id)));
                }
                world.send(command)
            })
            .collect();
        world.commit_held();
        world.answer(blocker);
        for (n, id) in sent.into_iter().enumerate() {
            match world.answer(id) {
                Answer::Refused(Refused::Poison) => assert_eq!(n, bad),
                answer => assert!(matches!(answer, Answer::Submitted(_)) && n != bad),
            }
        }
        assert!(world.saw(Event::PoisonIsolated));
        assert_eq!(world.claim(100).len(), 8);
    }
}

#[test]
fn poison_in_a_batch_with_another_built_on_it_refuses_one_command() {
    let mut world = World::new();
    world.hold_commits = true;
    let (id, bad) = submit_command(&mut world);
    world.poison.push(Key::Run(one_off(id)));
    let bad = world.send(bad);
    let claim = world.claim_command(5, Span::from_secs(20));
    let claim = world.send(Command::Claim(claim));
    world.commit_held();
    assert_eq!(world.answer(bad), Answer::Refused(Refused::Poison));
    assert!(world.saw(Event::PoisonUnderBuiltBatch));
    assert!(!world.answers.contains_key(&claim), "it waits again");
    world.submit(now());
    assert_eq!(leases(world.answer(claim)).len(), 1);
}

#[test]
fn poison_that_somebody_waits_for_is_refused_like_any_other() {
    let mut world = World::new();
    let claim = world.claim_command(5, Span::from_secs(20));
    let claim = world.send(Command::Claim(claim));
    // Claimed in the commit that would make it, again and again: the two never come apart unless
    // the claim waits.
    let (id, bad) = submit_command(&mut world);
    world.poison.push(Key::Run(one_off(id)));
    let bad = world.send(bad);
    assert_eq!(world.answer(bad), Answer::Refused(Refused::Poison));
    assert!(!world.answers.contains_key(&claim), "it waits again");
    world.submit(now());
    assert_eq!(leases(world.answer(claim)).len(), 1);
}

#[test]
fn a_run_that_cannot_be_fired_is_left_alone_and_the_others_fire() {
    let mut world = World::new();
    let runs = world.submit_many(&after(10), 6);
    world.poison.push(Key::Run(runs[3]));
    world.secs(11);
    assert!(world.saw(Event::Quarantined));
    let started: Vec<_> = world.claim(10).iter().map(|l| l.run).collect();
    assert_eq!(started, [&runs[..3], &runs[4..]].concat());
}

#[test]
fn a_rescue_that_cannot_be_stored_is_left_alone_and_the_others_are_rescued() {
    let mut world = World::new();
    let runs = world.submit_many(&now(), 6);
    assert_eq!(world.claim(6).len(), 6);
    world.poison.push(Key::Lease(runs[3]));
    // Past their deadline: timed out, so they come back after a backoff.
    world.secs(50);
    assert!(world.saw(Event::Quarantined));
    assert_eq!(world.claim(10).len(), 5);
}

#[test]
fn a_caller_hears_unknown_only_when_its_deadline_passes_and_only_once() {
    let mut world = World::new();
    world.hold_commits = true;
    let (_, command) = submit_command(&mut world);
    let id: CommandId = world.send_until(command, start_plus(5));
    world.secs(5);
    assert_eq!(world.answer(id), Answer::Refused(Refused::Unknown));
    world.commit_held();
    assert!(world.answers.is_empty(), "its true answer is dropped");
    world.claim_one();
}

#[test]
fn a_deadline_before_the_decision_is_a_definite_refusal() {
    let mut world = World::new();
    world.hold_reads = true;
    world.restart();
    let (_, command) = submit_command(&mut world);
    let id = world.send_until(command, start_plus(5));
    world.secs(6);
    assert_eq!(world.answer(id), Answer::Refused(Refused::TooLate));
    world.deliver();
    assert_eq!(world.hot(), []);
}

#[test]
fn commands_that_waited_for_the_load_are_all_decided_without_another_push() {
    let mut world = World::new();
    world.submit(now());
    let leased = world.claim_one();
    world.hold_reads = true;
    world.restart();
    // More heartbeats than one pass takes; they change nothing, so no commit calls the shard back.
    let beats: Vec<_> = (0..10_000)
        .map(|_| {
            let beat =
                shard::command::Beat { run: leased.run, token: leased.token, checkpoint: None };
            world.send(Command::Heartbeat(vec![beat]))
        })
        .collect();
    world.deliver();
    world.pass(Span::from_millis(10));
    for id in beats {
        world.answer(id);
    }
}
