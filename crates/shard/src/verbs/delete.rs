//! Delete: like cancel, and the row goes with the job's last run. A deleted job starts nothing, and of
//! its former versions only those stay that unfinished runs name.

use crate::command::{Answer, Refused};
use crate::shard::{Decision, Shard};
use model::row::JobState;
use model::{Cause, JobId, RunId, Time};

impl Shard {
    pub(crate) fn decide_delete(&mut self, now: Time, id: JobId) -> Decision<Answer> {
        let Some(mut job) = self.job_row(id)? else {
            return match self.decide_cancel_run(now, RunId::new(id, Cause::OneOff))? {
                Answer::Refused(Refused::NotFound) => Ok(Answer::Refused(Refused::NotFound)),
                _ => Ok(Answer::Done),
            };
        };
        let kept = self.kept_versions(&job)?;
        job.state = JobState::Cancelled;
        job.next = None;
        job.delete = true;
        job.sweep = !job.live.is_empty();
        job.due = job.sweep.then_some(now);
        self.drop_versions(&job, kept);
        self.put_or_remove_job(job);
        Ok(Answer::Done)
    }
}
