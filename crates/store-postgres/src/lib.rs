//! The store of a cluster: the schema `duly` in a PostgreSQL database.
//!
//! - **A commit call is one statement** (`commit`), fenced, for all its shards. Statements are
//!   unnamed and typed, and nothing of a session is used, so a pooler in transaction mode may stand
//!   between.
//! - **A person can read it**: tables and columns carry comments, enums are small integers listed
//!   there, payloads lie in a column of their own.
//! - **Time** is the database's.
//! - **History** is a plain table per day, made ahead and dropped whole (`days`).
//! - **Another server** than the one that wrote this is noticed (`origin`), and nothing is dispatched
//!   before all shards were taken anew.
//!
//! **Failure**: `error` has the table of what PostgreSQL says and what callers are told. A
//! connection that broke is made anew by the next call, with backoff while the server is away.
//!
//! What it does not do: retry, spawn threads or tasks (a connection is driven by the call that uses
//! it), use a replica, or check that a row belongs to the shard that commits it; ids carry their
//! shard and the core routes by them.

mod address;
mod batch;
mod catalog;
mod claims;
mod cluster;
mod cols;
mod commit;
mod conn;
mod counts;
mod days;
mod dump;
mod durability;
mod error;
mod faults;
mod functions;
mod history;
mod jobs;
mod keys;
mod limits;
mod line;
mod net;
mod origin;
pub mod outbox;
mod pool;
mod prune;
mod put;
mod queues;
mod read;
mod runs;
mod schema;
mod search;
mod starts;
mod table;
mod tables;
pub mod watch;
mod wheel;

pub use durability::Durability;
pub use error::OpenError;

use address::Address;
use conn::{Conn, LOOK, WRITE};
use error::{Fault, Res};
use faults::Faults;
use limits::{DROPPED_TRIES, MIGRATE_WAIT, READERS, RENEWERS, SEARCHERS, WRITERS};
use line::Line;
use model::cluster::{About, Cluster, Give, Renew, Take, Taken};
use model::id::ShardId;
use model::read::{Page, Read};
use model::row::{Commit, HistoryRow};
use model::{Epoch, JobId, KeyId, Namespace, NodeId, RunId, Span, Spec};
use origin::Origin;
use pool::{Dialer, Pool};
use search::People;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use store::catalog::{Catalog, Changed, Entry, EntryChange, List, Place};
use store::search::{
    FindJobs, FindRuns, Found, JobFound, Prune, Pruned, QueueCounts, QuotaCounts, RunFound, Search,
    scan,
};
use store::{Committed, Store, StoreAbout, StoreError};
use tokio_postgres::types::Type;

pub struct PostgresStore {
    /// Commits of a node, one behind the other.
    line: Line,
    writers: Pool,
    readers: Pool,
    /// Lists for people: their questions hold up nobody else.
    searchers: Pool,
    /// A node's lease is renewed whatever the others wait for.
    renewers: Pool,
    /// As last seen.
    durability: Mutex<Durability>,
    origin: Arc<Origin>,
    /// Is history written by day? No, while nodes of version 1 live.
    by_day: AtomicBool,
    /// For whoever writes the log.
    faults: Faults,
    /// What our node says of itself in its lease row.
    about: Mutex<Option<(NodeId, About)>>,
    /// The catalog's revision at the last renewal.
    seen_rev: Mutex<Option<u64>>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore")
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// `address` is what PostgreSQL's own tools take: `postgres://user:password@host:5432/database`.
    /// Makes the schema if there is none.
    pub fn open(address: &str) -> Result<PostgresStore, OpenError> {
        let address = Address::parse(address)?;
        let mut conn = Conn::open(&address, MIGRATE_WAIT)?;
        let durability = durability::check(&mut conn)?;
        schema::migrate(&mut conn)?;
        let origin = Arc::new(Origin::default());
        origin.look(&mut conn, true)?;
        days::make_ahead(&mut conn)?;
        let by_day = schema::contract(&mut conn)?;
        let pool = |size| Pool::new(&address, &origin, size);
        Ok(PostgresStore {
            line: Line::new(Dialer::new(&address, &origin)),
            writers: pool(WRITERS),
            readers: pool(READERS),
            searchers: pool(SEARCHERS),
            renewers: pool(RENEWERS),
            durability: Mutex::new(durability),
            origin: origin.clone(),
            by_day: AtomicBool::new(by_day),
            faults: Faults::default(),
            about: Mutex::new(None),
            seen_rev: Mutex::new(None),
        })
    }

