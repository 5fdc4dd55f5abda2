//! Ownership: which shards this node holds, as a pure state machine.
//!
//! One lease row per node, renewed every second; it is also the membership. A shard's row names its
//! owner and epoch. A shard may be taken when its owner's lease has expired by the store's clock,
//! which the store itself checks. **Expired is not lost**: an owner whose epochs are unchanged
//! renews and keeps its memory, so a store that stalls moves nothing.
//!
//! ```text
//!   not ours ──take (owner's lease expired, or nobody's, or given to us)──► ours
//!   ours ──asked by the node it should be on, drained──► given ──► not ours
//!   ours ──epoch in the store is another──► fenced ──► not ours
//! ```
//!
//! A node judges others only after it has itself renewed twice in a row, quickly: one that was cut
//! off, or that hears a store for the first time after a stall, first lets the others renew. What
//! stalled its own renewal stalled theirs.

use crate::limits::{
    ASK_AGAIN, MOVES_AT_ONCE, NODE_RENEW, NODE_TTL, RENEWAL_QUICK, RENEWAL_SLOW,
    RENEWALS_BEFORE_JUDGING,
};
use crate::placement::place;
use model::cluster::{Cluster, Renew, Take};
use model::{NodeId, ShardId, Span, Time};
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Ownership {
    node: NodeId,
    view: Option<Cluster>,
    /// Renewals in a row that were answered quickly.
    renewals: u32,
    /// When one last was not (local time): others are left alone for as long as a renewal takes.
    slow_at: Option<Time>,
    /// When the store was found to be another one (local time).
    lost_at: Option<Time>,
    next_renew: Time,
    asked: BTreeMap<ShardId, Time>,
    leaving: bool,
}

/// What a renewal showed that the host must act on.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    pub take: Vec<Take>,
    /// Ask these owners for these shards.
    pub ask: Vec<(NodeId, ShardId)>,
    /// Shards in memory that belong to somebody else now.
    pub fenced: Vec<ShardId>,
    /// The store is another one, or older than what it had acknowledged to us.
    pub lost_tail: bool,
}

impl Ownership {
    pub fn new(node: NodeId) -> Ownership {
        Ownership {
            node,
            view: None,
            renewals: 0,
            slow_at: None,
            lost_at: None,
            next_renew: Time::MIN,
            asked: BTreeMap::new(),
            leaving: false,
        }
    }

    pub fn next_renew(&self, local: Time) -> Time {
        self.next_renew.min(local.plus(NODE_RENEW))
    }

    /// Is it time to renew? Local time, because the store's may be what is missing.
    pub fn poll_renew(&mut self, local: Time) -> Option<Renew> {
        // Further away than a renewal can be: the local clock ran wild and came back.
        let lost = self.next_renew.since(local) > NODE_RENEW;
        if local < self.next_renew && !lost {
            return None;
        }
        self.next_renew = local.plus(NODE_RENEW);
        Some(Renew { node: self.node, ttl: NODE_TTL })
    }

    pub fn handle_renew_failed(&mut self, local: Time) {
        self.renewals = 0;
        self.slow_at = Some(local);
    }

    /// May this node call others dead? What held up its own renewals may have held up theirs, so
    /// they get the time of a renewal first.
    pub fn judges(&self, local: Time) -> bool {
        let calm = !self.was_slow(local);
        self.renewals >= RENEWALS_BEFORE_JUDGING && calm && !self.leaving && !self.waits(local)
    }

    /// Was a renewal slow less than the time of one ago?
    pub(crate) fn was_slow(&self, local: Time) -> bool {
        self.slow_at.is_some_and(|at| local >= at && local.since(at) < NODE_RENEW)
    }

    /// A store that comes back with less may have lost a taking, and the renewal of the one who
    /// took: who owns what by its rows may be long past, and the true owner may rely on its lease
    /// until it would have ended.
    pub(crate) fn waits(&self, local: Time) -> bool {
        self.lost_at.is_some_and(|at| local >= at && local.since(at) < NODE_TTL)
    }

    /// This node takes and asks for nothing more; it gives away what it is asked for.
    pub fn leave(&mut self) {
        self.leaving = true;
    }

    pub fn view(&self) -> Option<&Cluster> {
        self.view.as_ref()
    }

    /// The owner of a shard, as last seen.
    pub fn owner(&self, shard: ShardId) -> Option<NodeId> {
        let view = self.view.as_ref()?;
        view.shards.iter().find(|row| row.shard == shard)?.owner
    }

    pub fn alive(&self) -> Vec<NodeId> {
        self.view.as_ref().map(alive).unwrap_or_default()
    }

    /// The store's time of that look.
    pub fn seen_at(&self) -> Time {
        self.view.as_ref().map_or(Time::MAX, |view| view.now)
    }

