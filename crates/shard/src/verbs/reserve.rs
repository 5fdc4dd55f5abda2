//! Reserve: a run whose time is near is leased, before that time, to a claimer who waits for it, and
//! the claimer hears of it at that time (`host/kept.rs`). The commit that a start costs is over by
//! then: a run starts at its time and not a commit later, and ten thousand of one instant start together.
//!
//! How long before: as long as commits take here, the slow ones among the last hundreds included; for a
//! herd, as long as writing its leases takes. Only
//! one-offs and retries, which are whole in the timer, and only in queues without limits where nothing is
//! ready: what is ready comes first, and what a limit allows is known when the time comes. Among the
//! runs of one instant the flows choose, as always. Before a herd one claimer stays free for others.
//!
//! Until its time nobody has heard of a reserved run. If its claimer hangs up, a hold comes or the
//! shard is given away, the lease goes back and nothing remains of it: no attempt, no history. If its
//! owner dies the next one finds a lease like any whose answer was lost: who asks again under the same
//! number gets it, otherwise it ends in its time; and the run never starts before its own.

use crate::batch::{Event, Output};
use crate::command::{Claim, Command, CommandId, Leased};
use crate::entry::Entry;
use crate::flows::FlowId;
use crate::leases::Lease;
use crate::limits::{
    CLAIM_MAX, RESERVE_AT_ONCE, RESERVE_COUNTED, RESERVE_FADES, RESERVE_FEW, RESERVE_LOOK,
    RESERVE_MAX, RESERVE_PER_RUN, RESERVE_SKIPPED, RESERVE_SLOW,
};
use crate::planted::Bug;
use crate::shard::{Caller, Shard};
use crate::timer::Timed;
use model::read::WheelKey;
use model::{Namespace, RunState, Span, Text, Time};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Reserved {
    /// What commits take, smoothed; and what slow ones took lately.
    commit: Span,
    slow: Span,
    /// Claims whose answer leaves later, and when.
    claims: BTreeMap<(Time, CommandId), (Caller, Claim)>,
    /// When the timer is to be looked at again.
    pub next: Option<Time>,
    /// What is due before this may be reserved, because so much is; and when that was counted.
    herd: Time,
    counted: Option<Time>,
    /// Many could have been reserved, and nobody took one: not before this again.
    rest_until: Time,
}

/// A run that may be reserved, and where it stands in the timer.
type Candidate = (Time, Entry);

impl Reserved {
    pub fn committed(&mut self, took: Span) {
        let took = took.max(Span::ZERO).min(RESERVE_MAX);
        self.commit = Span::from_micros((self.commit.micros() * 7 + took.micros()) / 8);
        let faded = self.slow.micros() - self.slow.micros() / RESERVE_FADES;
        self.slow = Span::from_micros(faded).max(took).min(RESERVE_SLOW);
    }

    /// How long before its time a run is reserved.
    fn lead(&self, least: Span) -> Span {
        self.commit.times(2).max(self.slow).plus(least).min(RESERVE_MAX)
    }

    /// The answer to this claim has left, or nobody waits for it any more.
    pub fn told(&mut self, caller: CommandId) {
        self.claims.retain(|(_, id), _| *id != caller);
    }

    /// Memory is loaded again, and these claims are decided again.
    pub fn forget(&mut self, again: &[(Caller, Command)]) {
        (self.next, self.counted) = (None, None);
        self.claims.retain(|(_, id), _| again.iter().all(|(caller, _)| caller.id != *id));
    }
}

impl Shard {
    /// These runs were claimed, and the claimer hears of them when the last one is due.
    pub(crate) fn note_reserved(
        &mut self,
        now: Time,
        caller: Caller,
        claim: &Claim,
        runs: &[Leased],
    ) {
        let reserved = runs.iter().filter(|run| run.reserved);
        let at = reserved.map(|run| run.due.ceil_millis()).max();
        if let Some(at) = at.filter(|at| *at > now) {
            self.reserved.claims.insert((at, caller.id), (caller, claim.clone()));
        }
    }

    /// The answer to a claim has left.
    pub fn handle_told(&mut self, caller: CommandId) {
        self.reserved.told(caller);
    }

