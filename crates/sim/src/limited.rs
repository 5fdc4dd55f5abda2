//! Worlds whose queues have limits, and the watch over them. Their seeds begin at `LIMITED`, so that all
//! other worlds are what they were.
//!
//! The watch looks into the store after every commit, as nobody in the world can: are there more leases
//! than a limit allows, did more start than a rate allows, did something start that had expired? A limit that was lowered below what runs is
//! kept as long as nothing new starts.
//!
//! In every second of these worlds recurring jobs have quotas as well (`fires.rs`), in other two of four queues have
//! service levels (`levels.rs`).

use crate::checker::Violation;
use crate::rng::Rng;
use crate::workload::{NAMESPACES, queues};
use crate::world::World;
use model::cluster::Take;
use model::read::{Page, Read};
use model::row::{Key, Row, RunRow};
use model::{Namespace, NodeId, QueueRow, Rate, RunId, ShardId, Span, Text, Time, Token};
use shard::command::{Answer, Command};
use shard::{Event, StoreAnswer, StoreCall, limits};
use std::collections::{BTreeMap, BTreeSet};
use store::Store;

/// Seeds from here on have limits.
pub const LIMITED: u64 = 1 << 40;
/// How far the clocks of two owners may lie apart: their starts are told by their own.
const CLOCKS_APART: Span = Span::from_secs(2);
/// Limits whose takeovers are counted.
const STRICT: [u32; 2] = [1, 7];
/// Starts of one queue or group that are remembered.
const STARTS_KEPT: usize = 200;

type Queue = (Namespace, Text);

#[derive(Debug, Default)]
pub struct Watch {
    /// Leases as they were after the last commit.
    leases: BTreeMap<ShardId, BTreeSet<(RunId, Token)>>,
    /// What queues allowed after the last commit.
    rows: BTreeMap<Queue, QueueRow>,
    /// When runs of a queue, or of a group in it, started while this rate was in force.
    starts: BTreeMap<(Queue, Option<Text>), (Rate, Vec<Time>)>,
    /// Who owned the shards last.
    owners: BTreeMap<ShardId, NodeId>,
}

impl World {
    pub fn is_limited(&self) -> bool {
        self.seed >= LIMITED
    }

    /// Limits for every queue; later ones come as the story goes on.
    pub(crate) fn draw_limits(&mut self) {
        for shard in 0..self.options.shards {
            for namespace in NAMESPACES {
                for queue in queues(shard) {
                    let start_within = self.levels.draw();
                    let limits = QueueRow { start_within, ..draw(&mut self.rng) };
                    self.client_asks(shard, Command::SetQueue { namespace, queue, limits });
                }
            }
        }
    }

    /// Somebody changes the limits of a queue.
    pub(crate) fn change_limits(&mut self) {
        if let Some(fires) = &mut self.fires {
            fires.draw();
        }
        let shard = self.rng.below(u64::from(self.options.shards)) as u16;
        let namespace = NAMESPACES[self.rng.below(2) as usize];
        let queue = queues(shard)[self.rng.below(2) as usize].clone();
        let start_within = self.levels.draw();
        let limits = QueueRow { start_within, ..draw(&mut self.rng) };
        self.client_asks(shard, Command::SetQueue { namespace, queue, limits });
    }

    /// At the end everything must get done: what would take longer than the end lasts is let go.
    pub(crate) fn loosen_limits(&mut self) {
        if let Some(fires) = &self.fires {
            fires.lift();
        }
        for shard in 0..self.options.shards {
            for (at, queue) in queues(shard).into_iter().enumerate() {
                for namespace in NAMESPACES {
                    let limits = match at {
                        0 => QueueRow::default(),
                        _ => QueueRow {
                            max_running: Some(40),
                            group_max_running: Some(9),
                            rate: Some(Rate { starts: 40, per: Span::from_secs(1), burst: 20 }),
                            group_rate: Some(Rate {
                                starts: 20,
                                per: Span::from_secs(1),
                                burst: 9,
                            }),
                            ..QueueRow::default()
                        },
                    };
                    let queue = queue.clone();
                    self.client_asks(shard, Command::SetQueue { namespace, queue, limits });
                }
            }
        }
    }

