//! When is a cluster whole again, and when is everything where it belongs?

use super::members::{self, Members};
use super::{LOOK_EVERY, Owners, WATCHER};
use crate::limits::{RECOVERY_PATIENCE, SETTLED_AFTER};
use model::cluster::Renew;
use model::{NodeId, Span};
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

pub fn places(owners: &Owners) -> Vec<Option<u32>> {
    owners.iter().map(|(_, owner, _)| owner.map(|id| id.node)).collect()
}
