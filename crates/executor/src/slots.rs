//! Who may send now. A host has at most 64 slots (or its limit's share, `shares`), and fewer the fewer
//! are free in all: one slow host cannot take what the others need, and the more slow hosts there are,
//! the less each of them can hold. It takes 184 stuck hosts at once until a further one finds nothing
//! free, and then it waits for the first of their attempts to time out.
//!
//! A claimed run whose host is full waits here for a moment (its deadline is running); a longer
//! line is put back into the store for later, spread at the pace at which the host finishes. Where that pace
//! is quick, whoever claims waits a few milliseconds until the line is shorter instead.
//!
//! Namespaces take turns: a slot that becomes free goes to the next namespace that can use it, whatever
//! the others have waiting, and to the next of its hosts. Every slot costs the same, so a turn is one
//! slot (deficit round robin with a quantum of one). Nobody fills the waiting room: a namespace may hold
//! as much of it as is free, so there is always room for another.

mod lines;

use crate::limits::{
    BACK_MAX, BACK_MIN, HOST_WAITING_MAX, IN_FLIGHT_MAX, KEPT_BACK_SPREAD, LOOK_AHEAD, ROOM_LOOK,
    ROOM_WAIT_MAX, WAITING_MAX,
};
use crate::place::Place;
use crate::shares::{Room, Shares};
use lines::State;
use model::{Namespace, Span, Time};
use node::bucket::Bucket;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// One attempt weighs so much in the mean time of its host: an eighth.
const MEAN_SHIFT: u32 = 3;

#[derive(Clone, Debug, Default)]
pub struct Slots {
    state: Arc<Mutex<State>>,
    freed: Arc<Notify>,
    shares: Arc<Shares>,
}

/// The right to send. Dropping it frees the slot.
#[derive(Debug)]
pub struct Slot {
    slots: Slots,
    namespace: Namespace,
    place: Place,
}

#[derive(Debug)]
pub enum Entry {
    Taken(Slot),
    Waiting(oneshot::Receiver<Slot>),
    /// No room to wait either.
    Full,
}

