//! The `duly` binary: reads the command line and calls one file per command.
//!
//! Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 refused, 5 unreachable, 6 the
//! run that was waited for ended badly. Nothing here decides
//! anything about schedules.

mod backup;
mod bench;
mod client;
mod clock;
mod cluster;
mod config;
mod dead;
mod demo;
mod destinations;
mod doctor;
mod egress;
mod events;
mod failure;
mod fault;
mod flag;
mod flow;
mod flow_flag;
mod job;
mod job_apply;
mod job_args;
mod job_edit;
mod job_versions;
mod joining;
mod key;
mod limits;
mod listen;
mod log;
mod memory_store;
mod outbox;
mod outbox_source;
mod output;
mod queue;
mod run;
mod schedule_preview;
mod seal;
mod secret;
mod serve;
mod show;
mod status;
mod stores;
mod stream;
mod target_test;
mod top;
mod vault;
mod wait;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "duly", version, about = "A job scheduler that keeps its promises.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server.
    Serve(Box<serve::Args>),
    /// Receive webhooks, check their signature, print them.
    Listen(listen::Args),
    /// See with your own eyes what happens in a crash. Needs no server.
    #[command(subcommand)]
    Demo(demo::DemoCommand),
    /// Look whether anything is wrong.
    Doctor(doctor::Args),
    /// Load for a server on this machine: throughput, lateness, repetitions.
    Bench(bench::Args),
    /// Copy the database, also while the server runs.
    Backup(backup::BackupArgs),
    /// Make a data folder from a copy.
    Restore(backup::RestoreArgs),
    /// Make and see jobs.
    #[command(subcommand)]
    Job(job::JobCommand),
    /// See, cancel and replay runs.
    #[command(subcommand)]
    Run(run::RunCommand),
    /// Runs that wait for a person.
    #[command(subcommand)]
    Dead(dead::DeadCommand),
    /// See, pause and resume queues.
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    /// Where runs are sent to, and what of it fails.
    #[command(subcommand)]
    Destination(destinations::DestinationCommand),
    /// The nodes that share a store, and their shards.
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Jobs that are submitted inside your own PostgreSQL transactions.
    #[command(subcommand)]
    Outbox(outbox::OutboxCommand),
    /// See and stop backfills and bulk replays.
    #[command(subcommand)]
    Operation(queue::OperationCommand),
    /// The stop button: no new attempts, running ones settle.
    Hold(queue::HoldArgs),
    /// Let attempts begin again.
    Release(queue::ReleaseArgs),
    /// What happens, line by line.
    Events(events::Args),
    /// Make, list and revoke API keys.
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Is the server there, and how does it do?
    Status(status::Args),
    /// What the server does right now, drawn again and again.
    Top(top::Args),
    /// Print the completions of a shell: bash, zsh, fish …
    Completions { shell: clap_complete::Shell },
    /// See and rotate the secrets that sign webhooks.
    #[command(subcommand)]
    Secret(secret::SecretCommand),
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
    let cli = match parse() {
        Ok(cli) => cli,
        Err(failure) => return refuse(&failure.to_string(), failure.exit),
    };
    let answer = match cli.command {
        Command::Key(command) => key::run(&command),
        Command::Status(args) => status::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Completions { shell } => Ok(completions(shell)),
        Command::Serve(args) => serve::run(&args).map(|()| String::new()),
        Command::Listen(args) => listen::run(&args).map(|()| String::new()),
        Command::Demo(command) => demo::run(&command),
        Command::Doctor(args) => doctor::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Backup(args) => backup::backup(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Job(command) => job::job(&command),
        Command::Run(command) => run::run(&command),
        Command::Dead(command) => dead::run(&command),
        Command::Queue(command) => queue::queue(&command),
        Command::Destination(command) => destinations::run(&command),
        Command::Cluster(command) => cluster::run(&command),
        Command::Outbox(command) => outbox::run(&command),
        Command::Operation(command) => queue::operation(&command),
        Command::Hold(args) => queue::hold(&args),
        Command::Release(args) => queue::release(&args),
        Command::Events(args) => events::run(&args),
        Command::Secret(command) => secret::run(&command),
        Command::Schedule(ScheduleCommand::Preview(args)) => {
            return match schedule_preview::run(&args) {
                Ok(text) => print(&text),
                Err(fault) => refuse(&fault.to_string(), failure::EXIT_USAGE),
            };
        }
    };
    match answer {
        Ok(text) => print(&text),
        Err(failure) => refuse(&failure.to_string(), failure.exit),
    }
}

/// The command line; with `--config` its file stands behind it.
fn parse() -> Result<Cli, failure::Failure> {
    let cli = Cli::parse();
    let Command::Serve(args) = &cli.command else { return Ok(cli) };
    let Some(path) = &args.config else { return Ok(cli) };
    let command = config::with_file(Cli::command(), path)?;
    Ok(Cli::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit()))
}

fn completions(shell: clap_complete::Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "duly", &mut text);
    String::from_utf8_lossy(&text).into_owned()
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
