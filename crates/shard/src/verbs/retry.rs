//! Retry: what follows an attempt that did not succeed. A retry waits out a backoff that grows and
//! spreads; when none is left the run is dead. Released and snoozed attempts spend nothing.

use crate::command::SettleAnswer;
use crate::entry::Entry;
use crate::leases::Lease;
use crate::lifecycle::{Move, allowed};
use crate::limits::{ATTEMPTS_MAX, BACKOFF_SPREAD_PERCENT, RETRY_AFTER_MAX};
use crate::planted::Bug;
use crate::shard::Shard;
use crate::timer::Timed;
use crate::verbs::end::{JobSide, Report};
use model::{Lane, Policy, RunState, Span, Status, Time};

impl Shard {
    /// An attempt ended with an answer that was not success, or with a timeout. `again`: may it be
    /// tried again, and did the receiver say after how long?
    pub(crate) fn fail(
        &mut self,
        now: Time,
        lease: Lease,
        status: Status,
        mut report: Report,
        again: Option<Option<Span>>,
        side: Option<JobSide>,
    ) -> SettleAnswer {
        let mut lease = lease;
        let policy = self.policies.get(lease.entry.policy);
        lease.entry.attempts = lease.row.attempt;
        if again.is_none()
            || lease.entry.retries >= policy.max_retries
            || lease.entry.attempts >= ATTEMPTS_MAX
        {
            self.bury(now, lease, status, report, side);
            return SettleAnswer::Ok { state: RunState::Dead, next: None };
        }
        if !self.planted.is(Bug::RetryNotCounted) {
            lease.entry.retries += 1;
        }
        let delay = match again.flatten() {
            Some(asked) => asked.max(Span::ZERO).min(RETRY_AFTER_MAX),
            None => backoff(&policy, lease.entry.retries, &lease.entry),
        };
        let next = now.plus(delay);
        if next > lease.entry.finish_by && !self.planted.is(Bug::NeverExpires) {
            // No attempt could begin in time.
            self.finish(now, lease, (status, Move::Expire, RunState::Expired), report, side);
            return SettleAnswer::Ok { state: RunState::Expired, next: None };
        }
        report.next = Some(next);
        self.again_at(now, lease, status, Move::Fail, next, report);
        SettleAnswer::Ok { state: RunState::Retrying, next: Some(next) }
    }

    /// The run waits for its next attempt, in the retry lane.
    pub(crate) fn again_at(
        &mut self,
        now: Time,
        lease: Lease,
        status: Status,
        by: Move,
        next: Time,
        report: Report,
    ) {
        debug_assert!(allowed(RunState::Running, by, RunState::Retrying));
        self.end_lease(&lease);
        self.write_attempt(now, &lease, status, RunState::Retrying, report);
        let mut entry = lease.entry;
        entry.state = RunState::Retrying;
        entry.due = next;
        entry.flow = self.flows.in_lane(entry.flow, Lane::Retry);
        self.put_run(&mut entry);
        self.wait_for(entry.due, Timed::Run(entry));
    }

    /// The run is ready again at once.
    pub(crate) fn again_now(
        &mut self,
        now: Time,
        lease: Lease,
        status: Status,
        by: Move,
        report: Report,
    ) {
        debug_assert!(allowed(RunState::Running, by, RunState::Ready));
        self.end_lease(&lease);
        self.write_attempt(now, &lease, status, RunState::Ready, report);
        let mut entry = lease.entry;
        entry.state = RunState::Ready;
        entry.due = now;
        entry.flow = self.flows.in_lane(entry.flow, Lane::Retry);
        self.put_run(&mut entry);
        self.flows.push(entry);
    }

    pub(crate) fn snooze(
        &mut self,
        now: Time,
        lease: Lease,
        until: Time,
        side: Option<JobSide>,
    ) -> SettleAnswer {
        let mut lease = lease;
        lease.entry.attempts = lease.row.attempt;
        if lease.entry.attempts >= ATTEMPTS_MAX {
            self.bury(now, lease, Status::Snoozed, Report::default(), side);
            return SettleAnswer::Ok { state: RunState::Dead, next: None };
        }
        let next = until.max(now);
        let report = Report { next: Some(next), ..Report::default() };
        self.again_at(now, lease, Status::Snoozed, Move::Snooze, next, report);
        SettleAnswer::Ok { state: RunState::Retrying, next: Some(next) }
    }

    pub(crate) fn give_back(
        &mut self,
        now: Time,
        lease: Lease,
        report: Report,
        side: Option<JobSide>,
    ) -> SettleAnswer {
        let mut lease = lease;
        lease.entry.attempts = lease.row.attempt;
        if lease.entry.attempts >= ATTEMPTS_MAX {
            self.bury(now, lease, Status::Released, report, side);
            return SettleAnswer::Ok { state: RunState::Dead, next: None };
        }
        self.again_now(now, lease, Status::Released, Move::Release, report);
        SettleAnswer::Ok { state: RunState::Ready, next: None }
    }
}

/// initial × factor^(n−1), capped, spread by a fifth either way. The spread is a hash of the run
/// and the attempt: deterministic, and different for runs that failed together.
pub(crate) fn backoff(policy: &Policy, n: u16, entry: &Entry) -> Span {
    let mut delay = policy.initial.micros().max(1);
    for _ in 1..n {
        delay = delay.saturating_mul(i64::from(policy.factor.max(1)));
        if delay >= policy.cap.micros() {
            break;
        }
    }
    delay = delay.min(policy.cap.micros().max(1));
    let spread = delay / 100 * BACKOFF_SPREAD_PERCENT;
    let seed = entry.id.job.to_bytes();
    let hash = model::hash::hash(entry.id.part.bits() ^ u64::from(entry.attempts), &seed);
    let offset = if spread == 0 { 0 } else { (hash % (2 * spread as u64 + 1)) as i64 - spread };
    Span::from_micros(delay.saturating_add(offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::PolicyId;
    use crate::flows::FlowId;
    use model::{Cause, JobId, RunId, Slot};

    fn entry(random: u64) -> Entry {
        let job = JobId::mint(Time::MIN, Slot::from_bits(1), random << 2);
        Entry {
            id: RunId::new(job, Cause::OneOff),
            due: Time::MIN,
            nominal: Time::MIN,
            flow: FlowId(0),
            policy: PolicyId::default(),
            version: 1,
            rev: 1,
            checkpoint: 0,
            attempts: 1,
            retries: 0,
            lost: 0,
            replays: 0,
            state: RunState::Running,
            fresh: false,
            start_by: Time::MAX,
            finish_by: Time::MAX,
        }
    }

    #[test]
    fn backoff_grows_is_capped_and_spreads() {
        let policy = Policy::default();
        let mut seen = std::collections::BTreeSet::new();
        for random in 1..200 {
            let entry = entry(random);
            for (n, seconds) in [(1, 10), (2, 40), (3, 160), (4, 640), (5, 2_560), (6, 3_600)] {
                let delay = backoff(&policy, n, &entry).micros();
                let nominal = seconds * 1_000_000;
                assert!((delay - nominal).abs() <= nominal / 5, "{n}: {delay}");
            }
            seen.insert(backoff(&policy, 1, &entry).micros());
        }
        assert!(seen.len() > 150, "only {} different delays", seen.len());
    }

    #[test]
    fn extreme_policies_do_not_overflow() {
        let policy = Policy {
            initial: Span::from_micros(i64::MAX),
            factor: u16::MAX,
            cap: Span::from_micros(i64::MAX),
            ..Policy::default()
        };
        assert!(backoff(&policy, u16::MAX, &entry(1)).micros() > 0);
    }
}
