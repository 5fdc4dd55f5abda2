//! Outboxes, as they are told.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, JsonSchema)]
pub struct Outboxes {
    pub items: Vec<OutboxSource>,
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OutboxSource {
    pub name: String,
    /// Where its jobs are made.
    pub namespace: String,
    /// The node that reads it; none while nobody does.
    pub node: Option<String>,
    /// Jobs of committed transactions that are not submitted yet, counted up to 10,000.
    pub waiting: Option<u64>,
    /// There are more than were counted.
    pub waiting_more: bool,
    /// How long the oldest of them has waited.
    pub oldest_ms: Option<i64>,
    /// Jobs that were refused and wait for a person in the table `refused`, counted up to 10,000.
    pub refused: Option<u64>,
    /// Submitted by this node since it was started.
    pub delivered_total: u64,
    /// Refused by this node since it was started.
    pub refused_total: u64,
    /// When the jobs were counted.
    pub looked_at: Option<String>,
    pub last_delivered_at: Option<String>,
    /// What last went wrong; it may be over.
    pub last_error: Option<String>,
    pub last_error_at: Option<String>,
}
