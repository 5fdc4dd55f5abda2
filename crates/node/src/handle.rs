//! What the rest of the process has of the node: ask a shard, read rows, know the store's time.

use crate::clock::BootClock;
use crate::driver::Input;
use crate::events::{Events, Happened, What};
use crate::limits::{ATTEMPTS_SHOWN, CALL_WAIT};
use crate::metrics::Metrics;
use crate::post::{Changed as Told, Letter};
use crate::specs::Specs;
use crate::stops::{Stopped, Stops};
use crate::tenants::Tenants;
use crate::view::View;
use model::cluster::About;
use model::read::{Page, Read};
use model::row::HistoryRow;
use model::{
    JobId, KeyId, Namespace, NodeId, RunId, ShardId, Span, Spec, Status, Text, Time, Token,
};
use shard::command::{Answer, Command, CommandId, Refused};
use shard::{Counts, Quotas};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::catalog::{Changed, Entry, EntryChange, List, Place};
use store::search::{FindJobs, FindRuns, Found, JobFound, QueueCounts, QuotaCounts, RunFound};
use store::{Backend, StoreAbout, StoreError};
use tokio::sync::{Notify, Semaphore, oneshot, watch};

/// What driver and callers share.
#[derive(Debug, Default)]
pub struct Shared {
    /// How far the store's time is ahead of local time, in microseconds: the core's lower bound.
    pub ahead: AtomicI64,
    /// The last number given to a command or a request.
    pub last: AtomicU64,
    pub stops: Arc<Stops>,
    pub metrics: Metrics,
    /// How long history is kept, in microseconds; 0 = it is not removed.
    pub kept: AtomicI64,
    pub events: Arc<Events>,
    pub specs: Specs,
    /// Somebody asked for a bulk operation.
    pub bulk: Notify,
    /// Another node changed API keys.
    pub keys: Notify,
    /// Another node used a queue for the first time.
    pub used: Notify,
    queues: Mutex<BTreeSet<(Namespace, Text)>>,
    pub tenants: Tenants,
    /// What recurring jobs of namespaces may do: the core asks, the door tells.
    pub quotas: Quotas,
}

impl Shared {
    pub fn new(boot: u64) -> Shared {
        Shared { events: Arc::new(Events::of(boot)), ..Shared::default() }
    }

    pub fn changed(&self, what: Told) {
        match what {
            Told::Keys => self.keys.notify_one(),
            Told::Operations => self.bulk.notify_one(),
            Told::Queues => self.used.notify_one(),
        }
    }

    /// Queues that are known to have been used.
    pub fn queues(&self) -> MutexGuard<'_, BTreeSet<(Namespace, Text)>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone)]
pub struct NodeHandle {
    pub(crate) node: NodeId,
    pub(crate) input: SyncSender<Input>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: Arc<dyn Backend>,
    pub(crate) calls: Arc<Semaphore>,
    pub(crate) settles: Arc<Semaphore>,
    pub(crate) reads: Arc<Semaphore>,
    pub(crate) live: watch::Receiver<bool>,
    pub(crate) view: watch::Receiver<Arc<View>>,
    pub(crate) about: Arc<Mutex<About>>,
}

/// Why rows could not be read: only that matters to who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading;

impl NodeHandle {
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The store's time, at least. Nothing may be called due by any other clock.
    pub fn now(&self) -> Time {
        let ahead = self.shared.ahead.load(Ordering::Relaxed);
        BootClock.local().plus(Span::from_micros(ahead))
    }

    pub fn is_live(&self) -> bool {
        *self.live.borrow()
    }

    /// Resolves when every shard answers.
    pub async fn ready(&self) {
        let mut live = self.live.clone();
        // An error means that the driver has ended, and with it the process.
        let _ = live.wait_for(|live| *live).await;
    }

    /// The cluster as this node sees it.
    pub fn view(&self) -> Arc<View> {
        self.view.borrow().clone()
    }

    /// To be told when it changes.
    pub fn views(&self) -> watch::Receiver<Arc<View>> {
        self.view.clone()
    }

    /// Letters of another node, in the order it sent them. False: none of them was heard.
    pub fn letters(&self, from: NodeId, letters: Vec<Letter>) -> bool {
        self.input.try_send(Input::Letters { from, letters }).is_ok()
    }

    /// These were not heard by the node they were for.
    pub fn bounced(&self, to: NodeId, letters: Vec<Letter>) {
        // If there is no room their callers hear that nobody knows.
        let _ = self.input.try_send(Input::Bounced { to, letters });
    }

    /// Tells the others that what they remember of the catalog has changed. They look now and then
    /// all the same.
    pub fn tell_changed(&self, what: Told) {
        let _ = self.input.try_send(Input::Tell(Letter::Changed(what)));
    }

