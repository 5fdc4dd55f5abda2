//! A node that leaves, and one that vanishes: who has its shards, and what becomes of what it held.

use crate::support::cluster::*;
use crate::support::now;
use model::row::Holder;
use model::{NodeId, Span};
use shard::Event;
use shard::command::{Answer, Claim, Command, Leased};
use shard::host::{Message, StoreAnswer};

/// Each shard is given to whoever should have it without the node; it is never nobody's, and its
/// former owner sends what it is asked for to the new one at once.
#[test]
fn a_node_that_leaves_gives_everything_away_and_nothing_is_ever_nobodys() {
    let mut nodes = Nodes::new(3, 48);
    nodes.pass(Span::from_secs(6));
    assert!((0..3).all(|node| nodes.held(node) > 0));
    let shard = (0..48).find(|shard| nodes.owner(*shard) == 0).expect("one of the first's");
    nodes.with(0, |host, local| host.leave(local));
    for _ in 0..20 {
        nodes.pass(Span::from_millis(50));
        assert!(nodes.owners().iter().all(Option::is_some));
    }
    assert_eq!((nodes.held(0), nodes.held(1) + nodes.held(2)), (0, 48));
    assert!(nodes.saw(0, Event::Gave));
    let (_, asked) = nodes.submit(0, shard, now());
    nodes.settle();
    assert!(matches!(nodes.heard(0, asked), Some(Answer::Submitted(_))));
    // It takes nothing back.
    nodes.pass(Span::from_secs(5));
    assert_eq!(nodes.held(0), 0);
}

#[test]
fn a_node_alone_keeps_its_shards_when_it_leaves() {
    let mut nodes = Nodes::new(1, 16);
    nodes.pass(Span::from_secs(2));
    nodes.with(0, |host, local| host.leave(local));
    nodes.pass(Span::from_secs(2));
    assert_eq!(nodes.held(0), 16);
}

fn claimed(nodes: &mut Nodes, by: usize, shard: u16, request: u64) -> Vec<Leased> {
    let holder = Holder::Node(NodeId { node: by as u32 + 1, boot: 1 });
    let spec = now();
    let claim = Claim {
        holder,
        namespace: spec.namespace,
        queues: vec![spec.queue.clone()],
        kinds: Some(vec![spec.target.kind()]),
        max: 10,
        lease: Span::from_secs(30),
        request,
        // Past, also by a node that knows the store's time only roughly.
        wait_until: nodes.now.minus(SEC),
        reserve: false,
    };
    let asked = nodes.ask(0, shard, Command::Claim(claim));
    // One that finds nothing is answered when its time is over.
    nodes.pass(Span::from_millis(20));
    match nodes.heard(0, asked) {
        Some(Answer::Claimed(leases)) => leases,
        other => panic!("{other:?}"),
    }
}

/// The executor of a node that does not own the shard: its attempt ends when the node's lease has run
/// out, not at the attempt's deadline, and not before.
#[test]
fn what_a_vanished_nodes_executor_held_elsewhere_comes_again() {
    let mut nodes = Nodes::new(2, 8);
    nodes.pass(Span::from_secs(5));
    let shard = (0..8).find(|shard| nodes.owner(*shard) == 0).expect("one of the first's");
    nodes.submit(0, shard, now());
    nodes.settle();
    let first = claimed(&mut nodes, 1, shard, 1);
    assert_eq!(first.len(), 1);
    nodes.nodes[1].hold_calls = true;
    nodes.pass(Span::from_millis(1_900));
    assert_eq!(claimed(&mut nodes, 0, shard, 2), [], "its lease holds");
    nodes.pass(Span::from_secs(3));
    let again = claimed(&mut nodes, 0, shard, 3);
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].run, again[0].attempt), (first[0].run, 2));
    assert!(again[0].token > first[0].token);
}

/// The receiver of a gift is told of it and takes it, also when it hears of it while another call about
/// ownership is under way: it does not wait for its next renewal, a second later.
#[test]
fn a_gift_is_taken_because_it_was_told_and_not_because_it_was_found() {
    let mut nodes = Nodes::new(2, 8);
    nodes.pass(Span::from_secs(5));
    let given = nodes.held(0);
    assert!(given > 0 && nodes.held(1) > 0);
    // The other one's renewal is on its way, and shows the shards as they were.
    nodes.nodes[1].hold_calls = true;
    while !nodes.nodes[1].calls.iter().any(|(_, call)| is_renew(call)) {
        nodes.pass(Span::from_millis(100));
    }
    let renewal = nodes.execute(1, is_renew).expect("a renewal");
    nodes.with(0, |host, local| host.leave(local));
    nodes.settle();
    assert_eq!((nodes.held(0), nodes.held(1)), (0, 8 - given));
    // Now it is answered, and no time passes.
    nodes.nodes[1].hold_calls = false;
    nodes.answer(1, renewal);
    nodes.settle();
    assert_eq!(nodes.held(1), 8);
    let told = nodes.nodes[1].events.iter().filter(|event| **event == Event::TookGift).count();
    assert_eq!(told, given);
}

