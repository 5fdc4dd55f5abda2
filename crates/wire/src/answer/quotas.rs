//! What duly answers about quotas.

use schemars::JsonSchema;
use serde::Serialize;

/// What the caller may submit.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Quotas {
    pub namespace: String,
    /// Each of so many nodes has its part of what is allowed.
    pub nodes: usize,
    /// Webhooks, messages and programs under way at once, in the whole cluster; null: not limited.
    pub in_flight: Option<u32>,
    /// None: what is submitted is not limited.
    pub items: Vec<Quota>,
    /// What the namespace may have, in the whole cluster, and has; none: as much as it wants.
    pub counts: Vec<QuotaCount>,
}

/// How much of something a namespace may have.
#[derive(Debug, Serialize, JsonSchema)]
pub struct QuotaCount {
    /// waiting (runs that are ready or between two attempts), jobs (recurring ones).
    pub name: String,
    pub limit: u32,
    /// As counted now; where it is far beyond the limit, at least so many.
    pub current: usize,
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
