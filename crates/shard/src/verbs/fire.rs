//! Fire: the time of a waiting run has come. A one-off or a retry becomes ready, a dead run that
//! nobody wanted ends, a recurring job decides its occurrences.

use crate::entry::Entry;
use crate::lifecycle::{Move, allowed};
use crate::shard::{Decision, Shard};
use model::row::JobState;
use model::{JobId, RunState, Time};

impl Shard {
    pub(crate) fn fire_run(&mut self, now: Time, entry: Entry) {
        if entry.due > now && !self.planted.is(crate::planted::Bug::FireEarly) {
            self.wait_for(entry.due, crate::timer::Timed::Run(entry));
            return;
        }
        if entry.state == RunState::Dead {
            self.discard(now, entry);
            return;
        }
        debug_assert!(allowed(entry.state, Move::Fire, RunState::Ready));
        // Its row is written only if no claimer takes it in this very batch (`patch_ready`). A run
        // that the flow leaves to the disk must say "ready" there first, or no page would find it.
        if self.flows.keeps(&entry) {
            self.flows.push(entry);
            self.unpatched.push((entry.flow, entry.place()));
        } else {
            let mut ready = entry;
            ready.state = RunState::Ready;
            self.put_run(&mut ready);
            self.flows.push(ready);
            self.event(crate::batch::Event::Spilled);
        }
        self.touch(model::read::WheelKey::Run(entry.id));
    }

    /// Writes "ready" into the rows of runs that nobody claimed in this pass.
    pub(crate) fn patch_ready(&mut self) {
        for (flow, place) in std::mem::take(&mut self.unpatched) {
            let Some(found) = self.flows.get_mut(flow, place) else { continue };
            if found.state == RunState::Ready {
                continue;
            }
            found.state = RunState::Ready;
            let mut entry = *found;
            self.put_run(&mut entry);
            if let Some(found) = self.flows.get_mut(flow, place) {
                found.rev = entry.rev;
            }
        }
    }

    pub(crate) fn decide_job_due(&mut self, now: Time, id: JobId) -> Decision<()> {
        let Some(job) = self.job_row(id)? else { return Ok(()) };
        let Some(due) = job.due else { return Ok(()) };
        if due > now && !self.planted.is(crate::planted::Bug::FireEarly) {
            // It was moved after it was put into the timer; it stands there for its new time too.
            self.wait_for(
                due,
                crate::timer::Timed::Row(model::read::WheelKey::Job(id), job.namespace),
            );
            return Ok(());
        }
        match job.state {
            JobState::Active => self.decide_occurrences(now, job),
            JobState::Paused => self.end_pause(now, job),
            JobState::Cancelled => self.decide_sweep(now, job),
            JobState::Ended => Ok(()),
        }
    }
}
