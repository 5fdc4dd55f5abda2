//! Runs that are leased before their time to those who wait, and who hears of them when.

use crate::support::cluster::Nodes;
use crate::support::*;
use model::row::{Holder, Key, Row, Scope};
use model::{Namespace, NodeId, QueueRow, RunId, RunState, Span, Spec, Status, Time, When};
use shard::Event;
use shard::command::{Answer, Claim, Command, CommandId, Leased};

const MS: Span = Span::from_millis(1);

fn at(time: Time) -> Spec {
    spec(When::At(time))
}

/// A claim that waits for ten seconds and may be promised something.
fn waits(world: &mut World, max: usize) -> CommandId {
    let claim = world.claim_command(max, Span::from_secs(10));
    world.send(Command::Claim(Claim { reserve: true, ..claim }))
}

fn lease(world: &World, run: RunId) -> Option<model::row::LeaseRow> {
    match world.row(Key::Lease(run)) {
        Some(Row::Lease(row)) => Some(row),
        _ => None,
    }
}

fn hold(world: &mut World) {
    let (scope, reason) = (Scope::Namespace(Namespace(1)), "stop".into());
    assert_eq!(world.call(Command::Hold { scope, reason, until: None }), Answer::Done);
}

fn promised(world: &mut World, id: CommandId) -> Vec<Leased> {
    world.answers.remove(&id).map(leases).unwrap_or_default()
}

/// One run, one who waits, and a moment before its time: it is promised.
fn one_promised() -> (World, RunId, CommandId, Time) {
    let mut world = World::new();
    let due = start_plus(5);
    let run = one_off(world.submit(at(due)));
    let claim = waits(&mut world, 10);
    world.run_to(due.minus(MS));
    assert!(world.saw(Event::Reserved));
    (world, run, claim, due)
}

#[test]
fn who_waits_is_promised_what_falls_due_shortly_before() {
    let (mut world, run, claim, due) = one_promised();
    let row = lease(&world, run).expect("it is leased");
    assert_eq!((row.started, row.attempt), (due, 1), "it starts at its time");
    let leased = promised(&mut world, claim);
    assert_eq!((leased.len(), leased[0].run, leased[0].due), (1, run, due));
    world.run_to(due);
    world.succeed(&leased[0]);
    let ended = &world.history()[0];
    assert_eq!((ended.status, ended.started), (Status::Succeeded, Some(due)));
}

#[test]
fn nothing_is_promised_long_before_or_to_those_who_did_not_ask_for_it() {
    let mut world = World::new();
    let run = one_off(world.submit(at(start_plus(5))));
    let claim = world.claim_command(10, Span::from_secs(10));
    let plain = world.send(Command::Claim(claim));
    let claim = waits(&mut world, 10);
    world.run_to(start_plus(5).minus(Span::from_millis(250)));
    assert_eq!(lease(&world, run), None);
    world.run_to(start_plus(5).minus(MS));
    assert_eq!(promised(&mut world, plain), []);
    assert_eq!(promised(&mut world, claim).len(), 1);
}

#[test]
fn a_wait_that_ends_before_the_run_is_due_is_promised_nothing() {
    let mut world = World::new();
    let due = start_plus(10).plus(MS);
    let run = one_off(world.submit(at(due)));
    let claim = waits(&mut world, 10);
    world.run_to(start_plus(10).minus(Span::from_micros(500)));
    assert_eq!(lease(&world, run), None);
    world.run_to(start_plus(10));
    assert_eq!(world.answer(claim), Answer::Claimed(Vec::new()));
}

