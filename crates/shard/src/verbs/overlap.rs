//! Overlap: an occurrence falls due while a fresh run of the same job is unfinished. Only fresh
//! runs count: catch-ups, backfills, triggers and replays neither block nor are blocked.

use crate::batch::{Event, Output};
use crate::planted::Bug;
use crate::shard::{Decision, Shard};
use model::row::{Expect, JobRow, Key, Row, RunRow};
use model::{Lane, Overlap, RunState, Spec, Status, Time};
use std::sync::Arc;

/// The rows of the unfinished fresh runs that a decision may have to cancel.
#[derive(Debug, Default)]
pub(crate) struct Overlapping {
    active: Option<RunRow>,
    waiting: Option<RunRow>,
}

impl Shard {
    pub(crate) fn overlapping(&self, job: &JobRow, spec: &Spec) -> Decision<Overlapping> {
        if spec.overlap != Overlap::CancelRunning {
            return Ok(Overlapping::default());
        }
        let row = |run| match run {
            Some(run) => self.run_row(run),
            None => Ok(None),
        };
        Ok(Overlapping { active: row(job.active)?, waiting: row(job.waiting)? })
    }

    pub(crate) fn fire_occurrence(
        &mut self,
        now: Time,
        job: &mut JobRow,
        spec: &Arc<Spec>,
        at: (Time, Time),
        overlapping: &mut Overlapping,
    ) {
        let free = job.active.is_none();
        if spec.overlap == Overlap::Allow || self.planted.is(Bug::IgnoreOverlap) {
            self.make_occurrence(job, spec, at, Lane::Fresh, RunState::Ready, false);
            return;
        }
        if free {
            let run = self.make_occurrence(job, spec, at, Lane::Fresh, RunState::Ready, true);
            job.active = Some(run);
            return;
        }
        match spec.overlap {
            Overlap::CancelRunning => self.cancel_for(now, job, spec, at, overlapping),
            Overlap::QueueOne if job.waiting.is_none() => {
                let run = self.make_occurrence(job, spec, at, Lane::Fresh, RunState::Blocked, true);
                job.waiting = Some(run);
                self.event(Event::OverlapQueued);
            }
            _ => {
                self.write_verdict(now, job, Status::SkippedOverlap, (at.0, at.0), 1);
                self.event(Event::OverlapSkipped);
            }
        }
    }

    /// The running one is told to stop and the new one waits for it; one that has not started is
    /// replaced at once.
    fn cancel_for(
        &mut self,
        now: Time,
        job: &mut JobRow,
        spec: &Arc<Spec>,
        at: (Time, Time),
        overlapping: &mut Overlapping,
    ) {
        self.event(Event::OverlapCancelled);
        if let Some(run) = job.waiting.take() {
            let row = overlapping.waiting.take().or_else(|| self.made_here(run));
            if let Some(row) = row {
                self.end_waiting(now, job, &row, Status::Cancelled);
            }
        }
        let Some(active) = job.active else { return };
        if self.leases.contains(active) {
            self.request_stop(active);
            let run = self.make_occurrence(job, spec, at, Lane::Fresh, RunState::Blocked, true);
            job.waiting = Some(run);
            return;
        }
        let row = overlapping.active.take().or_else(|| self.made_here(active));
        job.active = None;
        if let Some(row) = row {
            self.end_waiting(now, job, &row, Status::Cancelled);
        }
        let run = self.make_occurrence(job, spec, at, Lane::Fresh, RunState::Ready, true);
        job.active = Some(run);
    }

    /// A run made earlier in this very decision: its row is in the batch being built.
    fn made_here(&self, run: model::RunId) -> Option<RunRow> {
        self.run_row(run).ok().flatten()
    }

    /// Asks the holder of a running attempt to stop: durable first, told at its next heartbeat.
    pub(crate) fn request_stop(&mut self, run: model::RunId) {
        let Some(lease) = self.leases.get_mut(run) else { return };
        if lease.row.cancel {
            return;
        }
        lease.row.cancel = true;
        let expect = Expect::Rev(lease.row.rev);
        lease.row.rev += 1;
        let row = lease.row.clone();
        let token = row.token;
        self.change(Key::Lease(run), expect, Some(Row::Lease(row)));
        self.pipeline.building.outputs.push(Output::Stop(run, token));
        self.event(Event::CancelledRunning);
    }
}
