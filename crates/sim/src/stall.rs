//! What a stalled store must not do: move shards. When a stall was longer than a node's lease and
//! nothing else went wrong around it, every shard still has the owner it had before.

use crate::checker::Violation;
use crate::world::World;
use model::{NodeId, Span, Time};
use shard::Event;
use shard::limits::NODE_TTL;

/// After a stall, nodes are given this long to renew before owners are compared.
const SETTLED: Span = Span::from_secs(4);

#[derive(Clone, Debug)]
pub struct Stall {
    until: Time,
    long: bool,
    owners: Vec<Option<NodeId>>,
    /// Shards given away so far: gifts move shards rightly.
    given: u64,
    /// Something else went wrong meanwhile: a change of owner would be right.
    disturbed: bool,
}

impl World {
    pub(crate) fn begin_stall(&mut self, span: Span) {
        self.stalled_until = self.now.plus(span);
        let owners = self.owners();
        // A node that is away, or not yet an owner, may rightly come or go.
        let calm = self.nodes.iter().all(|node| {
            node.host.is_some()
                && node.frozen_until <= self.now
                && node.cut_store <= self.now
                && node.cut_peers <= self.now
        });
        // A node that was restarted shortly before is still to lose what its former life had.
        let lives = |id: NodeId| {
            self.nodes.iter().flat_map(|node| &node.host).any(|host| host.node() == id)
        };
        let owned = owners.iter().all(|owner| owner.is_some_and(lives));
        // Where calls fail by themselves, a renewal may fail after the stall. Slow ones and lost
        // answers are no excuse: another renewal goes beside them.
        let o = &self.options;
        let sound = o.unknown_before + o.unknown_after + o.refuse == 0;
        self.stall = Some(Stall {
            until: self.stalled_until,
            long: span > NODE_TTL,
            owners,
            given: self.given(),
            disturbed: !sound || !calm || !owned || self.moving(),
        });
    }

    /// Is a shard on its way to another node?
    fn moving(&self) -> bool {
        self.nodes.iter().flat_map(|node| &node.host).any(|host| {
            host.shards().any(|shard| {
                let owner = host.ownership().owner(shard.id());
                owner != Some(host.node()) || !host.ownership().belongs_to(shard.id(), host.node())
            })
        })
    }

    pub(crate) fn disturb(&mut self) {
        if let Some(stall) = &mut self.stall {
            stall.disturbed = true;
        }
    }

    pub(crate) fn look_after_stall(&mut self) {
        let over = |stall: &Stall| self.now >= stall.until.plus(SETTLED);
        let Some(stall) = self.stall.take_if(|stall| over(stall)) else { return };
        if stall.disturbed || !stall.long || stall.given != self.given() {
            return;
        }
        let owners = self.owners();
        if owners == stall.owners {
            self.log.count(Event::StalledNobodyTook);
        } else {
            self.found.push(Violation {
                invariant: "a_stalled_store_moves_no_shard",
                detail: format!("{:?} became {owners:?}", stall.owners),
            });
        }
    }

    fn given(&self) -> u64 {
        self.log.events.get(&Event::Gave).copied().unwrap_or(0)
    }

    fn owners(&self) -> Vec<Option<NodeId>> {
        self.store.inner().dump().shards.iter().map(|shard| shard.row.owner).collect()
    }
}
