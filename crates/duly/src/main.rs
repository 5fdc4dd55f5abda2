//! The `duly` binary: reads the command line and calls one file per command.
//!
//! Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 refused, 5 unreachable. Nothing here decides
//! anything about schedules.

mod backup;
mod client;
mod clock;
mod demo;
mod doctor;
mod failure;
mod fault;
mod job;
mod limits;
mod listen;
mod memory_store;
mod output;
mod schedule_preview;
mod secret;
mod serve;
mod stores;

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
    /// Run the server.
    Serve(serve::Args),
    /// Receive webhooks, check their signature, print them.
    Listen(listen::Args),
    /// See with your own eyes what happens in a crash. Needs no server.
    #[command(subcommand)]
    Demo(demo::DemoCommand),
    /// Look whether anything is wrong.
    Doctor(doctor::Args),
    /// Copy the database, also while the server runs.
    Backup(backup::BackupArgs),
    /// Make a data folder from a copy.
    Restore(backup::RestoreArgs),
    /// Make and see jobs.
    #[command(subcommand)]
    Job(job::JobCommand),
    /// See runs.
    #[command(subcommand)]
    Run(job::RunCommand),
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
        Command::Serve(args) => serve::run(&args).map(|()| String::new()),
        Command::Listen(args) => listen::run(&args).map(|()| String::new()),
        Command::Demo(command) => demo::run(&command),
        Command::Doctor(args) => doctor::run(&args),
        Command::Backup(args) => backup::backup(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Job(command) => job::job(&command),
        Command::Run(command) => job::run(&command),
        Command::Schedule(ScheduleCommand::Preview(args)) => {
            return match schedule_preview::run(&args) {
                Ok(text) => print(&text),
                Err(fault) => refuse(&fault.to_string(), fault::EXIT_USAGE),
            };
        }
    };
    match answer {
        Ok(text) => print(&text),
        Err(failure) => refuse(&failure.to_string(), failure.exit),
    }
}

/// If standard error is closed there is nobody left to tell; the exit code still says it.
fn refuse(text: &str, exit: u8) -> ExitCode {
    let _ = std::io::stderr().write_all(text.as_bytes());
    ExitCode::from(exit)
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
