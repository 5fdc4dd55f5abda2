//! Joins what the executor knows of destinations with the HTTP interface that shows it; and
//! `duly destination list`.

use crate::failure::Failure;
use crate::job::Out;
use crate::show::{self, Column};
use clap::Subcommand;
use executor::Destinations;
use model::{Namespace, Target, Time};
use std::sync::Arc;
use wire::answer::Destination;

#[derive(Debug)]
pub struct Known(pub Arc<Destinations>);

impl http_api::destinations::Destinations for Known {
    fn of(&self, namespace: Namespace, now: Time) -> Vec<Destination> {
        self.0.of(namespace, now)
    }

    fn host(&self, target: &Target) -> Option<String> {
        executor::place::of_target(target).map(|place| place.to_string())
    }

    fn open(&self) -> u64 {
        self.0.open() as u64
    }
}

#[derive(Debug, Subcommand)]
pub enum DestinationCommand {
    /// List where runs are sent to: what is under way, what fails, what waits.
    List(Args),
}

#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(long)]
    limit: Option<String>,
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    out: Out,
}

const COLUMNS: [Column; 7] = [
    ("HOST", &["host"]),
    ("STATE", &["state"]),
    ("IN FLIGHT", &["in_flight"]),
    ("WAITING", &["waiting"]),
    ("FAILURE RATE", &["failure_rate"]),
    ("OPENED", &["opened_at"]),
    ("NEXT PROBE", &["next_probe_at"]),
];

pub fn run(command: &DestinationCommand) -> Result<String, Failure> {
    let DestinationCommand::List(args) = command;
    let limits = [("limit", args.limit.as_deref()), ("cursor", args.cursor.as_deref())];
    let text = args.out.server.get(&format!("/v1/destinations{}", show::query(&limits)))?;
    args.out.list(&text, &COLUMNS, "duly destination list")
}
