//! A store that fails when told to, around any other store. It decides nothing by itself: a test
//! or the simulator says which call fails and how, so the same seed gives the same failures.
//!
//! - **One call**: `inject(call, fault)` queues a fault for the next call of that kind; several
//!   wait in line.
//! - **Until switched off**: read-only, full, a poisoned kind of row.
//! - **Lost tail**: `MemoryStore::mark_replicated` and `lose_tail`, through `inner`.
//!
//! An injected fault comes before the switches, as a broken connection comes before whatever the
//! server would have said. What it does not do: delay. Whoever drives the calls does that, because
//! only it has a clock.

use crate::catalog::{Catalog, Changed, Entry, EntryChange, List, Place};
use crate::search::{
    FindJobs, FindRuns, Found, JobFound, Prune, Pruned, QueueCounts, QuotaCounts, RunFound, Search,
};
use crate::{Committed, Refusal, Store, StoreAbout, StoreError};
use model::cluster::{Cluster, Give, Renew, Take, Taken};
use model::id::ShardId;
use model::job::Spec;
use model::read::{Page, Read};
use model::row::{Change, Commit, Expect, HistoryRow, HoldRow, Key, Row};
use model::{JobId, KeyId, Namespace, RunId, Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How one call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is applied, and the store says so.
    Refuse(Refusal),
    /// Nothing is applied, and nobody is told.
    UnknownBefore,
    /// It is applied, and nobody is told.
    UnknownAfter,
}

/// The kinds of call that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    Commit,
    Read,
    Specs,
    Renew,
    Take,
    Give,
    Rotate,
}

type Predicate = Box<dyn Fn(&Change) -> bool + Send + Sync>;

#[derive(Default)]
struct Faults {
    queued: BTreeMap<Call, VecDeque<Fault>>,
    read_only: bool,
    full: bool,
    poison: Option<Predicate>,
}

pub struct FaultyStore<S> {
    inner: S,
    faults: Mutex<Faults>,
}

impl<S: Store> FaultyStore<S> {
    pub fn new(inner: S) -> FaultyStore<S> {
        FaultyStore { inner, faults: Mutex::default() }
    }

    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// The next call of this kind that has no fault yet gets this one.
    pub fn inject(&self, call: Call, fault: Fault) {
        self.faults().queued.entry(call).or_default().push_back(fault);
    }

    /// Injected faults of this kind that no call has met yet.
    pub fn pending(&self, call: Call) -> usize {
        self.faults().queued.get(&call).map_or(0, VecDeque::len)
    }

    /// Every write is refused, renewals too; reads are answered.
    pub fn set_read_only(&self, on: bool) {
        self.faults().read_only = on;
    }

    /// A call that adds a run or a spec is refused for room, whole. Room is kept for the rest, so
    /// that settles, retries and changes of owner succeed.
    pub fn set_full(&self, on: bool) {
        self.faults().full = on;
    }

    /// A commit with such a change is refused for that row. It stands for whatever passes our
    /// checks and not the database's.
    pub fn poison(&self, matches: impl Fn(&Change) -> bool + Send + Sync + 'static) {
        self.faults().poison = Some(Box::new(matches));
    }

    /// Every switch off, every queued fault forgotten.
    pub fn heal(&self) {
        *self.faults() = Faults::default();
    }

    fn call<T>(
        &self,
        call: Call,
        run: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let fault = self.faults().queued.get_mut(&call).and_then(VecDeque::pop_front);
        match fault {
            Some(Fault::Refuse(refusal)) => return Err(StoreError::Refused(refusal)),
            Some(Fault::UnknownBefore) => return Err(StoreError::Unknown),
            Some(Fault::UnknownAfter) => return run().and(Err(StoreError::Unknown)),
            None => {}
        }
        if self.faults().read_only && !matches!(call, Call::Read | Call::Specs) {
            return Err(StoreError::Refused(Refusal::ReadOnly));
        }
        run()
    }

