//! Claim: a worker asks for runs. It gets them at once if there are any, else it waits; a run that
//! falls due or is submitted while somebody waits is leased in the commit that makes it ready.
//! Asking again with the same request returns the same leases.

use crate::batch::Event;
use crate::command::{Answer, Claim, Command, Leased, Refused};
use crate::entry::Entry;
use crate::leases::Lease;
use crate::limits::{CLAIM_MAX, WAITERS_MAX};
use crate::planted::Bug;
use crate::shard::{Caller, Decision, Shard};
use model::row::{Expect, HoldRow, Key, LeaseRow, Row, Scope};
use model::{Namespace, Text, Time};
use std::collections::BTreeMap;

impl Shard {
    pub(crate) fn decide_claim(
        &mut self,
        now: Time,
        caller: Caller,
        claim: &Claim,
    ) -> Decision<Option<Answer>> {
        let runs = self.claim_once(now, now, caller, claim);
        if !runs.is_empty() || claim.wait_until <= now {
            return Ok(Some(Answer::Claimed(runs)));
        }
        if self.waiters.len() >= WAITERS_MAX {
            return Ok(Some(Answer::Refused(Refused::Busy)));
        }
        self.waiters.insert(caller, claim.clone());
        Ok(None)
    }

    /// The leases this request got before, or new ones. Waiting claims are asked too: a client that
    /// repeats its request while the first one waits must not get twice as much. New ones start `at` an
    /// instant that may be still to come (`reserve.rs`).
    pub(crate) fn claim_once(
        &mut self,
        now: Time,
        at: Time,
        caller: Caller,
        claim: &Claim,
    ) -> Vec<Leased> {
        let held = self.leases.of_request(&claim.holder, claim.request);
        let mut runs: Vec<Leased> = held.into_iter().map(leased).collect();
        if runs.is_empty() {
            runs = self.claim_ready(at, claim, at > now);
        }
        self.leases.tell(&claim.holder, claim.request, caller.id);
        self.note_reserved(now, caller, claim, &runs);
        runs
    }

    fn claim_ready(&mut self, now: Time, claim: &Claim, reserved: bool) -> Vec<Leased> {
        let (mut runs, mut late) = (Vec::new(), Vec::new());
        while runs.len() < claim.max.min(CLAIM_MAX) {
            let (holds, ignore) = (&self.holds, self.planted.is(Bug::IgnoreHold));
            let entry = self.flows.take(
                claim.namespace,
                &claim.queues,
                claim.kinds.as_deref(),
                |namespace, queue| !ignore && holds_stop(holds, namespace, queue),
            );
            let Some(entry) = entry else { break };
            if entry.expires() <= now && !self.planted.is(Bug::NeverExpires) {
                // It expires when this pass comes to that.
                late.push(entry);
                if late.len() >= self.sizes.slice {
                    break;
                }
                continue;
            }
            runs.push(self.lease(now, claim, entry, reserved));
        }
        for entry in late {
            self.flows.push(entry);
        }
        runs
    }

    fn lease(&mut self, now: Time, claim: &Claim, entry: Entry, reserved: bool) -> Leased {
        let policy = self.policies.get(entry.policy);
        let row = LeaseRow {
            run: entry.id,
            rev: 1,
            attempt: entry.attempts + 1,
            token: self.next_token(),
            holder: claim.holder.clone(),
            length: claim.lease,
            started: now,
            deadline: now.plus(policy.timeout).min(entry.finish_by),
            request: claim.request,
            cancel: false,
        };
        if entry.attempts == 0 && entry.state != model::RunState::Ready {
            self.event(Event::BornLeased);
        }
        self.touch(model::read::WheelKey::Run(entry.id));
        self.change(Key::Lease(entry.id), Expect::Absent, Some(Row::Lease(row.clone())));
        let lease = Lease::new(row, entry, now, reserved);
        let answer = leased(&lease);
        if !self.planted.is(Bug::LimitNotCounted) {
            self.flows.start(entry.flow);
        }
        self.leases.insert(lease);
        answer
    }

    /// Gives runs that became ready in this pass to those who wait for them, in order of arrival,
    /// and ends waits whose time is over.
    pub(crate) fn serve_waiters(&mut self, now: Time) {
        for queue in self.flows.take_woken() {
            for id in self.waiters.of_queue(&queue) {
                if !self.flows.has_ready(&queue) {
                    break;
                }
                // While a bad command is looked for it must come to stand alone: a claim of what
                // it makes waits for the next batch.
                if !self.pipeline.has_room_for_commands() {
                    self.flows.wake(queue.clone());
                    break;
                }
                let Some((caller, claim)) = self.waiters.remove(id) else { continue };
                let runs = self.claim_once(now, now, caller, &claim);
                if runs.is_empty() {
                    self.waiters.insert(caller, claim);
                } else {
                    self.answer_waiter(caller, claim, runs);
                }
            }
        }
        for id in self.waiters.ended(now) {
            if let Some((caller, claim)) = self.waiters.remove(id) {
                self.answer_waiter(caller, claim, Vec::new());
            }
        }
    }

    pub(crate) fn answer_waiter(&mut self, caller: Caller, claim: Claim, runs: Vec<Leased>) {
        self.reply(caller, Answer::Claimed(runs));
        self.pipeline.building.commands.push((caller, Command::Claim(claim)));
    }
}

/// Does a hold stop new attempts in this queue?
fn holds_stop(holds: &BTreeMap<Scope, HoldRow>, namespace: Namespace, queue: &Text) -> bool {
    !holds.is_empty()
        && (holds.contains_key(&Scope::All)
            || holds.contains_key(&Scope::Namespace(namespace))
            || holds.contains_key(&Scope::Queue(namespace, queue.clone())))
}

fn leased(Lease { row, entry, reserved, .. }: &Lease) -> Leased {
    Leased {
        run: row.run,
        attempt: row.attempt,
        token: row.token,
        nominal: entry.nominal,
        due: entry.due,
        version: entry.version,
        lease: row.length,
        deadline: row.deadline,
        checkpoint: entry.checkpoint > 0,
        reserved: *reserved,
    }
}
