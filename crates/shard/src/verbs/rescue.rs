//! Rescue: the holder of a run was not heard from in time, or its node is dead. The attempt is
//! lost, which spends no retry but has a bound of its own, so that a job that kills its workers
//! does not run for ever. The first rescue is immediate, later ones back off.

use crate::batch::Event;
use crate::lifecycle::Move;
use crate::planted::Bug;
use crate::shard::{Decision, Shard};
use crate::verbs::end::{CANCELLED, Report};
use crate::verbs::retry::backoff;
use crate::verbs::settle::no_answer;
use model::row::Holder;
use model::{NodeId, RunId, RunState, Status, Time, Token};

impl Shard {
    /// This life of a node is over, and with it what its executor held.
    pub(crate) fn handle_node_gone(&mut self, node: NodeId) {
        self.loader.forget_alive(node);
        let held = |lease: &&crate::leases::Lease| lease.row.holder == Holder::Node(node);
        let runs: Vec<RunId> = self.leases.iter().filter(held).map(|lease| lease.row.run).collect();
        for run in runs {
            self.leases.end_at(run, Time::MIN);
        }
    }

    /// When those who are alive were seen, by the store's clock.
    pub(crate) fn handle_seen(&mut self, at: Time) {
        self.loader.seen_at(at);
    }

    /// Nodes that hold leases here and that nobody has seen yet.
    pub(crate) fn strangers(&self) -> impl Iterator<Item = NodeId> {
        self.loader.strangers()
    }

    pub(crate) fn decide_rescue(&mut self, now: Time, run: RunId, token: Token) -> Decision<()> {
        if self.leases.get(run).is_none_or(|lease| lease.row.token != token) {
            return Ok(());
        }
        if !self.leases.is_over(run, now) {
            return Ok(());
        }
        let side = self.job_side(run)?;
        let Some(lease) = self.leases.get(run) else { return Ok(()) };
        let mut lease = lease.clone();
        self.event(Event::Rescued);
        if lease.row.cancel {
            let report = Report { error: Some(no_answer()), ..Report::default() };
            self.finish(now, lease, CANCELLED, report, side);
            return Ok(());
        }
        let report = Report { error: Some(no_answer()), ..Report::default() };
        if now >= lease.row.deadline {
            self.fail(now, lease, Status::TimedOut, report, Some(None), side);
            return Ok(());
        }
        let policy = self.policies.get(lease.entry.policy);
        lease.entry.attempts = lease.row.attempt;
        if self.planted.is(Bug::LostSpendsRetry) {
            self.fail(now, lease, Status::Lost, report, Some(None), side);
            return Ok(());
        }
        if policy.max_retries == 0 {
            self.event(Event::LostWithoutRetries);
        }
        if lease.entry.lost >= policy.max_lost {
            self.bury(now, lease, Status::Lost, report, side);
            return Ok(());
        }
        lease.entry.lost += 1;
        if lease.row.started > now {
            // It was reserved, and its time has not come.
            let next = lease.row.started;
            let report = Report { next: Some(next), ..report };
            self.again_at(now, lease.clone(), Status::Lost, Move::Lose, next, report);
        } else if lease.entry.lost == 1 {
            self.again_now(now, lease.clone(), Status::Lost, Move::Lose, report);
        } else {
            let next = now.plus(backoff(&policy, lease.entry.lost - 1, &lease.entry));
            let report = Report { next: Some(next), ..report };
            self.again_at(now, lease.clone(), Status::Lost, Move::Lose, next, report);
        }
        if self.planted.is(Bug::RescueKeepsToken) {
            let answer =
                crate::command::SettleAnswer::Ok { state: RunState::Succeeded, next: None };
            self.recent.put(run, lease.row.token, answer);
        }
        Ok(())
    }
}
