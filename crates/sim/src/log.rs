//! What clients, workers and endpoints saw. The checker reads this and the final store, never the
//! memory of a node: a promise is kept only if those outside can see that it was.
//!
//! Times are the true ones, which are the store's clock.

use model::row::Holder;
use model::{Epoch, RunId, ShardId, Time, Token};
use shard::Event;
use shard::command::{Answer, Beat, Command, CommandId, End, SettleAnswer};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Log {
    pub ops: Vec<Op>,
    pub starts: Vec<Start>,
    pub settles: Vec<SettleSeen>,
    /// Checkpoints whose heartbeat was answered "ok".
    pub beats: Vec<(Time, Beat)>,
    pub events: BTreeMap<Event, u64>,
    /// When the store forgot commits that it had acknowledged.
    pub tail_lost: Vec<Time>,
    /// The epochs of the shards when it last did: attempts up to them may have been forgotten.
    pub lost_epochs: BTreeMap<ShardId, Epoch>,
    /// When the store refused something on purpose because of a poisoned row.
    pub poisoned: u64,
}

/// A command of a client (not of a worker): when it was sent, and what the client heard.
#[derive(Clone, Debug)]
pub struct Op {
    pub id: CommandId,
    pub command: Command,
    pub sent: Time,
    /// When the answer came and what it was; none if the client never heard.
    pub heard: Option<(Time, Answer)>,
}

/// A holder began an attempt: a worker's handler started, or an endpoint received the webhook.
#[derive(Clone, Debug)]
pub struct Start {
    pub at: Time,
    pub run: RunId,
    pub token: Token,
    pub attempt: u16,
    pub version: u32,
    pub nominal: Time,
    pub due: Time,
    pub holder: Holder,
    pub request: u64,
}

/// A holder settled an attempt.
#[derive(Clone, Debug)]
pub struct SettleSeen {
    pub sent: Time,
    pub run: RunId,
    pub token: Token,
    pub end: End,
    /// The answer, if the holder heard one.
    pub heard: Option<(Time, SettleAnswer)>,
}

impl Log {
    pub fn count(&mut self, event: Event) {
        *self.events.entry(event).or_default() += 1;
    }
}
