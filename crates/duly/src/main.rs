//! The `duly` binary: reads the command line and calls one file per command.
//!
//! Exit codes: 0 ok, 1 failed, 2 usage. Nothing here decides anything about schedules.

mod clock;
mod fault;
mod limits;
mod output;
mod schedule_preview;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "duly", version, about = "A job scheduler that keeps its promises.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Look at schedules. Needs no server.
    #[command(subcommand)]
    Schedule(ScheduleCommand),
}

#[derive(Debug, Subcommand)]
enum ScheduleCommand {
    /// Show when a schedule will run, and what clock changes do to it.
    Preview(Box<schedule_preview::Args>),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let answer = match cli.command {
        Command::Schedule(ScheduleCommand::Preview(args)) => schedule_preview::run(&args),
    };
    match answer {
        Ok(text) => print(&text),
        Err(fault) => {
            // If standard error is closed there is nobody left to tell; the exit code still says it.
            let _ = std::io::stderr().write_all(fault.to_string().as_bytes());
            ExitCode::from(fault::EXIT_USAGE)
        }
    }
}

/// Whoever reads our output may stop early (`| head`): that is not a failure.
fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
