//! Were the limits of queues kept, by the leases and where the work is done?
//!
//! **By the leases**: every commit that gives a lease out has the leases of its queue, or group, counted
//! in the store when it ends (`store_postgres::watch`). A lease counts until its row is gone, which is
//! when it was settled or taken back.
//!
//! **Where the work is done**: an execution counts from when the receiver or worker saw it begin until
//! it ended there, or until its lease ended by the database's clock, whichever came first. A worker stops
//! by itself before its lease ends, so what it says counts whole. A webhook's lease ends with the lease
//! of the node that sent it: when that node was killed, frozen or cut off, the receiver may go on for a
//! while (a *tail*), and from that moment on it does not count. Nothing may be taken back from a node whose
//! lease never ended, or the tail would hide what is looked for.

use super::{Evidence, broken};
use crate::limited::Limited;
use model::id::{NodeId, ShardId};
use model::row::HistoryRow;
use model::{RunId, Status, Text, Time, Token};
use sim::checker::Violation;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use store_postgres::watch::{Ended, Given, Watched};

/// How many of one sort are listed.
const LISTED: usize = 5;

/// What was looked at in a run whose queues have limits.
#[derive(Clone, Debug)]
pub struct Strict {
    pub queues: Vec<Limited>,
    pub watched: Watched,
}

/// What a run at strict limits went through.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// Faults after which a shard of a limited queue had another epoch, and the shards.
    pub failovers: usize,
    pub shards: usize,
    pub leases: usize,
    pub executions: usize,
    /// Executions that went on, or began, when their lease was over.
    pub tails: usize,
    /// For each limit how many ran at once at most, by the leases and where the work is done.
    pub most: BTreeMap<u32, (u32, u32)>,
}

type Attempt = (RunId, Token);
/// A queue, or a group of one.
type Place = (Text, Option<Text>);

struct Seen<'a> {
    strict: &'a Strict,
    given: BTreeMap<Attempt, &'a Given>,
    ended: BTreeMap<Attempt, &'a Ended>,
    lost: BTreeSet<Attempt>,
}

impl<'a> Seen<'a> {
    fn new(evidence: &'a Evidence, strict: &'a Strict) -> Seen<'a> {
        let history = evidence.dump.shards.iter().flat_map(|shard| &shard.history);
        let lost = history.filter(|row| row.status == Status::Lost);
        Seen {
            strict,
            given: strict.watched.given.iter().map(|row| ((row.run, row.token), row)).collect(),
            ended: strict.watched.ended.iter().map(|row| ((row.run, row.token), row)).collect(),
            lost: lost.map(|row| (row.run, row.token)).collect(),
        }
    }

    fn limit(&self, queue: &Text) -> Option<&Limited> {
        self.strict.queues.iter().find(|limited| limited.queue == *queue)
    }

    /// When the lease of the node that held this attempt ended: the first time after it was given.
    fn lapse(&self, given: &Given, node: NodeId) -> Option<Time> {
        let lapses = self.strict.watched.lapses.iter();
        let seen = lapses.filter(|(lapsed, at)| *lapsed == node && *at >= given.at);
        let last = self
            .ended
            .get(&(given.run, given.token))
            .and_then(|ended| ended.expires.filter(|expires| *expires <= ended.at));
        seen.map(|(_, at)| *at).chain(last).min()
    }
}

/// The node that was given this attempt, where that was looked at.
pub fn holder(evidence: &Evidence, row: &HistoryRow) -> Option<NodeId> {
    let mut given = evidence.strict.as_ref()?.watched.given.iter();
    given.find(|given| (given.run, given.token) == (row.run, row.token))?.node
}

pub fn judge(evidence: &Evidence) -> Vec<Violation> {
    let Some(strict) = &evidence.strict else { return Vec::new() };
    let seen = Seen::new(evidence, strict);
    let mut found = by_leases(&seen);
    found.extend(taken_from_the_living(&seen));
    found.extend(sweep(evidence, &seen).0);
    let held = held(evidence);
    for (most, (by_leases, at_work)) in held.iter().flat_map(|held| &held.most) {
        if by_leases < most || at_work < most {
            let detail = format!("of {most} at most {by_leases} had leases and {at_work} ran");
            found.push(broken("limits_were_reached", detail));
        }
    }
    found
}

fn by_leases(seen: &Seen<'_>) -> Vec<Violation> {
    let over = seen.given.values().filter(|given| {
        seen.limit(&given.queue).is_some_and(|limited| counted(limited, given) > limited.most)
    });
    over.take(LISTED).map(|given| broken("limits_hold_by_leases", format!("{given:?}"))).collect()
}