    /// What was answered last is what the store holds: of each queue the last that was asked, if it was
    /// asked after all others were answered.
    pub(crate) fn look_at_limits(&mut self) {
        if !self.is_limited() {
            return;
        }
        let dump = self.store.inner().dump();
        let mut last: BTreeMap<Queue, (&QueueRow, Time, bool)> = BTreeMap::new();
        for op in &self.log.ops {
            let Command::SetQueue { namespace, queue, limits } = &op.command else { continue };
            let heard = op.heard.as_ref().filter(|(_, answer)| *answer == Answer::Done);
            let (until, good) = heard.map_or((Time::MAX, false), |(at, _)| (*at, true));
            let place = (*namespace, queue.clone());
            let before = last.get(&place).map_or(Time::MIN, |(_, at, _)| *at);
            last.insert(place, (limits, until.max(before), good && before <= op.sent));
        }
        let mut wrong = Vec::new();
        for (queue, (limits, _, _)) in last.into_iter().filter(|(_, (_, _, certain))| *certain) {
            let key = Key::Queue(queue.0, queue.1.clone());
            let row = dump.shards.iter().find_map(|shard| shard.rows.get(&key));
            let found = match row {
                Some(Row::Queue(row)) => QueueRow { rev: 0, ..row.clone() },
                _ => QueueRow::default(),
            };
            if found != (QueueRow { rev: 0, ..limits.clone() }) {
                wrong.push(format!("{queue:?}: {found:?} is stored, {limits:?} was answered"));
            }
        }
        let lost = !self.log.tail_lost.is_empty();
        for detail in wrong.into_iter().filter(|_| !lost) {
            self.found.push(Violation { invariant: "limits_are_stored", detail });
        }
    }

    /// After a call that may have changed something.
    pub(crate) fn watch_limits(&mut self, call: &StoreCall, answer: &StoreAnswer) {
        if !self.is_limited() {
            return;
        }
        if let (StoreCall::Take(takes), StoreAnswer::Take(taken)) = (call, answer) {
            for take in takes.iter().zip(taken).filter(|(_, taken)| taken.is_some()).map(|(t, _)| t)
            {
                self.watch_takeover(take);
            }
        }
        if let (StoreCall::Give(gives), StoreAnswer::Give(given)) = (call, answer) {
            for give in gives.iter().zip(given).filter(|(_, given)| **given).map(|(give, _)| give) {
                self.watch.owners.insert(give.shard, give.to);
            }
        }
        let StoreCall::Commit(commits) = call else { return };
        for commit in commits {
            for detail in self.look_at(commit.shard) {
                self.found.push(Violation { invariant: "limits_are_kept", detail });
            }
        }
    }

    /// Was a shard taken from an owner that was lost, while as much of a queue ran as a strict limit
    /// allows? Those are the moments at which a limit is easily exceeded.
    fn watch_takeover(&mut self, take: &Take) {
        let former = self.watch.owners.insert(take.shard, take.node);
        if former.is_none_or(|former| former == take.node) {
            return;
        }
        let leases = Read::Leases { after: None, limit: limits::READY_MAX };
        let reads = [(take.shard, leases), (take.shard, Read::Queues)];
        let Ok(pages) = self.store.inner().read(&reads) else { return };
        let [Page::Leases(leases), Page::Queues(queues)] = &pages[..] else { return };
        let is_full = queues.iter().any(|(queue, row)| {
            let of = |run: &RunRow| (run.flow.namespace, &run.flow.queue) == (queue.0, &queue.1);
            let running = leases.iter().filter(|(_, run)| of(run)).count();
            STRICT.into_iter().any(|max| row.max_running == Some(max) && running == max as usize)
        });
        if is_full {
            self.log.count(Event::TookOverFull);
        }
    }

