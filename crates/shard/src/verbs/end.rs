//! How attempts and runs end: the history row, the removal from the hot tables, and what the end
//! means for the run's job.

use crate::entry::Entry;
use crate::leases::Lease;
use crate::lifecycle::{Move, allowed};
use crate::limits::DEAD_KEPT;
use crate::planted::Bug;
use crate::shard::{Decision, Shard};
use crate::timer::Timed;
use crate::verbs::occurrence::{spec_key, uncount_live};
use model::read::WheelKey;
use model::row::{Expect, HistoryRow, Holder, JobRow, JobState, Key, Row, RunRow};
use model::{Bytes, Cause, RunId, RunState, Status, Text, Time, Token};

/// What the end of a run may touch beside the run: its job's row, and the run that waits for it.
#[derive(Debug)]
pub(crate) struct JobSide {
    pub job: JobRow,
    pub waiting: Option<RunRow>,
}

/// A way for an attempt to end its run: the status recorded, the move, the final state.
pub(crate) type Ending = (Status, Move, RunState);

pub(crate) const SUCCEEDED: Ending = (Status::Succeeded, Move::Succeed, RunState::Succeeded);
pub(crate) const CANCELLED: Ending = (Status::Cancelled, Move::Cancel, RunState::Cancelled);

/// Of a run that expired while it waited.
const NOT_IN_TIME: &str = "expired: it could not start in the time its job allows";

/// What is recorded of an attempt.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub code: Option<u16>,
    pub error: Option<Text>,
    pub output: Option<Bytes>,
    pub next: Option<Time>,
}

impl Shard {
    /// The rows of its job that the end of this run needs.
    pub(crate) fn job_side(&self, run: RunId) -> Decision<Option<JobSide>> {
        if run.cause() == Cause::OneOff {
            return Ok(None);
        }
        let Some(job) = self.job_row(run.job)? else { return Ok(None) };
        let waiting = match job.waiting {
            Some(waiting) if job.active == Some(run) => self.run_row(waiting)?,
            _ => None,
        };
        Ok(Some(JobSide { job, waiting }))
    }

    /// An attempt ended and its run with it.
    pub(crate) fn finish(
        &mut self,
        now: Time,
        lease: Lease,
        (status, by, after): Ending,
        report: Report,
        side: Option<JobSide>,
    ) {
        debug_assert!(allowed(RunState::Running, by, after) && after.is_final());
        self.end_lease(&lease);
        self.remove_run(&lease.entry);
        self.write_attempt(now, &lease, status, after, report);
        if let Some(mut side) = side {
            self.free_slot(now, &mut side, lease.entry.id);
            self.forget_live(&mut side.job, lease.entry.version);
            self.put_or_remove_job(side.job);
        }
    }

    /// An attempt ended and its run is out of tries: it waits for a person.
    pub(crate) fn bury(
        &mut self,
        now: Time,
        lease: Lease,
        status: Status,
        report: Report,
        side: Option<JobSide>,
    ) {
        self.end_lease(&lease);
        self.write_attempt(now, &lease, status, RunState::Dead, report);
        let mut entry = lease.entry;
        entry.state = RunState::Dead;
        entry.due = now.plus(DEAD_KEPT);
        entry.fresh = false;
        self.put_run(&mut entry);
        self.wait_for(entry.due, Timed::Run(entry));
        self.event(crate::batch::Event::Dead);
        if let Some(mut side) = side
            && side.job.active == Some(entry.id)
        {
            // A dead run does not hold up the schedule; its job still counts it as unfinished.
            self.free_slot(now, &mut side, entry.id);
            self.put_job(side.job);
        }
    }

    /// A run that was not running ends without an attempt.
    pub(crate) fn end_waiting(
        &mut self,
        now: Time,
        job: &mut JobRow,
        row: &RunRow,
        status: Status,
    ) {
        self.end_row(now, row, status);
        self.forget_live(job, row.version);
    }

