//! The store in memory with the process's clock: `--store memory`, for trying things out. Nothing
//! survives the process.

use model::cluster::{Cluster, Give, Renew, Take, Taken};
use model::read::{Page, Read};
use model::row::{Commit, HistoryRow};
use model::{JobId, KeyId, Namespace, RunId, ShardId, Span, Spec, Time};
use node::clock::EmbeddedClock;
use std::sync::Arc;
use store::catalog::{Catalog, Changed, Entry, EntryChange, List, Place};
use store::search::{
    FindJobs, FindRuns, Found, JobFound, Prune, Pruned, QueueCounts, QuotaCounts, RunFound, Search,
};
use store::{Committed, MemoryStore, Store, StoreAbout, StoreError};

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

impl Catalog for ClockedMemory {
    fn entries(&self, places: &[Place]) -> Result<Vec<Option<Entry>>, StoreError> {
        self.now().entries(places)
    }

    fn list_entries(&self, list: &List) -> Result<Vec<Entry>, StoreError> {
        self.now().list_entries(list)
    }

    fn change_entries(&self, changes: &[EntryChange]) -> Result<Changed, StoreError> {
        self.now().change_entries(changes)
    }
}

impl Search for ClockedMemory {
    fn find_jobs(&self, find: &FindJobs) -> Result<Found<JobFound>, StoreError> {
        self.now().find_jobs(find)
    }

    fn find_runs(&self, find: &FindRuns) -> Result<Found<RunFound>, StoreError> {
        self.now().find_runs(find)
    }

    fn attempts(&self, run: RunId, limit: usize) -> Result<Vec<HistoryRow>, StoreError> {
        self.now().attempts(run, limit)
    }

    fn verdicts(
        &self,
        job: JobId,
        from: Time,
        until: Time,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.now().verdicts(job, from, until, limit)
    }

    fn queue_counts(
        &self,
        namespace: Namespace,
        queue: &str,
        soon: Span,
    ) -> Result<QueueCounts, StoreError> {
        self.now().queue_counts(namespace, queue, soon)
    }

    fn namespace_counts(
        &self,
        namespace: Namespace,
        limit: usize,
    ) -> Result<QuotaCounts, StoreError> {
        self.now().namespace_counts(namespace, limit)
    }

    fn key_counts(&self, key: KeyId, limit: usize) -> Result<QuotaCounts, StoreError> {
        self.now().key_counts(key, limit)
    }

    fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError> {
        self.now().prune(prune)
    }

    fn used_bytes(&self) -> Result<u64, StoreError> {
        self.now().used_bytes()
    }

    fn about(&self) -> StoreAbout {
        self.now().about()
    }
}