#[test]
fn each_answer_brings_what_is_due_in_one_millisecond() {
    let mut world = World::new();
    let due = start_plus(5);
    let together = [at(due), at(due.minus(Span::from_micros(300)))];
    for spec in together {
        world.submit(spec);
    }
    let later = one_off(world.submit(at(due.plus(Span::from_micros(1)))));
    let [first, second] = [10, 10].map(|max| waits(&mut world, max));
    world.run_to(due.minus(Span::from_micros(900)));
    assert_eq!(promised(&mut world, first).len(), 2);
    world.run_to(due);
    let leased = promised(&mut world, second);
    assert_eq!(leased.iter().map(|one| one.run).collect::<Vec<_>>(), [later]);
    assert_eq!(lease(&world, later).unwrap().started, due.plus(MS), "timers round up");
}

#[test]
fn flows_choose_among_the_runs_of_an_instant_and_the_rest_waits_on() {
    let mut world = World::new();
    let due = start_plus(5);
    let usual: Vec<RunId> = (0..3).map(|_| one_off(world.submit(at(due)))).collect();
    let urgent = one_off(world.submit(Spec { priority: 9, ..at(due) }));
    let claim = waits(&mut world, 1);
    world.run_to(due.minus(MS));
    assert_eq!(promised(&mut world, claim)[0].run, urgent);
    for run in &usual {
        assert_eq!(world.run_row(*run).unwrap().state, RunState::Scheduled);
        assert_eq!(lease(&world, *run), None);
    }
    world.run_to(due);
    let leased = world.claim(10);
    assert_eq!(leased.len(), 3, "at their time");
    assert!(leased.iter().all(|one| one.attempt == 1));
}

#[test]
fn a_queue_with_limits_or_with_something_ready_promises_nothing() {
    for ready in [false, true] {
        let mut world = World::new();
        let run = one_off(world.submit(at(start_plus(5))));
        if ready {
            // Of a kind that nobody here can run: it stays.
            world.submit(Spec { target: other_kind(), ..now() });
        } else {
            let limits = QueueRow { max_running: Some(9), ..QueueRow::default() };
            let queue = "mail".into();
            world.call(Command::SetQueue { namespace: Namespace(1), queue, limits });
        }
        let claim = world.claim_command(10, Span::from_secs(10));
        let kinds = Some(vec![now().target.kind()]);
        world.send(Command::Claim(Claim { reserve: true, kinds, ..claim }));
        world.run_to(start_plus(5).minus(MS));
        assert_eq!(lease(&world, run), None, "ready: {ready}");
        world.run_to(start_plus(5));
        assert!(lease(&world, run).is_some(), "and at its time it goes");
    }
}

fn other_kind() -> model::Target {
    model::Target::Worker { kind: "other".into() }
}

#[test]
fn a_promise_that_nobody_hears_leaves_no_trace() {
    let (mut world, run, claim, due) = one_promised();
    world.shard.handle_gone(world.now, claim);
    world.pump();
    assert!(world.saw(Event::Unreserved));
    assert_eq!(lease(&world, run), None);
    assert_eq!(world.history(), []);
    assert_eq!(world.claim(10), [], "its time has not come");
    world.run_to(due);
    assert_eq!(world.claim_one().attempt, 1);
}

#[test]
fn a_hold_takes_promises_back_and_the_claim_waits_on() {
    for landed in [true, false] {
        let mut world = World::new();
        let due = start_plus(5);
        let run = one_off(world.submit(at(due)));
        let claim = waits(&mut world, 10);
        world.run_to(due.minus(Span::from_millis(3)));
        world.hold_commits = !landed;
        world.run_to(due.minus(MS));
        assert!(world.saw(Event::Reserved));
        if landed {
            hold(&mut world);
        } else {
            let (scope, reason) = (Scope::All, "stop".into());
            world.send(Command::Hold { scope, reason, until: None });
            world.commit_held();
        }
        assert_eq!(lease(&world, run), None);
        world.run_to(due.plus(Span::from_secs(1)));
        assert!(!world.answers.contains_key(&claim), "nothing starts");
        for scope in [Scope::All, Scope::Namespace(Namespace(1))] {
            world.call(Command::Release(scope));
        }
        let leased = promised(&mut world, claim);
        assert_eq!((leased.len(), leased[0].attempt), (1, 1), "landed: {landed}");
        assert_eq!(world.history(), []);
    }
}

