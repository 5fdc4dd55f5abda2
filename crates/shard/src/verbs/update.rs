//! Update: a new version of a job's spec. Instants up to now are decided by the old one; runs that
//! exist keep the version they were made with, their retries included.

use crate::batch::Event;
use crate::command::{Answer, Refused};
use crate::planted::Bug;
use crate::shard::{Decision, Shard};
use crate::timer::Timed;
use crate::verbs::occurrence::spec_key;
use calendar::Schedule;
use model::row::{Expect, JobRow, JobState, Key, Row};
use model::{Cause, JobId, Lane, Origin, Overlap, RunId, RunState, Spec, Status, Time, When};
use std::sync::Arc;

impl Shard {
    pub(crate) fn decide_update(
        &mut self,
        now: Time,
        id: JobId,
        spec: &Arc<Spec>,
        if_version: Option<u32>,
    ) -> Decision<Answer> {
        let Some(mut job) = self.job_row(id)? else {
            return self.update_one_off(now, id, spec, if_version);
        };
        if if_version.is_some_and(|wanted| wanted != job.version) {
            return Ok(Answer::Refused(Refused::VersionMismatch { found: job.version }));
        }
        if job.state == JobState::Cancelled || !spec.schedule.is_recurring() {
            return Ok(Answer::Refused(Refused::Conflict));
        }
        let Some(old) = self.spec_row(id, job.version)? else {
            return Ok(Answer::Refused(Refused::NotFound));
        };
        if (&old.queue, &old.group, old.namespace) != (&spec.queue, &spec.group, spec.namespace) {
            return Ok(Answer::Refused(Refused::Invalid("queue")));
        }
        let Ok(schedule) = Schedule::new(&spec.schedule, &id.to_bytes(), now) else {
            return Ok(Answer::Refused(Refused::Invalid("schedule")));
        };
        let leaving = self.leaving_versions(&job, &old)?;
        if job.state == JobState::Active && job.next.is_some_and(|next| next <= now) {
            self.decide_at_once(now, job)?;
            match self.job_row(id)? {
                Some(decided) => job = decided,
                None => return Ok(Answer::Refused(Refused::NotFound)),
            }
        }
        if !job.live.is_empty() {
            self.event(Event::UpdatedBetweenAttempts);
        }
        self.decide_by_old(now, &mut job, &old);
        job.version += 1;
        job.versioned = now;
        job.mark = job.mark.max(now);
        let version = job.version;
        let origin = Origin { since: Some(now), by: spec.origin.by.clone() };
        let stored = Arc::new(Spec { origin, ..(**spec).clone() });
        self.change(spec_key(id, version), Expect::Absent, Some(Row::Spec(stored)));
        self.drop_versions(&job, leaving);
        if job.state != JobState::Paused {
            job.state = JobState::Active;
            self.plan_next(&mut job, spec, &schedule);
        }
        if self.planted.is(Bug::UpdateTouchesRuns) {
            self.move_ready_runs(id, version);
        }
        self.put_job(job);
        Ok(Answer::Job(id, version))
    }

    /// What the old schedule named up to now is decided by it: a pause so far gets its verdict, an
    /// instant whose jitter is not over yet becomes a run that waits for it.
    fn decide_by_old(&mut self, now: Time, job: &mut JobRow, old: &Arc<Spec>) {
        let Some(schedule) = self.schedule(job.id, job.version, old, job.versioned) else { return };
        if job.state == JobState::Paused {
            self.write_pause(now, job, &schedule);
        }
        if let Some(nominal) = schedule.next(job.mark).filter(|nominal| *nominal <= now)
            && job.state != JobState::Ended
        {
            let at = (nominal, schedule.occurrence(nominal).effective);
            let one = (nominal, nominal);
            let alone = old.overlap != Overlap::Allow;
            if job.state == JobState::Paused {
                self.write_verdict(now, job, Status::SkippedPaused, one, 1);
            } else if alone && job.active.is_some() {
                self.write_verdict(now, job, Status::SkippedOverlap, one, 1);
            } else {
                let run =
                    self.make_occurrence(job, old, at, Lane::Fresh, RunState::Scheduled, alone);
                job.active = alone.then_some(run);
            }
        }
    }

    /// A one-off can change until it starts.
    fn update_one_off(
        &mut self,
        now: Time,
        id: JobId,
        spec: &Arc<Spec>,
        if_version: Option<u32>,
    ) -> Decision<Answer> {
        let run = RunId::new(id, Cause::OneOff);
        if self.leases.contains(run) {
            return Ok(Answer::Refused(Refused::Conflict));
        }
        let Some(mut row) = self.run_row(run)? else {
            return Ok(Answer::Refused(Refused::NotFound));
        };
        if if_version.is_some_and(|wanted| wanted != row.version) {
            return Ok(Answer::Refused(Refused::VersionMismatch { found: row.version }));
        }
        let same_place = row.flow.queue == spec.queue && row.flow.group == spec.group;
        if !same_place || spec.schedule.is_recurring() {
            return Ok(Answer::Refused(Refused::Invalid("queue")));
        }
        // After a first attempt its retries keep what they began with.
        if row.attempts > 0 || !matches!(row.state, RunState::Scheduled | RunState::Ready) {
            return Ok(Answer::Refused(Refused::Conflict));
        }
        let old = self.entry_of(&row);
        self.leave_memory(&old);
        let at = match spec.schedule.when {
            When::At(at) => at,
            When::Delay(delay) => now.plus(delay),
            _ => now,
        };
        row.version += 1;
        row.nominal = at;
        row.due = at;
        row.state = if at <= now { RunState::Ready } else { RunState::Scheduled };
        row.policy = spec.policy.clone();
        row.start_by = spec.within.start.map(|span| at.plus(span));
        row.finish_by = spec.within.finish.map(|span| at.plus(span));
        row.flow.priority = spec.priority.min(9);
        row.flow.kind = spec.target.kind();
        row.body = Some(spec.clone());
        let expect = Expect::Rev(row.rev);
        row.rev += 1;
        let (version, entry) = (row.version, self.entry_of(&row));
        self.change(Key::Run(run), expect, Some(Row::Run(row)));
        if entry.state == RunState::Ready {
            self.flows.push(entry);
        } else {
            self.wait_for(entry.due, Timed::Run(entry));
        }
        Ok(Answer::Job(id, version))
    }

    fn move_ready_runs(&mut self, job: JobId, version: u32) {
        let runs: Vec<RunId> =
            self.leases.iter().filter(|l| l.row.run.job == job).map(|l| l.row.run).collect();
        for run in runs {
            if let Some(lease) = self.leases.get_mut(run) {
                lease.entry.version = version;
            }
        }
    }
}