    /// Leases what falls due next to those who wait for it.
    pub(crate) fn reserve(&mut self, now: Time) {
        while let Some(first) = self.reserved.claims.first_entry().filter(|e| e.key().0 <= now) {
            first.remove();
        }
        let alone = !self.quarantine.is_empty() || self.pipeline.is_searching();
        if !self.waiters.reserve() || self.timer.is_empty() || alone || !self.has_room() {
            return;
        }
        let rest = self.reserved.rest_until.since(now);
        if rest > Span::ZERO && rest <= RESERVE_LOOK {
            self.reserved.next = Some(self.reserved.rest_until);
            return;
        }
        let lead = self.reserved.lead(self.sizes.reserve);
        // Timers round up to the millisecond: what is due by a whole one is told by then.
        let until = self.count_herd(now).max(now.plus(lead).floor_millis());
        let room = self.sizes.batch_changes.saturating_sub(self.pipeline.building.changes.len());
        let (mut found, more) = self.candidates(until, room.min(RESERVE_AT_ONCE));
        let (many, mut got, mut again) = (found.len() > RESERVE_FEW, false, false);
        // What is due before this commit can be durable is told together, when it is.
        let soonest = now.plus(self.reserved.commit).floor_millis();
        while let Some((first, _)) = found.first() {
            let at = first.ceil_millis().max(soonest);
            let rest = found.split_off(found.partition_point(|(t, _)| t.ceil_millis() <= at));
            let cut = more && rest.is_empty();
            let herd = at.since(now) > lead;
            let some = self.reserve_instant(now, (at, herd, cut), found);
            (got, again) = (got || some, again || some && cut);
            found = rest;
        }
        if many && !got {
            self.reserved.rest_until = now.plus(RESERVE_LOOK);
        }
        let later = self.timer.next_after(until).map(|at| at.minus(lead));
        let herd = self.reserved.counted.map(|at| at.plus(RESERVE_LOOK));
        let at_once = again.then_some(now);
        self.reserved.next = [later, herd, at_once].into_iter().flatten().min();
    }

    /// Until when a herd may be reserved: what comes with so many others has to begin earlier.
    fn count_herd(&mut self, now: Time) -> Time {
        if self.timer.len() < self.sizes.herd {
            self.reserved.counted = None;
            return Time::MIN;
        }
        let since = self.reserved.counted.map(|at| now.since(at));
        if since.is_some_and(|since| since >= Span::ZERO && since < RESERVE_LOOK) {
            return self.reserved.herd;
        }
        self.reserved.counted = Some(now);
        self.reserved.herd = Time::MIN;
        let mut cost = self.reserved.lead(self.sizes.reserve);
        let upcoming = self.timer.upcoming(now.plus(RESERVE_MAX)).take(RESERVE_COUNTED);
        for (place, _) in upcoming.filter(|(_, timed)| matches!(timed, Timed::Run(_))) {
            cost = cost.plus(RESERVE_PER_RUN);
            if place.ceil_millis().since(now) <= cost {
                self.reserved.herd = place.ceil_millis();
            }
        }
        self.reserved.herd
    }

    /// What is due by then and could start for somebody who waits, in order, at most so many. Is there more?
    fn candidates(&self, until: Time, most: usize) -> (Vec<Candidate>, bool) {
        let (mut found, mut skipped) = (Vec::new(), 0);
        let mut known: Option<(FlowId, bool)> = None;
        for (place, timed) in self.timer.upcoming(until) {
            if found.len() >= most {
                return (found, true);
            }
            let fits = match timed {
                Timed::Run(entry) if waits(entry.state) => match known {
                    Some((flow, fits)) if flow == entry.flow => fits,
                    _ => {
                        let fits = self.could_reserve(entry.flow);
                        known = Some((entry.flow, fits));
                        fits
                    }
                },
                _ => false,
            };
            match timed {
                Timed::Run(entry) if fits => found.push((place, *entry)),
                _ => skipped += 1,
            }
            if skipped >= RESERVE_SKIPPED {
                break;
            }
        }
        (found, false)
    }

    fn could_reserve(&self, flow: FlowId) -> bool {
        let key = self.flows.key(flow);
        let queue = (key.namespace, key.queue.clone());
        self.waiters.reserve_of(&queue).next().is_some() && self.flows.is_idle(flow, &queue)
    }

