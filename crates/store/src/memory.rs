//! A store in memory: what the simulator and the core's bench run on, and the plainest answer to
//! "what must a store do". It passes `conformance` like any other.
//!
//! - **Truth**: one struct of ordered maps per shard (`tables`), the shard rows and the nodes'
//!   leases (`cluster`), behind one lock. Nothing iterates in hash order, so the same calls give
//!   the same bytes.
//! - **Time** is what `set_now` said last. The store never reads a clock, and a step back is
//!   followed like a step forward.
//! - **Commits** apply change after change and keep what stood there before; the first change that
//!   does not find what it expects puts all of it back.
//! - **Lost tail**: `mark_replicated` remembers the whole state, `lose_tail` goes back to it, as
//!   an asynchronous replica does when it is promoted. Both cost a copy of everything.
//!
//! What it does not do: keep anything over a restart, fail (`faulty` does that around it), or
//! check that a row belongs to the shard that commits it; ids carry their shard and the core
//! routes by them.

mod catalog;
mod cluster;
mod dump;
mod history;
mod keys;
mod pages;
mod search;
mod stored;
mod tables;
mod wheel;

pub use dump::{Dump, ShardDump};

use crate::{Committed, Outcome, Store, StoreError};
use cluster::Shard;
use model::cluster::{About, Cluster, Give, NodeLease, Renew, Take, Taken};
use model::id::{NodeId, ShardId};
use model::job::Spec;
use model::read::{Page, Read};
use model::row::Commit;
use model::{RunId, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now: Time,
    incarnation: u64,
    data: Data,
    /// What a replica has: where `lose_tail` goes back to.
    replicated: Data,
}

/// All that a copy of the store would hold.
#[derive(Clone, Debug, Default)]
struct Data {
    shards: Vec<Shard>,
    /// Until when each node's lease lasts.
    nodes: BTreeMap<NodeId, Time>,
    /// What they said of themselves.
    about: BTreeMap<NodeId, About>,
    catalog: catalog::Entries,
}

/// A copy of everything stored, made by `snapshot`.
#[derive(Clone, Debug)]
pub struct Snapshot(Data);

/// Does a store that lost its tail say that it is another one?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incarnation {
    /// It does not: only commit numbers tell.
    Same,
    /// As after a promotion or a restore that was noticed.
    Next,
}

impl MemoryStore {
    /// Shards 0 to `shards` − 1. `specs` finds a run by the shard in its id, so with fewer than
    /// `model::id::SHARDS` only ids of slots in these shards can be used.
    pub fn new(shards: u16) -> MemoryStore {
        let data = Data {
            shards: (0..shards).map(|shard| Shard::new(ShardId(shard))).collect(),
            nodes: BTreeMap::new(),
            about: BTreeMap::new(),
            catalog: catalog::Entries::default(),
        };
        let replicated = data.clone();
        MemoryStore {
            state: Mutex::new(State { now: Time::MIN, incarnation: 1, data, replicated }),
        }
    }

    pub fn set_now(&self, now: Time) {
        self.state().now = now;
    }

    pub fn now(&self) -> Time {
        self.state().now
    }

    pub fn incarnation(&self) -> u64 {
        self.state().incarnation
    }

