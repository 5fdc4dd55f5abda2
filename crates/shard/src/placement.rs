//! Placement: which node a shard should belong to. Rendezvous hashing: every node scores every
//! shard, the highest score has it. A node that joins or leaves moves only what it gains or loses.

use model::{NodeId, ShardId};

pub fn score(node: NodeId, shard: ShardId) -> u64 {
    // By node, not by boot: a node that comes back gets back what it had.
    let mut bytes = [0; 6];
    bytes[..4].copy_from_slice(&node.node.to_be_bytes());
    bytes[4..].copy_from_slice(&shard.0.to_be_bytes());
    model::hash::hash(0x9e37, &bytes)
}

/// The node this shard should belong to.
pub fn place(shard: ShardId, nodes: &[NodeId]) -> Option<NodeId> {
    nodes.iter().copied().max_by_key(|node| (score(*node, shard), *node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn nodes(count: u32) -> Vec<NodeId> {
        (1..=count).map(|node| NodeId { node, boot: 0 }).collect()
    }

    fn owners(nodes: &[NodeId]) -> Vec<u32> {
        (0..256).map(|s| place(ShardId(s), nodes).unwrap().node).collect()
    }

    #[test]
    fn shards_spread_over_nodes() {
        let mut counts = BTreeMap::new();
        for owner in owners(&nodes(4)) {
            *counts.entry(owner).or_insert(0) += 1;
        }
        assert!(counts.values().all(|count| (40..=90).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_node_that_joins_only_takes_and_one_that_leaves_only_gives() {
        let (three, four) = (owners(&nodes(3)), owners(&nodes(4)));
        for (before, after) in three.iter().zip(&four) {
            assert!(before == after || *after == 4);
        }
    }

    #[test]
    fn placement_is_what_it_has_always_been() {
        // Nodes of two releases run side by side during an upgrade: they must agree.
        let three = owners(&nodes(3));
        assert_eq!(&three[..12], PINNED);
    }

    const PINNED: &[u32] = &[2, 2, 2, 3, 1, 1, 1, 3, 1, 2, 2, 2];
}