    fn commit_or_refuse(&self, commits: &[Commit]) -> Result<Committed, StoreError> {
        let faults = self.faults();
        if faults.full && commits.iter().any(|commit| commit.changes.iter().any(adds_work)) {
            return Err(StoreError::Refused(Refusal::Room));
        }
        let Some(poison) = &faults.poison else {
            drop(faults);
            return self.inner.commit(commits);
        };
        let commits: Vec<Commit> = commits.iter().map(|commit| spoil(commit, poison)).collect();
        drop(faults);
        self.inner.commit(&commits)
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store> Store for FaultyStore<S> {
    fn commit(&self, commits: &[Commit]) -> Result<Committed, StoreError> {
        self.call(Call::Commit, || self.commit_or_refuse(commits))
    }

    fn read(&self, reads: &[(ShardId, Read)]) -> Result<Vec<Page>, StoreError> {
        self.call(Call::Read, || self.inner.read(reads))
    }

    fn specs(&self, runs: &[(RunId, u32)]) -> Result<Vec<Option<Arc<Spec>>>, StoreError> {
        self.call(Call::Specs, || self.inner.specs(runs))
    }

    fn renew(&self, renew: Renew) -> Result<Cluster, StoreError> {
        self.call(Call::Renew, || self.inner.renew(renew))
    }

    fn take(&self, takes: &[Take]) -> Result<Vec<Option<Taken>>, StoreError> {
        self.call(Call::Take, || self.inner.take(takes))
    }

    fn give(&self, gives: &[Give]) -> Result<Vec<bool>, StoreError> {
        self.call(Call::Give, || self.inner.give(gives))
    }

    fn rotate(&self) -> Result<(), StoreError> {
        self.call(Call::Rotate, || self.inner.rotate())
    }
}

impl<S: Catalog> Catalog for FaultyStore<S> {
    fn entries(&self, places: &[Place]) -> Result<Vec<Option<Entry>>, StoreError> {
        self.inner.entries(places)
    }

    fn list_entries(&self, list: &List) -> Result<Vec<Entry>, StoreError> {
        self.inner.list_entries(list)
    }

    fn change_entries(&self, changes: &[EntryChange]) -> Result<Changed, StoreError> {
        self.inner.change_entries(changes)
    }
}

/// Questions of people are not failed: nothing depends on their answers.
impl<S: Search> Search for FaultyStore<S> {
    fn find_jobs(&self, find: &FindJobs) -> Result<Found<JobFound>, StoreError> {
        self.inner.find_jobs(find)
    }

    fn find_runs(&self, find: &FindRuns) -> Result<Found<RunFound>, StoreError> {
        self.inner.find_runs(find)
    }

    fn attempts(&self, run: RunId, limit: usize) -> Result<Vec<HistoryRow>, StoreError> {
        self.inner.attempts(run, limit)
    }

    fn verdicts(
        &self,
        job: JobId,
        from: Time,
        until: Time,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.inner.verdicts(job, from, until, limit)
    }

    fn queue_counts(
        &self,
        namespace: Namespace,
        queue: &str,
        soon: Span,
    ) -> Result<QueueCounts, StoreError> {
        self.inner.queue_counts(namespace, queue, soon)
    }

    fn namespace_counts(
        &self,
        namespace: Namespace,
        limit: usize,
    ) -> Result<QuotaCounts, StoreError> {
        self.inner.namespace_counts(namespace, limit)
    }

    fn key_counts(&self, key: KeyId, limit: usize) -> Result<QuotaCounts, StoreError> {
        self.inner.key_counts(key, limit)
    }

    fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError> {
        self.inner.prune(prune)
    }

    fn used_bytes(&self) -> Result<u64, StoreError> {
        self.inner.used_bytes()
    }

    fn about(&self) -> StoreAbout {
        self.inner.about()
    }
}

impl<S: fmt::Debug> fmt::Debug for FaultyStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore").field("inner", &self.inner).finish_non_exhaustive()
    }
}

fn adds_work(change: &Change) -> bool {
    change.expect == Expect::Absent && matches!(change.row, Some(Row::Run(_) | Row::Spec(_)))
}

/// The commit with its first poisoned change made one that no store accepts. The store itself then
/// answers: fenced, if the epoch has passed, else the row, and nothing is applied.
fn spoil(commit: &Commit, poison: &Predicate) -> Commit {
    let Some(index) = commit.changes.iter().position(poison) else { return commit.clone() };
    let mut changes = commit.changes[..index].to_vec();
    let reason = "a hold under the key of a run".into();
    changes.push(Change {
        key: Key::Run(RunId::first_of(model::JobId::from_bits(0, 0))),
        expect: Expect::Absent,
        row: Some(Row::Hold(HoldRow { reason, until: None })),
    });
    Commit { changes: changes.into(), ..commit.clone() }
}