#[test]
fn a_promised_run_that_is_cancelled_is_asked_to_stop() {
    let (mut world, run, claim, due) = one_promised();
    assert_eq!(world.call(Command::CancelRun(run)), Answer::Stopping(run));
    world.shard.handle_gone(world.now, claim);
    world.pump();
    let ended = &world.history()[0];
    assert_eq!((ended.status, ended.after), (Status::Cancelled, RunState::Cancelled));
    assert!(ended.finished < due);
}

#[test]
fn a_herd_begins_earlier_fills_those_who_wait_and_leaves_one_free() {
    let mut world = World::new();
    let due = start_plus(5);
    world.submit_many(&at(due), 4_000);
    let claims: Vec<CommandId> = (0..4).map(|_| waits(&mut world, 900)).collect();
    world.run_to(due.minus(Span::from_millis(10)));
    let got: Vec<usize> = claims.iter().map(|id| promised(&mut world, *id).len()).collect();
    assert_eq!(got, [900, 900, 900, 0], "forty milliseconds before, and one is free for others");
    world.submit(now());
    assert_eq!(promised(&mut world, claims[3]).len(), 1);
    world.run_to(due);
    let last: usize = (0..2).map(|_| world.claim(900).len()).sum();
    assert_eq!(last, 4_000 - 2_700);
}

#[test]
fn a_small_herd_goes_whole() {
    let mut world = World::new();
    let due = start_plus(5);
    world.submit_many(&at(due), 1_500);
    let claims: Vec<CommandId> = (0..4).map(|_| waits(&mut world, 500)).collect();
    world.run_to(due.minus(Span::from_micros(1)));
    let got: Vec<usize> = claims.iter().map(|id| promised(&mut world, *id).len()).collect();
    assert_eq!(got, [500, 500, 500, 0]);
}

/// A herd that nobody can take is not looked at in every pass; whoever can is served soon.
#[test]
fn a_herd_that_nobody_takes_is_left_alone_for_a_moment() {
    let mut world = World::new();
    let due = start_plus(5);
    world.submit_many(&at(due), 2_000);
    let claim = world.claim_command(500, Span::from_secs(10));
    let kinds = Some(vec![other_kind().kind()]);
    world.send(Command::Claim(Claim { reserve: true, kinds, ..claim }));
    world.run_to(due.minus(Span::from_millis(15)));
    assert!(!world.saw(Event::Reserved));
    let next = world.shard.next_tick().expect("it looks again");
    assert!(next > world.now && next <= world.now.plus(Span::from_millis(5)), "{next:?}");
    let claims: Vec<CommandId> = (0..2).map(|_| waits(&mut world, 500)).collect();
    world.run_to(due.minus(Span::from_millis(8)));
    assert_eq!(promised(&mut world, claims[0]).len(), 500);
    world.run_to(due);
    assert_eq!(promised(&mut world, claims[1]).len(), 500, "at the latest at the time");
}

/// Its holder died before the time came: the run is lost once, and starts at its time.
#[test]
fn a_promise_to_a_node_that_died_is_kept_by_another_not_before_its_time() {
    let mut world = World::new();
    let due = start_plus(5);
    let run = one_off(world.submit(at(due)));
    let claim = world.claim_command(10, Span::from_secs(10));
    let holder = Holder::Node(NodeId { node: 7, boot: 1 });
    world.send(Command::Claim(Claim { holder, reserve: true, ..claim }));
    world.run_to(due.minus(MS));
    assert_eq!(lease(&world, run).unwrap().started, due);
    // The next owner knows nobody of that name.
    world.restart();
    assert!(world.now < due);
    assert_eq!(world.claim(10), []);
    assert_eq!(world.statuses(run), [Status::Lost]);
    world.run_to(due);
    assert_eq!(world.claim_one().attempt, 2);
}

