//! `duly demo crash`: kill -9 in front of your eyes. Many jobs are due at one instant; in the middle of
//! them the server is killed and started again; then what arrived is counted, honestly.
//!
//! - `receiver`: hears the webhooks and remembers when each came.
//! - `server`: a `duly serve` of its own, on a free port, in a folder that is removed afterwards.

mod receiver;
mod server;

use crate::clock;
use crate::failure::Failure;
use model::{Span, Time};
use receiver::Receiver;
use serde_json::{Value, json};
use server::Server;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

/// Jobs in one request.
const BATCH: usize = 500;
/// What did not arrive by then did not arrive.
const PATIENCE: Span = Span::from_secs(30);
/// Later than this is late.
const LATE: Span = Span::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(10);

#[derive(Debug, clap::Subcommand)]
pub enum DemoCommand {
    /// Kill the server in the middle of many jobs, start it again, and count.
    Crash(Args),
}

#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many jobs are due at one instant
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    jobs: u32,
    /// Seconds between the first job and their instant
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=60))]
    lead: u32,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

/// What became of the jobs.
#[derive(Debug, Default)]
struct Count {
    delivered: usize,
    lost: usize,
    repeated: usize,
    early: usize,
    late: usize,
    worst: Span,
}

pub fn run(command: &DemoCommand) -> Result<String, Failure> {
    let DemoCommand::Crash(args) = command;
    let quiet = args.json;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("no runtime: {error}")))?;
    let receiver = runtime.block_on(Receiver::start(node::Tasks::new(runtime.handle().clone())))?;
    let mut server = Server::start()?;
    say(quiet, &format!("duly serve (process {}) in {}", server.id(), server.data().display()));
    let due = clock::now().plus(Span::from_secs(i64::from(args.lead)));
    let jobs = submit(&server, &receiver, args.jobs as usize, due)?;
    let at = wire::timestamp::format(due.micros());
    say(quiet, &format!("{} jobs accepted, all due at {at}", jobs.len()));

    let half = jobs.len() / 2;
    wait(due.plus(PATIENCE), || receiver.runs() >= half.max(1));
    let before = receiver.runs();
    let killed = clock::now();
    server.kill();
    say(quiet, &format!("kill -9 after {before} of them had arrived"));
    let rest = server.start_again();
    say(quiet, &format!("started again, ready after {} ms", millis(clock::now().since(killed))));
    rest?;
    wait(clock::now().plus(PATIENCE), || receiver.runs() >= jobs.len());
    server.stop();
    let count = count(&jobs, &receiver.heard(), due);
    let down = clock::now().since(killed);
    if args.json {
        return Ok(format!("{}\n", in_json(&count, jobs.len(), before, down)));
    }
    Ok(table(&count, jobs.len()))
}

/// Every job that was answered 202 counts; the run ids in the order of the answers.
fn submit(
    server: &Server,
    receiver: &Receiver,
    jobs: usize,
    due: Time,
) -> Result<Vec<String>, Failure> {
    let at = wire::timestamp::format(due.micros());
    let mut runs = Vec::with_capacity(jobs);
    while runs.len() < jobs {
        let some = (jobs - runs.len()).min(BATCH);
        let job = json!({"target": {"http": {"url": receiver.url()}}, "schedule": {"at": at}});
        let body = json!({"jobs": vec![job; some]});
        let answer = server.post("/v1/jobs/batch", body.to_string())?;
        let answer: Value = serde_json::from_str(&answer)
            .map_err(|_| Failure::failed("the server's answer is not JSON"))?;
        for result in answer["results"].as_array().into_iter().flatten() {
            let Some(id) = result["id"].as_str() else {
                return Err(Failure::failed(format!("a job was refused: {result}")));
            };
            runs.push(id.replacen("job_", "run_", 1));
        }
    }
    Ok(runs)
}

/// Waits for an event, looking often.
fn wait(until: Time, mut over: impl FnMut() -> bool) {
    while !over() && clock::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
}

fn count(jobs: &[String], heard: &BTreeMap<String, Vec<Time>>, due: Time) -> Count {
    let mut count = Count::default();
    for run in jobs {
        let Some(times) = heard.get(run) else {
            count.lost += 1;
            continue;
        };
        count.delivered += 1;
        count.repeated += usize::from(times.len() > 1);
        let first = times.iter().min().copied().unwrap_or(due);
        count.early += usize::from(first < due);
        count.late += usize::from(first.since(due) > LATE);
        count.worst = count.worst.max(first.since(due));
    }
    count
}

fn table(count: &Count, jobs: usize) -> String {
    format!(
        "\n  accepted   {jobs}\n  delivered  {}\n  lost       {}\n  repeated   {}\n  early      {}\n  \
         late       {} (more than 1 s; the latest {:.1} s)\n\n\
         Repeated are those that were under way when it was killed: at least once, under the same\n\
         run id. Late are those that had to wait for the server to come back.\n",
        count.delivered,
        count.lost,
        count.repeated,
        count.early,
        count.late,
        count.worst.micros() as f64 / 1e6
    )
}

fn in_json(count: &Count, jobs: usize, before: usize, took: Span) -> Value {
    json!({
        "accepted": jobs, "before_kill": before, "delivered": count.delivered,
        "lost": count.lost, "repeated": count.repeated, "early": count.early,
        "late": count.late, "latest_ms": millis(count.worst), "after_kill_ms": millis(took),
    })
}

fn millis(span: Span) -> i64 {
    span.micros() / 1_000
}

fn say(quiet: bool, line: &str) {
    if !quiet {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}
