//! A cluster under faults: one PostgreSQL, several nodes, clients that ask any of them, pull workers,
//! a receiver; one fault after the other from a plan that one seed makes; then everything heals, and
//! the simulator's checker judges what was seen and what the database holds.
//!
//! Partitions are made by proxies (`proxy`) and not by network namespaces: without API keys a node
//! serves loopback only, and a proxy can cut one direction, hold back what TCP would deliver later,
//! or break off in the middle of an answer. What it cannot do is cut a single pair of nodes: a proxy
//! stands before each node's address, so one node is out of reach of all others or of none.

mod apply;
mod database;
mod fault;
pub mod lies;
mod measure;
mod members;

use crate::book::{Book, Pages, now};
use crate::client::{Client, Load};
use crate::http::ask;
use crate::limits::{
    CLUSTER_CALM, CLUSTER_CLIENTS, CLUSTER_HEAL_MIN, CLUSTER_HEAL_PATIENCE, CLUSTER_PACE,
    CLUSTER_QUEUES, CLUSTER_RECURRING, CLUSTER_WORKERS, RECOVERY_PATIENCE, SETTLED_AFTER,
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
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
}

/// All that is judged.
#[derive(Clone, Debug)]
pub struct Evidence {
    pub pages: Pages,
    pub dump: Dump,
    pub windows: Vec<Window>,
    pub divergences: u64,
    pub healed_at: Time,
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
    /// Where what the nodes said is kept if a promise was broken.
    pub keep: Option<PathBuf>,
}

impl Run<'_> {
    pub fn run(&self) -> Result<Outcome, String> {
        let folder = tempfile::Builder::new().prefix("duly-chaos-").tempdir();
        let folder = folder.map_err(|error| format!("no folder: {error}"))?;
        let mut rng = Rng::new(self.seed);
        let mut only = self.only.clone();
        if self.old.is_some() && only.is_empty() {
            only = KINDS.into_iter().chain([Kind::OtherBinary; 4]).collect();
        }
        let plan = fault::plan(&mut rng, self.faults, &only);
        println!("chaos: cluster: seed {}, {} nodes, {} faults", self.seed, self.nodes, plan.len());
        let database = Database::start()?;
        let watcher = PostgresStore::open(&Database::address(database.socket()))
            .map_err(|error| format!("the database: {error}"))?;
        let book = Arc::new(Book::default());
        let binaries = (self.binary, self.old.as_deref());
        let mut members = Members::start(binaries, folder.path(), self.nodes, &database, &book)?;
        let hooks = receiver::start(book.clone(), rng.draw())?;
        let mut outcome = Outcome::default();
        recovered(&watcher, &mut members)?;
        members.publish(true);
        let people = people(&book, hooks, &mut rng);
        let mut windows = Vec::new();
        let done =
            self.trouble(&plan, (&mut members, &database), &watcher, &book, &mut rng, &mut windows);
        let healed_at = now();
        let healed = match done {
            Ok(()) => heal(&mut members, &book, hooks, &mut rng),
            Err(why) => Err(why),
        };
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
        let pages = std::mem::take(&mut *book.pages());
        let evidence = Evidence { pages, dump, windows, divergences, healed_at };
        outcome.measured = measure::measure(&evidence);
        outcome.measured.proxies = members.all.iter().fold((0, 0, 0), |sum, member| {
            let ((a, b, c), (d, e, f)) = (member.to_database.seen(), member.to_me.seen());
            (sum.0 + a + d, sum.1 + b + e, sum.2 + c + f)
        });
        if healed.is_ok() {
            outcome.violations.extend(judge(evidence.clone()));
        }
        outcome.evidence = Some(evidence);
        self.kept(folder, &outcome);
        Ok(outcome)
    }

    fn trouble(
        &self,
        plan: &[Kind],
        (members, database): (&mut Members, &Database),
        watcher: &PostgresStore,
        book: &Book,
        rng: &mut Rng,
        windows: &mut Vec<Window>,
    ) -> Result<(), String> {
        let home = places(&settled(watcher, members, &[])?);
        for (at, kind) in plan.iter().copied().enumerate() {
            book.pause_whole(CLUSTER_CALM);
            let before = settled(watcher, members, &home)?;
            let begin = now();
            let mut site = Site { members, database, book, rng };
            let node = site.hurt(kind).map_err(|why| format!("{kind:?}: {why}"))?;
            let end = now();
            let after = recovered(watcher, members).map_err(|why| format!("{kind:?}: {why}"))?;
            members.publish(true);
            let window = Window { kind, node, begin, end, recovered: now(), before, after };
            println!("chaos: {at:>3} {}", measure::line(&window));
            windows.push(window);
        }
        Ok(())
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
    let mut found = planned(&evidence);
    let settings = story::cluster(evidence.healed_at);
    found.extend(story::judge(evidence.pages, &evidence.dump, evidence.divergences, &settings));
    found
}

