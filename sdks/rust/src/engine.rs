//! The protocol of a worker, in a thread of its own: no handler can keep a heartbeat from being sent.
//!
//! ```text
//! claim ──► ready ──► handlers (tasks of the caller's runtime) ──► ended ──► settle
//!             │                                                      │
//!         heart: renews every lease that is held, until its settle was answered
//! ```
//!
//! A run is *held* from the claim's answer to the settle's. Held runs never exceed the capacity, so nothing
//! here grows beyond it; a server that is away is felt as "no room", not as memory.
//!
//! Leases (the rule that keeps two workers from running one run): the server takes a run back at 110 % of its
//! lease after the last heartbeat it heard. This side counts from the instant a request was *sent* that was
//! answered, and from there trusts 90 %. After that the lease is unknown; runs for which that matters are told
//! to stop.

mod claim;
mod heart;
mod held;
mod settle;
mod work;

pub(crate) use held::Held;
pub(crate) use work::{Handler, Work};

use crate::clock::{self, Moment};
use crate::context::Reason;
use crate::end::Said;
use crate::error::Error;
use crate::limits::{CHECKPOINTS_WAITING_MAX, LAST_WORDS};
use crate::transport::{Call, Transport};
use crate::worker::{OnLeaseUnknown, Stats};
use held::Slot;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

/// What a worker was told when it was made.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub name: String,
    pub queues: Vec<String>,
    pub concurrency: usize,
    pub prefetch: usize,
    pub lease: Duration,
    pub wait: Duration,
    pub grace: Duration,
    pub on_lease_unknown: OnLeaseUnknown,
    /// What it says of itself, beside how much it runs.
    pub about: Value,
}

pub(crate) struct Engine {
    transport: Transport,
    options: Options,
    handlers: HashMap<String, Handler>,
    /// Where handlers run.
    runtime: Handle,
    state: Mutex<State>,
    stats: Arc<Mutex<Stats>>,
    /// One task waits for each of these.
    room: Notify,
    settle_wanted: Notify,
    beat_wanted: Notify,
    watch_wanted: Notify,
    changed: Notify,
    /// Nothing more is taken.
    pub draining: CancellationToken,
    /// Everything ends.
    closed: CancellationToken,
}

#[derive(Default)]
struct State {
    /// By the order in which they came.
    held: BTreeMap<u64, Slot>,
    serial: u64,
    ready: VecDeque<Arc<Held>>,
    running: usize,
    ended: VecDeque<(Arc<Held>, Said)>,
    claiming: bool,
    quiet: bool,
    /// A server that does not register workers refuses to hear about them.
    mute: bool,
    /// When a heartbeat without runs is due: while claims are silent, only heartbeats hear what comes next.
    empty_beat_at: Option<Moment>,
    /// When the loops will look again by themselves.
    beat_look_at: Moment,
    watch_look_at: Moment,
}

