//! Put off: a fire that would be too much happens later. Its instant stays undecided and the mark stays
//! where it is, so the run that is made in the end is the one that the instant would have had: same id, same
//! nominal instant. The job's row says since when, until when and why (`pause` of a job that is active), so
//! that the next owner knows as well that the instant is late and not missed.
//!
//! A person who changes or pauses the job meanwhile decides it at once: what is open then is judged by the
//! job's catch-up policy, as after any other delay.

use crate::batch::Event;
use crate::planted::Bug;
use crate::quotas::{PutOff, again};
use crate::shard::Shard;
use model::row::{Expect, HistoryRow, JobRow, JobState, Key, Pause, Row};
use model::{Cause, Priority, RunId, RunState, Spec, Status, Text, Time, Token};

impl Shard {
    /// Must the fire of an instant that was due then wait, and until when?
    pub(crate) fn must_wait(
        &mut self,
        now: Time,
        job: &JobRow,
        spec: &Spec,
        due: Time,
    ) -> Option<(PutOff, Time)> {
        let late = now.since(due);
        if Priority::is_low(spec.priority) && self.is_late(spec) {
            return Some((PutOff::Level, again(now, late)));
        }
        let waited = is_put_off(job).then_some(late);
        self.quotas.ask((spec.namespace, spec.api_key), now, waited).err()
    }

    /// The job is looked at again then. `due` is when the first instant that waits was due.
    pub(crate) fn put_off(&mut self, job: &mut JobRow, due: Time, (why, until): (PutOff, Time)) {
        let since = job.pause.as_ref().map_or(due, |pause| pause.since);
        job.pause = Some(Pause { since, until: Some(until), reason: Text::from(why.word()) });
        job.due = Some(until);
        self.event(Event::FirePutOff);
    }

    /// Beside the run it stands that its time was an earlier one, and why it came later.
    pub(crate) fn note_delay(&mut self, now: Time, job: &JobRow, (nominal, due): (Time, Time)) {
        let Some(pause) = job.pause.as_ref().filter(|_| is_put_off(job)) else { return };
        let run = RunId::new(job.id, Cause::Occurrence(nominal));
        let row = HistoryRow {
            run,
            token: Token::DELAYED,
            attempt: 0,
            flow: None,
            namespace: job.namespace,
            nominal,
            due,
            started: None,
            finished: now,
            version: job.version,
            status: Status::Delayed,
            worker: None,
            code: None,
            error: Some(pause.reason.clone()),
            output: None,
            after: RunState::Ready,
            next: None,
            until: None,
            count: 1,
        };
        let key = Key::History(run, Token::DELAYED);
        self.change(key, Expect::Absent, Some(Row::History(Box::new(row))));
        self.event(Event::FiredLate);
    }

    /// Is the instant forgotten instead of put off? Never, unless somebody planted it.
    pub(crate) fn drops_what_waits(&self, nominal: Time) -> bool {
        self.planted.is(Bug::PutOffDropped) && nominal.secs() % 3 == 0
    }
}

/// Is its next instant late because it had to wait, and not because nobody could fire it?
pub(crate) fn is_put_off(job: &JobRow) -> bool {
    job.state == JobState::Active && job.pause.is_some()
}
