//! Sweep: a cancelled job's unfinished runs are cancelled, a page at a time, however many there
//! are. The job's row says that a sweep is due, so a crash in the middle does not end it: the next
//! owner begins again at the first run.

use crate::rows::ReadId;
use crate::shard::{Decision, Shard};
use crate::timer::Timed;
use model::read::{Page, Read, WheelKey};
use model::row::{JobRow, RunRow};
use model::{JobId, Namespace, RunId, Time};
use std::collections::BTreeSet;

/// A sweep under way.
#[derive(Debug)]
pub(crate) struct Sweep {
    after: Option<RunId>,
    state: SweepState,
    /// Runs that decisions changed since the page was asked for: the page shows them as they were.
    touched: BTreeSet<RunId>,
}

#[derive(Debug)]
enum SweepState {
    /// The page is read when every batch decided before is durable.
    Gated(u64),
    Reading(ReadId),
    Read(Vec<RunRow>),
}

impl Sweep {
    pub fn touch(&mut self, run: RunId) {
        self.touched.insert(run);
    }
}

impl Shard {
    pub(crate) fn decide_sweep(&mut self, now: Time, mut job: JobRow) -> Decision<()> {
        if !job.sweep {
            return Ok(());
        }
        let sweep = match self.sweeps.remove(&job.id) {
            Some(Sweep { state: SweepState::Read(rows), touched, after }) => (rows, touched, after),
            Some(under_way) => {
                self.sweeps.insert(job.id, under_way);
                return Ok(());
            }
            None => {
                let sweep = self.next_sweep(None);
                self.sweeps.insert(job.id, sweep);
                return Ok(());
            }
        };
        let (rows, touched, after) = sweep;
        let more = rows.len() >= self.sizes.page;
        let last = rows.last().map(|row| row.id).or(after);
        let missed = rows.iter().any(|row| touched.contains(&row.id));
        for row in rows.iter().filter(|row| !touched.contains(&row.id)) {
            self.cancel_of_job(now, &mut job, row);
        }
        if missed || more {
            // After the changes above, so that the next page is read when they are durable.
            let sweep = self.next_sweep(if missed { after } else { last });
            self.sweeps.insert(job.id, sweep);
        } else {
            job.sweep = false;
        }
        job.due = job.sweep.then_some(now);
        self.put_or_remove_job(job);
        Ok(())
    }

    fn next_sweep(&self, after: Option<RunId>) -> Sweep {
        let state = SweepState::Gated(self.pipeline.gate());
        Sweep { after, state, touched: BTreeSet::new() }
    }

    pub(crate) fn read_sweeps(&mut self) {
        let durable = self.pipeline.durable();
        let ready: Vec<(JobId, Option<RunId>)> = self
            .sweeps
            .iter()
            .filter(|(_, s)| matches!(s.state, SweepState::Gated(gate) if gate <= durable))
            .map(|(job, sweep)| (*job, sweep.after))
            .collect();
        for (job, after) in ready {
            let id = self.read(Read::RunsOf { job, after, limit: self.sizes.page });
            if let Some(sweep) = self.sweeps.get_mut(&job) {
                sweep.state = SweepState::Reading(id);
            }
        }
    }

    /// Was this read a sweep's? Then the sweep goes on in the next pass.
    pub(crate) fn sweep_read(&mut self, now: Time, id: ReadId, page: Page) {
        let found = self
            .sweeps
            .iter_mut()
            .find(|(_, sweep)| matches!(sweep.state, SweepState::Reading(read) if read == id));
        if let (Some((job, sweep)), Page::Runs(rows)) = (found, page) {
            sweep.state = SweepState::Read(rows);
            let timed = Timed::Row(WheelKey::Job(*job), Namespace(u32::MAX));
            self.timer.put(now, timed);
        }
    }
}
