//! How each fault is done, and undone.

use super::database::Database;
use super::fault::Kind;
use super::members::Members;
use super::network::Network;
use super::{Losses, Owners};
use crate::book::{Book, move_clock, now};
use crate::client::LAST;
use crate::http::ask;
use crate::limits::{DRAIN_PATIENCE, PROMOTION_PATIENCE};
use crate::proxy::{Accept, Flow, Proxy, Rules, Way};
use model::{Epoch, Span};
use sim::rng::Rng;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use store_postgres::PostgresStore;

/// Shorter than a node's lease of 3 s, by enough that it renews in time when it wakes.
const PAUSE_MILLIS: (i64, i64) = (500, 1_400);
/// Longer than the lease, and than what others need to notice.
const FREEZE_MILLIS: (i64, i64) = (5_000, 8_000);
const APART_MILLIS: (i64, i64) = (4_500, 7_000);
const STALL: Duration = Duration::from_secs(10);
const TROUBLE_MILLIS: (i64, i64) = (2_000, 4_000);
/// Between two looks at the shards' owners.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Between two changes of the place where answers break off.
const CUT_EVERY: Duration = Duration::from_millis(150);
/// A node that was killed stays away for longer than its lease, most times.
const AWAY_MILLIS: (i64, i64) = (200, 6_000);
const YEAR_MICROS: i64 = 365 * 86_400 * 1_000_000;
const MINUTE_MICROS: i64 = 60_000_000;
/// Less than the checker takes a node's idea of the time to lie behind (`story::cluster`): until it
/// asks again a node does not know of the step.
const DATABASE_STEP_MILLIS: (i64, i64) = (2_000, 20_000);
/// Commits that are acknowledged and reach no replica.
const TAIL_MILLIS: (i64, i64) = (300, 1_500);
/// Processes that do nothing but run, for each core.
const BURNERS_PER_CORE: usize = 4;

const NO_NETWORK: &str = "the nodes have no namespaces; say --namespaces";

pub struct Site<'a> {
    pub members: &'a mut Members,
    pub database: &'a mut Database,
    pub watcher: &'a PostgresStore,
    pub book: &'a Book,
    pub rng: &'a mut Rng,
    pub losses: Losses,
    pub network: Option<&'a Network>,
    pub full_cpu: Duration,
    /// Changes of owners seen during the last fault that looked for them.
    pub moved: usize,
}

fn between(rng: &mut Rng, (low, high): (i64, i64)) -> Duration {
    Duration::from_millis(rng.range(low, high).unsigned_abs())
}

