//! The embedded store: one SQLite file, `duly.db`, in a data folder.
//!
//! - **Durable before it answers**: a commit call is one transaction with a savepoint per shard, in the
//!   write-ahead log, and one fdatasync of the log after it (`log`), which `apply` leaves to a later
//!   `sync`. One connection writes, behind a mutex; two read for the core, one for people.
//! - **A person can read it**: `schema` explains the tables inside the file itself, enums are small
//!   integers listed there, payloads lie in a column of their own.
//! - **Time** is the function given to `open`; nothing here reads a clock.
//!
//! **Failure**: `error` has the table of what SQLite says and what callers are told. After an I/O
//! error or a damaged file the store is `broken`: every later call answers `Unknown`, and `node`
//! ends the process, because only a process that reads the file anew can know what it holds.
//!
//! What it does not do: retry, spawn threads (`checkpoint` is there to be called from one), work
//! for two processes (a lock file prevents it), or check that a row belongs to the shard that
//! commits it; ids carry their shard and the core routes by them.

mod backup;
mod catalog;
mod claims;
mod cluster;
mod cols;
mod commit;
mod counts;
mod dump;
mod error;
mod examine;
mod files;
mod history;
mod jobs;
mod keys;
mod log;
#[cfg(test)]
mod plans;
mod queues;
mod read;
mod reserve;
mod runs;
mod schema;
mod search;
mod table;
mod wheel;

pub use backup::{Restored, backup, restore};
pub use error::OpenError;
pub use examine::{Finding, examine};

use error::{Fault, Res, Verdict};
use log::Log;
use model::cluster::{Cluster, Give, Renew, Take, Taken};
use model::id::ShardId;
use model::read::{Page, Read};
use model::row::{Commit, HistoryRow};
use model::{JobId, KeyId, Namespace, RunId, Span, Spec, Time};
use reserve::Reserve;
use rusqlite::Connection;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use store::catalog::{Catalog, Changed, Entry, EntryChange, List, Place};
use store::memory::Dump;
use store::search::{
    FindJobs, FindRuns, Found, JobFound, Prune, Pruned, QueueCounts, QuotaCounts, RunFound, Search,
    scan,
};
use store::{Committed, Refusal, Store, StoreAbout, StoreError};

const READERS: usize = 2;

pub struct SqliteStore {
    writer: Mutex<Connection>,
    log: Log,
    readers: [Mutex<Connection>; READERS],
    /// Lists for people: their questions hold up nobody else.
    searcher: Mutex<Connection>,
    /// Checkpoints run beside the writer, on a connection of their own.
    checkpointer: Mutex<Connection>,
    turn: AtomicUsize,
    clock: Box<dyn Fn() -> Time + Send + Sync>,
    /// Why nothing is answered any more.
    broken: OnceLock<String>,
    /// The words for the last fault, for whoever writes the log.
    fault: Mutex<Option<String>>,
    /// Room for what ends work, if some is kept.
    reserve: OnceLock<Reserve>,
    folder: PathBuf,
    /// Declared last: released after the connections are closed.
    _lock: File,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("broken", &self.broken).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the data folder, or makes it. `clock` is the store's clock: what it says decides what
    /// has expired and when things may fire.
    pub fn open(
        folder: impl AsRef<Path>,
        clock: impl Fn() -> Time + Send + Sync + 'static,
    ) -> Result<SqliteStore, OpenError> {
        let folder = folder.as_ref();
        let lock = files::lock(folder)?;
        let writer = files::writer(folder)?;
        schema::migrate(&writer)?;
        files::sync_names(folder)?;
        // Only now: the tables were made with a sync of each step.
        let log = Log::of(folder, &writer)?;
        let readers = [files::reader(folder)?, files::reader(folder)?];
        Ok(SqliteStore {
            writer: Mutex::new(writer),
            log,
            readers: readers.map(Mutex::new),
            searcher: Mutex::new(files::reader(folder)?),
            checkpointer: Mutex::new(files::writer(folder)?),
            turn: AtomicUsize::new(0),
            clock: Box::new(clock),
            broken: OnceLock::new(),
            fault: Mutex::new(None),
            reserve: OnceLock::new(),
            folder: folder.to_path_buf(),
            _lock: lock,
        })
    }

