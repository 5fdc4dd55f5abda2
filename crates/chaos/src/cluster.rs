//! A cluster under faults: one PostgreSQL, several nodes, clients that ask any of them, pull workers,
//! a receiver; one fault after the other from a plan that one seed makes; then everything heals, and
//! the simulator's checker judges what was seen and what the database holds.
//!
//! Partitions are made by proxies (`proxy`), which can cut one direction, hold back what TCP would deliver
//! later, or break off in the middle of an answer. A single pair of nodes is cut by rules for the
//! connections of one process (`proxy::caller`). With `--namespaces` each node has a network namespace of
//! its own (`network`), serves an address that is not loopback, with an API key, and is parted from others
//! by pulling its cable.

mod apply;
mod crowd;
mod database;
mod fault;
pub mod lies;
mod measure;
mod members;
mod network;
mod planned;
mod settled;
pub mod strict;
mod strict_lies;

use crate::book::{Book, Pages, now, reset_clock};
use crate::bulk::Bulk;
use crate::client::Client;
use crate::http::ask;
use crate::limited::{self, Limited};
use crate::limits::{CLUSTER_CALM, CLUSTER_FAULTS_MAX, CLUSTER_HEAL_MIN, CLUSTER_HEAL_PATIENCE};
use crate::{receiver, story};
use apply::Site;
use database::Database;
pub use fault::{KINDS, Kind, UNPLUGGED};
pub use measure::Measured;
use members::Members;
use model::{Epoch, NodeId, ShardId, Time};
use network::Network;
use settled::{places, recovered, settled};
use sim::checker::Violation;
use sim::rng::Rng;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use store::memory::Dump;
use store_postgres::PostgresStore;

/// What asks the database about the cluster and belongs to none of its nodes.
const WATCHER: NodeId = NodeId { node: 0, boot: 0 };
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub type Owners = Vec<(ShardId, Option<NodeId>, Epoch)>;

/// One fault as it was done.
#[derive(Clone, Debug)]
pub struct Window {
    pub kind: Kind,
    /// The node that was hit; none if all were.
    pub node: Option<u32>,
    pub begin: Time,
    pub end: Time,
    /// When every shard had a living owner again.
    pub recovered: Time,
    pub before: Owners,
    pub after: Owners,
    /// Changes of owners that were seen while it lasted, where that was looked at.
    pub moved: usize,
}

/// All that is judged.
#[derive(Clone, Debug)]
pub struct Evidence {
    pub pages: Pages,
    pub dump: Dump,
    pub windows: Vec<Window>,
    pub divergences: u64,
    pub healed_at: Time,
    /// When the nodes were told to stop: what became due from then on nobody has to do.
    pub stopped_at: Time,
    /// Promotions that somebody said aloud.
    pub alarms: usize,
    pub losses: Losses,
    pub bulk: Bulk,
    /// Where queues had limits.
    pub strict: Option<strict::Strict>,
}

/// When the database forgot what it had acknowledged, because a replica that lacked it was promoted.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    pub times: Vec<Time>,
    /// The epochs of the shards when it last did.
    pub epochs: BTreeMap<ShardId, Epoch>,
    /// The last number of a payload that may have been forgotten.
    pub number: u64,
}

#[derive(Debug, Default)]
pub struct Outcome {
    pub evidence: Option<Evidence>,
    pub measured: Measured,
    /// Where queues had limits.
    pub held: Option<strict::Held>,
    pub violations: Vec<Violation>,
}

#[derive(Debug)]
pub struct Run<'a> {
    pub binary: &'a Path,
    pub seed: u64,
    pub nodes: u32,
    pub faults: usize,
    /// None means all kinds.
    pub only: Vec<Kind>,
    /// An older binary, which all nodes begin with.
    pub old: Option<PathBuf>,
    pub bulk: Bulk,
    /// Clients and workers that do all there is to do, beside the load in bulk.
    pub people: bool,
    /// Faults go on until so many jobs were made.
    pub until: Option<u64>,
    /// How long `CpuFull` lasts.
    pub full_cpu: Duration,
    /// Queues with limits, and a load that fills them.
    pub limited: Option<Arc<Vec<Limited>>>,
    /// Each node in a network namespace of its own.
    pub namespaces: bool,
    /// A fault of the core that every node is given.
    pub planted: Option<&'a str>,
    /// What was seen is kept, so that lies can be told about it.
    pub lies: bool,
    /// Where what the nodes said is kept if a promise was broken.
    pub keep: Option<PathBuf>,
}