impl Site<'_> {
    /// Does it, for as long as it lasts, and undoes it. The answer is who was hit, if one was.
    pub fn hurt(&mut self, kind: Kind) -> Result<Option<u32>, String> {
        let victim = self.rng.below(self.members.all.len() as u64) as usize;
        let number = self.members.all[victim].number;
        let one = Some(number);
        let hold = Way { flow: Flow::Hold, ..Way::default() };
        match kind {
            Kind::NodeKilled => {
                self.members.all[victim].kill();
                // A load balancer notices a refused connection.
                self.members.publish(true);
                self.wait(AWAY_MILLIS);
                self.begin(victim)?;
            }
            Kind::NodePaused | Kind::NodeFrozen => {
                let span = if kind == Kind::NodePaused { PAUSE_MILLIS } else { FREEZE_MILLIS };
                self.members.all[victim].process()?.freeze();
                self.wait(span);
                self.members.all[victim].process()?.thaw();
            }
            Kind::DatabaseApart => self.on_way(victim, Rules::flow(Flow::Hold), APART_MILLIS),
            Kind::DatabaseUnheard => self.on_way(victim, Rules::flow(Flow::Swallow), APART_MILLIS),
            Kind::AnswersLost => {
                self.on_way(victim, Rules { down: hold, ..Rules::default() }, APART_MILLIS);
            }
            Kind::RequestsLost => {
                self.on_way(victim, Rules { up: hold, ..Rules::default() }, APART_MILLIS);
            }
            Kind::ConnectionsReset => {
                self.members.all[victim].to_database.reset();
                self.wait(TROUBLE_MILLIS);
            }
            Kind::CommitsCut => self.cut_commits(victim),
            Kind::DatabaseHalfOpen => {
                let rules = Rules { accept: Accept::HalfOpen, ..Rules::default() };
                self.members.all[victim].to_database.set(rules);
                self.members.all[victim].to_database.reset();
                self.wait(APART_MILLIS);
                self.members.all[victim].to_database.heal();
            }
            Kind::DatabaseSlow => {
                let delay = Duration::from_millis(20 + self.rng.below(100));
                self.on_all(Rules::delay(delay, delay / 2), TROUBLE_MILLIS);
                return Ok(None);
            }
            Kind::DatabaseNarrow => {
                let way = Way { bytes_per_second: Some(200_000), ..Way::default() };
                self.on_all(Rules::both(way), TROUBLE_MILLIS);
                return Ok(None);
            }
            Kind::DatabaseStalled => {
                let millis = i64::try_from(STALL.as_millis()).unwrap_or(i64::MAX);
                self.on_all(Rules::flow(Flow::Hold), (millis, millis));
                return Ok(None);
            }
            Kind::DatabaseRestarted => return self.database_again("stop"),
            Kind::DatabaseHalted => return self.database_again("halt"),
            Kind::DatabaseKilled => return self.database_again("crash"),
            Kind::DatabaseReadOnly => {
                self.database.run("read-only")?;
                self.wait(APART_MILLIS);
                self.database.run("read-write")?;
                return Ok(None);
            }
            Kind::OtherBinary => {
                // Each in turn: an upgrade until all are new, then back again, by one version.
                let at = self.members.next_change();
                self.members.publish_without(at);
                self.members.all[at].stop()?;
                self.members.all[at].other_binary();
                self.begin(at)?;
                return Ok(Some(self.members.all[at].number));
            }
            Kind::PeerApart => {
                let proxy = &self.members.all[victim].to_me;
                proxy.set(Rules::flow(Flow::Swallow));
                self.wait(APART_MILLIS);
                self.members.all[victim].to_me.heal();
            }
            Kind::PeersApart => {
                self.peers(|proxy| proxy.set(Rules::flow(Flow::Hold)));
                self.wait(APART_MILLIS);
                self.peers(Proxy::heal);
                return Ok(None);
            }
            Kind::PeersSlow => {
                let delay = Duration::from_millis(20 + self.rng.below(200));
                self.peers(|proxy| proxy.set(Rules::delay(delay, delay)));
                self.wait(TROUBLE_MILLIS);
                self.peers(Proxy::heal);
                return Ok(None);
            }
            Kind::PeersReset => {
                for _ in 0..5 {
                    self.peers(Proxy::reset);
                    self.wait((100, 500));
                }
                return Ok(None);
            }
            Kind::RollingRestart => return self.rolling_restart(),
            Kind::ClockOff => {
                let off = self.offset();
                self.members.all[victim].kill();
                self.members.all[victim].set_clocks(off)?;
                self.begin(victim)?;
                self.wait(TROUBLE_MILLIS);
            }
            Kind::PairApart => return self.pair_apart(victim),
            Kind::NodeUnplugged => {
                let network = self.network.ok_or(NO_NETWORK)?;
                // A load balancer notices that nobody answers.
                self.members.publish_without(victim);
                network.plug(number, false)?;
                self.wait(APART_MILLIS);
                network.plug(number, true)?;
            }
            Kind::PairUnplugged => {
                let network = self.network.ok_or(NO_NETWORK)?;
                let other = self.members.all[(victim + 1) % self.members.all.len()].number;
                network.part(number, other, true)?;
                self.wait(APART_MILLIS);
                network.part(number, other, false)?;
                return Ok(None);
            }
            Kind::ReplicaPromoted | Kind::TailLost => return self.promote(kind),
            Kind::DiskFull => {
                self.database.fill_disk()?;
                self.wait(APART_MILLIS);
                self.database.free_disk()?;
                return Ok(None);
            }
            Kind::DatabaseClock => {
                let step = self.rng.range(DATABASE_STEP_MILLIS.0, DATABASE_STEP_MILLIS.1);
                move_clock(Span::from_millis(step));
                let moved = self.watcher.move_clock(Span::from_millis(step));
                moved.map_err(|error| format!("its clock: {error:?}"))?;
                self.wait(TROUBLE_MILLIS);
                return Ok(None);
            }
            Kind::CpuFull => return self.full_cpu(),
            Kind::NodeDrained => self.drain(victim)?,
            Kind::ClockStepped => {
                let off = self.offset();
                self.members.all[victim].set_wall_clock(off)?;
                self.wait(TROUBLE_MILLIS);
                self.members.all[victim].set_wall_clock(0)?;
            }
        }
        Ok(one)
    }

    fn wait(&mut self, span: (i64, i64)) {
        let span = between(self.rng, span);
        self.book.pause_whole(span);
    }

    fn begin(&mut self, victim: usize) -> Result<(), String> {
        self.members.all[victim].start()?;
        self.members.publish(true);
        Ok(())
    }

    fn on_way(&mut self, victim: usize, rules: Rules, span: (i64, i64)) {
        self.members.all[victim].to_database.set(rules);
        self.wait(span);
        self.members.all[victim].to_database.heal();
    }

    fn on_all(&mut self, rules: Rules, span: (i64, i64)) {
        for member in &self.members.all {
            member.to_database.set(rules);
        }
        self.wait(span);
        for member in &self.members.all {
            member.to_database.heal();
        }
    }

    fn peers(&self, work: impl Fn(&Proxy)) {
        for member in &self.members.all {
            work(&member.to_me);
        }
    }

    /// The place changes, so that answers of all lengths are cut somewhere.
    fn cut_commits(&mut self, victim: usize) {
        for _ in 0..16 {
            let down = Way { flow: Flow::CutAfter(self.rng.below(900)), ..Way::default() };
            self.members.all[victim].to_database.set(Rules { down, ..Rules::default() });
            self.book.pause_whole(CUT_EVERY);
            self.members.all[victim].to_database.heal();
            self.book.pause_whole(CUT_EVERY / 3);
        }
    }

    fn database_again(&mut self, verb: &str) -> Result<Option<u32>, String> {
        self.database.run(verb)?;
        self.wait((0, 4_000));
        self.database.run("start")?;
        Ok(None)
    }

    fn rolling_restart(&mut self) -> Result<Option<u32>, String> {
        for at in 0..self.members.all.len() {
            self.members.publish_without(at);
            self.members.all[at].stop()?;
            self.members.all[at].start()?;
            self.members.publish(true);
        }
        Ok(None)
    }

    /// Minutes or years, back or forth.
    fn offset(&mut self) -> i64 {
        let unit = if self.rng.below(2) == 0 { YEAR_MICROS } else { MINUTE_MICROS };
        let many = 1 + self.rng.below(9) as i64;
        if self.rng.below(2) == 0 { unit * many } else { -unit * many }
    }

    /// Neither hears the other; what was said comes when it is over.
    fn pair_apart(&mut self, one: usize) -> Result<Option<u32>, String> {
        let other = (one + 1) % self.members.all.len();
        for (from, to) in [(one, other), (other, one)] {
            let from = self.members.all[from].pid().ok_or("a node does not run")?;
            self.members.all[to].to_me.set_for(from, Rules::flow(Flow::Hold));
        }
        self.wait(APART_MILLIS);
        self.members.all[one].to_me.heal();
        self.members.all[other].to_me.heal();
        Ok(None)
    }

    fn owners(&self) -> Result<Owners, String> {
        self.watcher.owners().map_err(|error| format!("the shards' owners: {error:?}"))
    }

    fn promote(&mut self, kind: Kind) -> Result<Option<u32>, String> {
        let replica = self.database.follow(kind == Kind::ReplicaPromoted)?;
        let before = self.owners()?;
        if kind == Kind::TailLost {
            // What is acknowledged from now on is lost.
            replica.cut_off();
            self.wait(TAIL_MILLIS);
            self.losses.epochs =
                self.owners()?.into_iter().map(|(shard, _, epoch)| (shard, epoch)).collect();
        }
        self.database.promote(replica)?;
        if kind == Kind::TailLost {
            self.losses.times.push(now());
            self.losses.number = LAST.load(Ordering::Relaxed);
        }
        for member in &self.members.all {
            member.to_database.aim(self.database.socket());
            member.to_database.reset();
        }
        // Until the nodes have found it out: what they do not do in time is judged as not done.
        let begun = Instant::now();
        while begun.elapsed() < PROMOTION_PATIENCE {
            let now = self.owners().unwrap_or_default();
            if !now.is_empty()
                && before.iter().zip(&now).all(|(was, is)| is.2.0 >= was.2.0 + Epoch::JUMP / 2)
            {
                break;
            }
            self.book.pause_whole(LOOK_EVERY);
        }
        Ok(None)
    }

    /// No node may lose its lease because it waits for a core.
    fn full_cpu(&mut self) -> Result<Option<u32>, String> {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let mut burners = Burners(Vec::new());
        for _ in 0..cores * BURNERS_PER_CORE {
            // Whatever becomes of us, none of them stays behind.
            let burner = Command::new("setpriv")
                .args(["--pdeathsig", "KILL", "sh", "-c", "while :; do :; done"])
                .stdin(Stdio::null())
                .spawn();
            burners.0.push(burner.map_err(|error| format!("setpriv: {error}"))?);
        }
        let until = Instant::now() + self.full_cpu;
        let mut last = self.owners()?;
        while Instant::now() < until {
            self.book.pause_whole(LOOK_EVERY);
            let owners = self.owners()?;
            self.moved += last.iter().zip(&owners).filter(|(was, is)| was.1 != is.1).count();
            last = owners;
        }
        Ok(None)
    }

    /// Its shards are given away one by one, then it is told to stop.
    fn drain(&mut self, victim: usize) -> Result<(), String> {
        let number = self.members.all[victim].number;
        self.members.publish_without(victim);
        let address = self.members.all[victim].address.ok_or("the node is not there")?;
        let asked = format!("{{\"node\":\"{number}\"}}");
        let reply = ask(address, "POST", "/v1/cluster/drain", &asked, None);
        let reply = reply.map_err(|error| format!("drain: {error}"))?;
        if reply.status != 200 {
            return Err(format!("drain: {} {}", reply.status, reply.body));
        }
        let begun = Instant::now();
        while self.owners()?.iter().any(|(_, owner, _)| owner.is_some_and(|id| id.node == number)) {
            if begun.elapsed() > DRAIN_PATIENCE {
                return Err(format!("node {number} was drained and still has shards"));
            }
            self.book.pause_whole(LOOK_EVERY);
        }
        self.members.all[victim].stop()?;
        self.begin(victim)
    }
}

struct Burners(Vec<Child>);

impl Drop for Burners {
    fn drop(&mut self) {
        for burner in &mut self.0 {
            let _ = burner.kill();
            let _ = burner.wait();
        }
    }
}
