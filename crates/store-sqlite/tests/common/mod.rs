//! A store in a folder of its own, with a clock that tests move.
#![allow(dead_code, missing_debug_implementations, clippy::expect_used)] // each file uses some

use model::cluster::{Cluster, Give, Renew, Take, Taken};
use model::id::ShardId;
use model::read::{Page, Read};
use model::row::{Commit, HistoryRow};
use model::{JobId, KeyId, Namespace, RunId, Span, Spec, Time};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use store::catalog::{Catalog, Changed, Entry, EntryChange, List, Place};
use store::conformance::TestStore;
use store::search::{
    FindJobs, FindRuns, Found, JobFound, Prune, Pruned, QueueCounts, QuotaCounts, RunFound, Search,
};
use store::{Committed, Store, StoreAbout, StoreError};
use store_sqlite::{OpenError, SqliteStore};
use tempfile::TempDir;

const START: i64 = 1_790_000_123_000_000;

pub struct Moved {
    pub store: SqliteStore,
    now: Arc<AtomicI64>,
    /// Declared last: removed after the store is closed.
    _folder: Option<TempDir>,
}

pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A new store that takes its folder with it.
pub fn make() -> Moved {
    let folder = folder();
    let mut store = open(folder.path());
    store._folder = Some(folder);
    store
}

pub fn open(path: &Path) -> Moved {
    try_open(path).expect("the folder opens")
}

pub fn try_open(path: &Path) -> Result<Moved, OpenError> {
    let now = Arc::new(AtomicI64::new(START));
    let clock = now.clone();
    let store = SqliteStore::open(path, move || Time::from_micros(clock.load(Ordering::SeqCst)))?;
    Ok(Moved { store, now, _folder: None })
}

impl TestStore for Moved {
    fn advance(&self, span: Span) {
        self.now.fetch_add(span.micros(), Ordering::SeqCst);
    }
}

impl Store for Moved {
    fn commit(&self, commits: &[Commit]) -> Result<Committed, StoreError> {
        self.store.commit(commits)
    }
    fn read(&self, reads: &[(ShardId, Read)]) -> Result<Vec<Page>, StoreError> {
        self.store.read(reads)
    }
    fn specs(&self, runs: &[(RunId, u32)]) -> Result<Vec<Option<Arc<Spec>>>, StoreError> {
        self.store.specs(runs)
    }
    fn renew(&self, renew: Renew) -> Result<Cluster, StoreError> {
        self.store.renew(renew)
    }
    fn take(&self, takes: &[Take]) -> Result<Vec<Option<Taken>>, StoreError> {
        self.store.take(takes)
    }
    fn give(&self, gives: &[Give]) -> Result<Vec<bool>, StoreError> {
        self.store.give(gives)
    }
    fn rotate(&self) -> Result<(), StoreError> {
        self.store.rotate()
    }
}

impl Catalog for Moved {
    fn entries(&self, places: &[Place]) -> Result<Vec<Option<Entry>>, StoreError> {
        self.store.entries(places)
    }

    fn list_entries(&self, list: &List) -> Result<Vec<Entry>, StoreError> {
        self.store.list_entries(list)
    }

    fn change_entries(&self, changes: &[EntryChange]) -> Result<Changed, StoreError> {
        self.store.change_entries(changes)
    }
}

impl Search for Moved {
    fn find_jobs(&self, find: &FindJobs) -> Result<Found<JobFound>, StoreError> {
        self.store.find_jobs(find)
    }

    fn find_runs(&self, find: &FindRuns) -> Result<Found<RunFound>, StoreError> {
        self.store.find_runs(find)
    }

    fn attempts(&self, run: RunId, limit: usize) -> Result<Vec<HistoryRow>, StoreError> {
        self.store.attempts(run, limit)
    }

    fn verdicts(
        &self,
        job: JobId,
        from: Time,
        until: Time,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.store.verdicts(job, from, until, limit)
    }

    fn queue_counts(
        &self,
        namespace: Namespace,
        queue: &str,
        soon: Span,
    ) -> Result<QueueCounts, StoreError> {
        self.store.queue_counts(namespace, queue, soon)
    }

    fn namespace_counts(
        &self,
        namespace: Namespace,
        limit: usize,
    ) -> Result<QuotaCounts, StoreError> {
        self.store.namespace_counts(namespace, limit)
    }

    fn key_counts(&self, key: KeyId, limit: usize) -> Result<QuotaCounts, StoreError> {
        self.store.key_counts(key, limit)
    }

    fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError> {
        self.store.prune(prune)
    }

    fn used_bytes(&self) -> Result<u64, StoreError> {
        self.store.used_bytes()
    }

    fn about(&self) -> StoreAbout {
        self.store.about()
    }
}
