//! Real processes and faults, judged by the simulator's checker. `duly serve` is killed at named
//! places and at random times, started again, and at the end what clients, workers and the receiver
//! saw is compared with what the store holds.
//!
//! `chaos --ci` is what CI runs; `chaos --seeds 5..9` runs more, or one world again (its own times
//! and the machine's decide much, so a seed repeats the plan, not every byte); `chaos --planted`
//! proves that it can fail. `chaos --cluster SEED` runs a cluster on PostgreSQL through a plan of
//! faults (`cluster`). `chaos --start-with 1000000` measures a start with many stored jobs.

mod book;
mod campaign;
mod client;
mod cluster;
mod http;
mod limits;
mod million;
mod proxy;
mod receiver;
mod server;
mod story;
mod worker;
mod world;

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "chaos", about = "Kills duly serve and looks whether every promise was kept.")]
struct Args {
    /// At least 150 deaths, and the planted faults
    #[arg(long)]
    ci: bool,
    /// Worlds by seed, FIRST..LAST; a world is one data folder and twelve deaths
    #[arg(long, value_name = "FIRST..LAST")]
    seeds: Option<String>,
    /// Plant faults of the core into the server; each must be noticed
    #[arg(long)]
    planted: bool,
    /// Store so many jobs, and measure how long a start takes
    #[arg(long, value_name = "JOBS")]
    start_with: Option<u64>,
    /// A cluster on PostgreSQL, with the plan of this seed (0: a new one)
    #[arg(long, value_name = "SEED")]
    cluster: Option<u64>,
    /// So many clusters, with the seeds that follow
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    runs: u64,
    /// Nodes of a cluster
    #[arg(long, value_name = "COUNT", default_value_t = limits::CLUSTER_NODES)]
    nodes: u32,
    /// Faults that a cluster lives through
    #[arg(long, value_name = "COUNT", default_value_t = limits::CLUSTER_FAULTS)]
    faults: usize,
    /// Only faults of this kind; may be given several times
    #[arg(long, value_name = "KIND", value_parser = kind)]
    only: Vec<cluster::Kind>,
    /// An older duly: nodes of a cluster begin with it and change, and change back
    #[arg(long, value_name = "FILE")]
    old: Option<PathBuf>,
    /// Tell lies about the first cluster that kept its promises; each must be noticed
    #[arg(long)]
    lies: bool,
    /// Keep the folders of worlds that broke a promise here
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("chaos: {why}");
            ExitCode::from(2)
        }
    }
}

fn kind(name: &str) -> Result<cluster::Kind, String> {
    cluster::Kind::parse(name).ok_or_else(|| format!("the kinds are {:?}", cluster::KINDS))
}

fn run(args: &Args) -> Result<bool, String> {
    let binary = server::binary()?;
    if let Some(jobs) = args.start_with {
        million::run(&binary, jobs)?;
    }
    let keep = args.keep.clone();
    let seeds = match &args.seeds {
        Some(text) => Some(campaign::seeds(text)?),
        None if args.ci => {
            // A new plan every time; the line above the summary says how to repeat it.
            let first = node::random::bits() >> 24;
            Some(first..first + limits::CI_WORLDS)
        }
        None => None,
    };
    let mut good = true;
    if let Some(seeds) = seeds {
        good &= campaign::worlds(&binary, seeds, keep)?;
    }
    if args.ci || args.planted {
        good &= campaign::planted(&binary)?;
    }
    if let Some(seed) = args.cluster.or(args.ci.then_some(0)) {
        let seed = if seed == 0 { node::random::bits() >> 24 } else { seed };
        let settings = campaign::Clusters {
            seeds: seed..seed.saturating_add(args.runs),
            nodes: args.nodes,
            faults: args.faults,
            only: args.only.clone(),
            lies: args.lies || args.ci,
            old: args.old.clone(),
        };
        good &= campaign::clusters(&binary, &settings, args.keep.clone())?;
    }
    Ok(good)
}
