//! Occurrences of a recurring job. They come from the schedule, never from the previous run. What
//! lies between the mark and now is decided in one batch with the move of the mark: made into
//! runs, skipped by the overlap policy, or, if it is later than a minute, missed (`catch_up.rs`).

use crate::batch::Event;
use crate::limits::MISSED_AFTER;
use crate::planted::Bug;
use crate::quotas::PutOff;
use crate::shard::{Decision, Shard};
use crate::verbs::make::NewRun;
use crate::verbs::overlap::Overlapping;
use crate::verbs::put_off::is_put_off;
use calendar::Schedule;
use model::row::{Expect, HistoryRow, JobRow, JobState, Key, Row};
use model::{Cause, JobId, Lane, RunId, RunState, Span, Spec, Status, Time, Token};
use std::sync::Arc;

/// Occurrences of one job decided at once; the rest follow in the next batch.
const AT_ONCE: usize = 64;

impl Shard {
    pub(crate) fn decide_occurrences(&mut self, now: Time, job: JobRow) -> Decision<()> {
        self.decide_due_instants(now, job, false)
    }

    /// The same, whatever quotas say: somebody changes the job, and what is open is to be decided first.
    pub(crate) fn decide_at_once(&mut self, now: Time, job: JobRow) -> Decision<()> {
        self.decide_due_instants(now, job, true)
    }

    fn decide_due_instants(&mut self, now: Time, mut job: JobRow, at_once: bool) -> Decision<()> {
        let Some(spec) = self.spec_row(job.id, job.version)? else { return Ok(()) };
        let Some(schedule) = self.schedule(job.id, job.version, &spec, job.versioned) else {
            return Ok(());
        };
        let mut overlapping = self.overlapping(&job, &spec)?;
        // What had to wait is late, however long it waited; it is not missed.
        if at_once || !is_put_off(&job) {
            self.catch_up(now, &mut job, &spec, &schedule);
        }
        let waits = self.fire_fresh(now, &mut job, (&spec, &schedule), &mut overlapping, at_once);
        self.plan_next(&mut job, &spec, &schedule);
        match waits {
            Some((due, wait)) => self.put_off(&mut job, due, wait),
            // More than fits into one batch: what is left is still late.
            None if !at_once && job.due.is_some_and(|due| due <= now) => {}
            None => job.pause = None,
        }
        self.put_job(job);
        Ok(())
    }

    /// The instants that are due and not missed, in order. Returns when the first one was due that has to
    /// wait, and why.
    fn fire_fresh(
        &mut self,
        now: Time,
        job: &mut JobRow,
        (spec, schedule): (&Arc<Spec>, &Schedule),
        overlapping: &mut Overlapping,
        at_once: bool,
    ) -> Option<(Time, (PutOff, Time))> {
        let mut waits = None;
        for _ in 0..AT_ONCE {
            let Some(nominal) = schedule.next(job.mark) else { break };
            let due = schedule.occurrence(nominal).effective;
            if due > now && !(self.planted.is(Bug::FireEarly) && due.secs() <= now.secs()) {
                break;
            }
            if spec.schedule.max_runs.is_some_and(|max| job.fired >= max) {
                break;
            }
            if now.since(due) > Span::from_secs(1) {
                self.event(Event::LateFire);
            }
            if self.planted.is(Bug::MarkSkipsOne) && nominal.secs() % 7 == 0 {
                job.mark = nominal;
                continue;
            }
            if !at_once && let Some(wait) = self.must_wait(now, job, spec, due) {
                if self.drops_what_waits(nominal) {
                    job.mark = nominal;
                    continue;
                }
                waits = Some((due, wait));
                break;
            }
            let (late, fired) = (is_put_off(job), job.fired);
            // What the run is given as its time is when it could be made: how long it may wait for its
            // start counts from there.
            let at = match late {
                true if self.planted.is(Bug::PutOffOtherRun) => (now, now),
                true => (nominal, now),
                false => (nominal, due),
            };
            self.fire_occurrence(now, job, spec, at, overlapping);
            if late && job.fired > fired {
                self.note_delay(now, job, (nominal, due));
            }
            job.mark = nominal;
        }
        if self.planted.is(Bug::MarkNotMoved) && job.fired % 5 == 4 {
            job.mark = schedule.previous(job.mark).unwrap_or(job.mark);
        }
        waits
    }

    /// One run for one instant, counted.
    pub(crate) fn make_occurrence(
        &mut self,
        job: &mut JobRow,
        spec: &Spec,
        at: (Time, Time),
        lane: Lane,
        state: RunState,
        fresh: bool,
    ) -> RunId {
        let (nominal, due) = at;
        let id = RunId::new(job.id, Cause::Occurrence(nominal));
        job.fired += 1;
        let version = job.version;
        count_live(job, version);
        self.make_run(NewRun {
            id,
            spec,
            version: job.version,
            nominal,
            due,
            lane,
            state,
            fresh,
            body: None,
        });
        id
    }

    pub(crate) fn plan_next(&mut self, job: &mut JobRow, spec: &Spec, schedule: &Schedule) {
        let over = spec.schedule.max_runs.is_some_and(|max| job.fired >= max);
        job.next = schedule.next(job.mark).filter(|_| !over);
        job.due = job.next.map(|next| schedule.occurrence(next).effective);
        if job.next.is_none() {
            job.state = JobState::Ended;
        }
    }

    /// What became of instants that made no run: one row for all of `first..=last`.
    pub(crate) fn write_verdict(
        &mut self,
        now: Time,
        job: &JobRow,
        status: Status,
        (first, last): (Time, Time),
        count: u64,
    ) {
        let run = RunId::new(job.id, Cause::Occurrence(first));
        let row = HistoryRow {
            run,
            token: Token::NONE,
            attempt: 0,
            flow: None,
            namespace: job.namespace,
            nominal: first,
            due: first,
            started: None,
            finished: now,
            version: job.version,
            status,
            worker: None,
            code: None,
            error: None,
            output: None,
            after: RunState::Expired,
            next: None,
            until: Some(last),
            count,
        };
        self.change(
            Key::History(run, Token::NONE),
            Expect::Absent,
            Some(Row::History(Box::new(row))),
        );
    }

    /// The last instant that is missed at `now`, if it lies after the mark.
    pub(crate) fn last_missed(&self, now: Time, mark: Time, schedule: &Schedule) -> Option<Time> {
        let limit = now.minus(MISSED_AFTER);
        let mut last = schedule.previous(limit)?;
        while last > mark && schedule.occurrence(last).effective >= limit {
            last = schedule.previous(last)?;
        }
        (last > mark).then_some(last)
    }
}

/// One more unfinished run names this version.
pub(crate) fn count_live(job: &mut JobRow, version: u32) {
    match job.live.iter_mut().find(|(v, _)| *v == version) {
        Some((_, count)) => *count += 1,
        None => job.live.push((version, 1)),
    }
}

/// One unfinished run less; true if no run names the version any more.
pub(crate) fn uncount_live(job: &mut JobRow, version: u32) -> bool {
    let Some(at) = job.live.iter().position(|(v, _)| *v == version) else { return false };
    job.live[at].1 -= 1;
    if job.live[at].1 == 0 {
        job.live.remove(at);
        return true;
    }
    false
}

pub(crate) fn spec_key(job: JobId, version: u32) -> Key {
    Key::Spec(job, version)
}