    /// What the server promised when it was last looked at.
    pub fn durability(&self) -> Durability {
        self.durability.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the last failed call failed of, in words.
    pub fn last_fault(&self) -> Option<String> {
        self.faults.last()
    }

    /// What calls failed of since the last time this was asked, a line each.
    pub fn faults(&self) -> Vec<String> {
        self.faults.take()
    }

    /// Everything, for a checker. Reads all of it into memory: not for a store in use.
    pub fn dump(&self) -> Result<store::memory::Dump, StoreError> {
        self.searching(dump::read)
    }

    /// Which shard is whose, and in which epoch.
    pub fn owners(&self) -> Result<Vec<(ShardId, Option<NodeId>, Epoch)>, StoreError> {
        self.judge(self.searchers.with(cluster::owners))
    }

    pub fn incarnation(&self) -> Result<u64, StoreError> {
        self.judge(self.readers.with(cluster::incarnation))
    }

    /// For `--takeover`: this database is a restored copy, and epochs may have been given out that
    /// it has not seen. Every later take jumps over them.
    pub fn set_incarnation(&self, incarnation: u64) -> Result<(), StoreError> {
        self.judge(self.writers.with(|conn| cluster::set_incarnation(conn, incarnation)))
    }

    /// Is this a restored copy that nobody has allowed to dispatch?
    pub fn is_restored(&self) -> Result<bool, StoreError> {
        self.judge(self.readers.with(origin::is_held))
    }

    /// For `--takeover`: lifts what held a restored copy, and jumps over the epochs that it has not
    /// seen.
    pub fn release_restored(&self) -> Result<(), StoreError> {
        self.writing(origin::release)
    }

    /// What a person must know, since the last time this was asked: another server was met.
    pub fn alerts(&self) -> Vec<String> {
        self.origin.alerts()
    }

    /// Makes the tables of the days to come, and leaves version 1 behind when nobody needs it. Meant
    /// to be called now and then.
    pub fn prepare(&self) -> Result<(), StoreError> {
        let by_day = self.judge(self.writers.with(|conn| {
            days::make_ahead(conn)?;
            schema::contract(conn)
        }))?;
        self.by_day.fetch_or(by_day, Ordering::Relaxed);
        Ok(())
    }

    /// Moves the store's clock, for every node that uses the database. Only tests do.
    pub fn move_clock(&self, span: Span) -> Result<(), StoreError> {
        let sql = "UPDATE duly.meta SET clock_offset = clock_offset + $1";
        let micros = span.micros();
        self.judge(self.writers.with(|conn| conn.query(sql, &[(&micros, Type::INT8)]).map(drop)))
    }

    /// From now on every lease that is given or ended is written down (`watch`). Only tests do.
    pub fn watch_leases(&self) -> Result<(), StoreError> {
        self.writing(watch::begin)
    }

    /// What was written down since.
    pub fn watched(&self) -> Result<watch::Watched, StoreError> {
        self.searching(watch::read)
    }

    fn judge<T>(&self, result: Res<T>) -> Result<T, StoreError> {
        result.map_err(|fault| {
            let verdict = fault.verdict();
            self.faults.note(fault.to_string());
            verdict
        })
    }

    /// One durable transaction, or nothing.
    fn writing<T>(&self, work: impl FnOnce(&mut Conn) -> Res<T>) -> Result<T, StoreError> {
        self.judge(self.writers.with(|conn| conn.transaction(WRITE, work)))
    }

    /// One consistent picture, and the latest.
    fn reading<T>(&self, work: impl Fn(&mut Conn) -> Res<T>) -> Result<T, StoreError> {
        self.judge(looking(&self.readers, work))
    }

    /// As `reading`, for people.
    fn searching<T>(&self, work: impl Fn(&mut Conn) -> Res<T>) -> Result<T, StoreError> {
        self.judge(looking(&self.searchers, work))
    }
}

/// A table of history that is dropped between the list of tables and the question: from the start.
fn looking<T>(pool: &Pool, work: impl Fn(&mut Conn) -> Res<T>) -> Res<T> {
    let mut answer = pool.with(|conn| conn.transaction(LOOK, &work));
    for _ in 1..DROPPED_TRIES {
        match answer {
            Err(fault) if fault.is_other_day() => {
                answer = pool.with(|conn| conn.transaction(LOOK, &work));
            }
            answer => return answer,
        }
    }
    answer
}

impl Store for PostgresStore {
    fn commit(&self, commits: &[Commit]) -> Result<Committed, StoreError> {
        self.judge(self.writers.with(|conn| commit::apply(conn, commits, &self.by_day)))
    }

    fn begin(&self, commits: &[Commit]) {
        // What cannot be sent so is answered by the other way, with the reason.
        self.line.begin(commit::ask(commits, &self.by_day).unwrap_or_default());
    }

    fn end(&self, commits: &[Commit]) -> Result<Committed, StoreError> {
        match self.line.end() {
            Some(Err(fault)) if commit::is_worth_another(&fault) => {}
            Some(answer) => {
                return self.judge(answer.and_then(|rows| commit::answered(&rows, commits)));
            }
            None => {}
        }
        // Nothing was applied; what is behind it on the line either does not build on it, or
        // finds a gap, and comes here, too.
        self.line.hear();
        self.commit(commits)
    }

    fn takes_ahead(&self) -> bool {
        true
    }

