//! The cluster, as it is told.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, JsonSchema)]
pub struct Cluster {
    /// The node that answers.
    pub node: String,
    /// When it last saw the cluster, by the store's clock.
    pub at: String,
    /// Those whose lease holds.
    pub nodes: Vec<ClusterNode>,
    pub shards: Vec<ClusterShard>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ClusterNode {
    /// The node's number and the life of its process.
    pub id: String,
    pub number: u32,
    /// Where other nodes reach it.
    pub address: Option<String>,
    /// Shards may be placed on it.
    pub owns: bool,
    pub lease_expires_at: String,
    /// Shards that it owns.
    pub shards: usize,
    /// Did it answer when it was asked?
    pub answers: bool,
    /// What it says of itself.
    pub about: Option<NodeAbout>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct NodeAbout {
    pub version: String,
    /// The store's time, at least, as the node knows it.
    pub now: String,
    /// How far apart the least and the most that the store's time can be are.
    pub clock_within_ms: Option<f64>,
    pub shards_here: usize,
    /// Those of them that answer.
    pub shards_live: usize,
    /// How long the oldest ready run in its memory has waited.
    pub oldest_ready_ms: i64,
    /// It gives its shards away and takes none.
    pub leaving: bool,
    /// When it last took a shard over.
    pub last_takeover_at: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ClusterShard {
    pub shard: u16,
    pub owner: Option<String>,
    /// Does its owner's lease hold?
    pub alive: bool,
    /// Grows with every change of owner.
    pub epoch: u32,
    /// Number of its last commit.
    pub commits: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Drained {
    pub node: String,
    pub leaving: bool,
}