impl Slots {
    pub fn new(shares: Arc<Shares>) -> Slots {
        Slots { shares, ..Slots::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// May anything of this namespace and this host begin now that ends at `deadline` at the latest?
    /// `Err` says when to come again; none: never.
    pub fn look(
        &self,
        namespace: Namespace,
        place: &Place,
        now: Time,
        deadline: Time,
    ) -> Result<(), Option<Time>> {
        let (tenant, host) = (self.shares.tenant(namespace), self.shares.limit(place));
        if tenant.is_none() && host.is_none() {
            return Ok(());
        }
        self.shares.ready(now).map_err(Some)?;
        let part = |limit| match self.shares.room(limit, now, deadline) {
            Room::Most(most) => Ok(most),
            Room::Later(at) => Err(Some(at)),
            Room::Never => Err(None),
        };
        let tenant = tenant.map(part).transpose()?;
        let host = host.and_then(|host| host.in_flight).map(part).transpose()?;
        let mut state = self.state();
        if let Some(most) = tenant {
            state.tenants.entry(namespace).or_default().most = Some(most);
        }
        if let Some(most) = host {
            state.host(place).most = most;
        }
        Ok(())
    }

    /// Nodes came or went: those who wait get no more than is this node's part now.
    pub fn refresh(&self, now: Time) {
        let part = |limit| match self.shares.room(limit, now, now.plus(LOOK_AHEAD)) {
            Room::Most(most) => most,
            // Who may begin all the same finds out by looking.
            Room::Later(_) | Room::Never => 0,
        };
        let mut state = self.state();
        for (place, host) in &mut state.hosts {
            let limit = self.shares.limit(place).and_then(|limit| limit.in_flight);
            host.most = limit.map_or(host.most, part);
        }
        for (namespace, tenant) in &mut state.tenants {
            tenant.most = self.shares.tenant(*namespace).map(part);
        }
    }

    /// Takes one of what the host's rate allows. `Err` says when its run shall come again: behind those
    /// that were put back before it, at that rate.
    pub fn pace(&self, place: &Place, now: Time) -> Result<(), Time> {
        let Some(rate) = self.shares.limit(place).and_then(|limit| limit.rate) else {
            return Ok(());
        };
        let rate = self.shares.rate(rate);
        let mut state = self.state();
        let host = state.host(place);
        let bucket = host.bucket.get_or_insert_with(|| Bucket::full(rate, now));
        let Err(wait) = bucket.take(rate, 1.0, now) else { return Ok(()) };
        let pace =
            Span::from_micros((1e6 / rate.per_s).min(KEPT_BACK_SPREAD.micros() as f64) as i64);
        let latest = now.plus(wait).plus(KEPT_BACK_SPREAD);
        host.next = host.next.plus(pace).max(now.plus(wait)).min(latest);
        Err(host.next)
    }

    pub fn enter(&self, namespace: Namespace, place: &Place) -> Entry {
        let mut state = self.state();
        let mut queued = state.tidy_front(namespace, place);
        // Others who wait for the same host while it has room wait for something else: their
        // namespace has its limit.
        if queued == 0 && state.may_at(namespace, place) {
            state.take(namespace, place);
            return Entry::Taken(Slot { slots: self.clone(), namespace, place: place.clone() });
        }
        let mine = |state: &State| state.lines.get(&namespace).map_or(0, |lines| lines.waiting);
        let full = |state: &State| {
            let free = WAITING_MAX.saturating_sub(state.waiting);
            mine(state) >= free
        };
        if full(&state) {
            state.tidy_all();
        }
        if queued >= HOST_WAITING_MAX {
            queued = state.tidy(namespace, place);
        }
        if queued >= HOST_WAITING_MAX || full(&state) {
            return Entry::Full;
        }
        Entry::Waiting(state.wait(namespace, place))
    }

    /// When a run that found no slot shall come again: behind those put back before it, at the
    /// pace of its host.
    pub fn come_again(&self, place: &Place, now: Time) -> Time {
        let mut state = self.state();
        let host = state.host(place);
        let pace = Span::from_micros(host.mean / host.most.max(1) as i64 + 1);
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

    /// Claimed runs wait for their hosts: nobody waits for what has just ended.
    pub fn are_waited_for(&self) -> bool {
        self.state().waiting > 0
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

    /// Waits until what one claim brings finds room to wait, if that is soon.
    pub async fn room(&self, namespace: Namespace) {
        let mut left = ROOM_WAIT_MAX;
        while let Some(wait) = self.until_room(namespace) {
            let wait = wait.max(ROOM_LOOK);
            if wait > left {
                return self.state().were_slow(namespace);
            }
            tokio::time::sleep(wait).await;
            left -= wait;
        }
    }

    fn until_room(&self, namespace: Namespace) -> Option<Duration> {
        self.state().until_room(namespace)
    }

    fn release(&self, namespace: Namespace, place: &Place) {
        let given = {
            let mut state = self.state();
            state.give(namespace, place);
            self.next(&mut state)
        };
        self.freed.notify_waiters();
        // Outside the lock: a waiter that left in this moment drops its slot, which comes here again.
        for (give, slot) in given {
            let _ = give.send(slot);
        }
    }

    /// Gives what is free to those who wait, one namespace after the other.
    fn next(&self, state: &mut State) -> Vec<(oneshot::Sender<Slot>, Slot)> {
        let mut given = Vec::new();
        let mut stuck = 0;
        while stuck < state.turns.len()
            && let Some(namespace) = state.turns.pop_front()
        {
            let found = state.next_of(namespace);
            match state.lines.get(&namespace).is_some_and(|lines| !lines.turns.is_empty()) {
                true => state.turns.push_back(namespace),
                false => drop(state.lines.remove(&namespace)),
            }
            match found {
                Some((give, place)) => {
                    stuck = 0;
                    given.push((give, Slot { slots: self.clone(), namespace, place }));
                }
                None => stuck += 1,
            }
        }
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
        self.slots.release(self.namespace, &self.place);
    }
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
