//! Who may send now. A host has at most 64 slots, and fewer the fewer are free in all: one slow host
//! cannot take what the others need, and the more slow hosts there are, the less each of them can
//! hold. It takes 184 stuck hosts at once until a further one finds nothing free, and then it
//! waits for the first of their attempts to time out.
//!
//! A claimed run whose host is full waits here for a moment (its deadline is running); a longer
//! line is put back into the store for later, spread at the pace at which the host finishes.

use crate::limits::{
    BACK_MAX, BACK_MIN, HOST_IN_FLIGHT_MAX, HOST_WAITING_MAX, HOSTS_MAX, IN_FLIGHT_MAX, WAITING_MAX,
};
use crate::place::Place;
use model::{Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};

/// Before a host has finished anything.
const FIRST_GUESS: i64 = 1_000_000;
/// One attempt weighs so much in the mean time of its host: an eighth.
const MEAN_SHIFT: u32 = 3;

#[derive(Clone, Debug, Default)]
pub struct Slots {
    state: Arc<Mutex<State>>,
    freed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    busy: usize,
    waiting: usize,
    hosts: BTreeMap<Place, HostState>,
    /// Hosts with somebody waiting, in turn.
    turns: VecDeque<Place>,
}

#[derive(Debug)]
struct HostState {
    busy: usize,
    waiting: VecDeque<oneshot::Sender<Slot>>,
    /// How long its attempts take, in microseconds.
    mean: i64,
    /// When the next one that is put back shall come again.
    next: Time,
}

/// The right to send. Dropping it frees the slot.
#[derive(Debug)]
pub struct Slot {
    slots: Slots,
    place: Place,
}

#[derive(Debug)]
pub enum Entry {
    Taken(Slot),
    Waiting(oneshot::Receiver<Slot>),
    /// No room to wait either.
    Full,
}

impl State {
    /// May a host that has so many slots have one more?
    fn may(&self, busy: usize) -> bool {
        let free = IN_FLIGHT_MAX.saturating_sub(self.busy);
        let most = match free {
            0 => 0,
            _ if free > IN_FLIGHT_MAX / 2 => HOST_IN_FLIGHT_MAX,
            _ if free > IN_FLIGHT_MAX / 4 => HOST_IN_FLIGHT_MAX / 4,
            _ if free > IN_FLIGHT_MAX / 8 => HOST_IN_FLIGHT_MAX / 16,
            _ => 1,
        };
        busy < most
    }

    /// Counts those who wait; who left is forgotten.
    fn count(&mut self) {
        self.waiting = 0;
        for place in &self.turns {
            if let Some(host) = self.hosts.get_mut(place) {
                host.waiting.retain(|one| !one.is_closed());
                self.waiting += host.waiting.len();
            }
        }
    }

    fn host(&mut self, place: &Place) -> &mut HostState {
        if self.hosts.len() >= HOSTS_MAX && !self.hosts.contains_key(place) {
            self.hosts.retain(|_, host| host.busy > 0 || !host.waiting.is_empty());
        }
        self.hosts.entry(place.clone()).or_insert_with(|| HostState {
            busy: 0,
            waiting: VecDeque::new(),
            mean: FIRST_GUESS,
            next: Time::MIN,
        })
    }
}

impl Slots {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn enter(&self, place: &Place) -> Entry {
        let mut state = self.state();
        let (busy, queued) = {
            let host = state.host(place);
            host.waiting.retain(|one| !one.is_closed());
            (host.busy, host.waiting.len())
        };
        if queued == 0 && state.may(busy) {
            state.busy += 1;
            state.host(place).busy += 1;
            return Entry::Taken(Slot { slots: self.clone(), place: place.clone() });
        }
        if state.waiting >= WAITING_MAX {
            state.count();
        }
        if queued >= HOST_WAITING_MAX || state.waiting >= WAITING_MAX {
            return Entry::Full;
        }
        let (give, given) = oneshot::channel();
        state.host(place).waiting.push_back(give);
        state.waiting += 1;
        if !state.turns.contains(place) {
            state.turns.push_back(place.clone());
        }
        Entry::Waiting(given)
    }

    /// When a run that found no slot shall come again: behind those put back before it, at the
    /// pace of its host.
    pub fn come_again(&self, place: &Place, now: Time) -> Time {
        let mut state = self.state();
        let host = state.host(place);
        let pace = Span::from_micros(host.mean / HOST_IN_FLIGHT_MAX as i64 + 1);
        let latest = now.plus(BACK_MAX);
        host.next = host.next.max(now).plus(pace).min(latest);
        host.next.max(now.plus(BACK_MIN))
    }

    /// An attempt took so long.
    pub fn ended(&self, place: &Place, took: Span) {
        let mut state = self.state();
        let host = state.host(place);
        host.mean += (took.micros().max(0) - host.mean) >> MEAN_SHIFT;
    }

    pub async fn any_free(&self) {
        loop {
            let freed = self.freed.notified();
            if self.state().busy < IN_FLIGHT_MAX {
                return;
            }
            freed.await;
        }
    }