    /// Resolves when another node said that keys have changed.
    pub async fn keys_changed(&self) {
        self.shared.keys.notified().await;
    }

    /// Resolves when another node said that a queue was used for the first time.
    pub async fn queues_changed(&self) {
        self.shared.used.notified().await;
    }

    /// Whoever decides this run shall say when it ends.
    pub fn watch(&self, run: RunId) {
        if !self.view.borrow().is_here(run.job.shard()) {
            let _ = self.input.try_send(Input::Watch(run));
        }
    }

    /// Does what only one node of the cluster does fall to this one? `what` names it.
    pub fn is_mine(&self, what: &str) -> bool {
        let shard = model::hash::hash(0, what.as_bytes()) % u64::from(model::id::SHARDS);
        self.view.borrow().is_here(ShardId(shard as u16))
    }

    /// Gives all shards to other nodes and takes none any more, for the life of the process. What is
    /// asked here goes on being answered. `Err` if the store did not hear of it.
    pub async fn leave(&self) -> Result<(), Reading> {
        let about = {
            let mut about = self.about.lock().unwrap_or_else(PoisonError::into_inner);
            about.owns = false;
            about.clone()
        };
        let node = self.node;
        let told = self.blocking(move |store| store.introduce(node, &about)).await;
        let _ = self.input.try_send(Input::Leave);
        told
    }

    pub async fn call(&self, shard: ShardId, command: Command) -> Answer {
        self.call_for(shard, command, CALL_WAIT).await
    }

