//! A cluster under faults: one PostgreSQL, several nodes, clients that ask any of them, pull workers,
//! a receiver; one fault after the other from a plan that one seed makes; then everything heals, and
//! the simulator's checker judges what was seen and what the database holds.
//!
//! Partitions are made by proxies (`proxy`) and not by network namespaces: without API keys a node
//! serves loopback only, and a proxy can cut one direction, hold back what TCP would deliver later,
//! or break off in the middle of an answer. A single pair of nodes is cut by rules for the connections
//! of one process (`proxy::caller`).

mod apply;
mod database;
mod fault;
pub mod lies;
mod measure;
mod members;
mod planned;

use crate::book::{Book, Pages, now, reset_clock};
use crate::bulk::{Bulk, BulkClient, BulkWorker};
use crate::client::{Client, Load};
use crate::http::ask;
use crate::limits::{
    BULK_CLIENTS, BULK_WORKERS, CLUSTER_CALM, CLUSTER_CLIENTS, CLUSTER_FAULTS_MAX,
    CLUSTER_HEAL_MIN, CLUSTER_HEAL_PATIENCE, CLUSTER_PACE, CLUSTER_QUEUES, CLUSTER_RECURRING,
    CLUSTER_WORKERS, RECOVERY_PATIENCE, SETTLED_AFTER,
};
use crate::worker::Worker;
use crate::{receiver, story};
use apply::Site;
use database::Database;
pub use fault::{KINDS, Kind};
pub use measure::Measured;
use members::Members;
use model::cluster::Renew;
use model::{Epoch, NodeId, ShardId, Span, Time};
use sim::checker::Violation;
use sim::rng::Rng;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::Store;
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
        let mut database = Database::start(plan.contains(&Kind::DiskFull))?;
        let book = Arc::new(Book::default());
        let binaries = (self.binary, self.old.as_deref());
        let mut members = Members::start(binaries, folder.path(), self.nodes, &database, &book)?;
        // After the nodes: older ones make the tables of their own version.
        let watcher = PostgresStore::open(&Database::address(database.gate.address()))
            .map_err(|error| format!("the database: {error}"))?;
        let hooks = receiver::start(book.clone(), rng.draw(), self.bulk.calm)?;
        let mut outcome = Outcome::default();
        recovered(&watcher, &mut members)?;
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
        };
        outcome.measured = measure::measure(&evidence);
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
        self.kept(folder, &outcome);
        Ok(outcome)
    }

    /// What the plan is made of.
    fn kinds(&self) -> Vec<Kind> {
        if !self.only.is_empty() {
            return self.only.clone();
        }
        let changes = if self.old.is_some() { 2 } else { 0 };
        let kinds = KINDS.into_iter().chain([Kind::OtherBinary; 2].into_iter().take(changes));
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

    fn load(&self) -> Load {
        Load { queues: CLUSTER_QUEUES, recurring_max: CLUSTER_RECURRING, pace: CLUSTER_PACE }
    }

    fn crowd(&self, book: &Arc<Book>, hooks: SocketAddr, rng: &mut Rng) -> Vec<JoinHandle<()>> {
        let mut threads = Vec::new();
        for _ in 0..if self.people { CLUSTER_CLIENTS } else { 0 } {
            let client = Client { book: book.clone(), hooks, rng: rng.fork(2), load: self.load() };
            threads.push(std::thread::spawn(move || client.run()));
        }
        for name in 0..if self.people { CLUSTER_WORKERS } else { 0 } {
            let queues = (0..CLUSTER_QUEUES).map(|queue| format!("w{queue}")).collect();
            let worker = Worker {
                book: book.clone(),
                name: format!("worker-{name}").into(),
                rng: rng.fork(3),
                zombies: Vec::new(),
                queues,
            };
            threads.push(std::thread::spawn(move || worker.run()));
        }
        for _ in 0..if self.bulk.rate > 0 { BULK_CLIENTS } else { 0 } {
            let (book, rng, rate) = (book.clone(), rng.fork(5), self.bulk.rate / BULK_CLIENTS);
            let client = BulkClient { book, hooks, rng, bulk: self.bulk, rate };
            threads.push(std::thread::spawn(move || client.run()));
        }
        let calm = self.bulk.calm;
        for name in 0..if self.bulk.rate > 0 { BULK_WORKERS } else { 0 } {
            let (book, name) = (book.clone(), format!("bulk-{name}").into());
            let worker = BulkWorker { book, name, rng: rng.fork(6), calm };
            threads.push(std::thread::spawn(move || worker.run()));
        }
        threads
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

    /// What the nodes of a world that broke a promise said is worth a look.
    fn kept(&self, folder: tempfile::TempDir, outcome: &Outcome) {
        let Some(keep) = self.keep.as_ref().filter(|_| !outcome.violations.is_empty()) else {
            return;
        };
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
    let since_stop = evidence.dump.now.since(evidence.stopped_at);
    let settings = story::cluster(evidence.healed_at, since_stop);
    let Evidence { pages, dump, divergences, losses, .. } = evidence;
    found.extend(story::judge(pages, &dump, divergences, &losses, &settings));
    found
}

/// What duly says when it finds a replica that was promoted.
const ALARM: &str = "a replica was promoted";

/// Waits until every shard has an owner whose lease holds, and no node ended by itself.
fn recovered(watcher: &PostgresStore, members: &mut Members) -> Result<Owners, String> {
    let begun = Instant::now();
    loop {
        if let Some(why) = members.all.iter_mut().find_map(members::Member::ended) {
            return Err(why);
        }
        let mut lacking = "the database does not answer".to_string();
        if let Ok(cluster) = watcher.renew(Renew { node: WATCHER, ttl: Span::ZERO }) {
            let alive = |node: NodeId| {
                cluster.nodes.iter().any(|lease| lease.node == node && lease.expires > cluster.now)
            };
            let orphans = cluster.shards.iter().filter(|shard| !shard.owner.is_some_and(alive));
            let orphans = orphans.count();
            // A life that was killed a moment ago still has its lease, and looks like an owner.
            let lives = |number: u32| {
                let own = cluster.nodes.iter().filter(|lease| lease.node.node == number);
                own.filter(|lease| lease.expires > cluster.now).count()
            };
            let ghosts = members.all.iter().any(|member| lives(member.number) > 1);
            if orphans == 0
                && !ghosts
                && let Ok(owners) = watcher.owners()
            {
                return Ok(owners);
            }
            lacking = format!("{orphans} shards have no living owner");
        }
        if begun.elapsed() > RECOVERY_PATIENCE {
            return Err(format!("no recovery in {RECOVERY_PATIENCE:?}: {lacking}"));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits until every node has its share and no shard is on its way any more: what moves from now on
/// moves because of the next fault. Places follow from the nodes' numbers, so once it is known at
/// which node each shard is at home, that is what is waited for.
fn settled(
    watcher: &PostgresStore,
    members: &mut Members,
    home: &[Option<u32>],
) -> Result<Owners, String> {
    let begun = Instant::now();
    let (mut last, mut since) = (recovered(watcher, members)?, Instant::now());
    loop {
        std::thread::sleep(LOOK_EVERY);
        let owners = recovered(watcher, members)?;
        if owners != last {
            (last, since) = (owners, Instant::now());
        }
        let places = places(&last);
        let is_there = match home.is_empty() {
            true => members.all.iter().all(|member| {
                let share = places.iter().filter(|place| **place == Some(member.number)).count();
                share * members.all.len() * 2 > places.len()
            }),
            false => places == home,
        };
        let quiet = if home.is_empty() { SETTLED_AFTER * 3 } else { SETTLED_AFTER };
        if is_there && since.elapsed() > quiet {
            return Ok(last);
        }
        if begun.elapsed() > RECOVERY_PATIENCE {
            let away = places.iter().zip(home).filter(|(place, home)| place != home).count();
            return Err(format!("{away} shards are not at home after {RECOVERY_PATIENCE:?}"));
        }
    }
}

fn places(owners: &Owners) -> Vec<Option<u32>> {
    owners.iter().map(|(_, owner, _)| owner.map(|id| id.node)).collect()
}

fn broken(invariant: &'static str, detail: String) -> Violation {
    Violation { invariant, detail }
}
