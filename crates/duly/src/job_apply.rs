//! `duly job apply -f jobs.yaml`: the jobs of a file shall exist as it says. What will change is shown
//! first; applying twice changes nothing.

use crate::failure::{EXIT_USAGE, Failure};
use crate::job::{Out, path};
use crate::job_edit::definition;
use crate::show;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// More jobs belong into several files.
const JOBS_MAX: usize = 10_000;
const FILE_MAX: u64 = 64 * 1024 * 1024;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// YAML or JSON: a job, a list of jobs, or {"jobs": […]}; each with a name; - reads standard input
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    out: Out,
}

pub fn run(args: &Args) -> Result<String, Failure> {
    let jobs = read(args)?;
    let (mut text, mut results) = (String::new(), Vec::new());
    for (name, job) in jobs {
        let path = path(&name, "")?;
        let found = match args.out.server.get(&path) {
            Ok(found) => Some(show::parsed(&found)?),
            Err(failure) if failure.exit == crate::failure::EXIT_NOT_FOUND => None,
            Err(failure) => return Err(failure),
        };
        let found = found.filter(|found| {
            !["ended", "cancelled", "succeeded", "failed", "expired"]
                .contains(&found["status"].as_str().unwrap_or_default())
        });
        let lines = found.as_ref().map(|found| difference(&definition(found), &job));
        let word = match &lines {
            None => "create",
            Some(lines) if lines.is_empty() => "unchanged",
            Some(_) => "change",
        };
        let shown = format!("{word:9} {name}\n{}", lines.unwrap_or_default().concat());
        text.push_str(&shown);
        if args.dry_run {
            results.push(json!({"name": name, "would": word}));
            continue;
        }
        if !args.out.json {
            // First what will change, then the change.
            print(&shown);
            text.clear();
        }
        let body = Value::Object(job).to_string();
        let applied = show::parsed(&args.out.server.send("PUT", &path, Some(body), &[])?)?;
        let before = found.map(|found| found["version"].clone());
        let done = match before {
            None => "created",
            Some(version) if version == applied["version"] => "unchanged",
            Some(_) => "changed",
        };
        results.push(json!({
            "name": name, "id": applied["id"], "version": applied["version"], "result": done,
        }));
    }
    if args.out.json {
        return Ok(format!("{}\n", json!({ "results": results })));
    }
    for one in &results {
        if let Some(done) = one["result"].as_str() {
            let (name, version) = (show::plain(&one["name"]), &one["version"]);
            text.push_str(&format!("{done:9} {name} (version {version})\n"));
        }
    }
    Ok(text)
}

fn print(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// A job's name and the rest of its definition.
type Named = (String, Map<String, Value>);

fn read(args: &Args) -> Result<Vec<Named>, Failure> {
    let file = args.file.display().to_string();
    let refused = |message: String| Failure {
        exit: EXIT_USAGE,
        message: format!("{file}: {message}"),
        help: "duly job apply -f jobs.yaml --dry-run".to_string(),
    };
    let text = text_of(args).map_err(|error| refused(error.to_string()))?;
    let value: Value = match serde_json::from_str(&text) {
        Ok(value) => value,
        Err(_) => serde_saphyr::from_str(&text).map_err(|error| refused(error.to_string()))?,
    };
    let list = match value {
        Value::Array(list) => list,
        Value::Object(mut fields) if fields.contains_key("jobs") => match fields.remove("jobs") {
            Some(Value::Array(list)) if fields.is_empty() => list,
            _ => return Err(refused("jobs is a list, and nothing stands beside it".to_string())),
        },
        job => vec![job],
    };
    if list.len() > JOBS_MAX {
        return Err(refused(format!("at most {JOBS_MAX} jobs are applied at once")));
    }
    let mut jobs = Vec::with_capacity(list.len());
    for (index, job) in list.into_iter().enumerate() {
        let Value::Object(mut job) = job else {
            return Err(refused(format!("job {} is not an object", index + 1)));
        };
        match job.remove("name") {
            Some(Value::String(name)) => jobs.push((name, job)),
            _ => return Err(refused(format!("job {} has no name", index + 1))),
        }
    }
    Ok(jobs)
}

fn text_of(args: &Args) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    if args.file.as_os_str() == "-" {
        std::io::stdin().take(FILE_MAX).read_to_string(&mut text)?;
    } else {
        std::fs::File::open(&args.file)?.take(FILE_MAX).read_to_string(&mut text)?;
    }
    Ok(text)
}

/// Lines for what the file says differently. What it leaves out has its default, which only the
/// server knows: it is not shown, and the server's answer says whether something changed.
fn difference(old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<String> {
    let mut lines = Vec::new();
    for (field, value) in new {
        let before = old.get(field).unwrap_or(&Value::Null);
        if !is_same(before, value) {
            if !before.is_null() {
                lines.push(format!("  - {field}: {before}\n"));
            }
            lines.push(format!("  + {field}: {value}\n"));
        }
    }
    lines
}

/// Of objects only what the new one says; durations by their length.
fn is_same(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            new.iter().all(|(field, value)| is_same(old.get(field).unwrap_or(&Value::Null), value))
        }
        (Value::String(old), Value::String(new)) if old != new => {
            let length = |text: &str| wire::duration::parse(text).ok();
            let instant = |text: &str| wire::timestamp::parse(text).ok();
            (length(old).is_some() && length(old) == length(new))
                || (instant(old).is_some() && instant(old) == instant(new))
        }
        (old, new) => old == new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_what_the_file_says_otherwise() {
        let old = json!({
            "priority": 5, "timeout": "1h30m", "target": {"http": {"url": "u", "method": "POST"}},
            "queue": "default",
        });
        let new = json!({
            "priority": 9, "timeout": "90m", "target": {"http": {"url": "u"}}, "owner": "me",
        });
        let lines = difference(old.as_object().expect("one"), new.as_object().expect("one"));
        assert_eq!(lines, ["  + owner: \"me\"\n", "  - priority: 5\n", "  + priority: 9\n"]);
    }
}