/// A letter about a gift that comes again, or late, gets nothing: its epoch has passed.
#[test]
fn a_gift_that_was_told_twice_is_taken_once() {
    let mut nodes = Nodes::new(2, 8);
    nodes.pass(Span::from_secs(5));
    nodes.hold_messages = true;
    nodes.with(0, |host, local| host.leave(local));
    nodes.settle();
    let gifts: Vec<_> = nodes.messages.drain(..).collect();
    assert!(gifts.iter().any(|(_, _, message)| matches!(message, Message::Gave { .. })));
    nodes.hold_messages = false;
    for _ in 0..2 {
        gifts.iter().cloned().for_each(|gift| nodes.deliver(gift));
        nodes.settle();
    }
    assert_eq!(nodes.held(1), 8);
    let took =
        |nodes: &Nodes| nodes.nodes[1].events.iter().filter(|e| **e == Event::TookOver).count();
    let (before, epochs) = (took(&nodes), epochs(&nodes));
    // And a third time, much later.
    nodes.pass(SEC);
    gifts.into_iter().for_each(|gift| nodes.deliver(gift));
    nodes.settle();
    assert_eq!((took(&nodes), self::epochs(&nodes)), (before, epochs));
}

fn epochs(nodes: &Nodes) -> Vec<model::Epoch> {
    nodes.store.dump().shards.iter().map(|shard| shard.row.epoch).collect()
}

/// A claim that has waited longer than a request looks for an owner goes on to the new owner, here
/// and at a third node.
#[test]
fn a_claim_that_waited_long_follows_its_shard() {
    let mut nodes = Nodes::new(3, 24);
    nodes.pass(Span::from_secs(6));
    let shard = (0..24).find(|shard| nodes.owner(*shard) == 0).expect("one of the first's");
    let spec = now();
    let claim = |request, until| {
        Command::Claim(Claim {
            holder: Holder::Worker("w".into()),
            namespace: spec.namespace,
            queues: vec![spec.queue.clone()],
            kinds: Some(vec![spec.target.kind()]),
            max: 1,
            lease: Span::from_secs(30),
            request,
            wait_until: until,
            reserve: false,
        })
    };
    let until = nodes.now.plus(Span::from_secs(7));
    let waiting =
        [(0, nodes.ask(0, shard, claim(1, until))), (2, nodes.ask(2, shard, claim(2, until)))];
    nodes.pass(Span::from_secs(4));
    // The heir hears of its gifts a little late, so that claims come there before it has taken them.
    nodes.hold_messages = true;
    nodes.with(0, |host, local| host.leave(local));
    nodes.settle();
    let held: Vec<_> = nodes.messages.drain(..).collect();
    let (gifts, others): (Vec<_>, Vec<_>) =
        held.into_iter().partition(|(_, _, message)| matches!(message, Message::Gave { .. }));
    nodes.hold_messages = false;
    others.into_iter().for_each(|message| nodes.deliver(message));
    nodes.tick();
    gifts.into_iter().for_each(|gift| nodes.deliver(gift));
    nodes.pass(Span::from_millis(300));
    for n in 0..2 {
        nodes.submit(1, shard, now());
        nodes.pass(Span::from_millis(200));
        let heard = waiting.iter().filter(|(node, asked)| {
            matches!(nodes.nodes[*node].answers.get(asked), Some(Answer::Claimed(leases)) if leases.len() == 1)
        });
        assert_eq!(heard.count(), n + 1, "{:?}", nodes.nodes[2].answers);
    }
}

/// A node that began after the owner last looked who is alive may hold a lease all the same: an owner
/// that loads its shard again does not take it for dead until it has looked once more.
#[test]
fn a_holder_that_nobody_has_seen_yet_is_not_taken_for_dead() {
    let mut nodes = Nodes::new(2, 8);
    nodes.pass(Span::from_millis(5_130));
    let shard = (0..8).find(|shard| nodes.owner(*shard) == 0).expect("one of the first's");
    nodes.submit(0, shard, now());
    nodes.settle();
    // Node 3 is in nobody's view.
    let first = claimed(&mut nodes, 2, shard, 1);
    assert_eq!(first.len(), 1);
    // A commit whose end nobody knows makes the owner load its shard again.
    nodes.nodes[0].hold_calls = true;
    nodes.submit(0, shard, now());
    let at = nodes.nodes[0].calls.iter().position(|(_, call)| is_commit(call)).expect("a commit");
    let (id, _) = nodes.nodes[0].calls.remove(at).expect("it is there");
    nodes.nodes[0].hold_calls = false;
    nodes.answer(0, (id, StoreAnswer::Unknown));
    nodes.settle();
    assert!(nodes.saw(0, Event::Reloaded));
    let others = claimed(&mut nodes, 0, shard, 2);
    assert!(others.iter().all(|other| other.run != first[0].run), "it was taken back: {others:?}");
    // It never comes: then it was dead after all.
    nodes.pass(Span::from_secs(5));
    let again = claimed(&mut nodes, 0, shard, 3);
    assert!(again.iter().any(|again| again.run == first[0].run && again.attempt == 2), "{again:?}");
}
