//! When is a cluster whole again, and when is everything where it belongs?

use super::members::{self, Members};
use super::{LOOK_EVERY, Owners, WATCHER};
use crate::limits::{RECOVERY_PATIENCE, RENEWED_LATE, SETTLED_AFTER, STARVED_PATIENCE};
use model::cluster::Renew;
use model::{NodeId, Span, Time};
use std::collections::BTreeMap;
use std::time::Instant;
use store::Store;
use store_postgres::PostgresStore;

/// Waits until every shard has an owner whose lease holds, and no node ended by itself.
pub fn recovered(watcher: &PostgresStore, members: &mut Members) -> Result<Owners, String> {
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
pub fn settled(
    watcher: &PostgresStore,
    members: &mut Members,
    home: &[Option<u32>],
) -> Result<Owners, String> {
    let begun = Instant::now();
    let mut renewals = Renewals::new(begun);
    let (mut last, mut since) = (recovered(watcher, members)?, Instant::now());
    loop {
        std::thread::sleep(LOOK_EVERY);
        let owners = recovered(watcher, members)?;
        renewals.look(watcher, Instant::now());
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
        // A node that renews slowly asks for no shard, so that a database that stands still moves none.
        let late = renewals.last_late.elapsed().min(begun.elapsed());
        if late > RECOVERY_PATIENCE || begun.elapsed() > STARVED_PATIENCE {
            let away = places.iter().zip(home).filter(|(place, home)| place != home).count();
            let waited = begun.elapsed();
            return Err(format!("{away} shards are not at home after {waited:?}; {renewals}"));
        }
    }
}

/// How often the nodes' leases were seen to be renewed, and how often later than a node may that judges
/// others and asks them for its shards.
struct Renewals {
    /// By node: until when its lease lasts, when that was first seen, how many there were and how many
    /// of them were late.
    of: BTreeMap<u32, (Time, Instant, u32, u32)>,
    last_late: Instant,
}

impl Renewals {
    fn new(at: Instant) -> Renewals {
        Renewals { of: BTreeMap::new(), last_late: at }
    }

    fn look(&mut self, watcher: &PostgresStore, at: Instant) {
        let Ok(cluster) = watcher.renew(Renew { node: WATCHER, ttl: Span::ZERO }) else { return };
        for lease in cluster.nodes.iter().filter(|lease| lease.expires > cluster.now) {
            let (expires, seen, all, late) =
                self.of.entry(lease.node.node).or_insert((lease.expires, at, 0, 0));
            if *expires != lease.expires {
                let pause = at.duration_since(*seen);
                (*expires, *seen, *all) = (lease.expires, at, *all + 1);
                if pause > RENEWED_LATE {
                    *late += 1;
                    self.last_late = at;
                }
            }
        }
    }
}

impl std::fmt::Display for Renewals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = self.of.iter().map(|(node, (_, _, all, late))| {
            format!("node {node} renewed {all} times, {late} of them later than {RENEWED_LATE:?}")
        });
        f.write_str(&of.collect::<Vec<_>>().join(", "))
    }
}

pub fn places(owners: &Owners) -> Vec<Option<u32>> {
    owners.iter().map(|(_, owner, _)| owner.map(|id| id.node)).collect()
}
