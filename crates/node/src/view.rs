//! The cluster as this node sees it: what the last renewal showed, and which shards are here. For the
//! API, for tasks that only one node shall do, and for executors that follow their shards.

use model::cluster::{NodeLease, ShardRow};
use model::{NodeId, ShardId, Span, Time};
use shard::{Host, Ownership};

#[derive(Clone, Debug, PartialEq)]
pub struct View {
    pub node: NodeId,
    /// The store's clock when this was seen.
    pub at: Time,
    pub nodes: Vec<NodeLease>,
    pub shards: Vec<ShardRow>,
    /// Shards that are here, and those of them that answer.
    pub here: Vec<ShardId>,
    pub live: usize,
    /// How far apart the bounds of the store's time are, as this node knows it.
    pub clock_within: Option<Span>,
    /// It gives its shards away and takes none.
    pub leaving: bool,
}

impl View {
    pub fn empty(node: NodeId) -> View {
        View {
            node,
            at: Time::MIN,
            nodes: Vec::new(),
            shards: Vec::new(),
            here: Vec::new(),
            live: 0,
            clock_within: None,
            leaving: false,
        }
    }

    pub(crate) fn of(host: &Host, local: Time) -> View {
        let seen = host.ownership().view();
        let here: Vec<ShardId> = host.shards().map(shard::Shard::id).collect();
        View {
            node: host.node(),
            at: seen.map_or(Time::MIN, |view| view.now),
            nodes: seen.map(|view| view.nodes.clone()).unwrap_or_default(),
            shards: seen.map(|view| view.shards.clone()).unwrap_or_default(),
            here,
            live: host.shards().filter(|shard| shard.is_live()).count(),
            clock_within: host.clock_bounds(local).map(|(least, most)| most.since(least)),
            leaving: Ownership::is_leaving(host.ownership()),
        }
    }

    pub fn is_here(&self, shard: ShardId) -> bool {
        self.here.binary_search(&shard).is_ok()
    }

    pub fn is_alive(&self, node: NodeId) -> bool {
        self.alive().any(|lease| lease.node == node)
    }

    pub fn alive(&self) -> impl Iterator<Item = &NodeLease> {
        self.nodes.iter().filter(|lease| lease.expires > self.at)
    }

    /// The others that can be reached.
    pub fn peers(&self) -> impl Iterator<Item = &NodeLease> {
        self.alive().filter(|lease| lease.node != self.node && lease.address.is_some())
    }

    /// Does every shard have somebody who answers for it?
    pub(crate) fn is_whole(&self) -> bool {
        let theirs = |row: &ShardRow| {
            row.owner.is_some_and(|owner| owner != self.node && self.is_alive(owner))
        };
        !self.shards.is_empty()
            && self.live == self.here.len()
            && self.shards.iter().all(|row| self.is_here(row.shard) || theirs(row))
    }
}
