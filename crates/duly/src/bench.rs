//! `duly bench`: load for a server on this machine, and a count of what came of it. The jobs go into
//! a queue of their own, so that nobody else's worker takes them; finished ones leave their history.

use crate::client::Server;
use crate::failure::{EXIT_FAILED, EXIT_USAGE, Failure};
use bench_load::{HEADER, Options, Row, Work, limits};
use std::io::{IsTerminal, Write};
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do: submit, single, noop, drain, webhook, burst, burst-webhook, spread, spread-webhook, fill,
    /// recurring, stampede, tenants, or all (but the last four, which leave or need other work)
    #[arg(default_values_t = ["all".to_string()])]
    works: Vec<String>,
    /// How many jobs each
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=limits::JOBS_MAX))]
    jobs: u64,
    /// Jobs in one request of a bulk submission
    #[arg(long, default_value_t = limits::BATCH as u64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    batch: u64,
    /// Connections that submit, and as many that work
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    connections: u64,
    /// The size of each payload
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=65_536))]
    payload_bytes: u64,
    /// The queue of the jobs, if one work is done; else each has one of its own
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// The group of the jobs: of `fill`, to put one tenant's work into a queue
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Jobs that arrive in a second, in `tenants`
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: u64,
    /// Give a work up after so many seconds
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    time_limit: u64,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

pub fn run(args: &Args) -> Result<String, Failure> {
    let mut works = Vec::new();
    for name in &args.works {
        match name.as_str() {
            "all" => works.extend(Work::all()),
            name => works.push(name.parse().map_err(|names| {
                let message = format!("{name:?} is no work of duly bench");
                Failure { exit: EXIT_USAGE, message, help: names }
            })?),
        }
    }
    let address = args.server.plain_address()?;
    let server = bench_load::Server { address, headers: args.server.header_lines() };
    let mut rows = Vec::new();
    for work in works {
        let options = Options {
            server: server.clone(),
            // The works follow each other, and what one left behind is not another one's.
            queue: args
                .queue
                .clone()
                .unwrap_or_else(|| format!("bench-{}-{}", std::process::id(), rows.len())),
            group: args.group.clone(),
            rate: args.rate,
            jobs: args.jobs,
            batch: usize::try_from(args.batch).unwrap_or(limits::BATCH),
            connections: usize::try_from(args.connections).unwrap_or(1),
            payload_bytes: usize::try_from(args.payload_bytes).unwrap_or(0),
            time_limit: Duration::from_secs(args.time_limit),
        };
        let mut bar = Bar::new(work.name());
        let row = bench_load::run(work, &options, &mut |done, of| bar.show(done, of));
        bar.clear();
        rows.push(row.map_err(|trouble| {
            let help = "duly serve, on this machine".to_string();
            Failure { exit: EXIT_FAILED, message: format!("{}: {trouble}", work.name()), help }
        })?);
    }
    let text = if args.json {
        let text = serde_json::to_string_pretty(&rows);
        text.map_err(|error| Failure::failed(error.to_string()))? + "\n"
    } else {
        table(&rows)
    };
    match rows.iter().all(Row::is_sound) {
        true => Ok(text),
        false => {
            let message = format!("a promise was broken\n{text}");
            Err(Failure { exit: EXIT_FAILED, message, help: "duly doctor".to_string() })
        }
    }
}

fn table(rows: &[Row]) -> String {
    let mut lines = vec![HEADER.map(String::from).to_vec()];
    lines.extend(rows.iter().map(|row| row.cells().to_vec()));
    crate::show::grid(&lines)
}

/// A bar on a terminal, nothing elsewhere.
struct Bar {
    name: &'static str,
    shown: Option<u64>,
}

impl Bar {
    fn new(name: &'static str) -> Bar {
        let terminal = std::io::stderr().is_terminal();
        Bar { name, shown: terminal.then_some(u64::MAX) }
    }

    fn show(&mut self, done: u64, of: u64) {
        let percent = done.saturating_mul(100) / of.max(1);
        if self.shown.is_none_or(|shown| shown == percent) {
            return;
        }
        self.shown = Some(percent);
        let full = usize::try_from(percent / 4).unwrap_or(0).min(25);
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(25 - full));
        let _ = write!(std::io::stderr(), "\r{:14} {bar} {percent:3} % of {of}", self.name);
    }

    fn clear(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r{:70}\r", "");
        }
    }
}
