//! How each fault is done, and undone.

use super::database::Database;
use super::fault::Kind;
use super::members::Members;
use crate::book::Book;
use crate::proxy::{Accept, Flow, Proxy, Rules, Way};
use sim::rng::Rng;
use std::time::Duration;

/// Shorter than a node's lease of 3 s, by enough that it renews in time when it wakes.
const PAUSE_MILLIS: (i64, i64) = (500, 1_400);
/// Longer than the lease, and than what others need to notice.
const FREEZE_MILLIS: (i64, i64) = (5_000, 8_000);
const APART_MILLIS: (i64, i64) = (5_000, 8_000);
const STALL: Duration = Duration::from_secs(10);
const TROUBLE_MILLIS: (i64, i64) = (2_000, 4_000);
/// Between two changes of the place where answers break off.
const CUT_EVERY: Duration = Duration::from_millis(150);
/// A node that was killed stays away for longer than its lease, most times.
const AWAY_MILLIS: (i64, i64) = (200, 6_000);
const YEAR_MICROS: i64 = 365 * 86_400 * 1_000_000;
const MINUTE_MICROS: i64 = 60_000_000;

pub struct Site<'a> {
    pub members: &'a mut Members,
    pub database: &'a Database,
    pub book: &'a Book,
    pub rng: &'a mut Rng,
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
                self.members.publish_without(victim);
                self.members.all[victim].stop()?;
                self.members.all[victim].other_binary();
                self.begin(victim)?;
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
}
