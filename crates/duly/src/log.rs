//! Log lines of the server: on standard error, for people or for programs. Which fields a line has
//! is decided where it is written; secrets and payloads are in none.

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One line of text each
    Human,
    /// One JSON object each
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

pub fn start(format: Format, level: Level) {
    let level = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(false);
    // Only the first call of a process counts; there is one.
    let _ = match format {
        Format::Human => lines.compact().with_target(false).try_init(),
        Format::Json => lines.json().flatten_event(true).with_current_span(false).try_init(),
    };
}
