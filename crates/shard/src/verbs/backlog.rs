//! Backlog: a range of past instants, worked off in slices at a rate, in the backfill lane, while
//! fresh occurrences go on. Catch-ups make the runs those instants would have had; backfills make
//! runs with ids of their own, and may leave out instants that ran or succeeded.

use crate::batch::Event;
use crate::limits::BACKLOG_SLICE;
use crate::planted::Bug;
use crate::shard::{Decision, Shard};
use crate::timer::Timed;
use crate::verbs::make::NewRun;
use crate::verbs::occurrence::count_live;
use model::read::{Outcome, Page, Read, WheelKey};
use model::row::{BacklogId, BacklogKind, BacklogRow, Expect, JobState, Key, Only, Row};
use model::{Cause, Lane, Namespace, RunId, RunState, Span, Status, Time};

/// Instants looked at in one slice: a backfill that leaves out nearly all of ten years of seconds
/// must not hold up the shard.
const EXAMINED_MAX: usize = 4_096;
/// Slices are at least this far apart.
const SLICE_EVERY: Span = Span::from_secs(1);

impl Shard {
    pub(crate) fn wait_for_backlog(&mut self, due: Time, id: BacklogId) {
        self.wait_for(due, Timed::Row(WheelKey::Backlog(id), Namespace(u32::MAX)));
    }

    pub(crate) fn decide_backlog_due(&mut self, now: Time, id: BacklogId) -> Decision<()> {
        let mut row = match self.row(Key::Backlog(id))? {
            Some(Row::Backlog(row)) => row.clone(),
            _ => {
                self.outcomes.remove(&id);
                return Ok(());
            }
        };
        if row.due > now {
            self.wait_for_backlog(row.due, id);
            return Ok(());
        }
        let Some(mut job) = self.job_row(id.job)? else {
            self.change(Key::Backlog(id), Expect::Rev(row.rev), None);
            return Ok(());
        };
        // The version that was in force at those instants; the row keeps its spec from going.
        let Some(spec) = self.spec_row(id.job, row.version)? else { return Ok(()) };
        let Some(schedule) = self.schedule(id.job, row.version, &spec, row.versioned) else {
            return Ok(());
        };
        let slice = (row.per_second as usize).min(BACKLOG_SLICE);
        if job.state == JobState::Cancelled {
            self.drop_backlog(now, job, &row, &schedule);
            return Ok(());
        }
        if row.only != Only::All && !self.outcomes.contains_key(&id) {
            self.ask_outcomes(&row, slice);
            return Ok(());
        }
        let (known_until, outcomes) = self.outcomes.remove(&id).unwrap_or((Time::MAX, Vec::new()));
        if self.planted.is(Bug::DropBacklog) && job.version != row.version {
            self.change(Key::Backlog(id), Expect::Rev(row.rev), None);
            return Ok(());
        }
        if job.active.is_some() {
            self.event(Event::BacklogBesideFresh);
        }
        let (before, mut made, mut examined) = (row.cursor, 0, 0);
        while made < slice && examined < EXAMINED_MAX {
            examined += 1;
            let Some(nominal) = schedule.next(row.cursor).filter(|at| *at <= row.until) else {
                row.cursor = row.until;
                break;
            };
            if nominal > known_until {
                // Nothing of the schedule lies in what was read: the next page begins behind it.
                if row.cursor == before {
                    row.cursor = known_until;
                }
                break;
            }
            row.cursor = nominal;
            row.done += 1;
            if !wanted(row.only, nominal, &outcomes) {
                self.event(Event::BackfillOverFired);
                continue;
            }
            made += 1;
            let cause = match id.kind {
                BacklogKind::CatchUp { .. } => {
                    job.fired += 1;
                    Cause::Occurrence(nominal)
                }
                BacklogKind::Backfill { operation } => {
                    Cause::Backfill { operation, second: nominal.secs() }
                }
            };
            count_live(&mut job, row.version);
            self.make_run(NewRun {
                id: RunId::new(id.job, cause),
                spec: &spec,
                version: row.version,
                nominal,
                due: now,
                lane: Lane::Backfill,
                state: RunState::Ready,
                fresh: false,
                body: None,
            });
        }
        let expect = Expect::Rev(row.rev);
        if row.cursor >= row.until {
            self.change(Key::Backlog(id), expect, None);
            self.forget_live(&mut job, row.version);
            self.put_or_remove_job(job);
            return Ok(());
        }
        if made > 0 {
            self.put_job(job);
        }
        row.rev += 1;
        let pause = SLICE_EVERY.micros() * made.max(1) as i64 / i64::from(row.per_second.max(1));
        row.due = now.plus(Span::from_micros(pause.max(1_000)));
        let due = row.due;
        self.change(Key::Backlog(id), expect, Some(Row::Backlog(row)));
        self.wait_for_backlog(due, id);
        Ok(())
    }

    /// Its job was cancelled: what is left of a catch-up gets its verdict, a backfill just ends.
    fn drop_backlog(
        &mut self,
        now: Time,
        mut job: model::row::JobRow,
        row: &BacklogRow,
        schedule: &calendar::Schedule,
    ) {
        let tick = Span::from_micros(1);
        let count = schedule.count(row.cursor.plus(tick), row.until.plus(tick));
        if matches!(row.id.kind, BacklogKind::CatchUp { .. })
            && let Some(first) = schedule.next(row.cursor)
        {
            self.write_range(now, &job, Status::Missed, (first, row.until), count);
        }
        self.change(Key::Backlog(row.id), Expect::Rev(row.rev), None);
        self.forget_live(&mut job, row.version);
        self.put_or_remove_job(job);
    }

    /// What became of the next instants must be read before it can be said which are missing.
    fn ask_outcomes(&mut self, row: &BacklogRow, slice: usize) {
        if self.outcome_reads.values().any(|(id, _)| *id == row.id) {
            return;
        }
        let limit = self.sizes.page.max(slice);
        let (job, after, until) = (row.id.job, row.cursor, row.until);
        let id = self.read(Read::Outcomes { job, after, until, limit });
        self.outcome_reads.insert(id, (row.id, limit));
    }

    pub(crate) fn outcomes_read(&mut self, now: Time, (id, limit): (BacklogId, usize), page: Page) {
        let Page::Outcomes(outcomes) = page else { return };
        let full = outcomes.len() >= limit;
        let until = match outcomes.last() {
            Some(last) if full => last.nominal,
            _ => Time::MAX,
        };
        self.outcomes.insert(id, (until, outcomes));
        self.timer.put_due(now, WheelKey::Backlog(id), Namespace(u32::MAX));
    }
}

fn wanted(only: Only, nominal: Time, outcomes: &[Outcome]) -> bool {
    let found = outcomes.iter().rev().find(|o| o.nominal <= nominal && nominal <= o.until);
    match only {
        Only::All => true,
        Only::Missing => !found.is_some_and(|o| o.ran || o.live),
        Only::Failed => found.is_some_and(|o| o.ran && !o.succeeded && !o.live),
    }
}
