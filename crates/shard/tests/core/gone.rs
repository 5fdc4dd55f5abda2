//! Callers that hang up before they hear an answer.

use crate::support::*;
use model::{RunState, Span, Status};
use shard::Event;
use shard::command::{Answer, Command, End, Leased, Settle, SettleAnswer};

/// A claim that has been decided and is on its way to the store, or waits behind another commit.
fn claim_on_its_way(world: &mut World, behind: bool) -> shard::command::CommandId {
    world.submit(now());
    world.hold_commits = true;
    if behind {
        world.send(Command::Release(model::row::Scope::All));
        world.send(Command::Hold {
            scope: model::row::Scope::Queue(model::Namespace(9), "else".into()),
            reason: "only to be on the way".into(),
            until: None,
        });
    }
    let claim = world.claim_command(5, Span::ZERO);
    world.send(Command::Claim(claim))
}

#[test]
fn a_claim_on_its_way_to_the_store_goes_back_when_its_caller_hangs_up() {
    for behind in [false, true] {
        let mut world = World::new();
        let claim = claim_on_its_way(&mut world, behind);
        world.shard.handle_gone(world.now, claim);
        world.commit_held();
        assert!(!world.answers.contains_key(&claim), "nobody listens");
        assert!(world.saw(Event::ClaimUndone));
        let again = world.claim_one();
        assert_eq!(again.attempt, 2, "the first one is on record");
        assert_eq!(world.statuses(again.run), [Status::Released]);
    }
}

#[test]
fn a_claim_that_landed_unheard_goes_back_when_its_caller_has_hung_up() {
    for fate in [Fate::Landed, Fate::Lost] {
        let mut world = World::new();
        let claim = claim_on_its_way(&mut world, false);
        world.shard.handle_gone(world.now, claim);
        world.fates.push_back(fate);
        world.commit_held();
        assert!(!world.answers.contains_key(&claim));
        world.claim_one();
    }
}

#[test]
fn a_claim_whose_answer_was_on_its_way_goes_back_too() {
    let mut world = World::new();
    world.submit(now());
    let claim = world.claim_command(5, Span::ZERO);
    let id = world.send(Command::Claim(claim));
    assert_eq!(leases(world.answer(id)).len(), 1);
    world.shard.handle_gone(world.now, id);
    world.pump();
    world.claim_one();
}

#[test]
fn leases_that_a_repeated_request_heard_of_stay_when_the_first_caller_hangs_up() {
    let mut world = World::new();
    let first = claim_on_its_way(&mut world, false);
    let mut again = world.claim_command(5, Span::ZERO);
    again.request -= 1;
    let second = world.send(Command::Claim(again));
    world.shard.handle_gone(world.now, first);
    world.commit_held();
    let leased = leases(world.answer(second));
    assert_eq!(leased.len(), 1);
    assert!(matches!(world.beat(&leased[0]), Answer::Beats(beats)
        if matches!(beats[0].1, shard::command::BeatAnswer::Ok { .. })));
    assert_eq!(world.claim(5), []);
}

/// A copy of the request that was late is answered too, and hangs up; the first one was heard.
#[test]
fn leases_that_were_heard_of_stay_when_a_late_copy_of_their_request_hangs_up() {
    let mut world = World::new();
    world.submit(now());
    let claim = world.claim_command(5, Span::ZERO);
    let first = world.send(Command::Claim(claim.clone()));
    let leased = leases(world.answer(first));
    let late = world.send(Command::Claim(claim));
    world.shard.handle_gone(world.now, late);
    world.pump();
    assert!(matches!(world.beat(&leased[0]), Answer::Beats(beats)
        if matches!(beats[0].1, shard::command::BeatAnswer::Ok { .. })));
}

