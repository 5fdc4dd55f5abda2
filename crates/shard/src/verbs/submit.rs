//! Submit: a one-off becomes one run row, a recurring job a spec and a narrow row. With an
//! idempotency key, the same request again gets the same answer, whatever became of the job.

use crate::batch::Event;
use crate::command::{Answer, KeyOf, NewJob, Refused, Submitted};
use crate::planted::Bug;
use crate::shard::{Decision, Need, Shard};
use crate::verbs::make::NewRun;
use calendar::Schedule;
use model::row::{Expect, IdempotencyKey, IdempotencyRow, JobRow, JobState, Key, Made, Pause, Row};
use model::{Cause, JobId, Lane, Priority, RunId, RunState, Spec, Text, Time, When};

impl Shard {
    pub(crate) fn decide_submit(&mut self, now: Time, jobs: &[NewJob]) -> Decision<Answer> {
        // All rows first: a decision that has begun may not stop half-way.
        let mut missing = Vec::new();
        for job in jobs {
            if let Err(need) = self.submit_needs(job) {
                missing.extend(need.0);
            }
        }
        if !missing.is_empty() {
            return Err(Need(missing));
        }
        let mut answers = Vec::with_capacity(jobs.len());
        for job in jobs {
            answers.push(self.submit_one(now, job)?);
        }
        Ok(Answer::Submitted(answers))
    }

    fn submit_needs(&self, job: &NewJob) -> Decision<()> {
        if let Some(key) = &job.key
            && let Some(found) = self.known_key(&job.spec, key)?
        {
            return self.next_of(&job.spec, found.answer).map(|_| ());
        }
        // Ids are minted anew for each request, so nobody looks for one that is taken; unless the
        // store has just refused this very submission.
        if self.doubted.contains(&job.id) { self.is_taken(job).map(|_| ()) } else { Ok(()) }
    }

    fn submit_one(&mut self, now: Time, job: &NewJob) -> Decision<Result<Submitted, Refused>> {
        if let Some(key) = &job.key
            && let Some(found) = self.known_key(&job.spec, key)?
        {
            let next = self.next_of(&job.spec, found.answer)?;
            return Ok(self.repeat(key, &found).map(|answer| Submitted { next, ..answer }));
        }
        if self.doubted.contains(&job.id) && self.is_taken(job)? {
            self.doubted.remove(&job.id);
            return Ok(Err(Refused::Taken));
        }
        if self.sheds(now, &job.spec) {
            self.event(Event::Shed);
            if self.planted.is(Bug::ShedIsMade) {
                let _ = self.make_job(now, job);
            }
            return Ok(Err(Refused::Shed));
        }
        let next = match self.make_job(now, job) {
            Ok(next) => next,
            Err(refused) => return Ok(Err(refused)),
        };
        let made = Made::Job(job.id);
        if let Some(key) = &job.key {
            self.write_key(now, &job.spec, key, made);
        }
        Ok(Ok(Submitted { made, next, replayed: false }))
    }

    /// Does this give way to what waits? Work of low priority that is to run now does, while its queue's
    /// service level is broken. Recurring jobs are taken: their fires are put off.
    pub(crate) fn sheds(&self, now: Time, spec: &Spec) -> bool {
        let is_now = match spec.schedule.when {
            When::At(at) => at <= now,
            When::Delay(delay) => now.plus(delay) <= now,
            _ => !spec.schedule.is_recurring(),
        };
        let low = Priority::is_low(spec.priority)
            || (self.planted.is(Bug::ShedsUsual) && spec.priority == Priority::USUAL);
        low && is_now && self.is_late(spec)
    }

    pub(crate) fn is_late(&self, spec: &Spec) -> bool {
        self.flows.is_late(&(spec.namespace, spec.queue.clone()))
    }

    fn make_job(&mut self, now: Time, job: &NewJob) -> Result<Option<Time>, Refused> {
        let spec = &job.spec;
        if spec.schedule.is_recurring() {
            return self.make_recurring(now, job);
        }
        let nominal = match spec.schedule.when {
            When::At(at) => at,
            When::Delay(delay) => now.plus(delay),
            _ => now,
        };
        let state = if nominal <= now { RunState::Ready } else { RunState::Scheduled };
        self.make_run(NewRun {
            id: RunId::new(job.id, Cause::OneOff),
            spec,
            version: 1,
            nominal,
            due: nominal,
            lane: Lane::Fresh,
            state,
            fresh: false,
            body: Some(spec.clone()),
        });
        Ok(Some(nominal))
    }