impl Engine {
    pub fn new(
        transport: Transport,
        options: Options,
        handlers: HashMap<String, Handler>,
        runtime: Handle,
        stats: Arc<Mutex<Stats>>,
    ) -> Engine {
        Engine {
            transport,
            options,
            handlers,
            runtime,
            state: Mutex::new(State { claiming: true, ..State::default() }),
            stats,
            room: Notify::new(),
            settle_wanted: Notify::new(),
            beat_wanted: Notify::new(),
            watch_wanted: Notify::new(),
            changed: Notify::new(),
            draining: CancellationToken::new(),
            closed: CancellationToken::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, change: impl FnOnce(&mut Stats)) {
        change(&mut self.stats.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The thread. The receiver hears when it has ended, in whatever way.
    pub fn start(self: &Arc<Engine>) -> Result<oneshot::Receiver<()>, Error> {
        let wrong =
            |error: std::io::Error| Error::Invalid(format!("no thread for leases: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(wrong)?;
        let (over, ended) = oneshot::channel::<()>();
        let engine = Arc::clone(self);
        let body = move || {
            let _over = over;
            runtime.block_on(async {
                let parts = [
                    tokio::spawn(Arc::clone(&engine).claims()),
                    tokio::spawn(Arc::clone(&engine).beats()),
                    tokio::spawn(Arc::clone(&engine).watch()),
                    tokio::spawn(Arc::clone(&engine).settles()),
                ];
                for part in parts {
                    if part.await.is_err() {
                        // Without one of its parts a worker must not go on: leases would end under running
                        // handlers.
                        tracing::error!("the worker stops: a part of it failed");
                        engine.tell_all(Reason::LeaseLost);
                        engine.close();
                    }
                }
                engine.leave().await;
            });
        };
        std::thread::Builder::new().name("duly-heart".to_string()).spawn(body).map_err(wrong)?;
        Ok(ended)
    }

    /// Takes nothing more and hands back what has not begun. Handlers that run go on.
    pub fn drain(&self) {
        self.draining.cancel();
        let mut state = self.state();
        state.ready.clear();
        let waiting: Vec<Arc<Held>> = state
            .held
            .values()
            .filter(|slot| !slot.begun && !slot.held.is_finished())
            .map(|slot| Arc::clone(&slot.held))
            .collect();
        for held in waiting {
            self.end(&mut state, &held, Said::released());
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Ends the thread. What is still held is left to its lease.
    pub fn close(&self) {
        self.draining.cancel();
        let left = self.state().held.len();
        if left > 0 && !self.closed.is_cancelled() {
            tracing::warn!("{left} runs are left to their leases: their handlers did not stop");
        }
        self.closed.cancel();
    }

    /// Says goodbye, so that nothing waits for this worker's leases.
    async fn leave(&self) {
        let body = json!({ "worker": self.options.name }).to_string();
        let call = Call::post("/v1/work/leave").raw(body).timeout(LAST_WORDS);
        // A server that is away: leases end by themselves.
        let _ = self.transport.once(&call).await;
    }

    /// Returns when nothing is held: every run was settled, handed back or lost.
    pub async fn idle(&self) {
        let is_idle = || {
            let state = self.state();
            state.held.is_empty() && !state.claiming
        };
        while !is_idle() {
            self.changed.notified().await;
        }
    }

    /// Tells every handler to stop.
    pub fn tell_all(&self, reason: Reason) {
        let held: Vec<Arc<Held>> =
            self.state().held.values().map(|slot| Arc::clone(&slot.held)).collect();
        held.iter().for_each(|one| one.tell(reason));
    }

    pub fn checkpoint(
        &self,
        held: &Held,
        text: String,
    ) -> Result<oneshot::Receiver<Result<(), Error>>, Error> {
        let lost = || Err(Error::LeaseLost(format!("{} belongs to another", held.run.run_id)));
        let mut state = self.state();
        let Some(slot) = state.held.get_mut(&held.serial) else { return lost() };
        if slot.stale || held.is_finished() || self.closed.is_cancelled() {
            return lost();
        }
        if slot.checkpoints.len() >= CHECKPOINTS_WAITING_MAX {
            let most = CHECKPOINTS_WAITING_MAX;
            let text = format!("{most} checkpoints of this run wait already: await each one");
            return Err(Error::Invalid(text));
        }
        let (told, stored) = oneshot::channel();
        slot.checkpoints.push((text, told));
        slot.beat_at = Moment::ZERO;
        self.beat_wanted.notify_one();
        Ok(stored)
    }

    /// What this worker says of itself.
    fn about(&self, state: &State) -> Option<Value> {
        let mut about = self.options.about.clone();
        about["running"] = state.running.into();
        (!state.mute).then_some(about)
    }

    /// A run's end is known here, and will be said: the server knows whose the run is.
    fn end(&self, state: &mut State, held: &Arc<Held>, said: Said) {
        held.finish();
        let Some(slot) = state.held.get_mut(&held.serial) else { return };
        for (_, told) in slot.checkpoints.drain(..) {
            let _ = told.send(Err(Error::LeaseLost("the handler is over".to_string())));
        }
        if slot.stale && said.outcome != crate::end::Outcome::Succeeded {
            self.drop_held(state, held);
        } else {
            state.ended.push_back((Arc::clone(held), said));
            self.settle_wanted.notify_one();
        }
    }

    /// Nothing will be said of it any more.
    fn drop_held(&self, state: &mut State, held: &Held) {
        if state.held.remove(&held.serial).is_some() {
            self.count(|stats| stats.abandoned += 1);
            self.room.notify_one();
            self.changed.notify_one();
        }
    }

    /// Until the end, or for so long.
    async fn pause(&self, length: Duration) {
        tokio::select! {
            () = self.closed.cancelled() => {}
            () = tokio::time::sleep(length) => {}
        }
    }

    fn stops_when_unknown(&self, held: &Held) -> bool {
        match self.options.on_lease_unknown {
            OnLeaseUnknown::Stop => true,
            OnLeaseUnknown::Continue => false,
            OnLeaseUnknown::Auto => held.run.group.is_some(),
        }
    }

    /// How long from now until this instant.
    fn until(at: Moment) -> Duration {
        at.saturating_sub(clock::now()).min(crate::limits::IDLE)
    }
}