    /// Runs of one instant go to those who wait, as if it had come; the rest waits on. `cut`: there are
    /// more of this instant, so nobody gets less than it has room for. True if somebody got some.
    fn reserve_instant(
        &mut self,
        now: Time,
        (at, herd, cut): (Time, bool, bool),
        candidates: Vec<Candidate>,
    ) -> bool {
        let mut pushed = 0;
        for (place, entry) in &candidates {
            // What does not fit into memory stays where it is.
            if self.flows.keeps(entry) {
                self.timer.remove(*place, WheelKey::Run(entry.id));
                self.flows.push(*entry);
                pushed += 1;
            }
        }
        let mut got = 0;
        for queue in self.flows.take_woken() {
            let left = if cut { pushed - got } else { usize::MAX };
            got += self.reserve_queue((now, at), &queue, herd, left);
        }
        for (place, entry) in candidates {
            if let Some(entry) = self.flows.remove(entry.flow, entry.place()) {
                self.timer.put(place, Timed::Run(entry));
            }
        }
        got > 0
    }

    /// How many runs those who wait for this queue got; nobody who has room for more than `left`.
    fn reserve_queue(
        &mut self,
        (now, at): (Time, Time),
        queue: &(Namespace, Text),
        herd: bool,
        mut left: usize,
    ) -> usize {
        let ids: Vec<CommandId> = self.waiters.reserve_of(queue).collect();
        let (mut got, most) = (0, ids.len().saturating_sub(usize::from(herd)));
        for id in ids.into_iter().take(most) {
            if !self.flows.has_ready(queue) || !self.has_room() {
                break;
            }
            let Some((caller, claim)) = self.waiters.remove(id) else { continue };
            let in_time = claim.wait_until > at && caller.deadline > at;
            let runs = match in_time && claim.max.min(CLAIM_MAX) <= left {
                true => self.claim_once(now, at, caller, &claim),
                false => Vec::new(),
            };
            if runs.is_empty() {
                self.waiters.insert(caller, claim);
                continue;
            }
            self.event(Event::Reserved);
            got += runs.len();
            left = left.saturating_sub(runs.len());
            self.answer_waiter(caller, claim, runs);
        }
        got
    }

    /// Whoever was promised a run that has not begun waits for work again.
    pub(crate) fn unreserve(&mut self, now: Time) {
        let claims = std::mem::take(&mut self.reserved.claims);
        for ((at, id), (caller, claim)) in claims {
            // What has begun cannot be taken back: its holder may have heard, and would be forgotten.
            let leases = self.leases.of_request(&claim.holder, claim.request);
            if at <= now || !leases.into_iter().all(|lease| is_reserved(lease, now)) {
                continue;
            }
            self.pipeline.take_out(id);
            self.outputs.push_back(Output::Withdraw(id));
            for (run, token) in self.leases.untell(id) {
                let lease = self.leases.get(run).filter(|lease| lease.row.token == token);
                if let Some(lease) = lease.filter(|lease| is_reserved(lease, now)).cloned() {
                    self.unlease(lease);
                }
            }
            self.waiters.insert(caller, claim);
        }
        self.flows.wake_all();
    }

    /// Nobody heard of this lease, and its time has not come: as if it had never been.
    pub(crate) fn unlease(&mut self, lease: Lease) {
        self.event(Event::Unreserved);
        self.end_lease(&lease);
        let mut entry = lease.entry;
        if self.planted.is(Bug::UnreservedIsReady) {
            entry.state = RunState::Ready;
            self.put_run(&mut entry);
            self.flows.push(entry);
            return;
        }
        self.touch(WheelKey::Run(entry.id));
        self.wait_for(entry.due, Timed::Run(entry));
    }
}

fn waits(state: RunState) -> bool {
    matches!(state, RunState::Scheduled | RunState::Retrying)
}

/// Was it leased before its time, which has not come, and did nobody ask it to stop?
pub(crate) fn is_reserved(lease: &Lease, now: Time) -> bool {
    lease.row.started > now && waits(lease.entry.state) && !lease.row.cancel
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_millis(1);

    #[test]
    fn slow_commits_are_allowed_for_and_forgotten() {
        let mut reserved = Reserved::default();
        let mut commits = |count: u32, took: Span| {
            (0..count).for_each(|_| reserved.committed(took));
            reserved.lead(MS)
        };
        let usual = commits(1_000, MS);
        assert!(usual > MS.times(2) && usual <= MS.times(3), "{usual:?}");
        let after_a_slow_one = commits(1, MS.times(6));
        assert!(after_a_slow_one >= MS.times(7), "{after_a_slow_one:?}");
        // Of one that stood still no more is remembered than a claimer may be kept for.
        commits(1, MS.times(150));
        let soon = commits(100, MS);
        assert!(soon > MS.times(5) && soon <= RESERVE_SLOW.plus(MS), "{soon:?}");
        let later = commits(2_000, MS);
        assert!(later > MS.times(2) && later <= MS.times(3), "{later:?}");
    }
}