    /// Who should have this shard when this node is gone.
    pub fn heir(&self, shard: ShardId) -> Option<NodeId> {
        let mut nodes = self.view.as_ref().map(placed).unwrap_or_default();
        nodes.retain(|node| *node != self.node);
        place(shard, &nodes)
    }

    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// This node gave the shard away: it knows the new owner before the next renewal shows it.
    pub fn gave(&mut self, shard: ShardId, to: NodeId) {
        let rows = self.view.iter_mut().flat_map(|view| view.shards.iter_mut());
        rows.filter(|row| row.shard == shard).for_each(|row| row.owner = Some(to));
    }

    /// Should `node` have this shard, as far as we can see?
    pub fn belongs_to(&self, shard: ShardId, node: NodeId) -> bool {
        let nodes = self.view.as_ref().map(placed).unwrap_or_default();
        place(shard, &nodes) == Some(node)
    }

    /// Where shards are now, and nothing more: what a renewal finds is found by the next one.
    pub fn handle_look(&mut self, view: Cluster) {
        if self.view.as_ref().is_some_and(|before| before.incarnation == view.incarnation) {
            self.view = Some(self.with_what_was_seen(view));
        }
    }

    /// Answers overtake each other, above all after a stall, when the store carries out at one instant what
    /// has gathered: the look that came first shows leases as run out that the next ones show renewed. What
    /// was not after the last look does not undo it.
    fn with_what_was_seen(&self, mut view: Cluster) -> Cluster {
        let Some(before) = &self.view else { return view };
        if before.incarnation != view.incarnation || view.now > before.now {
            return view;
        }
        for known in &before.nodes {
            match view.nodes.iter_mut().find(|lease| lease.node == known.node) {
                Some(lease) => lease.expires = lease.expires.max(known.expires),
                None => view.nodes.push(known.clone()),
            }
        }
        for row in &mut view.shards {
            let known = before.shards.iter().find(|known| known.shard == row.shard);
            if let Some(known) = known.filter(|known| known.epoch > row.epoch) {
                *row = *known;
            }
        }
        view
    }

    /// The lease is renewed, which took so long, and this is the cluster. `held` are the shards in
    /// memory with their epochs.
    pub fn handle_renewed(
        &mut self,
        local: Time,
        took: Span,
        view: Cluster,
        held: &BTreeMap<ShardId, model::Epoch>,
    ) -> Findings {
        if took < Span::ZERO || took > RENEWAL_SLOW {
            self.handle_renew_failed(local);
        } else {
            self.renewals += 1;
            if took < RENEWAL_QUICK {
                self.next_renew = local.plus(NODE_RENEW);
            }
        }
        let mut found = Findings::default();
        if let Some(before) = &self.view
            && before.incarnation != view.incarnation
        {
            found.lost_tail = true;
            self.lost_at = Some(local);
        }
        let view = self.with_what_was_seen(view);
        let (alive, placed) = (alive(&view), placed(&view));
        let judge = self.judges(local);
        for row in &view.shards {
            if let Some(epoch) = held.get(&row.shard) {
                if row.epoch < *epoch {
                    found.lost_tail = true;
                } else if row.owner != Some(self.node) || row.epoch > *epoch {
                    found.fenced.push(row.shard);
                }
                continue;
            }
            let mine = row.owner == Some(self.node);
            let wanted = place(row.shard, &placed) == Some(self.node);
            let free = match row.owner {
                None => true,
                Some(owner) => !alive.contains(&owner),
            };
            if (mine && !self.waits(local)) || (judge && wanted && free) {
                if found.take.len() < MOVES_AT_ONCE {
                    found.take.push(Take {
                        shard: row.shard,
                        node: self.node,
                        epoch: row.epoch,
                        by: 1,
                    });
                }
            } else if judge
                && wanted
                && let Some(owner) = row.owner
                && found.ask.len() < MOVES_AT_ONCE
                && self.asked.get(&row.shard).is_none_or(|at| local.since(*at) >= ASK_AGAIN)
            {
                self.asked.insert(row.shard, local);
                found.ask.push((owner, row.shard));
            }
        }
        self.asked.retain(|_, at| local.since(*at) < ASK_AGAIN.times(4));
        self.view = Some(view);
        found
    }
}

/// Those among them that shards may be placed on.
fn placed(view: &Cluster) -> Vec<NodeId> {
    let holds = view.nodes.iter().filter(|lease| lease.expires > view.now && lease.owns);
    holds.map(|lease| lease.node).collect()
}

/// Nodes whose lease holds by the store's clock.
fn alive(view: &Cluster) -> Vec<NodeId> {
    view.nodes.iter().filter(|lease| lease.expires > view.now).map(|lease| lease.node).collect()
}