fn claim(request: u64, until: Time) -> Command {
    Command::Claim(Claim {
        holder: worker(),
        namespace: Namespace(1),
        queues: vec!["mail".into()],
        kinds: None,
        max: 10,
        lease: Span::from_secs(30),
        request,
        wait_until: until,
        reserve: true,
    })
}

/// A node with one shard, a run that is due in so long, and who waits for it.
fn node_with_one() -> (Nodes, CommandId, Time) {
    let mut nodes = Nodes::new(1, 1);
    nodes.pass(Span::from_secs(3));
    let due = nodes.now.plus(Span::from_secs(1)).ceil_millis();
    nodes.submit(0, 0, at(due));
    let waits = nodes.ask(0, 0, claim(1, due.plus(Span::from_secs(5))));
    shortly_before(&mut nodes, due);
    (nodes, waits, due)
}

/// The first tick asks the store for its time, so that the second one knows it well.
fn shortly_before(nodes: &mut Nodes, due: Time) {
    tick_at(nodes, due.minus(Span::from_millis(3)));
    tick_at(nodes, due.minus(Span::from_micros(600)));
}

/// A node knows the store's time to a thousandth of what has passed since it heard it.
fn at_the_time(nodes: &mut Nodes, due: Time) {
    tick_at(nodes, due.plus(Span::from_micros(10)));
}

fn tick_at(nodes: &mut Nodes, now: Time) {
    nodes.now = now;
    nodes.store.set_now(now);
    nodes.tick();
}

fn heard(nodes: &mut Nodes, id: CommandId) -> Option<usize> {
    nodes.heard(0, id).map(|answer| leases(answer).len())
}

#[test]
fn a_promise_is_told_at_its_time_and_the_node_wakes_for_it() {
    let (mut nodes, waits, due) = node_with_one();
    assert!(nodes.saw(0, Event::Reserved));
    tick_at(&mut nodes, due.minus(Span::from_micros(1)));
    assert_eq!(heard(&mut nodes, waits), None);
    let wakes = nodes.nodes[0].host.next_tick(nodes.now);
    assert!(wakes >= due && wakes < due.plus(Span::from_micros(10)), "{wakes:?}, due {due:?}");
    at_the_time(&mut nodes, due);
    assert_eq!(heard(&mut nodes, waits), Some(1));
}

#[test]
fn who_asks_again_before_the_time_hears_of_it_at_the_time() {
    let (mut nodes, first, due) = node_with_one();
    let second = nodes.ask(0, 0, claim(1, due.plus(Span::from_secs(5))));
    tick_at(&mut nodes, due.minus(Span::from_micros(1)));
    assert_eq!([first, second].map(|id| heard(&mut nodes, id)), [None, None]);
    at_the_time(&mut nodes, due);
    assert_eq!([first, second].map(|id| heard(&mut nodes, id)), [Some(1), Some(1)]);
}

/// Timers round up, so a run that is made and claimed at once is due in the millisecond that has begun:
/// that is no promise, and giving the shard away must not make its holder forget it.
#[test]
fn a_claim_of_what_was_made_just_now_is_no_promise() {
    let mut world = World::new();
    world.set_now(world.now.plus(Span::from_micros(300)));
    world.submit(now());
    for reserve in [false, true] {
        let claim = world.claim_command(1, Span::from_secs(1));
        world.hold_commits = true;
        let id = world.send(Command::Claim(Claim { reserve, ..claim }));
        world.shard.drain(world.now);
        world.commit_held();
        assert_eq!(promised(&mut world, id).len(), 1, "reserve: {reserve}");
        world.restart();
        world.submit(now());
    }
}

