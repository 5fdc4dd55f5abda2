//! `duly events`: what happens, line by line. `duly run watch`: the same for one run, to its end.

use crate::failure::{EXIT_UNREACHABLE, Failure};
use crate::job::Out;
use crate::stream::Told;
use crate::{show, wait};
use serde_json::Value;
use std::io::Write;
use std::ops::ControlFlow;
use std::time::Duration;

/// A stream that breaks off is opened again, so often in a row.
const AGAIN_MAX: u32 = 10;
const AGAIN_PAUSE: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Types with commas between, such as run.dead,job or hold
    #[arg(long)]
    types: Option<String>,
    /// Only of this job, by id or name
    #[arg(long)]
    job: Option<String>,
    #[arg(long)]
    queue: Option<String>,
    /// Go on after this event
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// Stop after so many events
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    out: Out,
}

pub fn run(args: &Args) -> Result<String, Failure> {
    let query = show::query(&[
        ("types", args.types.as_deref()),
        ("job", args.job.as_deref()),
        ("queue", args.queue.as_deref()),
    ]);
    let mut left = args.count.unwrap_or(u64::MAX);
    follow(&args.out, &format!("/v1/events{query}"), args.after.clone(), |told| {
        if told.name == "listening" {
            return ControlFlow::Continue(());
        }
        let line = if args.out.json { told.data.to_string() } else { line(&told.data) };
        if !say(&line) {
            return ControlFlow::Break(());
        }
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(String::new())
}

/// Listens until told to stop, and comes again where it was when the stream breaks off.
fn follow(
    out: &Out,
    path: &str,
    mut last: Option<String>,
    mut hear: impl FnMut(&Told) -> ControlFlow<()>,
) -> Result<(), Failure> {
    let mut failures = 0;
    loop {
        let heard = out.server.listen(path, &mut last, |told| {
            failures = 0;
            hear(told)
        });
        match heard {
            Ok(ControlFlow::Break(())) => return Ok(()),
            Ok(ControlFlow::Continue(())) => {}
            Err(failure) if failure.exit != EXIT_UNREACHABLE || last.is_none() => {
                return Err(failure);
            }
            Err(failure) if failures >= AGAIN_MAX => return Err(failure),
            Err(_) => {}
        }
        failures += 1;
        if failures > AGAIN_MAX {
            return Err(Failure::failed("the stream of events breaks off again and again"));
        }
        std::thread::sleep(AGAIN_PAUSE);
    }
}

/// Whoever reads our output may be gone.
fn say(line: &str) -> bool {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
}

fn line(data: &Value) -> String {
    let mut text = format!("{}  {:20}", show::plain(&data["at"]), show::plain(&data["type"]));
    let which = ["run_id", "job_id", "operation_id", "scope"];
    if let Some(name) = which.iter().find(|name| !data[**name].is_null()) {
        text.push_str(&format!("  {}", show::plain(&data[*name])));
    }
    for (name, value) in data.as_object().into_iter().flatten() {
        let shown = ["at", "type", "run_id", "job_id", "operation_id", "scope", "token"];
        if !shown.contains(&name.as_str()) && !value.is_null() {
            text.push_str(&format!("  {name}={}", show::plain(value)));
        }
    }
    text
}

pub fn watch(out: &Out, run: &str) -> Result<String, Failure> {
    let path = format!("/v1/runs/{}", show::checked(run, "run")?);
    let found = show::parsed(&out.server.get(&path)?)?;
    if !wait::is_over(found["status"].as_str().unwrap_or_default()) {
        let job = show::plain(&found["job_id"]);
        let stream = format!("/v1/events?types=run,gap&job={job}");
        let mut looked = false;
        follow(out, &stream, None, |told| {
            if told.name == "listening" && !looked {
                // It may have ended between the look and the beginning of the stream.
                looked = true;
                return match out.server.get(&path).and_then(|text| show::parsed(&text)) {
                    Ok(now) if !wait::is_over(now["status"].as_str().unwrap_or_default()) => {
                        ControlFlow::Continue(())
                    }
                    _ => ControlFlow::Break(()),
                };
            }
            if told.data["run_id"] != run {
                return ControlFlow::Continue(());
            }
            let shown = if out.json { told.data.to_string() } else { line(&told.data) };
            let over = told.name.strip_prefix("run.").is_some_and(wait::is_over);
            if over || !say(&shown) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    wait::for_run(out, run)
}
