//! What duly asks of a store. Few operations, each a batch, each atomic; no rule of a job's or a
//! run's life. Calls block: a commit lane is a thread.
//!
//! - `codec`: how databases write values down. - `catalog`: small things of the whole cluster. - `search`: questions of people.
//! - `memory`: a store in memory, for the simulator and the bench.
//! - `faulty`: a store that fails when told to, around any other.
//! - `outbox`: what is asked of a user's own database.
//! - `conformance`: the rules below as tests; every store passes all of them.
//!
//! The store's clock decides what has expired and is reported with each commit. A caller learns
//! one of three things: applied (`Ok` and the outcome), not applied (`Ok` and another outcome, or
//! `Refused`), or not known (`Unknown`). Nothing here retries.

pub mod about;
pub mod catalog;
pub mod codec;
pub mod conformance;
pub mod faulty;
pub mod memory;
pub mod outbox;
pub mod outcome;
pub mod search;

pub use about::StoreAbout;
pub use faulty::FaultyStore;
pub use memory::MemoryStore;

use model::cluster::{About, Cluster, Give, Renew, Take, Taken};
use model::id::ShardId;
use model::job::Spec;
use model::read::{Page, Read};
use model::row::{Change, Commit, Key, Row};
use model::{NodeId, RunId, Time};
use std::sync::Arc;

/// All that a backend offers.
pub trait Backend: Store + catalog::Catalog + search::Search {}

impl<T: Store + catalog::Catalog + search::Search> Backend for T {}

pub trait Store: Send + Sync {
    /// Applies each shard's commit whole or not at all, durable before it answers. Shards do not
    /// affect each other: one that is refused leaves the others applied. Changes are checked and
    /// applied in order, each on what those before it left; a change that does not `fits` is
    /// refused like one that did not find what it expected. Without commits it tells the time.
    fn commit(&self, commits: &[Commit]) -> Result<Committed, StoreError>;
    /// As `commit`, but durable only when a `sync` that began after its answer has succeeded. Calls
    /// are applied in the order they are made, and what is durable is always the first so many of
    /// them. For a store that can apply the next while it makes the last ones durable.
    fn apply(&self, commits: &[Commit]) -> Result<Committed, StoreError> {
        self.commit(commits)
    }
    /// Makes durable what was applied before. After a failure nobody knows what is.
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
    /// Is it worth while to call `apply` and `sync` from two threads?
    fn syncs_apart(&self) -> bool {
        false
    }
    /// The first step of a `commit` in two: sends it. `end` is called for each, in the order in which
    /// they were begun, with the same commits; the next ones may be begun before that.
    fn begin(&self, _commits: &[Commit]) {}
    /// The second step: waits for the answer to the oldest one that was begun.
    fn end(&self, commits: &[Commit]) -> Result<Committed, StoreError> {
        self.commit(commits)
    }
    /// Is it worth while to call `begin` and `end` from two threads?
    fn takes_ahead(&self) -> bool {
        false
    }
    /// Answers each read from one consistent, latest state (never a replica).
    fn read(&self, reads: &[(ShardId, Read)]) -> Result<Vec<Page>, StoreError>;
    /// What the run shall do: its body, or its job's spec of that version.
    fn specs(&self, runs: &[(RunId, u32)]) -> Result<Vec<Option<Arc<Spec>>>, StoreError>;
    /// Extends the node's lease (makes it if it is new) and returns the cluster as it then is.
    /// An expired lease is simply renewed: expired is not lost.
    fn renew(&self, renew: Renew) -> Result<Cluster, StoreError>;
    /// Transactions that this process has asked for so far, where that costs others something.
    fn transactions(&self) -> Option<u64> {
        None
    }
    /// What this process's node says of itself in its lease row, from now on and in later renewals.
    /// A store that one process has for itself has nobody to tell.
    fn introduce(&self, _node: NodeId, _about: &About) -> Result<(), StoreError> {
        Ok(())
    }
    /// Takes shards; `None` where the conditions did not hold, where the epoch would not grow, or
    /// where it would pass `Epoch::MAX`.
    fn take(&self, takes: &[Take]) -> Result<Vec<Option<Taken>>, StoreError>;
    /// Gives shards away; false where the giver's epoch had passed. The epoch grows by one, so
    /// that the giver is fenced; the new owner takes its own shard before it commits.
    fn give(&self, gives: &[Give]) -> Result<Vec<bool>, StoreError>;
    /// Forgets idempotency keys older than a day, in whole tables: a key is known for 24 to 48 h.
    fn rotate(&self) -> Result<(), StoreError>;
}

/// Is the row of its key's kind, and does it carry its key's id? A row that does not would be
/// stored where nobody finds it.
pub fn fits(change: &Change) -> bool {
    let Some(row) = &change.row else { return true };
    match (&change.key, row) {
        (Key::Run(id), Row::Run(row)) => row.id == *id,
        (Key::Lease(id), Row::Lease(row)) => row.run == *id,
        (Key::Job(id), Row::Job(row)) => row.id == *id,
        (Key::Backlog(id), Row::Backlog(row)) => row.id == *id,
        (Key::History(run, token), Row::History(row)) => (row.run, row.token) == (*run, *token),
        (Key::Spec(..), Row::Spec(_))
        | (Key::Idempotency(_), Row::Idempotency(_))
        | (Key::Checkpoint(_), Row::Checkpoint(_))
        | (Key::Hold(_), Row::Hold(_))
        | (Key::Queue(..), Row::Queue(_)) => true,
        _ => false,
    }
}

/// One outcome per commit, in order, and the store's clock while it committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    pub now: Time,
    pub outcomes: Vec<Outcome>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Durable,
    /// Another epoch holds the shard. Nothing was applied.
    Fenced,
    /// The shard's last commit is not `seq` − 1: the store lost a tail, or two owners share an
    /// epoch. Nothing was applied.
    Gap {
        last: u64,
    },
    /// The store's clock has not reached the instant of the decisions. Nothing was applied.
    Early,
    /// Room is short, and this commit makes jobs: what room is left is kept for what ends work.
    /// Nothing was applied.
    Room,
    /// The change with this index did not find what it expected. Nothing was applied.
    Row {
        index: usize,
    },
}

/// Why a whole call failed. What to do is all that a caller needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// Nothing was applied and the store said so: no room, no time, not writable.
    Refused(Refusal),
    /// No answer, or one that does not tell: it may have been applied.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Room,
    Time,
    ReadOnly,
}
