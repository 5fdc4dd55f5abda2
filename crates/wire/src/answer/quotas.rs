//! What duly answers about quotas.

use schemars::JsonSchema;
use serde::Serialize;

/// What the caller may submit.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Quotas {
    pub namespace: String,
    /// Each of so many nodes has its part of what is allowed.
    pub nodes: usize,
    /// None: nothing is limited.
    pub items: Vec<Quota>,
}

/// One of them, as it stands at the node that was asked.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Quota {
    /// namespace (submissions of the namespace), key (submissions with this API key), bytes (of the
    /// namespace's requests).
    pub name: String,
    /// This node's part.
    pub per_s: f64,
    pub burst: u64,
    pub remaining: u64,
    /// Seconds until nothing of it is used.
    pub full_in_s: u64,
}
