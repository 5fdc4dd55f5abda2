//! Workers, as they are told.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Serialize, JsonSchema)]
pub struct Workers {
    pub items: Vec<Worker>,
    pub next_cursor: Option<String>,
}

/// A worker that was heard of lately: what it said of itself, and when.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Worker {
    pub id: String,
    /// active, quiet (told to take nothing more), terminating (told to go), vanished (not heard of
    /// for longer than it should be silent).
    pub status: &'static str,
    pub last_seen_at: String,
    /// Handlers that it may run at once, and those that ran when it last said so.
    pub capacity: Option<u64>,
    pub running: Option<u64>,
    pub version: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// Of its last claim.
    pub queues: Vec<String>,
    pub kinds: Option<Vec<String>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Left {
    pub left: bool,
}