    pub fn set_incarnation(&self, incarnation: u64) {
        self.state().incarnation = incarnation;
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.state().data.clone())
    }

    /// Puts the rows of a snapshot in place of all that is there. Clock and incarnation stay.
    pub fn restore(&self, snapshot: Snapshot) {
        self.state().data = snapshot.0;
    }

    /// From here on `lose_tail` goes back to the state of this moment.
    pub fn mark_replicated(&self) {
        let mut state = self.state();
        state.replicated = state.data.clone();
    }

    /// Forgets everything since the last mark (since the beginning, if there was none): commits,
    /// changes of owner, leases of nodes. Returns how many commits were lost.
    pub fn lose_tail(&self, incarnation: Incarnation) -> u64 {
        let mut state = self.state();
        let kept = state.replicated.clone();
        let lost = std::mem::replace(&mut state.data, kept);
        if incarnation == Incarnation::Next {
            state.incarnation += 1;
        }
        lost.shards
            .iter()
            .zip(&state.data.shards)
            .map(|(was, is)| was.seq.saturating_sub(is.seq))
            .sum()
    }

    /// A ready run or a lease of this shard that lies where no new owner looks, if there is one: then the
    /// mark of its last commit is wrong.
    pub fn hidden(&self, shard: ShardId) -> Option<RunId> {
        self.state().data.shard(shard)?.tables.hidden()
    }

    /// Everything, for a checker that wants to see what is left.
    pub fn dump(&self) -> Dump {
        let state = self.state();
        Dump {
            now: state.now,
            incarnation: state.incarnation,
            nodes: state.data.leases(),
            shards: state.data.shards.iter().map(ShardDump::of).collect(),
        }
    }

    /// A thread that panicked while it held the lock was a failed test's; the others go on.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Data {
    fn shard(&mut self, id: ShardId) -> Option<&mut Shard> {
        self.shards.get_mut(usize::from(id.0))
    }

    fn leases(&self) -> Vec<NodeLease> {
        let lease = |(node, expires): (&NodeId, &Time)| match self.about.get(node) {
            Some(about) => {
                let (owns, address) = (about.owns, about.address.clone());
                NodeLease { node: *node, expires: *expires, owns, address }
            }
            None => NodeLease::new(*node, *expires),
        };
        self.nodes.iter().map(lease).collect()
    }
}

impl Store for MemoryStore {
    fn commit(&self, commits: &[Commit]) -> Result<Committed, StoreError> {
        let mut state = self.state();
        let now = state.now;
        let outcomes = commits
            .iter()
            .map(|commit| match state.data.shard(commit.shard) {
                Some(shard) => shard.commit(commit, now),
                // A shard that does not exist belongs to nobody.
                None => Outcome::Fenced,
            })
            .collect();
        Ok(Committed { now, outcomes })
    }

    fn read(&self, reads: &[(ShardId, Read)]) -> Result<Vec<Page>, StoreError> {
        let mut state = self.state();
        let now = state.now;
        let nothing = tables::Tables::default();
        let pages = reads
            .iter()
            .map(|(shard, read)| match state.data.shard(*shard) {
                Some(shard) => {
                    shard.tables.keys.turn(now);
                    shard.tables.read(read)
                }
                None => nothing.read(read),
            })
            .collect();
        Ok(pages)
    }

    fn specs(&self, runs: &[(RunId, u32)]) -> Result<Vec<Option<Arc<Spec>>>, StoreError> {
        let mut state = self.state();
        let specs = runs
            .iter()
            .map(|(run, version)| state.data.shard(run.job.shard())?.tables.spec(*run, *version))
            .collect();
        Ok(specs)
    }

    fn renew(&self, renew: Renew) -> Result<Cluster, StoreError> {
        let mut state = self.state();
        let (now, incarnation) = (state.now, state.incarnation);
        state.data.renew(renew, now);
        Ok(Cluster {
            now,
            incarnation,
            nodes: state.data.leases(),
            shards: state.data.shards.iter().map(Shard::row).collect(),
        })
    }

    fn introduce(&self, node: NodeId, about: &About) -> Result<(), StoreError> {
        self.state().data.about.insert(node, about.clone());
        Ok(())
    }

    fn take(&self, takes: &[Take]) -> Result<Vec<Option<Taken>>, StoreError> {
        let mut state = self.state();
        let (now, incarnation) = (state.now, state.incarnation);
        Ok(takes.iter().map(|take| state.data.take(*take, now, incarnation)).collect())
    }

    fn give(&self, gives: &[Give]) -> Result<Vec<bool>, StoreError> {
        let mut state = self.state();
        Ok(gives.iter().map(|give| state.data.give(*give)).collect())
    }

    fn rotate(&self) -> Result<(), StoreError> {
        let mut state = self.state();
        let now = state.now;
        for shard in &mut state.data.shards {
            shard.tables.keys.turn(now);
        }
        Ok(())
    }
}