    /// Why the process must not go on with this store: an I/O error, a failed fsync, a damaged
    /// file. Once set it stays. `node` watches it and exits.
    pub fn broken(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }

    /// What the last failed call failed of, in words. A call that answers `Unknown` without being
    /// broken has met a value that this code does not know; the words name the table and the row.
    pub fn last_fault(&self) -> Option<String> {
        lock(&self.fault).clone()
    }

    /// Keeps so much room for settles: when there is none left it is given up, and until it is back
    /// commits that make jobs are refused. Taken back by `checkpoint`.
    pub fn keep_room(&self, bytes: u64) {
        self.reserve.get_or_init(|| Reserve::new(&self.folder, bytes));
    }

    /// Is room short, so that no jobs are made?
    pub fn is_short_of_room(&self) -> bool {
        self.reserve.get().is_some_and(Reserve::is_short)
    }

    /// Everything, for a checker. Reads the whole file into memory: not for a store in use.
    pub fn dump(&self) -> Result<Dump, StoreError> {
        self.reading(dump::read)
    }

    pub fn incarnation(&self) -> Result<u64, StoreError> {
        self.reading(|conn, _| cluster::incarnation(conn))
    }

    /// For `--takeover`: this file is a restored copy, and epochs may have been given out that it
    /// has not seen. Every later take jumps over them.
    pub fn set_incarnation(&self, incarnation: u64) -> Result<(), StoreError> {
        self.writing(|conn, _| cluster::set_incarnation(conn, incarnation))
    }

    /// Is this a restored copy that nobody has allowed to dispatch?
    pub fn is_restored(&self) -> Result<bool, StoreError> {
        self.reading(|conn, _| backup::is_held(conn))
    }

    /// For `--takeover`: lifts what `restore` put down.
    pub fn release_restored(&self) -> Result<(), StoreError> {
        self.writing(|conn, _| backup::release(conn))
    }

