//! The kinds of faults, and the plan of a run: every kind once in an order of its own, then more by
//! chance.

use sim::rng::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// kill -9 of a node, started again later.
    NodeKilled,
    /// SIGSTOP for less than a lease.
    NodePaused,
    /// SIGSTOP for longer: others take over, and it comes back as a zombie.
    NodeFrozen,
    /// A node and its database hear nothing of each other; what was sent arrives at the end.
    DatabaseApart,
    /// The same, but what was sent is lost.
    DatabaseUnheard,
    /// The database hears the node, the node hears no answer.
    AnswersLost,
    /// The node's words do not arrive; answers would.
    RequestsLost,
    /// All of a node's connections to the database are reset.
    ConnectionsReset,
    /// Every answer of the database breaks off after some bytes: in the middle of commits.
    CommitsCut,
    /// Connections to the database are accepted and nobody is there.
    DatabaseHalfOpen,
    DatabaseSlow,
    DatabaseNarrow,
    /// Nothing of the database moves for ten seconds, for all nodes: no shard may change its owner.
    DatabaseStalled,
    /// pg_ctl stop --mode fast, and started again.
    DatabaseRestarted,
    /// --mode immediate.
    DatabaseHalted,
    /// kill -9 of the postmaster and all its children.
    DatabaseKilled,
    /// Everything can be read and nothing written.
    DatabaseReadOnly,
    /// No node reaches one of them.
    PeerApart,
    /// No node reaches any other.
    PeersApart,
    /// Nodes answer each other late.
    PeersSlow,
    /// Connections between nodes are reset.
    PeersReset,
    /// Every node is told to stop and started again, one after the other.
    RollingRestart,
    /// The clocks of one node stand years or minutes off, from its start.
    ClockOff,
    /// The wall clock of a running node steps by minutes or years.
    ClockStepped,
    /// Two nodes do not reach each other; the others reach both.
    PairApart,
    /// A synchronous replica is promoted: nothing that was acknowledged is lost.
    ReplicaPromoted,
    /// An asynchronous one that lacks the tail is promoted: that must be noticed and said aloud.
    TailLost,
    /// No room is left on the database's disk.
    DiskFull,
    /// The database's clock steps forward.
    DatabaseClock,
    /// More processes than cores do nothing but run.
    CpuFull,
    /// A node is drained, stopped and started again.
    NodeDrained,
    /// A node in a namespace of its own is apart from everybody: its cable is pulled.
    NodeUnplugged,
    /// Two such nodes have no route to each other; everybody else reaches both.
    PairUnplugged,
    /// One node, the next in turn, goes on with the other binary: the newer one, then the older one again.
    OtherBinary,
}

use Kind::*;

/// Those that need a namespace for each node.
pub const UNPLUGGED: [Kind; 2] = [NodeUnplugged, PairUnplugged];

/// All but those, `OtherBinary`, which needs one, and `TailLost`, because of what it took the checker can
/// forgive only everything that was answered before; it has runs of its own.
pub const KINDS: [Kind; 30] = [
    NodeKilled,
    NodePaused,
    NodeFrozen,
    DatabaseApart,
    DatabaseUnheard,
    AnswersLost,
    RequestsLost,
    ConnectionsReset,
    CommitsCut,
    DatabaseHalfOpen,
    DatabaseSlow,
    DatabaseNarrow,
    DatabaseStalled,
    DatabaseRestarted,
    DatabaseHalted,
    DatabaseKilled,
    DatabaseReadOnly,
    PeerApart,
    PeersApart,
    PeersSlow,
    PeersReset,
    RollingRestart,
    ClockOff,
    ClockStepped,
    PairApart,
    ReplicaPromoted,
    DiskFull,
    DatabaseClock,
    CpuFull,
    NodeDrained,
];

impl Kind {
    /// May an attempt in flight be lost by it, so that it is delivered again?
    pub fn loses_attempts(self) -> bool {
        !matches!(
            self,
            NodePaused
                | DatabaseSlow
                | DatabaseNarrow
                | DatabaseStalled
                | PeerApart
                | PeersApart
                | PeersSlow
                | PeersReset
                | RollingRestart
                | NodeDrained
                | PairApart
                | CpuFull
                | PairUnplugged
                | OtherBinary
                | DatabaseReadOnly
                | ClockStepped
        )
    }

    /// Must every shard be whose it was?
    pub fn moves_nothing(self) -> bool {
        matches!(
            self,
            NodePaused
                | DatabaseStalled
                | DatabaseSlow
                | DatabaseNarrow
                | PeerApart
                | PeersApart
                | PeersSlow
                | PeersReset
                | PairApart
                | PairUnplugged
                | CpuFull
                | ClockStepped
        )
    }

    /// Is it done by the proxies before the nodes, which nobody passes in a namespace?
    pub fn is_between_proxies(self) -> bool {
        matches!(self, PeerApart | PeersApart | PeersSlow | PeersReset | PairApart)
    }

    /// Is another server in the database's place afterwards?
    pub fn is_promotion(self) -> bool {
        matches!(self, ReplicaPromoted | TailLost)
    }

    /// Does another node have to take over, so that the time it takes is worth a look?
    pub fn is_takeover(self) -> bool {
        matches!(
            self,
            NodeKilled
                | NodeFrozen
                | NodeUnplugged
                | DatabaseApart
                | DatabaseUnheard
                | AnswersLost
                | RequestsLost
        )
    }

    pub fn parse(name: &str) -> Option<Kind> {
        KINDS
            .into_iter()
            .chain(UNPLUGGED)
            .chain([OtherBinary, TailLost])
            .find(|kind| format!("{kind:?}").eq_ignore_ascii_case(name))
    }
}

/// So many faults.
pub fn plan(rng: &mut Rng, count: usize, only: &[Kind]) -> Vec<Kind> {
    let kinds = if only.is_empty() { &KINDS[..] } else { only };
    let mut plan: Vec<Kind> = Vec::new();
    while plan.len() < count {
        // Each round has every kind once.
        let mut left = kinds.to_vec();
        while !left.is_empty() {
            plan.push(left.swap_remove(rng.below(left.len() as u64) as usize));
        }
    }
    plan.truncate(count);
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_plan_has_every_kind_and_repeats_with_its_seed() {
        let first = plan(&mut Rng::new(7), KINDS.len() + 5, &[]);
        assert_eq!(first, plan(&mut Rng::new(7), KINDS.len() + 5, &[]));
        let kinds: BTreeSet<Kind> = first.iter().copied().collect();
        assert_eq!(kinds.len(), KINDS.len());
        assert_ne!(first, plan(&mut Rng::new(8), KINDS.len() + 5, &[]));
        assert_eq!(plan(&mut Rng::new(7), 3, &[NodeKilled]), [NodeKilled; 3]);
        assert!(KINDS.iter().all(|kind| Kind::parse(&format!("{kind:?}")) == Some(*kind)));
    }
}
