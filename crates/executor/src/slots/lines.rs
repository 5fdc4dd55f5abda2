//! What slots are taken, and who waits for one: a line for each namespace and host. The turns that
//! namespaces and their hosts have are kept here.

use super::Slot;
use crate::limits::{
    CLAIM_BATCH, HOST_IN_FLIGHT_MAX, HOST_WAITING_MAX, HOSTS_MAX, IN_FLIGHT_MAX, ROOM_WAIT_MAX,
};
use crate::place::Place;
use model::{Namespace, Time};
use node::bucket::Bucket;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::sync::oneshot;

/// A line that is not longer has room for all that one claim brings.
const ROOMY: usize = HOST_WAITING_MAX - CLAIM_BATCH;

/// Before a host has finished anything.
const FIRST_GUESS: i64 = 1_000_000;

#[derive(Debug, Default)]
pub struct State {
    pub busy: usize,
    pub waiting: usize,
    pub hosts: BTreeMap<Place, HostState>,
    /// Namespaces with something under way, or a limit.
    pub tenants: BTreeMap<Namespace, Tenant>,
    pub lines: BTreeMap<Namespace, Lines>,
    /// Namespaces with somebody waiting, in turn.
    pub turns: VecDeque<Namespace>,
}

#[derive(Debug)]
pub struct HostState {
    pub busy: usize,
    pub waiting: usize,
    /// How many it may have at once.
    pub most: usize,
    /// How long its attempts take, in microseconds.
    pub mean: i64,
    /// When the next one that is put back shall come again.
    pub next: Time,
    /// What its rate still allows.
    pub bucket: Option<Bucket>,
}

/// What one namespace has.
#[derive(Debug, Default)]
pub struct Tenant {
    pub busy: usize,
    /// How many it may have at once, where that is limited.
    pub most: Option<usize>,
}

/// Who waits, of one namespace.
#[derive(Debug, Default)]
pub struct Lines {
    pub waiting: usize,
    pub hosts: BTreeMap<Place, VecDeque<oneshot::Sender<Slot>>>,
    /// Hosts with somebody waiting, in turn.
    pub turns: VecDeque<Place>,
}

impl State {
    /// May a host that has so many slots have one more?
    pub fn may(&self, host: &HostState) -> bool {
        let free = IN_FLIGHT_MAX.saturating_sub(self.busy);
        let most = match free {
            0 => 0,
            _ if free > IN_FLIGHT_MAX / 2 => host.most,
            _ if free > IN_FLIGHT_MAX / 4 => (host.most / 4).max(1),
            _ if free > IN_FLIGHT_MAX / 8 => (host.most / 16).max(1),
            _ => 1,
        };
        host.busy < most.min(host.most)
    }

    /// May one more of this namespace go to this host?
    pub fn may_at(&self, namespace: Namespace, place: &Place) -> bool {
        let tenant = self.tenants.get(&namespace);
        let room = tenant.is_none_or(|one| one.most.is_none_or(|most| one.busy < most));
        let host = self.hosts.get(place);
        room && host.map_or(self.busy < IN_FLIGHT_MAX, |host| self.may(host))
    }

    pub fn take(&mut self, namespace: Namespace, place: &Place) {
        self.busy += 1;
        self.tenants.entry(namespace).or_default().busy += 1;
        self.host(place).busy += 1;
    }

    pub fn give(&mut self, namespace: Namespace, place: &Place) {
        self.busy = self.busy.saturating_sub(1);
        let host = self.host(place);
        host.busy = host.busy.saturating_sub(1);
        if let Some(tenant) = self.tenants.get_mut(&namespace) {
            tenant.busy = tenant.busy.saturating_sub(1);
            if tenant.busy == 0 && tenant.most.is_none() {
                self.tenants.remove(&namespace);
            }
        }
    }

    /// Forgets those of one line who left; the answer is how long it is.
    pub fn tidy(&mut self, namespace: Namespace, place: &Place) -> usize {
        self.forget(namespace, place, |line| line.retain(|one| !one.is_closed()))
    }

    /// The first of the line, if there is one, still waits. Others behind it may have left: to look at each
    /// of them whenever a slot is taken or given would cost more than the slot.
    pub fn tidy_front(&mut self, namespace: Namespace, place: &Place) -> usize {
        self.forget(namespace, place, |line| {
            while line.front().is_some_and(oneshot::Sender::is_closed) {
                line.pop_front();
            }
        })
    }