    fn make_recurring(&mut self, now: Time, job: &NewJob) -> Result<Option<Time>, Refused> {
        let spec = &job.spec;
        let schedule = Schedule::new(&spec.schedule, &job.id.to_bytes(), now)
            .map_err(|error| Refused::Invalid(error.field))?;
        let next = schedule.next(now);
        let state = match next {
            Some(_) if job.paused => JobState::Paused,
            Some(_) => JobState::Active,
            None => JobState::Ended,
        };
        let row = JobRow {
            id: job.id,
            rev: 0,
            namespace: spec.namespace,
            state,
            version: 1,
            created: now,
            versioned: now,
            mark: now,
            next,
            due: next
                .filter(|_| state == JobState::Active)
                .map(|next| schedule.occurrence(next).effective),
            fired: 0,
            live: Vec::new(),
            active: None,
            waiting: None,
            pause: (state == JobState::Paused).then(|| Pause {
                since: now,
                until: None,
                reason: Text::from("created paused"),
            }),
            reruns: 0,
            backfills: 0,
            sweep: false,
            delete: false,
        };
        self.change(Key::Spec(job.id, 1), Expect::Absent, Some(Row::Spec(spec.clone())));
        self.insert_job(row);
        Ok(next)
    }

    /// Like `put_job`, for a row that is not there yet.
    fn insert_job(&mut self, mut row: JobRow) {
        row.rev = 1;
        let (id, due, namespace) = (row.id, row.due, row.namespace);
        self.change(Key::Job(id), Expect::Absent, Some(Row::Job(row)));
        if let Some(due) = due {
            let key = model::read::WheelKey::Job(id);
            self.wait_for(due, crate::timer::Timed::Row(key, namespace));
        }
    }

    /// Is there an unfinished job with this id?
    fn is_taken(&self, job: &NewJob) -> Decision<bool> {
        let run = self.row(Key::Run(RunId::new(job.id, Cause::OneOff)));
        let row = self.row(Key::Job(job.id));
        match (run, row) {
            (Ok(run), Ok(row)) => Ok(run.is_some() || row.is_some()),
            (run, row) => {
                let missing = [run.err(), row.err()].into_iter().flatten().flat_map(|n| n.0);
                Err(Need(missing.collect()))
            }
        }
    }

    /// When what an earlier request made is due next, if it is not finished.
    fn next_of(&self, spec: &Spec, made: Made) -> Decision<Option<Time>> {
        let Made::Job(id) = made else { return Ok(None) };
        if spec.schedule.is_recurring() {
            return Ok(self.job_row(id)?.and_then(|job| job.next));
        }
        let row = self.run_row(RunId::new(id, Cause::OneOff))?;
        Ok(row.filter(|row| row.state != RunState::Dead).map(|row| row.due))
    }

    // ---- idempotency keys, shared by every verb that creates something --------------------------

    fn key_of(&self, spec: &Spec, key: &KeyOf) -> Key {
        Key::Idempotency(IdempotencyKey {
            namespace: spec.namespace,
            queue: spec.queue.clone(),
            group: None,
            key: key.key.clone(),
        })
    }

    pub(crate) fn known_key(&self, spec: &Spec, key: &KeyOf) -> Decision<Option<IdempotencyRow>> {
        match self.row(self.key_of(spec, key))? {
            Some(Row::Idempotency(row)) => Ok(Some(row.clone())),
            _ => Ok(None),
        }
    }

    /// The answer of the earlier request, unless its body was another one.
    pub(crate) fn repeat(
        &mut self,
        key: &KeyOf,
        found: &IdempotencyRow,
    ) -> Result<Submitted, Refused> {
        if found.body != key.body && !self.planted.is(Bug::IgnoreBody) {
            return Err(Refused::KeyReused);
        }
        self.event(Event::KeyReplayed);
        Ok(Submitted { made: found.answer, next: None, replayed: true })
    }

    pub(crate) fn write_key(&mut self, now: Time, spec: &Spec, key: &KeyOf, answer: Made) {
        if self.planted.is(Bug::NoIdempotencyRow) {
            return;
        }
        let row = IdempotencyRow { at: now, body: key.body, answer };
        self.change(self.key_of(spec, key), Expect::Absent, Some(Row::Idempotency(row)));
    }

    /// Is this the id of a recurring job?
    pub(crate) fn recurring(&self, job: JobId) -> Decision<Option<JobRow>> {
        self.job_row(job)
    }
}
