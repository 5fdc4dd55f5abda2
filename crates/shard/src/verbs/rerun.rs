//! Rerun: a new run of something that was done, with a number of its own and the same nominal
//! instant. Only runs of recurring jobs: the spec of a finished one-off is gone.

use crate::command::{Answer, Refused};
use crate::shard::{Decision, Shard};
use crate::verbs::make::NewRun;
use crate::verbs::occurrence::count_live;
use model::row::{JobState, Made};
use model::{Cause, Lane, RunId, RunState, Time};

impl Shard {
    pub(crate) fn decide_rerun(&mut self, now: Time, run: RunId) -> Decision<Answer> {
        let nominal = match run.cause() {
            Cause::Occurrence(at) => at,
            Cause::Backfill { second, .. } => Time::from_secs(second),
            Cause::Trigger(_) | Cause::Rerun(_) => now,
            Cause::OneOff => return Ok(Answer::Refused(Refused::Conflict)),
        };
        let Some(mut job) = self.job_row(run.job)? else {
            return Ok(Answer::Refused(Refused::NotFound));
        };
        if matches!(run.cause(), Cause::Occurrence(at) if at > job.mark) {
            return Ok(Answer::Refused(Refused::NotFound)); // It has not been decided yet.
        }
        let unfinished = self.leases.contains(run) || self.run_row(run)?.is_some();
        let Some(spec) = self.spec_row(run.job, job.version)? else {
            return Ok(Answer::Refused(Refused::NotFound));
        };
        if unfinished || job.state == JobState::Cancelled {
            return Ok(Answer::Refused(Refused::Conflict));
        }
        // The first run of anything is number one.
        job.reruns += 1;
        let id = RunId::new(run.job, Cause::Rerun(job.reruns + 1));
        let version = job.version;
        count_live(&mut job, version);
        self.put_job(job);
        self.make_run(NewRun {
            id,
            spec: &spec,
            version,
            nominal,
            due: now,
            lane: Lane::Backfill,
            state: RunState::Ready,
            fresh: false,
            body: None,
        });
        Ok(Answer::Made(Made::Run(id)))
    }
}