    fn forget(
        &mut self,
        namespace: Namespace,
        place: &Place,
        tidy: impl FnOnce(&mut VecDeque<oneshot::Sender<Slot>>),
    ) -> usize {
        let Some(lines) = self.lines.get_mut(&namespace) else { return 0 };
        let Some(line) = lines.hosts.get_mut(place) else { return 0 };
        let before = line.len();
        tidy(line);
        let (left, gone) = (line.len(), before - line.len());
        lines.waiting -= gone;
        self.waiting -= gone;
        if let Some(host) = self.hosts.get_mut(place) {
            host.waiting -= gone;
        }
        left
    }

    pub fn tidy_all(&mut self) {
        let lines = self.lines.iter();
        let all: Vec<(Namespace, Place)> = lines
            .flat_map(|(who, lines)| lines.hosts.keys().map(|at| (*who, at.clone())))
            .collect();
        for (namespace, place) in all {
            self.tidy(namespace, &place);
        }
    }

    /// Hosts whose line is too long for another claim, and how many too many wait there.
    fn crowded(&mut self, namespace: Namespace) -> Vec<(Place, usize)> {
        let Some(lines) = self.lines.get(&namespace) else { return Vec::new() };
        let long = lines.hosts.iter().filter(|(_, line)| line.len() > ROOMY);
        let long: Vec<Place> = long.map(|(place, _)| place.clone()).collect();
        let left = |place: Place| {
            let excess = self.tidy(namespace, &place).saturating_sub(ROOMY);
            (excess > 0).then_some((place, excess))
        };
        long.into_iter().filter_map(left).collect()
    }

    /// How long until another claim of this namespace finds room, at the pace of its hosts. None: there is
    /// room, or it takes longer than anybody should wait for.
    pub fn until_room(&mut self, namespace: Namespace) -> Option<Duration> {
        let crowded = self.crowded(namespace);
        let soon = crowded.into_iter().filter_map(|(place, excess)| {
            let host = self.hosts.get(&place)?;
            let ends = host.mean.max(0).unsigned_abs() * excess as u64 / host.most.max(1) as u64;
            Some(Duration::from_micros(ends)).filter(|wait| *wait <= ROOM_WAIT_MAX)
        });
        soon.max()
    }

    /// Somebody waited for as long as anybody does, and there is still no room: hosts that looked
    /// quick take longer than was known.
    pub fn were_slow(&mut self, namespace: Namespace) {
        for (place, excess) in self.crowded(namespace) {
            let host = self.host(&place);
            let least = 2 * ROOM_WAIT_MAX.as_micros() as i64 * host.most as i64 / excess as i64;
            host.mean = host.mean.max(least);
        }
    }

    pub fn host(&mut self, place: &Place) -> &mut HostState {
        if self.hosts.len() >= HOSTS_MAX && !self.hosts.contains_key(place) {
            self.hosts.retain(|_, host| host.busy > 0 || host.waiting > 0);
        }
        self.hosts.entry(place.clone()).or_insert_with(|| HostState {
            busy: 0,
            waiting: 0,
            most: HOST_IN_FLIGHT_MAX,
            mean: FIRST_GUESS,
            next: Time::MIN,
            bucket: None,
        })
    }

    pub fn wait(&mut self, namespace: Namespace, place: &Place) -> oneshot::Receiver<Slot> {
        let (give, given) = oneshot::channel();
        let lines = self.lines.entry(namespace).or_default();
        lines.waiting += 1;
        lines.hosts.entry(place.clone()).or_default().push_back(give);
        if !lines.turns.contains(place) {
            lines.turns.push_back(place.clone());
        }
        if !self.turns.contains(&namespace) {
            self.turns.push_back(namespace);
        }
        self.waiting += 1;
        self.host(place).waiting += 1;
        given
    }

    /// The next of a namespace who can have a slot, if anybody can.
    pub fn next_of(&mut self, namespace: Namespace) -> Option<(oneshot::Sender<Slot>, Place)> {
        let hosts = self.lines.get(&namespace).map_or(0, |lines| lines.turns.len());
        for _ in 0..hosts {
            let place = self.lines.get_mut(&namespace)?.turns.pop_front()?;
            let length = self.tidy_front(namespace, &place);
            let may = self.may_at(namespace, &place);
            let lines = self.lines.get_mut(&namespace)?;
            if length == 0 {
                lines.hosts.remove(&place);
                continue;
            }
            let first = if may { lines.hosts.get_mut(&place)?.pop_front() } else { None };
            if length > usize::from(first.is_some()) {
                lines.turns.push_back(place.clone());
            } else {
                lines.hosts.remove(&place);
            }
            let Some(first) = first else { continue };
            lines.waiting -= 1;
            self.waiting -= 1;
            self.host(&place).waiting -= 1;
            self.take(namespace, &place);
            return Some((first, place));
        }
        None
    }
}
