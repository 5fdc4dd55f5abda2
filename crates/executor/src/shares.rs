//! What a destination may be given by all nodes together, and this node's part of it.
//!
//! - **In flight** is divided: each of n nodes has ⌊limit ÷ n⌋. Where that is nothing (more nodes than the
//!   limit) nodes take turns: in each turn of fixed length, as many of them as the limit have one slot, and
//!   an attempt begins only if it must end before the turn does.
//! - **Rate** is divided into parts of any size: a token bucket per node.
//! - Nodes come and go, and not all see it in the same moment. A node that comes counts for the others
//!   as soon as they see its lease, and begins with limited destinations only when they must have seen
//!   it and what they had begun has ended, if it was not allowed more than the usual time. When one goes,
//!   its part is used by the others only after a while: it may have been frozen for a moment. If it was
//!   for longer, it begins like one that comes.
//!
//! Everything here is pure; `Shares::seen` is told what the node sees.

use crate::limits::{SHARE_ABSENT, SHARE_GROWS_AFTER, SHARE_JOIN_WAIT, SHARE_MARGIN, SHARE_TURN};
use crate::place::Place;
use model::{NodeId, Time};
use node::bucket::Rate;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use wire::host::Host;

/// What a destination may be given, in the whole cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limit {
    pub in_flight: Option<u32>,
    pub rate: Option<Rate>,
}

/// By host, or by host and port, which counts more.
pub type Limits = BTreeMap<String, Limit>;

#[derive(Debug, Default)]
pub struct Shares {
    limits: Limits,
    /// The store is this process's alone: nobody shares anything.
    exclusive: bool,
    nodes: Mutex<Nodes>,
}

#[derive(Debug)]
struct Nodes {
    /// In order.
    alive: Vec<NodeId>,
    own: Option<usize>,
    /// When each was last seen alive, if that is not long ago: by so many is divided.
    lately: BTreeMap<NodeId, Time>,
    /// Before this nothing that is limited begins.
    open: Time,
    /// Turns that began before this do not count.
    turns: Time,
    /// When it last looked who lives.
    looked: Time,
}

impl Default for Nodes {
    fn default() -> Nodes {
        let never = Time::MIN;
        let (alive, lately) = (Vec::new(), BTreeMap::new());
        Nodes { alive, own: None, lately, open: never, turns: never, looked: never }
    }
}

impl Nodes {
    fn by(&self) -> usize {
        self.lately.len().max(1)
    }
}

/// May an attempt begin?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// With so many others, at most.
    Most(usize),
    /// Not before this instant.
    Later(Time),
    /// Its timeout is longer than a turn.
    Never,
}

impl Shares {
    pub fn new(limits: Limits, exclusive: bool) -> Shares {
        Shares { limits, exclusive, nodes: Mutex::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn limit(&self, place: &Place) -> Option<Limit> {
        if self.limits.is_empty() {
            return None;
        }
        let host = match &place.host {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        };
        self.limits.get(&place.to_string()).or_else(|| self.limits.get(&host)).copied()
    }

    /// The nodes that live now, as this one sees them.
    pub fn seen(&self, own: NodeId, mut alive: Vec<NodeId>, now: Time) {
        alive.sort_unstable();
        let mut nodes = self.nodes();
        let rank = alive.iter().position(|node| *node == own);
        // It has just come, or did not look for so long that others may have its part.
        let absent = nodes.own.is_none() || now.since(nodes.looked) > SHARE_ABSENT;
        nodes.looked = now;
        if rank.is_some() && absent && !self.exclusive {
            // Also where nobody else is seen: the one before may be frozen and come back.
            let wait = if alive.len() > 1 { SHARE_JOIN_WAIT } else { SHARE_GROWS_AFTER };
            nodes.open = now.plus(wait);
        }
        // Whoever appears while it still waits may have begun something that it did not count on.
        let appears = alive.iter().any(|node| *node != own && !nodes.lately.contains_key(node));
        if now < nodes.open && appears {
            nodes.open = now.plus(SHARE_JOIN_WAIT);
        }
        if alive != nodes.alive && nodes.alive.len().max(alive.len()) > 1 {
            // Others see it a little later: turns that began before all have are nobody's.
            nodes.turns = now.plus(SHARE_GROWS_AFTER);
        }
        for node in &alive {
            nodes.lately.insert(*node, now);
        }
        nodes.lately.retain(|_, last| now.since(*last) < SHARE_GROWS_AFTER);
        (nodes.alive, nodes.own) = (alive, rank);
    }

    /// May this node send to limited destinations at all? If not, when to look again.
    pub fn ready(&self, now: Time) -> Result<(), Time> {
        let nodes = self.nodes();
        match nodes.own {
            // It has not seen the cluster yet, or its lease is over: others may have its part.
            None => Err(now.plus(SHARE_MARGIN)),
            Some(_) if now < nodes.open => Err(nodes.open),
            Some(_) => Ok(()),
        }
    }

    /// This node's part of what may be under way, for an attempt that ends at `deadline` at the latest.
    pub fn room(&self, limit: u32, now: Time, deadline: Time) -> Room {
        if let Err(at) = self.ready(now) {
            return Room::Later(at);
        }
        let nodes = self.nodes();
        let share = limit as usize / nodes.by();
        match (share, nodes.own) {
            (0, Some(rank)) => turn((limit as usize).max(1), rank, &nodes, now, deadline),
            (share, _) => Room::Most(share),
        }
    }

    /// This node's part of a rate.
    pub fn rate(&self, rate: Rate) -> Rate {
        rate.share(self.nodes().by())
    }
}

/// Has this node the turn, and long enough?
fn turn(limit: usize, rank: usize, nodes: &Nodes, now: Time, deadline: Time) -> Room {
    let (length, count) = (SHARE_TURN.micros(), nodes.alive.len().max(1));
    let needs = deadline.since(now).plus(SHARE_MARGIN);
    if needs.plus(SHARE_MARGIN) > SHARE_TURN {
        return Room::Never;
    }
    let this = now.micros().div_euclid(length);
    // Within as many turns as there are nodes each has had one; the first may be spent already, and
    // one more may be lost because nodes came or went.
    for number in this..this + count as i64 + 3 {
        let begins = Time::from_micros(number * length);
        let ends = begins.plus(SHARE_TURN);
        // Turns go round: those of the next turn stand behind those of this one.
        let first = (number.rem_euclid(count as i64) as usize * limit) % count;
        let mine = (rank + count - first) % count < limit;
        let at = begins.plus(SHARE_MARGIN).max(now);
        if mine && begins >= nodes.turns && at.plus(needs) <= ends {
            return if at <= now { Room::Most(1) } else { Room::Later(at) };
        }
    }
    Room::Later(now.plus(SHARE_TURN))
}

#[cfg(test)]
#[path = "shares_tests.rs"]
mod tests;