    pub(crate) fn end_row(&mut self, now: Time, row: &RunRow, status: Status) {
        let after = match status {
            Status::Discarded => RunState::Failed,
            Status::TimedOut => RunState::Expired,
            _ => RunState::Cancelled,
        };
        let entry = self.entry_of(row);
        self.leave_memory(&entry);
        self.remove_run(&entry);
        let history = HistoryRow {
            run: row.id,
            token: Token::NONE,
            attempt: 0,
            flow: Some(row.flow.clone()),
            namespace: row.flow.namespace,
            nominal: row.nominal,
            due: row.due,
            started: None,
            finished: now,
            version: row.version,
            status,
            worker: None,
            code: None,
            error: (status == Status::TimedOut).then(|| Text::from(NOT_IN_TIME)),
            output: None,
            after,
            next: None,
            until: None,
            count: 1,
        };
        self.change(
            Key::History(row.id, Token::NONE),
            Expect::Absent,
            Some(Row::History(Box::new(history))),
        );
    }

    /// Takes a run that waits out of wherever memory holds it.
    pub(crate) fn leave_memory(&mut self, entry: &Entry) {
        if !self.planted.is(Bug::CancelLeavesReady) {
            self.flows.remove(entry.flow, entry.place());
        }
        self.stop_waiting(entry.due, WheelKey::Run(entry.id));
    }

    pub(crate) fn end_lease(&mut self, lease: &Lease) {
        let run = lease.row.run;
        self.change(Key::Lease(run), Expect::Rev(lease.row.rev), None);
        self.leases.remove(run);
        self.flows.end(lease.entry.flow);
    }

    pub(crate) fn write_attempt(
        &mut self,
        now: Time,
        lease: &Lease,
        status: Status,
        after: RunState,
        report: Report,
    ) {
        if self.planted.is(Bug::NoHistory) && status == Status::Failed {
            return;
        }
        let entry = &lease.entry;
        let flow = self.flows.key(entry.flow).clone();
        let row = HistoryRow {
            run: entry.id,
            token: lease.row.token,
            attempt: lease.row.attempt,
            namespace: flow.namespace,
            flow: Some(flow),
            nominal: entry.nominal,
            due: entry.due,
            started: Some(lease.row.started),
            finished: now,
            version: entry.version,
            status,
            worker: match &lease.row.holder {
                Holder::Worker(name) => Some(name.clone()),
                Holder::Node(_) => None,
            },
            code: report.code,
            error: report.error,
            output: report.output,
            after,
            next: report.next,
            until: None,
            count: 1,
        };
        self.change(
            Key::History(entry.id, lease.row.token),
            Expect::Absent,
            Some(Row::History(Box::new(row))),
        );
    }

    /// The job's slot for one fresh run is free: the one that waits for it becomes ready.
    pub(crate) fn free_slot(&mut self, now: Time, side: &mut JobSide, run: RunId) {
        let job = &mut side.job;
        if job.waiting == Some(run) {
            job.waiting = None;
        }
        if job.active != Some(run) {
            return;
        }
        job.active = None;
        if self.planted.is(Bug::WaitingNotReleased) {
            return;
        }
        let Some(row) = side.waiting.take().filter(|_| job.state != JobState::Cancelled) else {
            return;
        };
        debug_assert!(allowed(row.state, Move::Unblock, RunState::Ready));
        job.active = job.waiting.take();
        let mut entry = self.entry_of(&row);
        entry.state = RunState::Ready;
        entry.due = entry.due.max(now);
        self.put_run(&mut entry);
        self.flows.push(entry);
    }

    /// One unfinished run less; a spec that is no longer kept for itself goes with its last run.
    pub(crate) fn forget_live(&mut self, job: &mut JobRow, version: u32) {
        let last = uncount_live(job, version);
        if last && !self.keeps_version(job, version) {
            self.change(spec_key(job.id, version), Expect::Rev(1), None);
        }
    }

    /// A job that is to be deleted goes with its last run.
    pub(crate) fn put_or_remove_job(&mut self, job: JobRow) {
        if job.delete && job.live.is_empty() {
            self.change(spec_key(job.id, job.version), Expect::Rev(1), None);
            self.change(Key::Job(job.id), Expect::Rev(job.rev), None);
            self.forget_sweep(job.id);
            if let Some(due) = job.due {
                self.stop_waiting(due, WheelKey::Job(job.id));
            }
        } else {
            self.put_job(job);
        }
    }
}
