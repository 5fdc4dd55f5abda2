//! Catch-up: instants that were missed while nobody could fire them. The mark jumps over them;
//! each gets its verdict, lies in one backlog row, or is run once for all. The work here does not
//! depend on how many were missed.

use crate::batch::Event;
use crate::planted::Bug;
use crate::shard::Shard;
use crate::verbs::occurrence::count_live;
use calendar::Schedule;
use model::row::{BacklogId, BacklogKind, BacklogRow, Expect, JobRow, Key, Only, Row};
use model::{CatchUp, Lane, RunState, Span, Spec, Status, Time};
use std::sync::Arc;

const TICK: Span = Span::from_micros(1);

impl Shard {
    pub(crate) fn catch_up(
        &mut self,
        now: Time,
        job: &mut JobRow,
        spec: &Arc<Spec>,
        schedule: &Schedule,
    ) {
        let Some(last) = self.last_missed(now, job.mark, schedule) else { return };
        let Some(first) = schedule.next(job.mark) else { return };
        let count = schedule.count(job.mark.plus(TICK), last.plus(TICK));
        self.event(Event::CaughtUp);
        match spec.catch_up {
            CatchUp::Skip => self.write_missed(now, job, (first, last), count),
            CatchUp::Once => {
                // A fresh occurrence that is due as well stands for the missed ones.
                let fresh = schedule.next(last);
                let fresh_due =
                    fresh.is_some_and(|next| schedule.occurrence(next).effective <= now);
                let room = spec.schedule.max_runs.is_none_or(|max| job.fired < max);
                if fresh_due || !room {
                    self.write_range(now, job, Status::Coalesced, (first, last), count);
                } else {
                    if count > 1
                        && let Some(before) = schedule.previous(last)
                    {
                        self.write_range(now, job, Status::Coalesced, (first, before), count - 1);
                    }
                    let due = schedule.occurrence(last).effective;
                    let at = (last, due);
                    self.make_occurrence(job, spec, at, Lane::Backfill, RunState::Ready, false);
                }
            }
            CatchUp::All { window, max, per_second } => {
                let from = first_kept(schedule, now.minus(window), (job.mark, last), max);
                let kept = schedule.count(from.plus(TICK), last.plus(TICK));
                if kept < count {
                    let end = schedule.previous(from.plus(TICK)).unwrap_or(first).max(first);
                    self.write_missed(now, job, (first, end), count - kept);
                }
                if kept > 0 {
                    self.write_backlog(now, job, (from, last), kept, per_second);
                }
            }
        }
        job.mark = last;
    }

    fn write_missed(&mut self, now: Time, job: &JobRow, range: (Time, Time), count: u64) {
        self.write_range(now, job, Status::Missed, range, count);
    }

    pub(crate) fn write_range(
        &mut self,
        now: Time,
        job: &JobRow,
        status: Status,
        range: (Time, Time),
        count: u64,
    ) {
        if count > 0 && !self.planted.is(Bug::DropRangeVerdict) {
            self.write_verdict(now, job, status, range, count);
        }
    }

    fn write_backlog(
        &mut self,
        now: Time,
        job: &mut JobRow,
        (from, until): (Time, Time),
        total: u64,
        per_second: u32,
    ) {
        let id = BacklogId { job: job.id, kind: BacklogKind::CatchUp { from } };
        let row = BacklogRow {
            id,
            rev: 1,
            cursor: from,
            until,
            per_second: per_second.max(1),
            due: now,
            only: Only::All,
            version: job.version,
            versioned: job.versioned,
            done: 0,
            total,
        };
        let version = job.version;
        count_live(job, version);
        self.change(Key::Backlog(id), Expect::Absent, Some(Row::Backlog(row)));
        self.wait_for_backlog(now, id);
    }
}

/// Instants after this one are caught up: not older than the window, and at most `max`.
fn first_kept(schedule: &Schedule, oldest: Time, (mark, last): (Time, Time), max: u32) -> Time {
    // A window shorter than the time after which an instant counts as missed keeps nothing.
    let from = mark.max(oldest.minus(TICK)).min(last);
    if schedule.count(from.plus(TICK), last.plus(TICK)) <= u64::from(max) {
        return from;
    }
    // Halving over time, because counting is cheap and listing would cost what was missed.
    let (mut low, mut high) = (from.micros(), last.micros());
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        let kept = schedule.count(Time::from_micros(middle).plus(TICK), last.plus(TICK));
        if kept > u64::from(max) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Time::from_micros(high)
}