    fn look_at(&mut self, shard: ShardId) -> Vec<String> {
        let leases = Read::Leases { after: None, limit: limits::READY_MAX };
        let reads = [(shard, leases), (shard, Read::Queues)];
        let Ok(pages) = self.store.inner().read(&reads) else { return Vec::new() };
        let [Page::Leases(leases), Page::Queues(queues)] = &pages[..] else { return Vec::new() };
        let before = self.watch.leases.remove(&shard).unwrap_or_default();
        let now: BTreeSet<_> = leases.iter().map(|(lease, _)| (lease.run, lease.token)).collect();
        let mut wrong = Vec::new();
        for (lease, run) in leases.iter().filter(|(l, _)| !before.contains(&(l.run, l.token))) {
            let start_by = run.start_by.filter(|_| lease.attempt == 1);
            let by = [start_by, run.finish_by].into_iter().flatten().min();
            if by.is_some_and(|by| lease.started >= by) {
                wrong.push(format!("{} started {:?}, too late for {by:?}", run.id, lease.started));
            }
        }
        for (queue, row) in queues {
            if self.watch.rows.insert(queue.clone(), row.clone()).as_ref() != Some(row) {
                // What started in the commit that set the limits may have started before it.
                self.watch.starts.retain(|(of, _), _| of != queue);
                continue;
            }
            let of: Vec<_> = leases
                .iter()
                .filter(|(_, run)| (run.flow.namespace, &run.flow.queue) == (queue.0, &queue.1))
                .collect();
            let mut groups: BTreeMap<Option<&Text>, Vec<&(model::row::LeaseRow, _)>> =
                BTreeMap::new();
            for one in &of {
                groups.entry(one.1.flow.group.as_ref()).or_default().push(one);
            }
            let is_new = |lease: &model::row::LeaseRow| !before.contains(&(lease.run, lease.token));
            let mut judge = |name: Option<&Text>, max: Option<u32>, of: &[&(_, _)]| {
                let new = of.iter().filter(|(lease, _)| is_new(lease)).count();
                if max.is_some_and(|max| of.len() > max as usize) && new > 0 {
                    wrong.push(format!(
                        "{} of {queue:?} {name:?} run, {new} of them new, where {max:?} may",
                        of.len()
                    ));
                }
            };
            judge(None, row.max_running, &of);
            for (name, of) in &groups {
                if let Some(name) = name {
                    judge(Some(*name), row.group_max_running, of);
                }
            }
            let started = of.iter().filter(|(lease, _)| is_new(lease));
            let mut new: BTreeMap<Option<Text>, Vec<Time>> = BTreeMap::new();
            for (lease, run) in started {
                new.entry(None).or_default().push(lease.started);
                if let Some(group) = &run.flow.group {
                    new.entry(Some(group.clone())).or_default().push(lease.started);
                }
            }
            for (group, times) in new {
                let rate = if group.is_some() { row.group_rate } else { row.rate };
                let place = (queue.clone(), group);
                wrong.extend(self.watch.count(place, rate, times));
            }
        }
        self.watch.leases.insert(shard, now);
        wrong
    }
}

impl Watch {
    /// The store forgot what it had acknowledged: starts are counted from here on.
    pub fn forget(&mut self) {
        *self = Watch::default();
    }

    fn count(
        &mut self,
        place: (Queue, Option<Text>),
        rate: Option<Rate>,
        new: Vec<Time>,
    ) -> Option<String> {
        let Some(rate) = rate else {
            self.starts.remove(&place);
            return None;
        };
        let (of, starts) = self.starts.entry(place.clone()).or_insert((rate, Vec::new()));
        if *of != rate {
            (*of, *starts) = (rate, Vec::new());
        }
        starts.extend(new);
        starts.sort_unstable();
        let first = starts.len().saturating_sub(STARTS_KEPT);
        starts.drain(..first);
        let (_, last) = (starts.first()?, *starts.last()?);
        for (at, from) in starts.iter().enumerate() {
            let count = starts.len() - at;
            let micros = last.since(*from).plus(CLOCKS_APART).micros();
            let refilled = micros as i128 * i128::from(rate.starts) / i128::from(rate.per.micros());
            if count as i128 > i128::from(rate.burst) + refilled + 1 {
                let detail = format!("{count} starts of {place:?} since {from:?}, {rate:?}");
                starts.clear();
                return Some(detail);
            }
        }
        None
    }
}

fn draw(rng: &mut Rng) -> QueueRow {
    let rate = |rng: &mut Rng| {
        rng.per_mille(500).then(|| Rate {
            starts: rng.range(1, 4) as u32,
            per: Span::from_secs(1),
            burst: [1, 7, 30][rng.below(3) as usize],
        })
    };
    let running = |rng: &mut Rng| rng.per_mille(700).then(|| [1, 1, 7, 2][rng.below(4) as usize]);
    let mut row = QueueRow {
        rev: 0,
        max_running: running(rng),
        rate: rate(rng),
        group_max_running: running(rng),
        group_rate: rate(rng),
        weights: BTreeMap::new(),
        start_within: None,
    };
    if rng.per_mille(300) {
        row.weights.insert(Text::from("g1"), rng.range(1, 5) as u32);
    }
    if rng.per_mille(100) {
        row = QueueRow::default();
    }
    row
}