/// What takes the lease back waits for the job's row; the same request is asked again meanwhile.
#[test]
fn leases_that_are_told_again_while_they_are_being_taken_back_stay() {
    for reload in [false, true] {
        let mut world = World::new();
        world.submit(every(10));
        world.secs(10);
        world.restart();
        let claim = world.claim_command(5, Span::ZERO);
        let first = world.send(Command::Claim(claim.clone()));
        world.hold_reads = true;
        world.shard.handle_gone(world.now, first);
        world.pump();
        assert_eq!(world.held_reads.len(), 1, "the job's row");
        let second = world.send(Command::Claim(claim));
        let leased = leases(world.answer(second));
        assert_eq!(leased.len(), 1);
        if reload {
            world.shard.handle_lost_tail();
            world.pump();
        }
        world.deliver();
        assert!(
            matches!(world.beat(&leased[0]), Answer::Beats(beats)
            if matches!(beats[0].1, shard::command::BeatAnswer::Ok { .. })),
            "{reload}"
        );
    }
}

#[test]
fn a_caller_that_hangs_up_while_it_waits_gets_nothing() {
    let mut world = World::new();
    let claim = world.claim_command(5, Span::from_secs(20));
    let waiting = world.send(Command::Claim(claim));
    world.shard.handle_gone(world.now, waiting);
    world.submit(now());
    assert!(world.answers.is_empty());
    assert_eq!(world.claim_one().attempt, 1);
}

/// The first caller hung up, the second one was told of the same lease and settled it. Neither that
/// settle nor the look at what goes back landed: both are decided again.
#[test]
fn a_lease_that_was_heard_of_does_not_go_back_after_its_settle_was_lost() {
    let mut world = World::new();
    world.submit(every(10));
    world.secs(10);
    world.restart();
    let claim = world.claim_command(5, Span::ZERO);
    let first = world.send(Command::Claim(claim.clone()));
    world.hold_reads = true;
    world.shard.handle_gone(world.now, first);
    world.pump();
    assert_eq!(world.held_reads.len(), 1, "the job's row");
    let second = world.send(Command::Claim(claim));
    let leased = leases(world.answer(second));
    world.hold_commits = true;
    let settle = world.send(settle_command(&leased[0]));
    world.deliver();
    assert_eq!(world.held_commits.len(), 1);
    world.fates.push_back(Fate::Lost);
    world.commit_held();
    assert!(matches!(world.answer(settle), Answer::Settled(ends)
        if matches!(ends[0].1, SettleAnswer::Ok { state: RunState::Succeeded, .. })));
    assert_eq!(world.statuses(leased[0].run), [Status::Succeeded]);
}

fn settle_command(leased: &Leased) -> Command {
    let end = End::Succeeded { output: None };
    Command::Settle(vec![Settle { run: leased.run, token: leased.token, end }])
}

/// What took it back is no answer of its holder, also while memory still remembers it.
#[test]
fn a_settle_of_a_lease_that_went_back_unheard_is_stale() {
    let mut world = World::new();
    world.submit(now());
    let claim = world.claim_command(5, Span::ZERO);
    let id = world.send(Command::Claim(claim));
    let leased = leases(world.answer(id));
    world.shard.handle_gone(world.now, id);
    world.pump();
    assert_eq!(world.succeed(&leased[0]), SettleAnswer::Stale);
}

/// Who else was told before memory was lost is not known any more: a late copy proves nothing.
#[test]
fn a_late_copy_that_hangs_up_takes_nothing_back_from_a_former_owner() {
    let mut world = World::new();
    world.submit(now());
    let claim = world.claim_command(5, Span::ZERO);
    let first = world.send(Command::Claim(claim.clone()));
    let leased = leases(world.answer(first));
    world.restart();
    let late = world.send(Command::Claim(claim));
    assert_eq!(tokens(&leases(world.answer(late))), tokens(&leased));
    world.shard.handle_gone(world.now, late);
    world.pump();
    assert!(matches!(world.beat(&leased[0]), Answer::Beats(beats)
        if matches!(beats[0].1, shard::command::BeatAnswer::Ok { .. })));
}
