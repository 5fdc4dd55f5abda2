//! What goes wrong, and how it ends.

use crate::event::Happens;
use crate::world::World;
use model::{Epoch, ShardId, Span};
use shard::StoreCall;
use std::collections::BTreeMap;
use store::faulty::{Call, Fault};
use store::memory::Incarnation;
use store::{Refusal, Store};

/// The longest that a process stands still.
pub(crate) const FREEZE_MAX: Span = Span::from_secs(12);
/// Ten years.
const WILD: Span = Span::from_secs(10 * 365 * 86_400);

impl World {
    pub(crate) fn fault_step(&mut self) {
        if self.healed {
            return;
        }
        self.look_after_stall();
        let options = self.options.clone();
        let node = self.rng.below(self.nodes.len() as u64) as usize;
        let chance = |world: &mut World, per_mille: u64| world.rng.per_mille(per_mille);
        if chance(self, options.kill) {
            self.kill_node(node);
        }
        if chance(self, options.freeze) {
            let longest = FREEZE_MAX.micros() / 1_000;
            let span = Span::from_millis(self.rng.range(100, longest));
            self.nodes[node].frozen_until = self.now.plus(span);
            self.disturb();
        }
        if chance(self, options.partition) {
            let until = self.now.plus(Span::from_millis(self.rng.range(100, 12_000)));
            self.disturb();
            match self.rng.below(3) {
                0 => self.nodes[node].cut_store = until,
                1 => self.nodes[node].cut_peers = until,
                _ => self.nodes[node].cut_callers = until,
            }
        }
        if chance(self, options.stall) && self.now >= self.stalled_until {
            let longest = if options.long_stall { 10_000 } else { 2_000 };
            let span = Span::from_millis(self.rng.range(50, longest));
            self.begin_stall(span);
        }
        if chance(self, options.outage) {
            self.outage();
        }
        if chance(self, options.wild_clock) {
            let until = self.now.plus(Span::from_millis(self.rng.range(1, 3_000)));
            let off = match self.rng.below(4) {
                0 => WILD,
                1 => Span::from_micros(-WILD.micros()),
                2 => Span::from_secs(self.rng.range(1, 3_600)),
                _ => Span::from_secs(-self.rng.range(1, 3_600)),
            };
            self.nodes[node].clock.run_wild(until, off);
            self.disturb();
        }
        if chance(self, options.full) {
            let on = self.rng.per_mille(500);
            self.store.set_full(on);
        }
        if chance(self, options.read_only) {
            let on = self.rng.per_mille(400);
            self.store.set_read_only(on);
            self.disturb();
        }
        if chance(self, options.tail_loss) {
            self.tail_loss();
        }
        if chance(self, options.leave) {
            self.leave(node);
        }
        let every = self.options.fault_every;
        self.after(every, Happens::Fault);
    }

    /// All nodes are away for longer than a minute: occurrences are missed.
    fn outage(&mut self) {
        self.disturb();
        let span = Span::from_millis(self.rng.range(5_000, 240_000));
        for node in 0..self.nodes.len() {
            self.nodes[node].host = None;
            self.nodes[node].webhooks.clear();
            let more = Span::from_millis(self.rng.range(0, 2_000));
            self.after(span.plus(more), Happens::NodeStarts { node });
        }
    }

    fn tail_loss(&mut self) {
        self.disturb();
        if self.rng.per_mille(600) {
            self.store.inner().mark_replicated();
            return;
        }
        // A loss that nobody can see from inside (the same incarnation) is one where no epoch was
        // lost: an owner that lives through it finds the gap in its commits. If an epoch went too,
        // only another incarnation tells.
        let before = self.epochs();
        let snapshot = self.store.inner().snapshot();
        if self.store.inner().lose_tail(Incarnation::Same) > 0 {
            if self.epochs() != before || self.rng.per_mille(500) {
                self.store.inner().restore(snapshot);
                self.store.inner().lose_tail(Incarnation::Next);
            }
            self.log.tail_lost.push(self.now);
            self.watch.forget();
            // After a loss the store shows an older epoch until the shard is taken again; another loss by then
            // must not make what the first one lost look safe.
            for (shard, epoch) in before {
                let lost = self.log.lost_epochs.entry(shard).or_default();
                *lost = epoch.max(*lost);
            }
        } else {
            self.store.inner().restore(snapshot);
        }
        self.store.inner().mark_replicated();
    }

    fn epochs(&self) -> BTreeMap<ShardId, Epoch> {
        let shards = self.store.inner().dump().shards;
        shards.iter().map(|shard| (shard.row.shard, shard.row.epoch)).collect()
    }

    /// Faults of single calls.
    pub(crate) fn maybe_fail(&mut self, call: &StoreCall) {
        if self.healed {
            return;
        }
        let kind = match call {
            StoreCall::Commit(_) => Call::Commit,
            StoreCall::Read(_) => Call::Read,
            StoreCall::Renew(_) => Call::Renew,
            StoreCall::Take(_) => Call::Take,
            StoreCall::Give(_) => Call::Give,
        };
        let fault = if self.rng.per_mille(self.options.unknown_before) {
            Fault::UnknownBefore
        } else if self.rng.per_mille(self.options.unknown_after) {
            Fault::UnknownAfter
        } else if self.rng.per_mille(self.options.refuse) {
            Fault::Refuse(Refusal::Time)
        } else {
            return;
        };
        self.store.inject(kind, fault);
    }

    /// Everything that is broken is mended; nothing breaks any more.
    pub fn heal(&mut self) {
        self.healed = true;
        self.store.heal();
        if self.options.poison {
            self.store.poison(crate::workload::is_poison);
        }
        self.stalled_until = self.now;
        let _ = self.store.rotate();
        for node in 0..self.nodes.len() {
            let sim = &mut self.nodes[node];
            sim.frozen_until = self.now;
            sim.cut_store = self.now;
            sim.cut_peers = self.now;
            sim.cut_callers = self.now;
            sim.clock.heal();
            self.start_node(node);
        }
        for worker in &mut self.workers {
            worker.frozen_until = self.now;
        }
        self.stall = None;
    }
}
