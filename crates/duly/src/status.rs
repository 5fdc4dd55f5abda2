//! `duly status`: is the server there, is it ready, which version, and what it has counted.

use crate::client::Server;
use crate::failure::Failure;
use crate::queue::held_words;
use crate::show;
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

/// What is shown, and where /metrics has it.
const COUNTS: [(&str, &str); 8] = [
    ("jobs_submitted", "duly_jobs_submitted_total"),
    ("attempts_succeeded", "duly_attempts_total{outcome=\"succeeded\"}"),
    ("attempts_failed", "duly_attempts_total{outcome=\"failed\"}"),
    ("retries", "duly_retries_total"),
    ("dead_letters", "duly_dead_letters_total"),
    ("shards_live", "duly_shards_live"),
    ("connections", "duly_http_connections"),
    ("store_divergence", "duly_store_divergence_total"),
];

pub fn run(args: &Args) -> Result<String, Failure> {
    let version: Value = args.server.get_json("/v1/version")?;
    // Not ready is an answer, not a failure of this command.
    let ready = args.server.get("/readyz").is_ok();
    let metrics = args.server.get("/metrics")?;
    // A server of a former version does not tell.
    let holds: Value = args.server.get_json("/v1/holds").unwrap_or_default();
    let count = |series: &str| -> u64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    let counts: Vec<(&str, u64)> =
        COUNTS.iter().map(|(name, series)| (*name, count(series))).collect();
    let health = if ready { "ready" } else { "starting" };
    if args.json {
        let counts: serde_json::Map<String, Value> =
            counts.into_iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
        let all = json!({
            "address": args.server.url(), "health": health, "version": version["version"],
            "tzdb": version["tzdb"], "store": version["store"], "counts": counts,
            "holds": holds["items"],
        });
        return Ok(format!("{all}\n"));
    }
    let mut text = format!(
        "address             {}\nhealth              {health}\nversion             {}\ntzdb                {}\n",
        args.server.url(),
        version["version"].as_str().unwrap_or("?"),
        version["tzdb"].as_str().unwrap_or("?"),
    );
    let store = &version["store"];
    let (kind, durability) = (store["kind"].as_str(), store["durability"].as_str());
    let (kind, durability) = (kind.unwrap_or("?"), durability.unwrap_or("?"));
    let answers = if store["answers"] == json!(false) { " (DOES NOT ANSWER now)" } else { "" };
    text.push_str(&format!("store               {kind}: {durability}{answers}\n"));
    for hold in holds["items"].as_array().into_iter().flatten() {
        let (what, reason) = (held_words(hold), show::plain(&hold["reason"]));
        text.push_str(&format!("HELD                {what}: {reason} (duly hold list)\n"));
    }
    for (name, value) in counts {
        text.push_str(&format!("{name:19} {value}\n"));
    }
    Ok(text)
}