    /// Asks and waits at most `wait`. Dropping the future tells the core that nobody listens.
    pub async fn call_for(&self, shard: ShardId, command: Command, wait: Span) -> Answer {
        let never_shed =
            matches!(command, Command::Settle(_) | Command::Heartbeat(_) | Command::CancelRun(_));
        let permit = match never_shed {
            true => self.settles.acquire().await.ok(),
            false => self.calls.try_acquire().ok(),
        };
        let free = self.calls.available_permits();
        let inside = self.shared.tenants.enter(&command, free);
        let (Some(_permit), Some(_inside)) = (permit, inside) else {
            return Answer::Refused(Refused::Busy);
        };
        let id = CommandId(self.shared.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (reply, heard) = oneshot::channel();
        let input = Input::Call { id, shard, command, wait, reply };
        if self.input.try_send(input).is_err() {
            return Answer::Refused(Refused::Busy);
        }
        Waiting { id, input: &self.input, heard: Some(heard) }.answer().await
    }

    /// Rows as the store has them, read on a thread that may block.
    pub async fn read(&self, shard: ShardId, read: Read) -> Result<Page, Reading> {
        let pages = self.blocking(move |store| store.read(&[(shard, read)])).await?;
        pages.into_iter().next().ok_or(Reading)
    }

    /// The same of several shards, in one call of the store.
    pub async fn read_each(&self, reads: Vec<(ShardId, Read)>) -> Result<Vec<Page>, Reading> {
        self.blocking(move |store| store.read(&reads)).await
    }

    pub async fn specs(&self, runs: Vec<(RunId, u32)>) -> Result<Vec<Option<Arc<Spec>>>, Reading> {
        let mut specs = self.shared.specs.get(&runs);
        let missing: Vec<usize> = (0..runs.len()).filter(|at| specs[*at].is_none()).collect();
        if missing.is_empty() {
            return Ok(specs);
        }
        let wanted: Vec<(RunId, u32)> = missing.iter().map(|at| runs[*at]).collect();
        let read = self.blocking(move |store| store.specs(&wanted)).await?;
        for (at, spec) in missing.into_iter().zip(read) {
            specs[at] = spec;
        }
        Ok(specs)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Backend) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Reading> {
        let _permit = self.reads.acquire().await.map_err(|_| Reading)?;
        let store = self.store.clone();
        let answer = tokio::task::spawn_blocking(move || ask(store.as_ref())).await;
        answer.map_err(|_| Reading)?.map_err(|_| Reading)
    }

    /// What was tried for a run, first one first.
    pub async fn attempts_of(&self, run: RunId) -> Result<Vec<HistoryRow>, Reading> {
        let mut rows = self.blocking(move |store| store.attempts(run, ATTEMPTS_SHOWN)).await?;
        rows.retain(|row| row.status != Status::Delayed);
        Ok(rows)
    }

    pub async fn find_jobs(&self, find: FindJobs) -> Result<Found<JobFound>, Reading> {
        self.blocking(move |store| store.find_jobs(&find)).await
    }

    pub async fn find_runs(&self, find: FindRuns) -> Result<Found<RunFound>, Reading> {
        let mut found = self.blocking(move |store| store.find_runs(&find)).await?;
        for run in &mut found.items {
            // That it came late is no attempt.
            if let RunFound::Live { last, .. } = run {
                *last = last.take().filter(|row| row.status != Status::Delayed);
            }
        }
        Ok(found)
    }

    /// What became of a job's instants in `[from, until]`.
    pub async fn verdicts(
        &self,
        job: JobId,
        (from, until): (Time, Time),
        limit: usize,
    ) -> Result<Vec<HistoryRow>, Reading> {
        self.blocking(move |store| store.verdicts(job, from, until, limit)).await
    }

    pub async fn queue_counts(
        &self,
        namespace: Namespace,
        queue: Text,
        soon: Span,
    ) -> Result<QueueCounts, Reading> {
        self.blocking(move |store| store.queue_counts(namespace, &queue, soon)).await
    }

    /// How much a namespace has, up to a bound.
    pub async fn namespace_counts(
        &self,
        namespace: Namespace,
        limit: usize,
    ) -> Result<QuotaCounts, Reading> {
        self.blocking(move |store| store.namespace_counts(namespace, limit)).await
    }

    /// How much was made with an API key, up to a bound.
    pub async fn key_counts(&self, key: KeyId, limit: usize) -> Result<QuotaCounts, Reading> {
        self.blocking(move |store| store.key_counts(key, limit)).await
    }

    pub async fn entry(&self, place: Place) -> Result<Option<Entry>, Reading> {
        let entries = self.blocking(move |store| store.entries(&[place])).await?;
        Ok(entries.into_iter().next().flatten())
    }

    pub async fn list_entries(&self, list: List) -> Result<Vec<Entry>, Reading> {
        self.blocking(move |store| store.list_entries(&list)).await
    }

    /// The catalog's last change that was seen (`Catalog::seen_rev`).
    pub fn catalog_rev(&self) -> Option<u64> {
        self.store.seen_rev()
    }

    /// Durable when it answers. `Err` says that it may or may not have been made: look again.
    pub async fn change_entries(&self, changes: Vec<EntryChange>) -> Result<Changed, Reading> {
        self.blocking(move |store| store.change_entries(&changes)).await
    }

    /// What the store is and what it promises.
    pub async fn about_store(&self) -> Result<StoreAbout, Reading> {
        self.blocking(|store| Ok(store.about())).await
    }

    /// What is in memory, by shard; empty while the driver is too busy to say.
    pub async fn counts(&self) -> Vec<(ShardId, Counts)> {
        let (reply, heard) = oneshot::channel();
        if self.input.try_send(Input::Count(reply)).is_err() {
            return Vec::new();
        }
        heard.await.unwrap_or_default()
    }

    /// A number for a claim that no other request of this process has.
    pub fn request(&self) -> u64 {
        self.shared.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// How long what has ended can be looked up.
    pub fn kept(&self) -> Span {
        Span::from_micros(self.shared.kept.load(Ordering::Relaxed))
    }

    /// What recurring jobs may do on this node.
    pub fn quotas(&self) -> &Quotas {
        &self.shared.quotas
    }

    /// What happens from now on, and what just happened.
    pub fn events(&self) -> &Arc<Events> {
        &self.shared.events
    }

    /// Something that no commit says, for those who listen.
    pub fn tell(&self, namespace: Namespace, what: What) {
        let namespace = Some(namespace);
        let at = self.now();
        let event = Happened { seq: 0, at, what, namespace, queue: None, job: None, run: None };
        self.shared.events.tell(event);
    }

    pub fn metrics(&self) -> &Metrics {
        let transactions = self.store.transactions().unwrap_or(0);
        self.shared.metrics.transactions.store(transactions, Ordering::Relaxed);
        &self.shared.metrics
    }

    pub fn stopped(&self, run: RunId, token: Token) -> Stopped {
        self.shared.stops.register(run, token)
    }
}

impl std::fmt::Debug for NodeHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeHandle").field("node", &self.node).finish_non_exhaustive()
    }
}

/// A caller that waits. If it hangs up, the core is told; if its claim was answered in that very
/// moment, the leases nobody heard of are handed back.
struct Waiting<'a> {
    id: CommandId,
    input: &'a SyncSender<Input>,
    heard: Option<oneshot::Receiver<Answer>>,
}

impl Waiting<'_> {
    async fn answer(mut self) -> Answer {
        let answer = match &mut self.heard {
            Some(heard) => heard.await.unwrap_or(Answer::Refused(Refused::Unknown)),
            None => Answer::Refused(Refused::Unknown),
        };
        self.heard = None;
        answer
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(mut heard) = self.heard.take() else { return };
        heard.close();
        let late = heard.try_recv().is_ok();
        // There is room for one of these per call (`INPUT_MAX`).
        let _ = self.input.try_send(Input::Gone { id: self.id, late });
    }
}
