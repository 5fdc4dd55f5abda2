//! Rows of ownership: who is alive, and which shard belongs to whom.

use crate::id::{Epoch, NodeId, ShardId};
use crate::job::Text;
use crate::row::Starts;
use crate::time::{Span, Time};

/// One lease row per node; it is also the membership. `expires` is by the store's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLease {
    pub node: NodeId,
    pub expires: Time,
    /// Shards may be placed on it.
    pub owns: bool,
    /// Where other nodes reach it; none before it said so.
    pub address: Option<Text>,
}

impl NodeLease {
    /// A node of which nothing else is known.
    pub fn new(node: NodeId, expires: Time) -> NodeLease {
        NodeLease { node, expires, owns: true, address: None }
    }
}

/// What a node says of itself to the others, in its lease row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    pub address: Option<Text>,
    pub owns: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardRow {
    pub shard: ShardId,
    /// None only before the first owner.
    pub owner: Option<NodeId>,
    pub epoch: Epoch,
    /// Number of the shard's last commit.
    pub seq: u64,
}

/// The answer to a renewal: a consistent picture of the cluster at `now`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The store's clock.
    pub now: Time,
    /// Changes when the store is another one than before: a restored copy, a promoted replica.
    pub incarnation: u64,
    pub nodes: Vec<NodeLease>,
    pub shards: Vec<ShardRow>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renew {
    pub node: NodeId,
    pub ttl: Span,
}

/// Take a shard: granted when it has the expected epoch and is nobody's, one's own, or its owner's
/// lease has expired by the store's clock. The new epoch is `epoch` + `by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Take {
    pub shard: ShardId,
    pub node: NodeId,
    pub epoch: Epoch,
    pub by: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub shard: ShardId,
    pub epoch: Epoch,
    pub seq: u64,
    /// Where reading of the wheel begins.
    pub floor: Time,
    /// Where the rest begins, as the last commit said it.
    pub starts: Starts,
}

/// Hand a shard to another node in one write: it is never nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Give {
    pub shard: ShardId,
    pub node: NodeId,
    pub epoch: Epoch,
    pub to: NodeId,
}
