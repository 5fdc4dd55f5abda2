//! Nodes that are told to stop (a rolling restart): one gives its shards away, finishes what it sends,
//! ends its lease and comes back as a new process. In worlds where nothing else goes wrong, no attempt
//! of a node may be taken back before its lease is over.

use crate::checker::Violation;
use crate::event::{Asker, Happens};
use crate::executor::LEASE;
use crate::world::World;
use model::cluster::{About, Renew};
use model::{NodeId, ShardId, Span, Status, Time};
use shard::Event;
use store::Store;

/// A node that could not give everything away, or whose webhooks do not end, goes all the same.
const GRACE: Span = Span::from_secs(12);
/// How often a node that leaves looks whether it may go.
const LOOK: Span = Span::from_millis(50);

impl World {
    /// SIGTERM.
    pub(crate) fn leave(&mut self, node: usize) {
        let sim = &self.nodes[node];
        let Some(host) = &sim.host else { return };
        if host.ownership().is_leaving() || sim.frozen_until > self.now {
            return;
        }
        let (id, boot, by) = (host.node(), sim.boot, self.now.plus(GRACE));
        self.disturb();
        if self.reaches_store(node) {
            // It does not fail: what is said again at the next renewal is said here once.
            let _ = self.store.inner().introduce(id, &About { address: None, owns: false });
        }
        self.with_host(node, |host, local| host.leave(local));
        self.after(LOOK, Happens::MayGo { node, boot, by });
    }

    pub(crate) fn may_go(&mut self, node: usize, boot: u64, by: Time) {
        let sim = &self.nodes[node];
        let Some(host) = sim.host.as_ref().filter(|_| sim.boot == boot) else { return };
        let given = host.shards().all(|shard| host.ownership().heir(shard.id()).is_none());
        // Claims and settles under way: what they bring would be nobody's.
        let asks = |asker: &Asker| matches!(asker, Asker::Executor { node: n, boot: b, .. } if (*n, *b) == (node, boot));
        let done = given && sim.webhooks.is_empty() && !self.askers.values().any(asks);
        if !done && self.now < by {
            self.after(LOOK, Happens::MayGo { node, boot, by });
            return;
        }
        match done {
            true => self.log.count(Event::Left),
            // It goes with what it has, as one that is killed.
            false => self.options.orderly = false,
        }
        let id = NodeId { node: node as u32 + 1, boot };
        self.disturb();
        if self.reaches_store(node) {
            let _ = self.store.inner().renew(Renew { node: id, ttl: Span::ZERO });
        }
        self.nodes[node].host = None;
        self.nodes[node].webhooks.clear();
        let down = Span::from_millis(self.rng.range(10, 3_000));
        self.after(down, Happens::NodeStarts { node });
    }

    fn reaches_store(&self, node: usize) -> bool {
        self.now >= self.nodes[node].cut_store && self.now >= self.stalled_until
    }

    /// A node that leaves claims nothing more for shards that it has given away, or that nobody is
    /// there to be given.
    pub(crate) fn has_left(&self, node: usize, shard: u16) -> bool {
        let shard = ShardId(shard);
        let host = self.nodes[node].host.as_ref().filter(|host| host.ownership().is_leaving());
        host.is_some_and(|host| {
            host.shard(shard).is_none() || host.ownership().heir(shard).is_none()
        })
    }

    /// Where nodes only leave, nobody vanishes.
    pub(crate) fn look_at_leavers(&mut self) {
        if !self.options.orderly {
            return;
        }
        let dump = self.store.inner().dump();
        let rows = dump.shards.iter().flat_map(|shard| &shard.history);
        let early = rows.filter(|row| {
            row.status == Status::Lost
                && row.flow.as_ref().is_some_and(|flow| &*flow.kind == "http")
                && row.started.is_some_and(|started| row.finished.since(started) < LEASE)
        });
        self.found.extend(early.map(|row| Violation {
            invariant: "a_node_that_leaves_loses_no_attempt",
            detail: format!("{row:?}"),
        }));
    }
}
