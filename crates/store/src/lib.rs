//! What duly asks of a store. Few operations, each a batch, each atomic; no rule of a job's or a
//! run's life. Calls block: a commit lane is a thread.

use model::cluster::{Cluster, Give, Renew, Take, Taken};
use model::id::ShardId;
use model::job::Spec;
use model::read::{Page, Read};
use model::row::Commit;
use model::{RunId, Time};
use std::sync::Arc;

pub trait Store: Send + Sync {
    /// Applies each shard's commit whole or not at all, durable before it answers. Shards do not
    /// affect each other: one that is refused leaves the others applied.
    fn commit(&self, commits: &[Commit]) -> Result<Committed, StoreError>;
    /// Answers each read from one consistent, latest state (never a replica).
    fn read(&self, reads: &[(ShardId, Read)]) -> Result<Vec<Page>, StoreError>;
    /// What the run shall do: its body, or its job's spec of that version.
    fn specs(&self, runs: &[(RunId, u32)]) -> Result<Vec<Option<Arc<Spec>>>, StoreError>;
    /// Extends the node's lease (makes it if it is new) and returns the cluster as it then is.
    /// An expired lease is simply renewed: expired is not lost.
    fn renew(&self, renew: Renew) -> Result<Cluster, StoreError>;
    /// Takes shards; `None` where the conditions did not hold.
    fn take(&self, takes: &[Take]) -> Result<Vec<Option<Taken>>, StoreError>;
    /// Gives shards away; false where the giver's epoch had passed.
    fn give(&self, gives: &[Give]) -> Result<Vec<bool>, StoreError>;
    /// Forgets idempotency keys older than a day, in whole tables: a key is known for 24 to 48 h.
    fn rotate(&self) -> Result<(), StoreError>;
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
