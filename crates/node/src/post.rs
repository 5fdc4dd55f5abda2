//! What nodes send each other, and who carries it. The core's messages, and beside them what belongs
//! to no shard's decision. This crate knows no wire: `peers` carries letters over HTTP.

use model::{NodeId, RunId, Text, Token};
use shard::Message;
use std::fmt::Debug;

#[derive(Clone, Debug, PartialEq)]
pub enum Letter {
    Core(Message),
    /// The attempt with this token shall stop; whoever holds it is told.
    Stop(RunId, Token),
    /// Entries of the catalog that every node remembers have changed.
    Changed(Changed),
    /// Somebody here waits for the end of this run, which the receiver decides.
    Watch(RunId),
    /// It may have ended: look again.
    Ended(RunId),
}

/// What is kept in memory everywhere and was changed by one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// API keys.
    Keys,
    /// Operations over many runs: there is one to work at.
    Operations,
    /// Queues: one was used for the first time.
    Queues,
}

/// Carries letters to other nodes. It never blocks; what it could not even begin to carry comes back,
/// at once or as a bounce (`NodeHandle::bounced`), and was not heard. What was carried and not
/// answered for may have been heard.
pub trait Post: Debug + Send + Sync {
    /// What comes back at once. The address is what the receiver's lease row says; a node that wrote to
    /// us before we saw its row is answered all the same.
    fn send(&self, to: NodeId, address: Option<&Text>, letter: Letter) -> Option<Letter>;
    /// Nodes that are alive: connections to others are closed.
    fn keep(&self, alive: &[NodeId]);
}
