//! Backfill: runs for instants of the past, because a person asked. A durable operation: a backlog
//! row with progress, worked off at a rate (`backlog.rs`), which survives its owner.

use crate::command::{Answer, KeyOf, Refused};
use crate::shard::{Decision, Shard};
use crate::verbs::occurrence::count_live;
use model::id::BACKFILLS_MAX;
use model::read::WheelKey;
use model::row::{BacklogId, BacklogKind, BacklogRow, Expect, JobState, Key, Made, Only, Row};
use model::{JobId, Span, Time};

const TICK: Span = Span::from_micros(1);

impl Shard {
    /// All instants in `[from, to)`.
    pub(crate) fn decide_backfill(
        &mut self,
        now: Time,
        id: JobId,
        (from, to): (Time, Time),
        only: Only,
        per_second: u32,
        key: Option<&KeyOf>,
    ) -> Decision<Answer> {
        let Some(mut job) = self.job_row(id)? else {
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
        if job.state == JobState::Cancelled || job.backfills >= BACKFILLS_MAX {
            return Ok(Answer::Refused(Refused::Conflict));
        }
        if from >= to || to > now {
            return Ok(Answer::Refused(Refused::Invalid("to")));
        }
        let Some(schedule) = self.schedule(id, job.version, &spec, job.versioned) else {
            return Ok(Answer::Refused(Refused::Invalid("schedule")));
        };
        // Instants before the version in force count as the schedule says them today: that is
        // what the person sees in the preview.
        let total = schedule.count(from, to);
        let backlog =
            BacklogId { job: id, kind: BacklogKind::Backfill { operation: job.backfills } };
        let row = BacklogRow {
            id: backlog,
            rev: 1,
            cursor: from.minus(TICK),
            until: to.minus(TICK),
            per_second: per_second.max(1),
            due: now,
            only,
            version: job.version,
            versioned: job.versioned,
            done: 0,
            total,
        };
        job.backfills += 1;
        let version = job.version;
        count_live(&mut job, version);
        self.put_job(job);
        self.change(Key::Backlog(backlog), Expect::Absent, Some(Row::Backlog(row)));
        self.wait_for_backlog(now, backlog);
        if let Some(key) = key {
            self.write_key(now, &spec, key, Made::Backlog(backlog));
        }
        Ok(Answer::Made(Made::Backlog(backlog)))
    }

    /// Stops an operation; runs it has made go on. A catch-up is not a person's to stop.
    pub(crate) fn decide_cancel_backfill(&mut self, id: BacklogId) -> Decision<Answer> {
        if !matches!(id.kind, BacklogKind::Backfill { .. }) {
            return Ok(Answer::Refused(Refused::Conflict));
        }
        let row = match self.row(Key::Backlog(id))? {
            Some(Row::Backlog(row)) => row.clone(),
            _ => return Ok(Answer::Refused(Refused::NotFound)),
        };
        let job = self.job_row(id.job)?;
        self.change(Key::Backlog(id), Expect::Rev(row.rev), None);
        if let Some(mut job) = job {
            self.forget_live(&mut job, row.version);
            self.put_or_remove_job(job);
        }
        self.stop_waiting(row.due, WheelKey::Backlog(id));
        Ok(Answer::Done)
    }
}
