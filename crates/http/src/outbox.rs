//! Outboxes: jobs that users' transactions left in their own databases, submitted from here. `read` is the
//! task that follows one source, `deliver` submits a page of it, `show` tells how it stands.
//!
//! ```text
//!   page ──► read as POST /v1/jobs reads it ──► submit, durable ──► delete
//!              └─ refused ────────────────────────────────────────► moved to `refused`
//! ```
//!
//! - **Once.** A row is deleted after its submission was answered, so a death in between submits it
//!   again, under the same Idempotency-Key, which makes nothing. Two nodes that read at once do no harm
//!   for the same reason.
//! - **In order.** Rows are submitted in the order of their ids. When the store of a queue's shard does
//!   not answer, later rows of that queue wait behind the one that was not taken; other queues go on.
//! - **One reader**: the owner of the shard that the source's name falls on.
//!
//! What it does not do: SQL (`store::outbox` is asked), decide about jobs, keep what it has read.

mod deliver;
mod read;
mod show;

pub use read::follow;
pub use show::{known, show};

use model::{Span, Time};
use node::metrics::{Counter, Histogram};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::outbox::{Look, Outbox};

/// Where jobs come from.
#[derive(Clone, Debug)]
pub struct Source {
    /// Among the sources of this duly.
    pub name: String,
    /// The namespace of its jobs.
    pub namespace: String,
    pub outbox: Arc<dyn Outbox>,
}

/// How a source stands, as this node knows it.
#[derive(Debug)]
pub struct State {
    pub name: String,
    pub namespace: String,
    /// By this process.
    pub delivered: Counter,
    pub refused: Counter,
    /// From the call in the user's transaction to the durable answer.
    pub latency: Histogram,
    seen: Mutex<Seen>,
}

#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// This node reads it.
    pub reading: bool,
    pub look: Option<Look>,
    pub looked_at: Option<Time>,
    pub delivered_at: Option<Time>,
    pub error: Option<String>,
    pub error_at: Option<Time>,
}

impl State {
    pub fn of(source: &Source) -> State {
        State {
            name: source.name.clone(),
            namespace: source.namespace.clone(),
            delivered: Counter::default(),
            refused: Counter::default(),
            latency: Histogram::default(),
            seen: Mutex::default(),
        }
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the oldest has waited, if this node reads it.
    pub fn oldest(&self, now: Time) -> Option<Span> {
        let seen = self.seen();
        let (look, at) = (seen.look?, seen.looked_at?);
        let since = Span::from_micros(now.since(at).micros().max(0));
        Some(look.oldest.map_or(Span::ZERO, |oldest| {
            Span::from_micros(oldest.micros().saturating_add(since.micros()))
        }))
    }
}
