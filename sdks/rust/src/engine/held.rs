//! A run that is held: what its handler sees, and what the engine knows of its lease.

use crate::clock::Moment;
use crate::context::Reason;
use crate::error::Error;
use crate::types::ClaimedRun;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Shared with the handler.
pub(crate) struct Held {
    pub serial: u64,
    pub run: ClaimedRun,
    pub deadline_at: Moment,
    pub stop: CancellationToken,
    told: OnceLock<Reason>,
    finished: AtomicBool,
    unknown: AtomicBool,
    progress: Mutex<Option<Value>>,
}

impl Held {
    pub fn new(serial: u64, run: ClaimedRun, deadline_at: Moment) -> Held {
        Held {
            serial,
            run,
            deadline_at,
            stop: CancellationToken::new(),
            told: OnceLock::new(),
            finished: AtomicBool::new(false),
            unknown: AtomicBool::new(false),
            progress: Mutex::new(None),
        }
    }

    /// Tells the handler to stop. The first reason stays.
    pub fn tell(&self, reason: Reason) {
        if !self.is_finished() && self.told.set(reason).is_ok() {
            self.stop.cancel();
        }
    }

    pub fn told(&self) -> Option<Reason> {
        self.told.get().copied()
    }

    pub fn finish(&self) {
        self.finished.store(true, Ordering::Release);
    }

    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    pub fn set_unknown(&self, unknown: bool) {
        self.unknown.store(unknown, Ordering::Release);
    }

    pub fn is_unknown(&self) -> bool {
        self.unknown.load(Ordering::Acquire)
    }

    pub fn say_progress(&self, said: Value) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
    }

    pub fn progress(&self) -> Option<Value> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Under the engine's lock.
pub(super) struct Slot {
    pub held: Arc<Held>,
    lease: Duration,
    /// The next heartbeat.
    pub beat_at: Moment,
    /// 90 % of the lease, counted from the last request that was sent and answered.
    pub trusted_until: Moment,
    /// Its handler has been called.
    pub begun: bool,
    /// It waits for a heartbeat that says whether it still holds.
    pub confirm: bool,
    /// It belongs to another.
    pub stale: bool,
    /// What is to be stored, and who waits for it. The last one is what the next attempt shall know.
    pub checkpoints: Vec<(String, oneshot::Sender<Result<(), Error>>)>,
}

impl Slot {
    pub fn new(held: Arc<Held>, lease: Duration, sent: Moment) -> Slot {
        let (begun, confirm, stale) = (false, false, false);
        let (beat_at, trusted_until) = (sent, sent);
        let checkpoints = Vec::new();
        let mut slot =
            Slot { held, lease, beat_at, trusted_until, begun, confirm, stale, checkpoints };
        slot.renewed(sent);
        slot
    }

    /// A request sent at this instant was answered: the lease is as good as counted from there.
    pub fn renewed(&mut self, sent: Moment) {
        self.trusted_until = sent + self.lease * 9 / 10;
        self.beat_at = sent + self.lease / 3;
        self.held.set_unknown(false);
    }
}
