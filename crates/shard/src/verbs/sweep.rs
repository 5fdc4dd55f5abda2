//! Sweep: a cancelled job's unfinished runs are cancelled, a page at a time, however many there
//! are. The job's row says that a sweep is due, so a crash in the middle does not end it: the next
//! owner begins again at the first run.

use crate::rows::ReadId;
use crate::shard::{Decision, Shard};
use crate::touched::Since;
use model::read::{Page, Read, WheelKey};
use model::row::{JobRow, RunRow};
use model::{JobId, Namespace, RunId, Time};

/// A sweep under way.
#[derive(Debug)]
pub(crate) struct Sweep {
    after: Option<RunId>,
    state: SweepState,
    since: Since,
}

#[derive(Debug)]
enum SweepState {
    /// The page is read when every batch decided before is durable.
    Gated(u64),
    Reading(ReadId),
    Read(Vec<RunRow>),
}

impl Shard {
    pub(crate) fn decide_sweep(&mut self, now: Time, mut job: JobRow) -> Decision<()> {
        if !job.sweep {
            return Ok(());
        }
        let gate = self.pipeline.gate();
        let (rows, since, after) = match self.sweeps.remove(&job.id) {
            Some(Sweep { state: SweepState::Read(rows), since, after }) => (rows, since, after),
            Some(under_way) => {
                self.sweeps.insert(job.id, under_way);
                return Ok(());
            }
            None => {
                self.sweep_on(job.id, gate, None);
                return Ok(());
            }
        };
        let more = rows.len() >= self.sizes.page;
        let last = rows.last().map(|row| row.id).or(after);
        let (old, rows): (Vec<RunRow>, Vec<RunRow>) =
            rows.into_iter().partition(|row| self.touched.is_touched(WheelKey::Run(row.id), since));
        self.touched.end(since);
        for row in &rows {
            self.cancel_of_job(now, &mut job, row);
        }
        let gate = self.pipeline.gate();
        if !old.is_empty() {
            self.sweep_on(job.id, gate, after);
        } else if more {
            self.sweep_on(job.id, gate, last);
        } else {
            job.sweep = false;
        }
        job.due = job.sweep.then_some(now);
        self.put_or_remove_job(job);
        Ok(())
    }

    fn sweep_on(&mut self, job: JobId, gate: u64, after: Option<RunId>) {
        let since = self.touched.begin();
        self.sweeps.insert(job, Sweep { after, state: SweepState::Gated(gate), since });
    }

    /// The job is gone, and with it what was to be swept.
    pub(crate) fn forget_sweep(&mut self, job: JobId) {
        if let Some(sweep) = self.sweeps.remove(&job) {
            self.touched.end(sweep.since);
        }
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
            self.timer.put_due(now, WheelKey::Job(*job), Namespace(u32::MAX));
        }
    }
}
