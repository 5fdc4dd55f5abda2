//! Who owns a shard, and what an owner may commit.

use super::Data;
use super::tables::Tables;
use crate::Outcome;
use model::cluster::{Give, Renew, ShardRow, Take, Taken};
use model::id::{Epoch, NodeId, ShardId};
use model::row::{Commit, Starts};
use model::{Span, Time};

/// A lease row that expired so long ago is dropped at the next renewal: every restart is a new
/// node, so without a bound the rows of former lives would pile up. Absent and expired are the
/// same to a taker.
const LEASE_KEPT: Span = Span::from_secs(3_600);

#[derive(Clone, Debug)]
pub(super) struct Shard {
    pub id: ShardId,
    pub owner: Option<NodeId>,
    pub epoch: Epoch,
    /// Number of the last commit.
    pub seq: u64,
    pub floor: Time,
    /// The store's incarnation when the shard was last taken: how a copy that was promoted or
    /// restored knows that epochs may have been given out that it has not seen.
    pub incarnation: u64,
    pub tables: Tables,
}

impl Shard {
    pub fn new(id: ShardId) -> Shard {
        Shard {
            id,
            owner: None,
            epoch: Epoch(0),
            seq: 0,
            floor: Time::MIN,
            incarnation: 1,
            tables: Tables::default(),
        }
    }

    pub fn row(&self) -> ShardRow {
        ShardRow { shard: self.id, owner: self.owner, epoch: self.epoch, seq: self.seq }
    }

    /// The fence first: an owner whose epoch has passed learns that, whatever else is wrong.
    pub fn commit(&mut self, commit: &Commit, now: Time) -> Outcome {
        if commit.epoch != self.epoch {
            return Outcome::Fenced;
        }
        if Some(commit.seq) != self.seq.checked_add(1) {
            return Outcome::Gap { last: self.seq };
        }
        if commit.decided > now {
            return Outcome::Early;
        }
        self.tables.keys.turn(now);
        if let Err(index) = self.tables.apply(&commit.changes, now) {
            return Outcome::Row { index };
        }
        self.seq = commit.seq;
        self.floor = commit.floor.unwrap_or(self.floor);
        self.tables.starts = Starts {
            ready: commit.starts.ready,
            leases: commit.starts.leases.max(self.tables.starts.leases),
        };
        Outcome::Durable
    }
}

impl Data {
    pub fn renew(&mut self, renew: Renew, now: Time) {
        self.nodes.insert(renew.node, now.plus(renew.ttl));
        self.nodes.retain(|node, expires| *node == renew.node || now.since(*expires) < LEASE_KEPT);
        let nodes = &self.nodes;
        self.about.retain(|node, _| nodes.contains_key(node));
    }

    pub fn take(&mut self, take: Take, now: Time, incarnation: u64) -> Option<Taken> {
        let free = match self.shards.get(usize::from(take.shard.0))?.owner {
            None => true,
            Some(owner) if owner == take.node => true,
            Some(owner) => self.nodes.get(&owner).is_none_or(|expires| *expires <= now),
        };
        let shard = self.shard(take.shard)?;
        // Each incarnation has a range of its own, so that two losses in a row cannot meet.
        let jump =
            incarnation.saturating_sub(shard.incarnation).saturating_mul(Epoch::INCARNATION.into());
        let jump = u32::try_from(jump).unwrap_or(u32::MAX);
        let epoch = step(take.epoch, if take.by == 0 { 0 } else { take.by.max(jump) })?;
        if !free || shard.epoch != take.epoch {
            return None;
        }
        shard.owner = Some(take.node);
        shard.epoch = epoch;
        shard.incarnation = incarnation;
        let (seq, floor, starts) = (shard.seq, shard.floor, shard.tables.starts);
        Some(Taken { shard: shard.id, epoch, seq, floor, starts })
    }

    pub fn give(&mut self, give: Give) -> bool {
        let Some(shard) = self.shard(give.shard) else { return false };
        if shard.owner != Some(give.node) || shard.epoch != give.epoch {
            return false;
        }
        let Some(epoch) = step(give.epoch, 1) else { return false };
        shard.owner = Some(give.to);
        shard.epoch = epoch;
        true
    }
}

/// The next epoch. None where it would not grow (it would fence nobody) or would make tokens that
/// do not fit into a JSON integer.
fn step(epoch: Epoch, by: u32) -> Option<Epoch> {
    let next = epoch.0.checked_add(by).map(Epoch)?;
    (by > 0 && next <= Epoch::MAX).then_some(next)
}
