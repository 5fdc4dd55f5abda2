//! `duly job versions` and `duly job restore`: what a job was, who changed it, and how to go back.

use crate::failure::Failure;
use crate::job::{Out, path};
use crate::show;
use serde_json::Value;

#[derive(Debug, clap::Args)]
pub struct VersionsArgs {
    /// The id or the name
    job: String,
    /// One version, with its definition
    version: Option<u32>,
    #[command(flatten)]
    out: Out,
}

#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    /// The id or the name
    job: String,
    /// The version to go back to; it becomes a new one
    version: u32,
    #[command(flatten)]
    out: Out,
}

pub fn versions(args: &VersionsArgs) -> Result<String, Failure> {
    if let Some(version) = args.version {
        let text = args.out.server.get(&path(&args.job, &format!("/versions/{version}"))?)?;
        return args.out.one(&text);
    }
    let text = args.out.server.get(&path(&args.job, "/versions")?)?;
    if args.out.json { Ok(show::json(&text)) } else { table(&text) }
}

/// Sent with the version that is in force now, so that nobody's change in between is lost.
pub fn restore(args: &RestoreArgs) -> Result<String, Failure> {
    let found = show::parsed(&args.out.server.get(&path(&args.job, "")?)?)?;
    let version = format!("\"{}\"", found["version"]);
    let to = path(&args.job, &format!("/versions/{}/restore", args.version))?;
    let header = [("if-match", version.as_str())];
    args.out.one(&args.out.server.send("POST", &to, None, &header)?)
}

fn table(text: &str) -> Result<String, Failure> {
    let mut rows = vec![["VERSION", "SINCE", "BY", "CHANGED"].map(String::from).to_vec()];
    for item in show::parsed(text)?["items"].as_array().into_iter().flatten() {
        let changed = item["changed"].as_array().into_iter().flatten();
        let changed: Vec<String> = changed.map(show::plain).collect();
        rows.push(vec![
            show::plain(&item["version"]),
            show::plain(&item["since"]),
            by(&item["by"]),
            changed.join(" "),
        ]);
    }
    Ok(show::grid(&rows))
}

fn by(by: &Value) -> String {
    let name = if by["name"].is_null() { &by["key_id"] } else { &by["name"] };
    match by["kind"].as_str() {
        Some("key") => show::plain(name),
        Some("no_key") => "no key".to_string(),
        _ => String::new(),
    }
}