impl Run<'_> {
    pub fn run(&self) -> Result<Outcome, String> {
        let folder = tempfile::Builder::new().prefix("duly-chaos-").tempdir();
        let folder = folder.map_err(|error| format!("no folder: {error}"))?;
        reset_clock();
        let mut rng = Rng::new(self.seed);
        let plan = fault::plan(&mut rng, self.faults, &self.kinds());
        println!(
            "chaos: cluster: seed {}, {} nodes, {} faults, {} jobs/s in bulk",
            self.seed,
            self.nodes,
            plan.len(),
            self.bulk.rate
        );
        let network = match self.namespaces {
            true => Some(Network::make(self.nodes)?),
            false => None,
        };
        let mut database = Database::start(plan.contains(&Kind::DiskFull))?;
        let book = Arc::new(Book::default());
        let life = members::Life {
            binary: self.binary,
            old: self.old.as_deref(),
            folder: folder.path(),
            planted: self.planted,
            network: network.as_ref(),
        };
        let mut members = Members::start(&life, self.nodes, &database, &book)?;
        // After the nodes: older ones make the tables of their own version.
        let watcher = PostgresStore::open(&Database::address(database.gate.address()))
            .map_err(|error| format!("the database: {error}"))?;
        let here = network.as_ref().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), Network::host);
        let hooks = receiver::start(book.clone(), rng.draw(), self.bulk.calm, here)?;
        let mut outcome = Outcome::default();
        recovered(&watcher, &mut members)?;
        if let Some(queues) = &self.limited {
            limited::limit(&members.addresses(), queues)?;
            let watched = watcher.watch_leases();
            watched.map_err(|error| format!("the leases: {error:?} {:?}", watcher.last_fault()))?;
        }
        members.publish(true);
        let people = self.crowd(&book, hooks, &mut rng);
        let mut windows = Vec::new();
        let mut site = Site {
            members: &mut members,
            database: &mut database,
            watcher: &watcher,
            book: &book,
            rng: &mut rng,
            losses: Losses::default(),
            network: network.as_ref(),
            full_cpu: self.full_cpu,
            moved: 0,
        };
        let done = self.trouble(&plan, &mut site, &mut windows);
        let losses = std::mem::take(&mut site.losses);
        let healed_at = now();
        let healed = match done {
            Ok(()) => self.heal(&mut members, &book, hooks, &mut rng),
            Err(why) => Err(why),
        };
        let stopped_at = now();
        // The receiver outlives the nodes: nobody is to hear that it is not there.
        book.set_servers(Vec::new(), false);
        let stopped: Result<(), String> =
            members.all.iter_mut().try_for_each(members::Member::stop);
        if let (Err(why), true) = (stopped, healed.is_ok()) {
            outcome.violations.push(broken("stops_when_told", why));
        }
        book.end();
        for person in people {
            let _ = person.join();
        }
        let said: String = members.all.iter().map(members::Member::said).collect();
        if let Err(why) = &healed {
            outcome.violations.push(broken("life_goes_on", why.clone()));
        }
        if said.contains("panicked") {
            outcome.violations.push(broken("no_panic", said.clone()));
        }
        let dump = watcher.dump().map_err(|error| {
            format!("the final store cannot be read: {error:?} {:?}", watcher.last_fault())
        })?;
        let divergences = said.matches("memory and store disagreed").count() as u64;
        let alarms = said.matches(ALARM).count()
            + watcher.alerts().iter().filter(|alert| alert.contains(ALARM)).count();
        let strict = match &self.limited {
            Some(queues) => {
                let watched = watcher.watched();
                let watched = watched.map_err(|error| format!("the leases: {error:?}"))?;
                Some(strict::Strict { queues: queues.to_vec(), watched })
            }
            None => None,
        };
        let pages = std::mem::take(&mut *book.pages());
        let evidence = Evidence {
            pages,
            dump,
            windows,
            divergences,
            healed_at,
            stopped_at,
            alarms,
            losses,
            bulk: self.bulk,
            strict,
        };
        outcome.measured = measure::measure(&evidence);
        outcome.held = strict::held(&evidence);
        outcome.measured.proxies = members.all.iter().fold((0, 0, 0), |sum, member| {
            let ((a, b, c), (d, e, f)) = (member.to_database.seen(), member.to_me.seen());
            (sum.0 + a + d, sum.1 + b + e, sum.2 + c + f)
        });
        if self.lies {
            outcome.evidence = Some(evidence.clone());
        }
        if healed.is_ok() {
            outcome.violations.extend(judge(evidence));
        }
        self.kept(folder, &database, &outcome);
        Ok(outcome)
    }

    /// What the plan is made of.
    fn kinds(&self) -> Vec<Kind> {
        if !self.only.is_empty() {
            return self.only.clone();
        }
        let changes = match &self.old {
            None => 0,
            // CI, where nobody has an older one.
            Some(old) if old == self.binary => 2,
            // All to the newer one, and all back.
            Some(_) => self.nodes as usize * 2,
        };
        let kinds = KINDS.into_iter().chain(std::iter::repeat_n(Kind::OtherBinary, changes));
        let root = rustix::process::geteuid().is_root();
        if !root {
            println!("chaos: no DiskFull: a file system of its own needs root");
        }
        kinds.filter(|kind| root || *kind != Kind::DiskFull).collect()
    }

    fn trouble(
        &self,
        plan: &[Kind],
        site: &mut Site<'_>,
        windows: &mut Vec<Window>,
    ) -> Result<(), String> {
        let home = places(&settled(site.watcher, site.members, &[])?);
        let mut kinds = plan.iter().copied().cycle();
        for at in 0..CLUSTER_FAULTS_MAX {
            site.book.pause_whole(CLUSTER_CALM);
            let over = match self.until {
                Some(jobs) => site.book.made.load(Ordering::Relaxed) >= jobs,
                None => at >= plan.len(),
            };
            let Some(kind) = kinds.next().filter(|_| !over) else { break };
            let before = settled(site.watcher, site.members, &home)?;
            let begin = now();
            site.moved = 0;
            let node = site.hurt(kind).map_err(|why| format!("{kind:?}: {why}"))?;
            let end = now();
            let after = recovered(site.watcher, site.members);
            let after = after.map_err(|why| format!("{kind:?}: {why}"))?;
            site.members.publish(true);
            let (recovered, moved) = (now(), site.moved);
            let window = Window { kind, node, begin, end, recovered, before, after, moved };
            println!("chaos: {at:>3} {}", measure::line(&window));
            windows.push(window);
        }
        Ok(())
    }

    /// Nothing new is asked, holds are lifted, workers go on, until nothing is left to do.
    fn heal(
        &self,
        members: &mut Members,
        book: &Arc<Book>,
        hooks: SocketAddr,
        rng: &mut Rng,
    ) -> Result<(), String> {
        members.publish(false);
        let mut client = Client { book: book.clone(), hooks, rng: rng.fork(4), load: self.load() };
        for queue in ["h0", "w1"] {
            let servers = members.addresses();
            let server = rng.pick(&servers).ok_or("no node is left")?;
            client.release(*server, queue);
        }
        let ahead = self.bulk.ahead.map_or(0, |ahead| ahead.micros().unsigned_abs());
        let least = CLUSTER_HEAL_MIN + Duration::from_micros(ahead);
        let begun = Instant::now();
        loop {
            book.pause(Duration::from_millis(200));
            let mut left = 0;
            for server in members.addresses() {
                // A node that is too busy to say has something left.
                let counts = ask(server, "GET", "/v1/doctor", "", None).ok();
                let count = |name: &str| {
                    let memory = counts.as_ref().map(|reply| &reply.body["memory"][name]);
                    memory.and_then(serde_json::Value::as_u64).unwrap_or(1)
                };
                left += count("ready") + count("leases");
            }
            // What is left after that is the checker's to judge.
            let patient = begun.elapsed() < CLUSTER_HEAL_PATIENCE;
            if (left == 0 && begun.elapsed() > least) || !patient {
                return Ok(());
            }
        }
    }

    /// What the nodes of a world that broke a promise said is worth a look, and why a takeover was slow.
    fn kept(&self, folder: tempfile::TempDir, database: &Database, outcome: &Outcome) {
        let good = outcome.violations.is_empty() && outcome.measured.slow.is_empty();
        let Some(keep) = self.keep.as_ref().filter(|_| !good) else {
            return;
        };
        database.keep_log(folder.path());
        let place = keep.join(format!("cluster-{}", self.seed));
        let _ = std::fs::remove_dir_all(&place);
        let _ = std::fs::create_dir_all(keep);
        if std::fs::rename(folder.path(), &place).is_err() {
            println!("chaos: kept in {}", folder.keep().display());
        }
    }
}

/// Every promise that was broken, by the checker and by what the plan knows.
pub fn judge(evidence: Evidence) -> Vec<Violation> {
    let mut found = planned::judge(&evidence);
    found.extend(strict::judge(&evidence));
    let since_stop = evidence.dump.now.since(evidence.stopped_at);
    let settings = story::cluster(evidence.healed_at, since_stop);
    let Evidence { pages, dump, divergences, losses, .. } = evidence;
    found.extend(story::judge(pages, &dump, divergences, &losses, &settings));
    found
}

/// What duly says when it finds a replica that was promoted.
const ALARM: &str = "a replica was promoted";

fn broken(invariant: &'static str, detail: String) -> Violation {
    Violation { invariant, detail }
}
