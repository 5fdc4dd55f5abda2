//! Trigger: a run of a recurring job now, because somebody asked, perhaps with another payload.
//! It neither moves the mark nor counts for the overlap policy.

use crate::batch::Event;
use crate::command::{Answer, KeyOf, Refused};
use crate::shard::{Decision, Shard};
use crate::verbs::make::NewRun;
use crate::verbs::occurrence::count_live;
use model::row::{JobState, Made};
use model::{Bytes, Cause, JobId, Lane, Priority, RunId, RunState, Spec, Time};
use std::sync::Arc;

impl Shard {
    pub(crate) fn decide_trigger(
        &mut self,
        now: Time,
        id: JobId,
        trigger: u64,
        payload: Option<&Bytes>,
        key: Option<&KeyOf>,
    ) -> Decision<Answer> {
        let Some(mut job) = self.recurring(id)? else {
            return Ok(Answer::Refused(Refused::NotFound));
        };
        let Some(spec) = self.spec_row(id, job.version)? else {
            return Ok(Answer::Refused(Refused::NotFound));
        };
        if let Some(key) = key
            && let Some(found) = self.known_key(&spec, key)?
        {
            return Ok(match self.repeat(key, &found) {
                Ok(answer) => Answer::Made(answer.made),
                Err(refused) => Answer::Refused(refused),
            });
        }
        let run = RunId::new(id, Cause::Trigger(trigger));
        if job.state == JobState::Cancelled {
            return Ok(Answer::Refused(Refused::Conflict));
        }
        if self.run_row(run)?.is_some() || self.leases.contains(run) {
            return Ok(Answer::Refused(Refused::Taken));
        }
        if Priority::is_low(spec.priority) && self.is_late(&spec) {
            self.event(Event::Shed);
            return Ok(Answer::Refused(Refused::Shed));
        }
        let body =
            payload.map(|payload| Arc::new(Spec { payload: payload.clone(), ..(*spec).clone() }));
        let version = job.version;
        count_live(&mut job, version);
        self.put_job(job);
        self.make_run(NewRun {
            id: run,
            spec: &spec,
            version,
            nominal: now,
            due: now,
            lane: Lane::Fresh,
            state: RunState::Ready,
            fresh: false,
            body,
        });
        if let Some(key) = key {
            self.write_key(now, &spec, key, Made::Run(run));
        }
        Ok(Answer::Made(Made::Run(run)))
    }
}