    /// Moves what is in the WAL into the database, beside readers and the writer. Meant to be
    /// called every second or so from a thread of its own; the writer does it itself, and stalls
    /// meanwhile, when 64 MiB have gathered. Returns whether all of it was moved: a reader that
    /// does not end (a forgotten `sqlite3`) makes the WAL grow.
    pub fn checkpoint(&self) -> Result<bool, StoreError> {
        let conn = lock(&self.checkpointer);
        self.usable()?;
        let moved = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            Ok(row.get::<_, i64>(1)? == row.get::<_, i64>(2)?)
        });
        let moved = self.judge(moved.map_err(Fault::from));
        if let Some(reserve) = self.reserve.get().filter(|reserve| reserve.is_short()) {
            reserve.restore();
        }
        moved
    }

    /// Bounds the file at so many pages (or not), at least at what it has: a quota, and how tests
    /// fill a disk. Not stored in the file.
    pub fn limit_pages(&self, pages: Option<u32>) -> Result<(), StoreError> {
        let conn = lock(&self.writer);
        self.usable()?;
        // SQLite's own largest number, if none is wanted.
        let pages = pages.map_or(4_294_967_294, i64::from);
        let set = conn.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()));
        self.judge(set.map_err(Fault::from))
    }

    fn usable(&self) -> Result<(), StoreError> {
        if self.broken.get().is_some() { Err(StoreError::Unknown) } else { Ok(()) }
    }

    fn judge<T>(&self, result: Res<T>) -> Result<T, StoreError> {
        let fault = match result {
            Ok(value) => return Ok(value),
            Err(fault) => fault,
        };
        let words = fault.to_string();
        *lock(&self.fault) = Some(words.clone());
        match fault.verdict() {
            Verdict::Tell(error) => {
                if let (StoreError::Refused(Refusal::Room), Some(reserve)) =
                    (error, self.reserve.get())
                {
                    reserve.give_up();
                }
                Err(error)
            }
            Verdict::Broken => {
                // The first reason stands.
                let _ = self.broken.set(words);
                Err(StoreError::Unknown)
            }
        }
    }

    /// One durable transaction, or nothing.
    fn writing<T>(&self, work: impl FnOnce(&Connection, Time) -> Res<T>) -> Result<T, StoreError> {
        let value = self.writing_ahead(work)?;
        self.sync_log()?;
        Ok(value)
    }

    /// Everything that was written before this was called is on the disk when it answers.
    fn sync_log(&self) -> Result<(), StoreError> {
        self.usable()?;
        self.judge(self.log.sync())?;
        // Another thread's sync may have failed meanwhile, and taken the error with it.
        self.usable()
    }

    /// One transaction, or nothing; durable after the next sync.
    fn writing_ahead<T>(
        &self,
        work: impl FnOnce(&Connection, Time) -> Res<T>,
    ) -> Result<T, StoreError> {
        let conn = lock(&self.writer);
        // Asked under the lock: who waited for it may have waited for the call that broke.
        self.usable()?;
        let result = transaction(&conn, "BEGIN IMMEDIATE", || work(&conn, (self.clock)()));
        self.judge(result)
    }

    /// One consistent picture, and the latest.
    fn reading<T>(&self, work: impl FnOnce(&Connection, Time) -> Res<T>) -> Result<T, StoreError> {
        let conn = self.reader();
        self.usable()?;
        let result = transaction(&conn, "BEGIN", || work(&conn, (self.clock)()));
        self.judge(result)
    }

    /// As `reading`, for people.
    fn searching<T>(
        &self,
        work: impl FnOnce(&Connection, Time) -> Res<T>,
    ) -> Result<T, StoreError> {
        let conn = lock(&self.searcher);
        self.usable()?;
        let result = transaction(&conn, "BEGIN", || work(&conn, (self.clock)()));
        self.judge(result)
    }

    /// A reader that is free, or the next one in turn.
    fn reader(&self) -> MutexGuard<'_, Connection> {
        for reader in &self.readers {
            match reader.try_lock() {
                Ok(conn) => return conn,
                Err(TryLockError::Poisoned(conn)) => return conn.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        lock(&self.readers[self.turn.fetch_add(1, Ordering::Relaxed) % READERS])
    }
}

/// A thread that panicked left at most an open transaction, and `transaction` ends that.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn transaction<T>(conn: &Connection, begin: &str, work: impl FnOnce() -> Res<T>) -> Res<T> {
    // Left open by a thread that panicked.
    end(conn)?;
    conn.prepare_cached(begin)?.execute([])?;
    let result = work().and_then(|value| {
        conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(value)
    });
    match result {
        Ok(value) => Ok(value),
        Err(fault) => {
            // What cannot be rolled back is the worse news.
            end(conn)?;
            Err(fault)
        }
    }
}

/// Rolls back, if a transaction is open. SQLite ends some by itself when they fail.
fn end(conn: &Connection) -> Res<()> {
    if !conn.is_autocommit() {
        conn.prepare_cached("ROLLBACK")?.execute([])?;
    }
    Ok(())
}

impl Store for SqliteStore {
    fn commit(&self, commits: &[Commit]) -> Result<Committed, StoreError> {
        let committed = self.apply(commits)?;
        if !commits.is_empty() {
            self.sync_log()?;
        }
        Ok(committed)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.sync_log()
    }

    fn syncs_apart(&self) -> bool {
        true
    }

    fn apply(&self, commits: &[Commit]) -> Result<Committed, StoreError> {
        if commits.is_empty() {
            self.usable()?;
            return Ok(Committed { now: (self.clock)(), outcomes: Vec::new() });
        }
        self.writing_ahead(|conn, now| {
            let short = self.is_short_of_room();
            let outcomes = commit::apply(conn, commits, now, short)?;
            Ok(Committed { now, outcomes })
        })
    }

