//! Pause and resume: a paused job fires nothing; runs already made go on. What fell due in between
//! is one verdict row over the whole range, however long the pause was.

use crate::command::{Answer, Refused};
use crate::planted::Bug;
use crate::shard::{Decision, Shard};
use calendar::Schedule;
use model::row::{JobRow, JobState, Pause};
use model::{JobId, Span, Status, Text, Time};

const TICK: Span = Span::from_micros(1);

impl Shard {
    pub(crate) fn decide_pause(
        &mut self,
        now: Time,
        id: JobId,
        reason: &Text,
        until: Option<Time>,
    ) -> Decision<Answer> {
        let Some(mut job) = self.job_row(id)? else {
            return Ok(Answer::Refused(Refused::NotFound));
        };
        if !matches!(job.state, JobState::Active | JobState::Paused) {
            return Ok(Answer::Refused(Refused::Conflict));
        }
        if job.state == JobState::Active && job.next.is_some_and(|next| next <= now) {
            // What fell due before the pause is decided first, as if it had come a moment later.
            self.decide_at_once(now, job)?;
            match self.job_row(id)? {
                Some(decided) if decided.state == JobState::Active => job = decided,
                _ => return Ok(Answer::Refused(Refused::Conflict)), // It ended with that.
            }
        }
        // An end in the past is now: further back the next owner would not look for it.
        let until = until.map(|until| until.max(now));
        job.state = JobState::Paused;
        job.due = until;
        job.pause = Some(Pause { since: now, until, reason: reason.clone() });
        let version = job.version;
        self.put_job(job);
        Ok(Answer::Job(id, version))
    }

    pub(crate) fn decide_resume(&mut self, now: Time, id: JobId) -> Decision<Answer> {
        let Some(job) = self.job_row(id)? else {
            return Ok(Answer::Refused(Refused::NotFound));
        };
        let version = job.version;
        match job.state {
            JobState::Paused => self.end_pause(now, job)?,
            JobState::Active => {}
            JobState::Ended | JobState::Cancelled => {
                return Ok(Answer::Refused(Refused::Conflict));
            }
        }
        Ok(Answer::Job(id, version))
    }

    pub(crate) fn end_pause(&mut self, now: Time, mut job: JobRow) -> Decision<()> {
        let Some(spec) = self.spec_row(job.id, job.version)? else { return Ok(()) };
        let Some(schedule) = self.schedule(job.id, job.version, &spec, job.versioned) else {
            return Ok(());
        };
        self.write_pause(now, &mut job, &schedule);
        job.state = JobState::Active;
        job.pause = None;
        self.plan_next(&mut job, &spec, &schedule);
        self.put_job(job);
        Ok(())
    }

    /// The verdict of what fell due in a pause so far; the mark moves over it.
    pub(crate) fn write_pause(&mut self, now: Time, job: &mut JobRow, schedule: &Schedule) {
        // Instants whose time (after jitter) has not come yet fire as usual.
        let last = schedule
            .previous(now.plus(TICK))
            .map(|last| match schedule.occurrence(last).effective <= now {
                true => Some(last),
                false => schedule.previous(last),
            })
            .unwrap_or_default();
        if let (Some(last), Some(first)) = (last, schedule.next(job.mark))
            && last > job.mark
        {
            let count = schedule.count(job.mark.plus(TICK), last.plus(TICK));
            if !self.planted.is(Bug::DropRangeVerdict) {
                self.write_verdict(now, job, Status::SkippedPaused, (first, last), count);
            }
            job.mark = last;
        }
    }
}
