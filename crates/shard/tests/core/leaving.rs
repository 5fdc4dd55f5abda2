//! A node that leaves, and one that vanishes: who has its shards, and what becomes of what it held.

use crate::support::cluster::*;
use crate::support::now;
use model::row::Holder;
use model::{NodeId, Span};
use shard::Event;
use shard::command::{Answer, Claim, Command, Leased};

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
        wait_until: nodes.now,
    };
    let asked = nodes.ask(0, shard, Command::Claim(claim));
    nodes.settle();
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
