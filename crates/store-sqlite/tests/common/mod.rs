//! A store in a folder of its own, with a clock that tests move.
#![allow(dead_code, missing_debug_implementations, clippy::expect_used)] // each file uses some

use model::cluster::{Cluster, Give, Renew, Take, Taken};
use model::id::ShardId;
use model::read::{Page, Read};
use model::row::Commit;
use model::{RunId, Span, Spec, Time};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use store::conformance::TestStore;
use store::{Committed, Store, StoreError};
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
