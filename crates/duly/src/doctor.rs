//! `duly doctor`: is anything wrong? Asks a running server to count its memory against its store; with
//! `--data` it looks at the file itself, with or without a server.

use crate::client::Server;
use crate::failure::{EXIT_FAILED, Failure};
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Look at the database in this folder instead of asking a server
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

pub fn run(args: &Args) -> Result<String, Failure> {
    let (head, findings) = match &args.data {
        Some(data) => {
            let found = store_sqlite::examine(data).map_err(|error| {
                Failure::failed(format!("{} cannot be looked at: {error}", data.display()))
            })?;
            let findings: Vec<Value> =
                found.iter().map(|one| json!({"what": one.what, "help": one.help})).collect();
            (format!("looked at {}", data.display()), findings)
        }
        None => {
            let text = args.server.get("/v1/doctor")?;
            let answer: Value = serde_json::from_str(&text)
                .map_err(|_| Failure::failed("the server's answer is not JSON"))?;
            let memory = &answer["memory"];
            let head = format!(
                "in memory: {} shards, {} ready, {} timers, {} leases; in the store: {} leases",
                memory["shards"],
                memory["ready"],
                memory["timers"],
                memory["leases"],
                answer["stored_leases"]
            );
            (head, answer["findings"].as_array().cloned().unwrap_or_default())
        }
    };
    if args.json {
        let text = format!("{}\n", json!({"findings": findings}));
        return if findings.is_empty() { Ok(text) } else { Err(ill(text)) };
    }
    if findings.is_empty() {
        return Ok(format!("{head}\nnothing is wrong\n"));
    }
    let mut text = format!("{head}\n");
    for finding in &findings {
        let shard = finding["shard"].as_u64().map(|shard| format!("shard {shard}: "));
        let what = finding["what"].as_str().unwrap_or_default();
        let help = finding["help"].as_str().unwrap_or_default();
        text.push_str(&format!("{}{what}\n  {help}\n", shard.unwrap_or_default()));
    }
    Err(ill(text))
}

/// The findings are the command's output; that there are some is its exit code.
fn ill(text: String) -> Failure {
    crate::print(&text);
    let help = "the lines above say what to do".to_string();
    Failure { exit: EXIT_FAILED, message: "something is wrong".to_string(), help }
}
