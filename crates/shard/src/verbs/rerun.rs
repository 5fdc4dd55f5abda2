//! Rerun: a new run of something that was done, with a number of its own and the same nominal
//! instant. Only runs of recurring jobs: the spec of a finished one-off is gone.
//!
//! Did an instant run, and when exactly was it? Only its history tells (the id of a backfilled run
//! has whole seconds), so that is read first.

use crate::command::{Answer, Command, Refused};
use crate::shard::{Caller, Decision, Shard};
use crate::verbs::make::NewRun;
use crate::verbs::occurrence::count_live;
use model::read::Read;
use model::row::{JobState, Made};
use model::{Cause, Lane, RunId, RunState, Span, Time};

impl Shard {
    /// `None`: its history is read first, and the answer comes later.
    pub(crate) fn decide_rerun(
        &mut self,
        now: Time,
        caller: Caller,
        run: RunId,
    ) -> Decision<Option<Answer>> {
        let refused = |refused| Ok(Some(Answer::Refused(refused)));
        let instants = match run.cause() {
            Cause::Occurrence(at) => Some((at, at)),
            Cause::Backfill { second, .. } => {
                let at = Time::from_secs(second);
                Some((at, at.plus(SECOND).minus(TICK)))
            }
            Cause::Trigger(_) | Cause::Rerun(_) => None,
            Cause::OneOff => return refused(Refused::Conflict),
        };
        let nominal = match (instants, self.reran.get(&run)) {
            (None, _) => now,
            (Some(_), Some(Some(nominal))) => *nominal,
            (Some(_), Some(None)) => {
                self.reran.remove(&run);
                return refused(Refused::NotFound);
            }
            (Some((first, until)), None) => {
                let after = first.minus(TICK);
                let read = Read::Outcomes { job: run.job, after, until, limit: self.sizes.page };
                self.read_aside(caller, Command::Rerun { run }, read);
                return Ok(None);
            }
        };
        let Some(mut job) = self.job_row(run.job)? else {
            return refused(Refused::NotFound);
        };
        let unfinished = self.leases.contains(run) || self.run_row(run)?.is_some();
        let Some(spec) = self.spec_row(run.job, job.version)? else {
            return refused(Refused::NotFound);
        };
        self.reran.remove(&run);
        if unfinished || job.state == JobState::Cancelled {
            return refused(Refused::Conflict);
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
        Ok(Some(Answer::Made(Made::Run(id))))
    }
}

const SECOND: Span = Span::from_secs(1);
const TICK: Span = Span::from_micros(1);
