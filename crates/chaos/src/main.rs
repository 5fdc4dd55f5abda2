//! Real processes and faults, judged by the simulator's checker. `duly serve` is killed at named
//! places and at random times, started again, and at the end what clients, workers and the receiver
//! saw is compared with what the store holds.
//!
//! `chaos --ci` is what CI runs; `chaos --seeds 5..9` runs more, or one world again (its own times
//! and the machine's decide much, so a seed repeats the plan, not every byte); `chaos --planted`
//! proves that it can fail. `chaos --cluster SEED` runs a cluster on PostgreSQL through a plan of
//! faults (`cluster`); `--rate N` adds load in batches. `--calm`, `--takeovers` and `--full-cpu` are
//! clusters that are asked one question each. `chaos --start-with 1000000` measures a start with many stored jobs.

mod book;
mod bulk;
mod campaign;
mod client;
mod cluster;
mod http;
mod limited;
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
use std::time::Duration;

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
    /// Each node in a network namespace of its own, which is made and removed here; needs root and iproute2
    #[arg(long)]
    namespaces: bool,
    /// The duly of the version before: nodes of a cluster begin with it, change one after the other, and change back
    #[arg(long, value_name = "FILE")]
    old: Option<PathBuf>,
    /// So many jobs per second in batches, beside the clients that do everything
    #[arg(long, value_name = "JOBS", default_value_t = 0)]
    rate: u64,
    /// Only rolling restarts and drains, until so many jobs were made; none may be delivered twice
    #[arg(long, value_name = "JOBS")]
    calm: Option<u64>,
    /// So many deaths, freezes and partitions under 1,000 fires per second, and how long each takes
    #[arg(long, value_name = "COUNT")]
    takeovers: Option<usize>,
    /// So many failovers while queues are full that allow 1 and 7 at once, counted by the leases and where
    /// the work is done. With --planted: faults of limits in the server, each of which must be noticed
    #[arg(long, value_name = "COUNT")]
    limited: Option<usize>,
    /// All cores busy for so long, for example 60m; no shard may change its owner
    #[arg(long, value_name = "TIME", value_parser = time)]
    full_cpu: Option<Duration>,
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

/// 90s, 60m, 2h.
fn time(text: &str) -> Result<Duration, String> {
    let units = [("h", 3_600), ("m", 60), ("s", 1)];
    let found = units.iter().find_map(|(unit, seconds)| {
        let count: u64 = text.strip_suffix(*unit)?.parse().ok()?;
        Some(Duration::from_secs(count.saturating_mul(*seconds)))
    });
    found.ok_or_else(|| "a number and h, m or s is expected, for example 60m".to_string())
}

/// What is asked of a cluster beside its seeds.
fn clusters(args: &Args) -> campaign::Clusters {
    let mut settings = campaign::Clusters {
        seeds: 0..1,
        nodes: args.nodes,
        faults: args.faults,
        only: args.only.clone(),
        lies: args.lies || args.ci,
        old: args.old.clone(),
        bulk: bulk::Bulk { rate: args.rate, webhooks: 4, ahead: None, calm: false },
        people: true,
        until: None,
        full_cpu: args.full_cpu.unwrap_or(limits::FULL_CPU),
        limited: args.limited.is_some(),
        namespaces: args.namespaces,
    };
    if args.namespaces && settings.only.is_empty() {
        settings.only = cluster::UNPLUGGED.into_iter().chain([cluster::Kind::NodeKilled]).collect();
    }
    let rate = |rate: u64, default: u64| if rate == 0 { default } else { rate };
    if args.calm.is_some() {
        settings.only = vec![cluster::Kind::RollingRestart, cluster::Kind::NodeDrained];
        (settings.until, settings.people, settings.faults) = (args.calm, false, 2);
        let rate = rate(args.rate, limits::CALM_RATE);
        settings.bulk = bulk::Bulk { rate, webhooks: 25, ahead: None, calm: true };
    } else if let Some(count) = args.takeovers {
        let kinds =
            [cluster::Kind::NodeKilled, cluster::Kind::NodeFrozen, cluster::Kind::DatabaseApart];
        if settings.only.is_empty() {
            settings.only = kinds.to_vec();
        }
        (settings.faults, settings.people) = (count, false);
        let (rate, ahead) = (rate(args.rate, limits::TAKEOVER_RATE), Some(limits::TAKEOVER_AHEAD));
        settings.bulk = bulk::Bulk { rate, webhooks: 100, ahead, calm: true };
    } else if let Some(count) = args.limited {
        settings = limited(settings, count);
    } else if args.full_cpu.is_some() {
        (settings.only, settings.faults) = (vec![cluster::Kind::CpuFull], 1);
        settings.bulk.rate = rate(args.rate, limits::FULL_CPU_RATE);
    }
    settings
}

/// A cluster whose queues have limits, and whose owners are killed, frozen and cut off.
fn limited(mut settings: campaign::Clusters, failovers: usize) -> campaign::Clusters {
    use cluster::Kind::{DatabaseApart, DatabaseUnheard, NodeFrozen, NodeKilled};
    if settings.only.is_empty() {
        settings.only = vec![NodeKilled, NodeFrozen, DatabaseApart, DatabaseUnheard];
    }
    (settings.faults, settings.people, settings.limited) = (failovers, false, true);
    settings
}

fn run(args: &Args) -> Result<bool, String> {
    let binary = server::binary()?;
    let vain = args.only.iter().find(|kind| args.namespaces && kind.is_between_proxies());
    if let Some(kind) = vain {
        return Err(format!(
            "--only {kind:?}: with --namespaces nodes reach each other directly; PairUnplugged and \
             NodeUnplugged part them"
        ));
    }
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
    if args.ci || (args.planted && args.limited.is_none()) {
        good &= campaign::planted(&binary)?;
    }
    let mode = args.ci
        || args.calm.is_some()
        || args.takeovers.is_some()
        || args.limited.is_some()
        || args.full_cpu.is_some();
    if let Some(seed) = args.cluster.or(mode.then_some(0)) {
        let seed = if seed == 0 { node::random::bits() >> 24 } else { seed };
        let mut settings = clusters(args);
        settings.seeds = seed..seed.saturating_add(args.runs);
        if args.ci && settings.old.is_none() {
            // Where nobody has an older one, a node changes to the same.
            settings.old = Some(binary.clone());
        }
        if args.limited.is_some() && args.planted {
            return Ok(good & campaign::planted_limits(&binary, &settings)?);
        }
        good &= campaign::clusters(&binary, &settings, args.keep.clone())?;
        if args.ci {
            let few = limited(clusters(args), limits::LIMITED_CI);
            let few = campaign::Clusters { seeds: settings.seeds.clone(), ..few };
            good &= campaign::clusters(&binary, &few, args.keep.clone())?;
            if rustix::process::geteuid().is_root() {
                let mut apart = clusters(args);
                apart.only = cluster::UNPLUGGED.to_vec();
                (apart.faults, apart.namespaces) = (limits::NAMESPACES_CI, true);
                (apart.seeds, apart.lies) = (settings.seeds.clone(), false);
                good &= campaign::clusters(&binary, &apart, args.keep.clone())?;
            } else {
                println!("chaos: no namespaces: they need root");
            }
            // In a cluster of its own: what was answered before a loss cannot be judged.
            (settings.only, settings.faults) = (vec![cluster::Kind::TailLost], 1);
            (settings.lies, settings.old) = (false, None);
            good &= campaign::clusters(&binary, &settings, args.keep.clone())?;
        }
    }
    Ok(good)
}
