//! What slots are taken, and who waits for one: a line for each namespace and host. The turns that
//! namespaces and their hosts have are kept here.

use super::Slot;
use crate::limits::{HOST_IN_FLIGHT_MAX, HOSTS_MAX, IN_FLIGHT_MAX};
use crate::place::Place;
use model::{Namespace, Time};
use node::bucket::Bucket;
use std::collections::{BTreeMap, VecDeque};
use tokio::sync::oneshot;

/// Before a host has finished anything.
const FIRST_GUESS: i64 = 1_000_000;

#[derive(Debug, Default)]
pub struct State {
    pub busy: usize,
    pub waiting: usize,
    pub hosts: BTreeMap<Place, HostState>,
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

    pub fn may_at(&self, place: &Place) -> bool {
        self.hosts.get(place).is_none_or(|host| self.may(host))
    }

    /// Forgets those of one line who left; the answer is how long it is.
    pub fn tidy(&mut self, namespace: Namespace, place: &Place) -> usize {
        let Some(lines) = self.lines.get_mut(&namespace) else { return 0 };
        let Some(line) = lines.hosts.get_mut(place) else { return 0 };
        let before = line.len();
        line.retain(|one| !one.is_closed());
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
            let length = self.tidy(namespace, &place);
            let may = self.may_at(&place);
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
            self.busy += 1;
            let host = self.host(&place);
            host.waiting -= 1;
            host.busy += 1;
            return Some((first, place));
        }
        None
    }
}
