//! From the rows of `duly bench --json` on standard input to what is kept: JSON, a table and a plot.
//!
//!     bench-report FOLDER NAME ABOUT [CPU_PERCENT COMMITS_PER_SECOND RSS_MIB] < ROWS
//!
//! Writes FOLDER/NAME.json, .md and .svg, and prints the table beside what FOLDER/NAME.json said before.

use bench_load::Row;
use bench_load::compare::{Idle, Recorded};
use std::io::{BufRead, stdin};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str =
    "bench-report FOLDER NAME ABOUT [CPU_PERCENT COMMITS_PER_SECOND RSS_MIB] < ROWS";

fn main() -> ExitCode {
    match report() {
        Ok(table) => {
            println!("{table}");
            ExitCode::SUCCESS
        }
        Err(trouble) => {
            eprintln!("bench-report: {trouble}\nhelp: {USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn report() -> Result<String, String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (folder, name, about, idle) = match args.as_slice() {
        [folder, name, about] => (folder, name, about, None),
        [folder, name, about, cpu, commits, rss] => {
            let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is no number"));
            let idle = Idle {
                cpu_percent: number(cpu)?,
                commits_per_second: number(commits)?,
                rss_mib: number(rss)?,
            };
            (folder, name, about, Some(idle))
        }
        _ => return Err("three or six arguments are expected".to_string()),
    };
    // One line for each work of each repetition.
    let mut rows: Vec<Row> = Vec::new();
    for line in stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let more: Vec<Row> = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        rows.extend(more);
    }
    let kept = Path::new(folder).join(format!("{name}.json"));
    let last: Option<Recorded> =
        std::fs::read(&kept).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let now = Recorded::of(about.clone(), &rows, idle);
    let table = now.markdown(last.as_ref());
    let text = format!(
        "# Embedded store\n\n{about}\n\nRepeat with `make bench`. How it is measured: \
         [bench/README.md](../README.md).\n\n{table}\n![lateness]({name}.svg)\n"
    );
    let json = serde_json::to_string_pretty(&now).map_err(|error| error.to_string())?;
    for (ending, text) in [("json", json + "\n"), ("md", text), ("svg", now.plot())] {
        let path = Path::new(folder).join(format!("{name}.{ending}"));
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(table)
}
