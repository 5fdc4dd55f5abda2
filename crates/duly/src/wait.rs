//! `--wait`: until a run has ended. Badly is exit code 6.

use crate::failure::{EXIT_BAD_END, Failure};
use crate::job::Out;
use crate::show;
use serde_json::Value;

/// One request waits so long; then it is asked again.
const ONCE: &str = "30s";
/// A run may take a day per attempt and be retried for long: whoever waits longer asks again.
const ROUNDS_MAX: u32 = 2 * 60 * 24 * 7;

pub fn for_run(out: &Out, run: &str) -> Result<String, Failure> {
    let path = format!("/v1/runs/{}?wait={ONCE}", show::checked(run, "run")?);
    for _ in 0..ROUNDS_MAX {
        let text = out.server.get(&path)?;
        let found = show::parsed(&text)?;
        let status = found["status"].as_str().unwrap_or_default();
        if is_over(status) {
            let shown = out.one(&text)?;
            return if status == "succeeded" { Ok(shown) } else { Err(bad(run, &found, shown)) };
        }
    }
    Err(Failure::failed(format!("{run} has not ended in a week")))
}

pub fn is_over(status: &str) -> bool {
    ["succeeded", "failed", "cancelled", "expired", "dead"].contains(&status)
}

/// What the command would have printed stays on standard output.
pub fn bad(run: &str, found: &Value, shown: String) -> Failure {
    use std::io::Write;
    let _ = std::io::stdout().write_all(shown.as_bytes());
    let status = found["status"].as_str().unwrap_or("?");
    let why = found["error"].as_str().map(|error| format!(": {error}")).unwrap_or_default();
    Failure {
        exit: EXIT_BAD_END,
        message: format!("{run} is {status}{why}"),
        help: match status {
            "dead" => format!("duly run replay {run}"),
            _ => format!("duly run explain {run}"),
        },
    }
}
