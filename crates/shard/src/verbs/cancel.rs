//! Cancel: a waiting run ends at once; a running attempt is asked to stop, durably first, and is
//! final when its holder answers or its lease ends. A success that arrives first wins.

use crate::command::{Answer, Refused};
use crate::lifecycle::{Move, allowed};
use crate::shard::{Decision, Shard};
use model::row::{JobState, RunRow};
use model::{Cause, JobId, RunId, RunState, Status, Time};

impl Shard {
    pub(crate) fn decide_cancel_run(&mut self, now: Time, run: RunId) -> Decision<Answer> {
        if self.leases.contains(run) {
            self.request_stop(run);
            return Ok(Answer::Stopping(run));
        }
        let Some(row) = self.run_row(run)? else {
            return Ok(Answer::Refused(Refused::NotFound));
        };
        debug_assert!(allowed(row.state, Move::Cancel, RunState::Cancelled));
        let side = self.job_side(run)?;
        self.end_row(now, &row, Status::Cancelled);
        if let Some(mut side) = side {
            self.free_slot(now, &mut side, run);
            self.forget_live(&mut side.job, row.version);
            self.put_or_remove_job(side.job);
        }
        Ok(Answer::Run(run, RunState::Cancelled))
    }

    /// A one-off is its run. A recurring job fires no more, and its runs are cancelled in slices.
    pub(crate) fn decide_cancel_job(&mut self, now: Time, id: JobId) -> Decision<Answer> {
        let Some(mut job) = self.job_row(id)? else {
            return self.decide_cancel_run(now, RunId::new(id, Cause::OneOff));
        };
        if job.state == JobState::Cancelled {
            return Ok(Answer::Job(id, job.version));
        }
        job.state = JobState::Cancelled;
        job.next = None;
        job.sweep = true;
        job.due = Some(now);
        let version = job.version;
        self.put_job(job);
        Ok(Answer::Job(id, version))
    }

    /// Cancels one of a cancelled job's runs, wherever it is.
    pub(crate) fn cancel_of_job(&mut self, now: Time, job: &mut model::row::JobRow, row: &RunRow) {
        if self.leases.contains(row.id) {
            self.request_stop(row.id);
            return;
        }
        if job.active == Some(row.id) {
            job.active = None;
        }
        if job.waiting == Some(row.id) {
            job.waiting = None;
        }
        self.end_waiting(now, job, row, Status::Cancelled);
    }
}
