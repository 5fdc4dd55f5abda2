//! `duly cluster …`: who is there, who owns what, and giving a node's shards to the others.

use crate::failure::Failure;
use crate::job::Out;
use crate::show::{self, Column};
use clap::Subcommand;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show the nodes: shards, leases, clocks, lag.
    Status(Args),
    /// List the shards: owner, epoch, commits.
    Shards(Args),
    /// Give a node's shards to the others; it takes none until it is started again.
    Drain(DrainArgs),
}

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    out: Out,
}

#[derive(Debug, clap::Args)]
pub struct DrainArgs {
    /// The node's id or number, as in `duly cluster status`
    node: String,
    #[command(flatten)]
    out: Out,
}

const NODES: [Column; 9] = [
    ("NODE", &["id"]),
    ("ADDRESS", &["address"]),
    ("SHARDS", &["shards"]),
    ("LIVE", &["about.shards_live"]),
    ("OWNS", &["owns"]),
    ("LEASE UNTIL", &["lease_expires_at"]),
    ("CLOCK ±MS", &["about.clock_within_ms"]),
    ("OLDEST READY MS", &["about.oldest_ready_ms"]),
    ("LAST TAKEOVER", &["about.last_takeover_at"]),
];
const SHARDS: [Column; 5] = [
    ("SHARD", &["shard"]),
    ("OWNER", &["owner"]),
    ("ALIVE", &["alive"]),
    ("EPOCH", &["epoch"]),
    ("COMMITS", &["commits"]),
];

pub fn run(command: &ClusterCommand) -> Result<String, Failure> {
    match command {
        ClusterCommand::Status(args) => list(args, "nodes", &NODES),
        ClusterCommand::Shards(args) => list(args, "shards", &SHARDS),
        ClusterCommand::Drain(args) => {
            let body = json!({"node": args.node}).to_string();
            args.out.one(&args.out.server.post("/v1/cluster/drain", body)?)
        }
    }
}

fn list(args: &Args, name: &str, columns: &[Column]) -> Result<String, Failure> {
    let text = args.out.server.get("/v1/cluster")?;
    if args.out.json {
        return Ok(show::json(&text));
    }
    let cluster: Value = show::parsed(&text)?;
    let items = json!({"items": cluster[name]}).to_string();
    show::table(&items, columns, "duly cluster")
}