/// What only the plan can tell: which faults may cost an attempt, and which may move a shard.
fn planned(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for window in evidence.windows.iter().filter(|window| window.kind.moves_nothing()) {
        let moved = window.before.iter().zip(&window.after).filter(|(was, is)| was.1 != is.1);
        let moved: Vec<String> = moved.map(|(was, is)| format!("{was:?} -> {is:?}")).collect();
        if let Some(first) = moved.first() {
            let detail = format!("{:?} moved {} shards: {first}", window.kind, moved.len());
            found.push(broken("faults_without_a_death_move_no_shard", detail));
        }
    }
    let hurtful: Vec<&Window> =
        evidence.windows.iter().filter(|window| window.kind.loses_attempts()).collect();
    for row in evidence.dump.shards.iter().flat_map(|shard| &shard.history) {
        let webhook = row.flow.as_ref().is_some_and(|flow| &*flow.kind == "http");
        if row.status != model::Status::Lost || !webhook {
            continue;
        }
        let started = row.started.unwrap_or(row.finished);
        let excused = hurtful.iter().any(|window| {
            started <= window.recovered && row.finished >= window.begin.minus(Span::from_secs(1))
        });
        if !excused {
            let during =
                evidence.windows.iter().find(|w| w.begin <= row.finished && started <= w.recovered);
            let kind = during.map(|window| window.kind);
            found.push(broken("attempts_are_lost_by_deaths_only", format!("{kind:?}: {row:?}")));
        }
    }
    found
}

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
            if orphans == 0
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

fn load() -> Load {
    Load { queues: CLUSTER_QUEUES, recurring_max: CLUSTER_RECURRING, pace: CLUSTER_PACE }
}

fn people(book: &Arc<Book>, hooks: SocketAddr, rng: &mut Rng) -> Vec<JoinHandle<()>> {
    let mut threads = Vec::new();
    for _ in 0..CLUSTER_CLIENTS {
        let client = Client { book: book.clone(), hooks, rng: rng.fork(2), load: load() };
        threads.push(std::thread::spawn(move || client.run()));
    }
    for name in 0..CLUSTER_WORKERS {
        let queues = (0..CLUSTER_QUEUES).map(|queue| format!("w{queue}")).collect();
        let worker = Worker {
            book: book.clone(),
            name: format!("worker-{name}"),
            rng: rng.fork(3),
            zombies: Vec::new(),
            queues,
        };
        threads.push(std::thread::spawn(move || worker.run()));
    }
    threads
}

/// Nothing new is asked, holds are lifted, workers go on, until nothing is left to do.
fn heal(
    members: &mut Members,
    book: &Arc<Book>,
    hooks: SocketAddr,
    rng: &mut Rng,
) -> Result<(), String> {
    members.publish(false);
    let mut client = Client { book: book.clone(), hooks, rng: rng.fork(4), load: load() };
    for queue in ["h0", "w1"] {
        let servers = members.addresses();
        let server = rng.pick(&servers).ok_or("no node is left")?;
        client.release(*server, queue);
    }
    let begun = Instant::now();
    loop {
        book.pause(Duration::from_millis(200));
        let mut left = 0;
        for server in members.addresses() {
            let counts = ask(server, "GET", "/v1/doctor", "", None);
            let counts = counts.map_err(|error| format!("{server}: {error}"))?;
            let count = |name: &str| counts.body["memory"][name].as_u64().unwrap_or(1);
            left += count("ready") + count("leases");
        }
        // What is left after that is the checker's to judge.
        let patient = begun.elapsed() < CLUSTER_HEAL_PATIENCE;
        if (left == 0 && begun.elapsed() > CLUSTER_HEAL_MIN) || !patient {
            return Ok(());
        }
    }
}

fn broken(invariant: &'static str, detail: String) -> Violation {
    Violation { invariant, detail }
}
