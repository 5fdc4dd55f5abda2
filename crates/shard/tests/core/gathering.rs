//! Commits that wait a moment for more callers.

use crate::support::cluster::Nodes;
use crate::support::*;
use model::{Span, When};
use shard::limits::{COMMIT_MANY, COMMIT_PAUSE};

/// All callers may wait for this very commit: then nobody asks for anything, and the next renewal would be the first
/// to look.
#[test]
fn a_pause_that_ended_before_anybody_looked_wakes_its_node_all_the_same() {
    let mut nodes = Nodes::new(1, 1);
    nodes.pass(Span::from_secs(3));
    nodes.with(0, |host, _| host.gather());
    let many: Vec<_> = (0..COMMIT_MANY).map(|_| nodes.submit(0, 0, spec(When::Now)).1).collect();
    nodes.with(0, |host, local| host.act(local));
    nodes.settle();
    assert!(many.into_iter().all(|id| nodes.heard(0, id).is_some()));
    let (_, waits) = nodes.submit(0, 0, spec(When::Now));
    assert!(nodes.heard(0, waits).is_none(), "it waits for others");
    let wakes = nodes.nodes[0].host.next_tick(nodes.local(0));
    assert!(wakes > nodes.local(0) && wakes <= nodes.local(0).plus(COMMIT_PAUSE), "{wakes:?}");
    // The driver looks at its clock again when it goes to sleep.
    nodes.now = nodes.now.plus(COMMIT_PAUSE);
    nodes.store.set_now(nodes.now);
    let wakes = nodes.nodes[0].host.next_tick(nodes.local(0));
    assert!(wakes <= nodes.local(0), "{wakes:?} at {:?}", nodes.local(0));
    nodes.tick();
    assert!(nodes.heard(0, waits).is_some());
    assert!(nodes.nodes[0].host.next_tick(nodes.local(0)) > nodes.local(0), "it does not spin");
}