fn counted(limited: &Limited, given: &Given) -> u32 {
    if limited.groups.is_empty() { given.of_queue } else { given.of_group }
}

fn taken_from_the_living(seen: &Seen<'_>) -> Vec<Violation> {
    let taken = seen.lost.iter().filter_map(|attempt| {
        let given = seen.given.get(attempt)?;
        let node = given.node?;
        seen.lapse(given, node)
            .is_none()
            .then(|| format!("{given:?}: {:?}", seen.ended.get(attempt)))
    });
    taken
        .take(LISTED)
        .map(|detail| broken("no_lease_is_taken_from_a_living_node", detail))
        .collect()
}

/// How many ran at once in each place, at most; and what was too much.
fn sweep(evidence: &Evidence, seen: &Seen<'_>) -> (Vec<Violation>, BTreeMap<Place, u32>, usize) {
    let (mut found, mut tails) = (Vec::new(), 0);
    // At one instant what ends comes before what begins.
    let mut turns: BTreeMap<Place, Vec<(Time, i64, Attempt)>> = BTreeMap::new();
    for execution in &evidence.pages.executions {
        let attempt = (execution.run, execution.token);
        let Some(given) = seen.given.get(&attempt) else {
            found.push(broken("every_execution_has_a_lease", format!("{execution:?}")));
            continue;
        };
        let Some(limited) = seen.limit(&given.queue) else { continue };
        let ended = execution.end.unwrap_or(Time::MAX);
        let lapse = given.node.filter(|_| seen.lost.contains(&attempt));
        let lapse = lapse.and_then(|node| seen.lapse(given, node));
        let end = lapse.map_or(ended, |lapse| ended.min(lapse));
        tails += usize::from(end < ended);
        if end > execution.begin {
            let group = given.group.clone().filter(|_| !limited.groups.is_empty());
            let turns = turns.entry((given.queue.clone(), group)).or_default();
            turns.extend([(execution.begin, 1, attempt), (end, -1, attempt)]);
        }
    }
    let mut most = BTreeMap::new();
    for (place, mut turns) in turns {
        turns.sort_unstable();
        let allowed = seen.limit(&place.0).map_or(u32::MAX, |limited| limited.most);
        let (mut running, mut peak) = (Vec::new(), 0_u32);
        for (at, step, attempt) in turns {
            if step < 0 {
                let left = running.iter().position(|known| *known == attempt);
                left.map(|place| running.swap_remove(place));
                continue;
            }
            running.push(attempt);
            let count = u32::try_from(running.len()).unwrap_or(u32::MAX);
            if count > allowed && peak <= allowed {
                let detail = format!("{place:?} allows {allowed}; at {at:?} ran {running:?}");
                found.push(broken("limits_hold_at_work", detail));
            }
            peak = peak.max(count);
        }
        most.insert(place, peak);
    }
    found.truncate(LISTED * 2);
    (found, most, tails)
}

/// None where no queue had limits.
pub fn held(evidence: &Evidence) -> Option<Held> {
    let strict = evidence.strict.as_ref()?;
    let seen = Seen::new(evidence, strict);
    let (_, places, tails) = sweep(evidence, &seen);
    let shards: BTreeSet<ShardId> =
        strict.watched.given.iter().map(|given| given.run.job.shard()).collect();
    let mut held = Held {
        leases: strict.watched.given.len(),
        executions: evidence.pages.executions.len(),
        tails,
        most: strict.queues.iter().map(|limited| (limited.most, (0, 0))).collect(),
        ..Held::default()
    };
    for window in &evidence.windows {
        let pairs = window.before.iter().zip(&window.after);
        let hit = pairs.filter(|(was, is)| shards.contains(&was.0) && was.2 != is.2).count();
        held.failovers += usize::from(hit > 0);
        held.shards += hit;
    }
    for given in &strict.watched.given {
        let Some(limited) = seen.limit(&given.queue) else { continue };
        if let Some((leases, _)) = held.most.get_mut(&limited.most) {
            *leases = counted(limited, given).max(*leases);
        }
    }
    for ((queue, _), peak) in places {
        let limit = seen.limit(&queue).and_then(|limited| held.most.get_mut(&limited.most));
        if let Some((_, at_work)) = limit {
            *at_work = peak.max(*at_work);
        }
    }
    Some(held)
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most: Vec<String> = self
            .most
            .iter()
            .map(|(most, (leases, ran))| format!("of {most}: {leases} leases, {ran} at work"))
            .collect();
        write!(
            f,
            "chaos: limited: {} failovers of {} shards with limited queues; {} leases, {} executions, {} with a tail after their lease; most at once {}",
            self.failovers,
            self.shards,
            self.leases,
            self.executions,
            self.tails,
            most.join("; ")
        )
    }
}
