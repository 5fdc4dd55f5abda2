//! The store in memory with the process's clock: `--store memory`, for trying things out. Nothing
//! survives the process.

use model::cluster::{Cluster, Give, Renew, Take, Taken};
use model::read::{Page, Read};
use model::row::Commit;
use model::{RunId, ShardId, Spec};
use node::clock::EmbeddedClock;
use std::sync::Arc;
use store::{Committed, MemoryStore, Store, StoreError};

#[derive(Debug)]
pub struct ClockedMemory {
    inner: MemoryStore,
    clock: EmbeddedClock,
}

impl ClockedMemory {
    pub fn new(clock: EmbeddedClock) -> ClockedMemory {
        ClockedMemory { inner: MemoryStore::new(model::id::SHARDS), clock }
    }

    fn now(&self) -> &MemoryStore {
        self.inner.set_now(self.clock.now());
        &self.inner
    }
}

impl Store for ClockedMemory {
    fn commit(&self, commits: &[Commit]) -> Result<Committed, StoreError> {
        self.now().commit(commits)
    }

    fn read(&self, reads: &[(ShardId, Read)]) -> Result<Vec<Page>, StoreError> {
        self.now().read(reads)
    }

    fn specs(&self, runs: &[(RunId, u32)]) -> Result<Vec<Option<Arc<Spec>>>, StoreError> {
        self.now().specs(runs)
    }

    fn renew(&self, renew: Renew) -> Result<Cluster, StoreError> {
        self.now().renew(renew)
    }

    fn take(&self, takes: &[Take]) -> Result<Vec<Option<Taken>>, StoreError> {
        self.now().take(takes)
    }

    fn give(&self, gives: &[Give]) -> Result<Vec<bool>, StoreError> {
        self.now().give(gives)
    }

    fn rotate(&self) -> Result<(), StoreError> {
        self.now().rotate()
    }
}