    fn read(&self, reads: &[(ShardId, Read)]) -> Result<Vec<Page>, StoreError> {
        self.reading(|conn, now| read::pages(conn, reads, now))
    }

    fn specs(&self, runs: &[(RunId, u32)]) -> Result<Vec<Option<Arc<Spec>>>, StoreError> {
        self.reading(|conn, _| read::specs(conn, runs))
    }

    fn renew(&self, renew: Renew) -> Result<Cluster, StoreError> {
        self.writing(|conn, now| cluster::renew(conn, renew, now))
    }

    fn take(&self, takes: &[Take]) -> Result<Vec<Option<Taken>>, StoreError> {
        self.writing(|conn, now| {
            let current = cluster::incarnation(conn)?;
            takes.iter().map(|take| cluster::take(conn, *take, now, current)).collect()
        })
    }

    fn give(&self, gives: &[Give]) -> Result<Vec<bool>, StoreError> {
        self.writing(|conn, _| gives.iter().map(|give| cluster::give(conn, *give)).collect())
    }

    fn rotate(&self) -> Result<(), StoreError> {
        self.writing(|conn, now| keys::turn(conn, now).map(drop))
    }
}

impl Catalog for SqliteStore {
    fn entries(&self, places: &[Place]) -> Result<Vec<Option<Entry>>, StoreError> {
        self.reading(|conn, _| places.iter().map(|place| catalog::get(conn, place)).collect())
    }

    fn list_entries(&self, list: &List) -> Result<Vec<Entry>, StoreError> {
        self.searching(|conn, _| catalog::list(conn, list))
    }

    fn change_entries(&self, changes: &[EntryChange]) -> Result<Changed, StoreError> {
        self.writing(|conn, now| {
            conn.prepare_cached("SAVEPOINT entries")?.execute([])?;
            let changed = catalog::change(conn, changes, now)?;
            if matches!(changed, Changed::Other { .. }) {
                conn.prepare_cached("ROLLBACK TO entries")?.execute([])?;
            }
            conn.prepare_cached("RELEASE entries")?.execute([])?;
            Ok(changed)
        })
    }
}

impl Search for SqliteStore {
    fn find_jobs(&self, find: &FindJobs) -> Result<Found<JobFound>, StoreError> {
        self.searching(|conn, _| scan::jobs(&search::People(conn), find))
    }

    fn find_runs(&self, find: &FindRuns) -> Result<Found<RunFound>, StoreError> {
        self.searching(|conn, _| scan::runs(&search::People(conn), find))
    }

    fn attempts(&self, run: RunId, limit: usize) -> Result<Vec<HistoryRow>, StoreError> {
        self.searching(|conn, _| history::of_run(conn, run, limit))
    }

    fn verdicts(
        &self,
        job: JobId,
        from: Time,
        until: Time,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.searching(|conn, _| history::verdicts(conn, job, (from, until), limit))
    }

    fn queue_counts(
        &self,
        namespace: Namespace,
        queue: &str,
        soon: Span,
    ) -> Result<QueueCounts, StoreError> {
        self.searching(|conn, now| counts::queue(conn, namespace, queue, now.plus(soon)))
    }

    fn namespace_counts(
        &self,
        namespace: Namespace,
        limit: usize,
    ) -> Result<QuotaCounts, StoreError> {
        self.searching(|conn, _| counts::namespace(conn, namespace, limit))
    }

    fn key_counts(&self, key: KeyId, limit: usize) -> Result<QuotaCounts, StoreError> {
        self.searching(|conn, _| counts::key(conn, key, limit))
    }

    fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError> {
        self.writing(|conn, _| counts::prune(conn, prune))
    }

    fn used_bytes(&self) -> Result<u64, StoreError> {
        self.searching(|conn, _| counts::used_bytes(conn))
    }

    fn about(&self) -> StoreAbout {
        let answers = self.broken().is_none();
        StoreAbout { answers, ..StoreAbout::embedded("sqlite", "durable before it answers") }
    }
}