    fn read(&self, reads: &[(ShardId, Read)]) -> Result<Vec<Page>, StoreError> {
        if read::is_one_statement(reads) {
            return self.judge(self.readers.with(|conn| read::pages(conn, reads)));
        }
        self.reading(|conn| read::pages(conn, reads))
    }

    fn specs(&self, runs: &[(RunId, u32)]) -> Result<Vec<Option<Arc<Spec>>>, StoreError> {
        self.reading(|conn| read::specs(conn, runs))
    }

    fn renew(&self, renew: Renew) -> Result<Cluster, StoreError> {
        let about = self.about.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (cluster, rev) = self.judge(self.renewers.with(|conn| {
            conn.transaction(WRITE, |conn| cluster::renew(conn, renew, about.as_ref()))
        }))?;
        *self.seen_rev.lock().unwrap_or_else(PoisonError::into_inner) = Some(rev);
        Ok(cluster)
    }

    fn transactions(&self) -> Option<u64> {
        let pools = [&self.writers, &self.readers, &self.searchers, &self.renewers];
        Some(pools.iter().map(|pool| pool.done()).sum::<u64>() + self.line.done())
    }

    fn introduce(&self, node: NodeId, about: &About) -> Result<(), StoreError> {
        *self.about.lock().unwrap_or_else(PoisonError::into_inner) = Some((node, about.clone()));
        self.writing(|conn| cluster::introduce(conn, node, about))
    }

    fn take(&self, takes: &[Take]) -> Result<Vec<Option<Taken>>, StoreError> {
        self.writing(|conn| cluster::take(conn, takes))
    }

    fn give(&self, gives: &[Give]) -> Result<Vec<bool>, StoreError> {
        self.writing(|conn| cluster::give(conn, gives))
    }

    fn rotate(&self) -> Result<(), StoreError> {
        let emptied =
            self.writers.with(|conn| conn.query("SELECT duly.empty_keys()", &[]).map(drop));
        match emptied {
            // Somebody reads the table: there is a whole day for another try.
            Err(Fault::Sql(error)) if error.code().is_some_and(|code| code.code() == "55P03") => {
                Ok(())
            }
            emptied => self.judge(emptied),
        }
    }
}

impl store::conformance::TestStore for PostgresStore {
    fn advance(&self, span: Span) {
        // A clock that does not move fails the test that moved it.
        let _ = self.move_clock(span);
    }
}

impl Catalog for PostgresStore {
    fn entries(&self, places: &[Place]) -> Result<Vec<Option<Entry>>, StoreError> {
        self.judge(self.readers.with(|conn| catalog::get(conn, places)))
    }

    fn seen_rev(&self) -> Option<u64> {
        *self.seen_rev.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list_entries(&self, list: &List) -> Result<Vec<Entry>, StoreError> {
        self.judge(self.searchers.with(|conn| catalog::list(conn, list)))
    }

    fn change_entries(&self, changes: &[EntryChange]) -> Result<Changed, StoreError> {
        self.writing(|conn| catalog::change(conn, changes))
    }
}

impl Search for PostgresStore {
    fn find_jobs(&self, find: &FindJobs) -> Result<Found<JobFound>, StoreError> {
        self.searching(|conn| scan::jobs(&People::new(conn), find))
    }

    fn find_runs(&self, find: &FindRuns) -> Result<Found<RunFound>, StoreError> {
        self.searching(|conn| scan::runs(&People::new(conn), find))
    }

    fn attempts(&self, run: RunId, limit: usize) -> Result<Vec<HistoryRow>, StoreError> {
        self.searching(|conn| history::of_run(conn, run, limit))
    }

    fn verdicts(
        &self,
        job: JobId,
        from: model::Time,
        until: model::Time,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.searching(|conn| history::verdicts(conn, job, (from, until), limit))
    }

    fn queue_counts(
        &self,
        namespace: Namespace,
        queue: &str,
        soon: Span,
    ) -> Result<QueueCounts, StoreError> {
        self.judge(self.searchers.with(|conn| counts::queue(conn, namespace, queue, soon)))
    }

    fn namespace_counts(
        &self,
        namespace: Namespace,
        limit: usize,
    ) -> Result<QuotaCounts, StoreError> {
        self.judge(self.searchers.with(|conn| counts::namespace(conn, namespace, limit)))
    }

    fn key_counts(&self, key: KeyId, limit: usize) -> Result<QuotaCounts, StoreError> {
        self.judge(self.searchers.with(|conn| counts::key(conn, key, limit)))
    }

    fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError> {
        self.judge(self.writers.with(|conn| prune::prune(conn, prune)))
    }

    fn used_bytes(&self) -> Result<u64, StoreError> {
        self.searching(prune::used_bytes)
    }

    fn about(&self) -> StoreAbout {
        let found = self.judge(self.searchers.with(durability::look));
        let answers = found.is_ok();
        if let Ok(durability) = found {
            *self.durability.lock().unwrap_or_else(PoisonError::into_inner) = durability;
        }
        let last = self.durability();
        StoreAbout { kind: "postgres", durability: last.to_string(), answers, facts: last.facts() }
    }
}
