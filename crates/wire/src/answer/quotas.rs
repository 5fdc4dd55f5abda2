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
    /// What there may be, in the whole cluster, and is; none: as much as the caller wants.
    pub counts: Vec<QuotaCount>,
    /// Fires of recurring jobs; none: they are not limited.
    pub fires: Vec<QuotaFires>,
}

/// How often recurring jobs may fire, as it stands at the node that was asked.
#[derive(Debug, Serialize, JsonSchema)]
pub struct QuotaFires {
    /// namespace (all jobs of the namespace), key (those that were made with this API key).
    pub name: String,
    /// This node's part.
    pub per_min: f64,
    pub burst: u32,
    /// So many may fire now.
    pub remaining: u32,
    /// When a job may fire whose time comes now: others may stand in line before it.
    pub next_at: String,
}

/// How much of something there may be.
#[derive(Debug, Serialize, JsonSchema)]
pub struct QuotaCount {
    /// waiting (runs of the namespace that are ready or between two attempts), jobs (recurring ones);
    /// key_waiting, key_jobs (what of it was made with this API key).
    pub name: String,
    pub limit: u32,
    /// As counted now; where it is far beyond the limit, at least so many.
    pub current: usize,
}

/// One of them, as it stands at the node that was asked.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Quota {
    /// namespace (submissions of the namespace), key (submissions with this API key), bytes (of the
    /// namespace's requests), key_bytes (of requests with this API key).
    pub name: String,
    /// This node's part.
    pub per_s: f64,
    pub burst: u64,
    pub remaining: u64,
    /// Seconds until nothing of it is used.
    pub full_in_s: u64,
}