    fn release(&self, place: &Place) {
        let given = {
            let mut state = self.state();
            state.busy = state.busy.saturating_sub(1);
            let host = state.host(place);
            host.busy = host.busy.saturating_sub(1);
            self.next(&mut state)
        };
        self.freed.notify_waiters();
        // Outside the lock: a waiter that left in this moment drops its slot, which comes here again.
        for (give, slot) in given {
            let _ = give.send(slot);
        }
    }

    /// Gives what is free to those who wait, one host after the other.
    fn next(&self, state: &mut State) -> Vec<(oneshot::Sender<Slot>, Slot)> {
        let mut given = Vec::new();
        if state.turns.is_empty() {
            return given;
        }
        let mut stuck = 0;
        while stuck < state.turns.len()
            && let Some(place) = state.turns.pop_front()
        {
            let busy = state.host(&place).busy;
            let may = state.may(busy);
            let host = state.host(&place);
            host.waiting.retain(|one| !one.is_closed());
            let Some(give) = (if may { host.waiting.pop_front() } else { None }) else {
                if !host.waiting.is_empty() {
                    stuck += 1;
                    state.turns.push_back(place);
                }
                continue;
            };
            host.busy += 1;
            if !host.waiting.is_empty() {
                state.turns.push_back(place.clone());
            }
            state.busy += 1;
            stuck = 0;
            given.push((give, Slot { slots: self.clone(), place }));
        }
        state.count();
        given
    }
}

impl Slot {
    pub fn ended(&self, took: Span) {
        self.slots.ended(&self.place, took);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.release(&self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::host::Host;

    fn place(n: usize) -> Place {
        Place { tls: false, host: Host::Name(format!("h{n}.example")), port: 80 }
    }

    fn fill(slots: &Slots, place: &Place) -> Vec<Slot> {
        let mut held = Vec::new();
        while let Entry::Taken(slot) = slots.enter(place) {
            held.push(slot);
        }
        held
    }

    #[test]
    fn a_host_has_its_limit_and_others_go_on() {
        let slots = Slots::default();
        let held = fill(&slots, &place(1));
        assert_eq!(held.len(), HOST_IN_FLIGHT_MAX);
        assert_eq!(fill(&slots, &place(2)).len(), HOST_IN_FLIGHT_MAX);
        drop(held);
        assert_eq!(slots.state().busy, 0);
    }

    #[test]
    fn it_takes_184_stuck_hosts_until_nothing_is_free() {
        let slots = Slots::default();
        let held: Vec<_> = (0..184).map(|n| fill(&slots, &place(n))).collect();
        assert!(held.iter().all(|one| !one.is_empty()), "every host got something");
        let all: usize = held.iter().map(Vec::len).sum();
        assert_eq!(all, IN_FLIGHT_MAX);
        assert!(matches!(slots.enter(&place(1_000)), Entry::Waiting(_)));
    }

    #[test]
    fn who_waits_gets_the_next_slot_in_turn_and_who_left_is_passed_over() {
        let slots = Slots::default();
        let mut held = fill(&slots, &place(1));
        let wait = || match slots.enter(&place(1)) {
            Entry::Waiting(given) => given,
            other => panic!("{other:?}"),
        };
        let (left, mut first, mut second) = (wait(), wait(), wait());
        drop(left);
        assert!(first.try_recv().is_err());
        held.pop();
        let slot = first.try_recv().expect("the first one still there");
        assert!(second.try_recv().is_err());
        drop(slot);
        let second = second.try_recv().expect("then the second");
        // A waiter that leaves after it was given a slot gives it on.
        let (third, mut fourth) = (wait(), wait());
        held.pop();
        drop(third);
        let fourth = fourth.try_recv().expect("given on");
        drop((held, fourth, second));
        let state = slots.state();
        assert_eq!((state.busy, state.waiting), (0, 0));
    }

    #[test]
    fn the_line_is_bounded_and_what_is_put_back_is_spread() {
        let slots = Slots::default();
        let _held = fill(&slots, &place(1));
        // `fill` left one waiter behind, which has gone.
        let waiting: Vec<_> = (0..HOST_WAITING_MAX).map(|_| slots.enter(&place(1))).collect();
        assert!(waiting.iter().all(|one| matches!(one, Entry::Waiting(_))));
        assert!(matches!(slots.enter(&place(1)), Entry::Full));
        let now = Time::from_micros(1_000_000_000);
        for _ in 0..1_000 {
            slots.ended(&place(1), Span::from_secs(30));
        }
        let back: Vec<Time> = (0..10_000).map(|_| slots.come_again(&place(1), now)).collect();
        assert!(back.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(back[0] >= now.plus(BACK_MIN) && back[9_999] <= now.plus(BACK_MAX));
        // 64 at a time, 30 s each: about two a second.
        let soon = back.iter().filter(|at| **at < now.plus(Span::from_secs(20))).count();
        assert!((30..60).contains(&soon), "{soon}");
    }
}
