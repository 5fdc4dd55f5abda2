//! What a handler is given beside its payload.

use crate::clock;
use crate::end::End;
use crate::engine::{Engine, Held};
use crate::error::Error;
use crate::limits::{CHECKPOINT_BYTES_MAX, PROGRESS_CHARS_MAX};
use crate::time::parse;
use crate::types::ClaimedRun;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

/// Why a handler is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// A person asked.
    Cancelled,
    /// The run may be another's, or is.
    LeaseLost,
    /// Its time is over.
    Deadline,
    /// The worker goes.
    Shutdown,
}

impl Reason {
    /// One word: `cancelled`, `lease_lost`, `deadline` or `shutdown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Cancelled => "cancelled",
            Reason::LeaseLost => "lease_lost",
            Reason::Deadline => "deadline",
            Reason::Shutdown => "shutdown",
        }
    }
}

/// This handler was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped(pub Reason);

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped: {}", self.0.as_str())
    }
}

impl std::error::Error for Stopped {}

/// A run as its handler knows it: its lease, and what can be said of it. Clones are of the same run.
#[derive(Clone)]
pub struct Context {
    engine: Arc<Engine>,
    held: Arc<Held>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.run().run_id).finish()
    }
}

impl Context {
    pub(crate) fn new(engine: Arc<Engine>, held: Arc<Held>) -> Context {
        Context { engine, held }
    }

    /// The claim's answer, whole.
    pub fn run(&self) -> &ClaimedRun {
        &self.held.run
    }

    /// The same on every attempt: the key to do a thing once.
    pub fn run_id(&self) -> &str {
        &self.run().run_id
    }

    /// Its job.
    pub fn job_id(&self) -> &str {
        &self.run().job_id
    }

    /// Which handler.
    pub fn kind(&self) -> &str {
        &self.run().kind
    }

    /// 1 for the first.
    pub fn attempt(&self) -> u32 {
        self.run().attempt
    }

    /// Larger for every later attempt: `UPDATE … WHERE fence < token` keeps former ones out.
    pub fn token(&self) -> u64 {
        self.run().token
    }

    /// What the attempt before this one died of.
    pub fn previous_error(&self) -> Option<&str> {
        self.run().previous_error.as_deref()
    }

    /// The checkpoint of a former attempt, if it stored one.
    pub fn saved<T: DeserializeOwned>(&self) -> Result<Option<T>, End> {
        let Some(saved) = &self.run().checkpoint else { return Ok(None) };
        serde_json::from_str(saved.get()).map(Some).map_err(|error| {
            End::fail(format!("the checkpoint is not what this handler stores: {error}"))
        })
    }

    /// When this attempt must be over, by the server's clock.
    pub fn deadline(&self) -> SystemTime {
        let at = parse(&self.run().deadline).map(SystemTime::from);
        at.unwrap_or_else(|| SystemTime::now() + self.remaining())
    }

    /// Until the deadline.
    pub fn remaining(&self) -> Duration {
        self.held.deadline_at.saturating_sub(clock::now())
    }

    /// Cancelled when this handler shall stop. Soon after that the handler's future is dropped.
    pub fn stop(&self) -> &CancellationToken {
        &self.held.stop
    }

    /// Why this handler shall stop; None while it shall not.
    pub fn stop_reason(&self) -> Option<Reason> {
        self.held.told()
    }

    /// An error if this handler shall stop: `ctx.check()?`.
    pub fn check(&self) -> Result<(), Stopped> {
        self.stop_reason().map_or(Ok(()), |reason| Err(Stopped(reason)))
    }

    /// What the future brings, unless this handler shall stop before.
    pub async fn unless_stopped<F: Future>(&self, future: F) -> Result<F::Output, Stopped> {
        tokio::select! {
            biased;
            () = self.held.stop.cancelled() => {
                Err(Stopped(self.stop_reason().unwrap_or(Reason::LeaseLost)))
            }
            value = future => Ok(value),
        }
    }

    /// No heartbeat has been answered for 90 % of the lease: somebody else may have this run soon.
    pub fn lease_unknown(&self) -> bool {
        self.held.is_unknown()
    }

    /// How far this attempt is, from 0 to 1, told to people with the next heartbeat. The last one counts.
    pub fn progress(&self, fraction: f64) {
        if !fraction.is_nan() {
            self.held.say_progress(json!({ "fraction": fraction.clamp(0.0, 1.0) }));
        }
    }

    /// The same with words.
    pub fn progress_with(&self, fraction: f64, message: &str) {
        let message: String = message.chars().take(PROGRESS_CHARS_MAX).collect();
        let mut said = json!({ "message": message });
        if !fraction.is_nan() {
            said["fraction"] = fraction.clamp(0.0, 1.0).into();
        }
        self.held.say_progress(said);
    }

    /// Stores what the next attempt shall know. Returns when it is durable, or with
    /// [`Error::LeaseLost`] if this run is gone.
    pub async fn checkpoint(&self, value: &impl Serialize) -> Result<(), Error> {
        let stored = self.store(value)?;
        stored.await.unwrap_or_else(|_| Err(Error::LeaseLost("the worker has gone".to_string())))
    }

    /// The same for handlers in threads ([`Worker::handle_blocking`](crate::Worker::handle_blocking)).
    pub fn checkpoint_blocking(&self, value: &impl Serialize) -> Result<(), Error> {
        let stored = self.store(value)?.blocking_recv();
        stored.unwrap_or_else(|_| Err(Error::LeaseLost("the worker has gone".to_string())))
    }

    fn store(
        &self,
        value: &impl Serialize,
    ) -> Result<tokio::sync::oneshot::Receiver<Result<(), Error>>, Error> {
        let text = serde_json::to_string(value)
            .map_err(|error| Error::Invalid(format!("a checkpoint is JSON: {error}")))?;
        if text.len() > CHECKPOINT_BYTES_MAX {
            let most = CHECKPOINT_BYTES_MAX;
            return Err(Error::Invalid(format!("a checkpoint has at most {most} bytes of JSON")));
        }
        self.engine.checkpoint(&self.held, text)
    }
}