/// Several inputs are heard before anything leaves: by then the time has come, and the promise was
/// taken back before.
#[test]
fn a_hold_in_the_last_moment_wins() {
    let mut nodes = Nodes::new(1, 1);
    nodes.pass(Span::from_secs(3));
    let due = nodes.now.plus(Span::from_secs(1)).ceil_millis();
    nodes.submit(0, 0, at(due));
    let waits = nodes.ask(0, 0, claim(1, due.plus(Span::from_secs(5))));
    tick_at(&mut nodes, due.minus(Span::from_millis(3)));
    nodes.nodes[0].hold_calls = true;
    tick_at(&mut nodes, due.minus(Span::from_micros(600)));
    let commit = nodes.execute(0, crate::support::cluster::is_commit).expect("the lease");
    nodes.with(0, |host, _| host.gather());
    nodes.answer(0, commit);
    let (scope, reason) = (Scope::All, "stop".into());
    nodes.ask(0, 0, Command::Hold { scope, reason, until: None });
    nodes.nodes[0].hold_calls = false;
    nodes.now = due.plus(Span::from_micros(10));
    nodes.store.set_now(nodes.now);
    nodes.with(0, |host, local| host.act(local));
    nodes.tick();
    nodes.settle();
    assert_eq!(heard(&mut nodes, waits), None);
    nodes.ask(0, 0, Command::Release(Scope::All));
    assert_eq!(heard(&mut nodes, waits), Some(1));
}

/// No commit follows in which the store could say that it is too early.
#[test]
fn a_clock_that_runs_wild_tells_nobody_before_the_time() {
    for off in [2, -2] {
        let (mut nodes, waits, due) = node_with_one();
        nodes.nodes[0].hold_calls = true;
        nodes.nodes[0].off = Span::from_secs(off);
        tick_at(&mut nodes, due.minus(Span::from_micros(500)));
        assert_eq!(heard(&mut nodes, waits), None, "off by {off} s");
        // It asks the store, and what it hears is the time.
        nodes.nodes[0].hold_calls = false;
        nodes.settle();
        nodes.pass(Span::from_micros(300));
        assert_eq!(heard(&mut nodes, waits), None, "off by {off} s");
        tick_at(&mut nodes, due.plus(Span::from_micros(10)));
        nodes.pass(Span::from_secs(2));
        assert_eq!(heard(&mut nodes, waits), Some(1), "off by {off} s");
    }
}

/// A node that stood still for a while asks for the time before it tells.
#[test]
fn a_promise_that_is_told_late_is_told_after_a_look_at_the_clock() {
    let (mut nodes, waits, due) = node_with_one();
    nodes.nodes[0].hold_calls = true;
    tick_at(&mut nodes, due.plus(Span::from_millis(900)));
    assert_eq!(heard(&mut nodes, waits), None);
    nodes.nodes[0].hold_calls = false;
    nodes.settle();
    assert_eq!(heard(&mut nodes, waits), Some(1));
}

#[test]
fn a_shard_that_is_given_away_promises_nothing_any_more() {
    let mut nodes = Nodes::new(2, 8);
    nodes.pass(Span::from_secs(5));
    let shard = (0..8).find(|shard| nodes.owner(*shard) == 0).expect("one of the first's");
    let due = nodes.now.plus(Span::from_secs(1)).ceil_millis();
    let (job, _) = nodes.submit(0, shard, at(due));
    let waits = nodes.ask(0, shard, claim(1, due.plus(Span::from_secs(5))));
    shortly_before(&mut nodes, due);
    assert!(nodes.saw(0, Event::Reserved));
    nodes.with(0, |host, local| host.leave(local));
    nodes.settle();
    assert_eq!(nodes.owner(shard), 1);
    let dump = nodes.store.dump();
    let rows = &dump.shards[usize::from(shard)].rows;
    assert!(!rows.contains_key(&Key::Lease(one_off(job))), "it goes as it was");
    tick_at(&mut nodes, due);
    nodes.pass(Span::from_millis(300));
    assert_eq!(heard(&mut nodes, waits), Some(1), "the claim followed its shard");
}
