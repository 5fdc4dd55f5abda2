//! Rows as decisions see and change them: what is known, what is written, and how a resident run
//! and its row become each other.

use crate::batch::Batch;
use crate::entry::Entry;
use crate::planted::Bug;
use crate::shard::{Decision, Need, Shard};
use crate::timer::Timed;
use calendar::Schedule;
use model::read::WheelKey;
use model::row::{Change, Expect, JobRow, Key, Row, RunRow};
use model::{Epoch, JobId, RunId, Spec, Time, Token};
use std::sync::Arc;

impl Shard {
    pub(crate) fn row(&self, key: Key) -> Decision<Option<&Row>> {
        let batches = [&self.pipeline.building].into_iter().chain(self.pipeline.sent());
        self.rows.get(&key, batches).ok_or_else(|| Need(vec![key]))
    }

    pub(crate) fn job_row(&self, id: JobId) -> Decision<Option<JobRow>> {
        match self.row(Key::Job(id))? {
            Some(Row::Job(row)) => Ok(Some(row.clone())),
            _ => Ok(None),
        }
    }

    pub(crate) fn run_row(&self, id: RunId) -> Decision<Option<RunRow>> {
        match self.row(Key::Run(id))? {
            Some(Row::Run(row)) => Ok(Some(row.clone())),
            _ => Ok(None),
        }
    }

    pub(crate) fn spec_row(&self, job: JobId, version: u32) -> Decision<Option<Arc<Spec>>> {
        match self.row(Key::Spec(job, version))? {
            Some(Row::Spec(spec)) => Ok(Some(spec.clone())),
            _ => Ok(None),
        }
    }

    pub(crate) fn change(&mut self, key: Key, expect: Expect, row: Option<Row>) {
        match &key {
            Key::Run(run) => self.touch(WheelKey::Run(*run)),
            Key::Job(job) => self.touch(WheelKey::Job(*job)),
            Key::Backlog(id) => self.touch(WheelKey::Backlog(*id)),
            _ => {}
        }
        let batch: &mut Batch = &mut self.pipeline.building;
        batch.grows |= expect == Expect::Absent && matches!(row, Some(Row::Run(_) | Row::Spec(_)));
        let change = Change { key, expect, row };
        self.rows.changed(&change, batch.seq, batch.changes.len());
        Arc::make_mut(&mut batch.changes).push(change);
    }

    /// Writes a job's row; `job` carries the revision it was read with.
    pub(crate) fn put_job(&mut self, mut job: JobRow) {
        let expect = Expect::Rev(job.rev);
        job.rev += 1;
        let (id, due, namespace) = (job.id, job.due, job.namespace);
        self.change(Key::Job(id), expect, Some(Row::Job(job)));
        if let Some(due) = due {
            self.wait_for(due, Timed::Row(WheelKey::Job(id), namespace));
        }
    }

    /// Keeps a thing in the timer if its time is near; else the wheel on disk has it.
    pub(crate) fn wait_for(&mut self, due: Time, timed: Timed) {
        if due < self.loader.kept_before() {
            let at = if self.planted.is(Bug::FireEarly) {
                Time::from_micros(due.micros() / 1_000_000 * 1_000_000)
            } else {
                due
            };
            self.timer.put(at, timed);
        }
    }

    pub(crate) fn stop_waiting(&mut self, due: Time, key: WheelKey) {
        self.timer.remove(due, key);
    }

    pub(crate) fn row_of(&self, entry: &Entry) -> RunRow {
        RunRow {
            id: entry.id,
            rev: entry.rev,
            state: entry.state,
            due: entry.due,
            nominal: entry.nominal,
            flow: self.flows.key(entry.flow).clone(),
            version: entry.version,
            attempts: entry.attempts,
            retries: entry.retries,
            lost: entry.lost,
            replays: entry.replays,
            policy: self.policies.get(entry.policy),
            checkpoint: entry.checkpoint,
            fresh: entry.fresh,
            start_by: Some(entry.start_by).filter(|at| *at < Time::MAX),
            finish_by: Some(entry.finish_by).filter(|at| *at < Time::MAX),
            body: None,
        }
    }

    pub(crate) fn entry_of(&mut self, row: &RunRow) -> Entry {
        Entry {
            id: row.id,
            due: row.due,
            nominal: row.nominal,
            flow: self.flows.id(&row.flow),
            policy: self.policies.id(&row.policy),
            version: row.version,
            rev: row.rev,
            checkpoint: row.checkpoint,
            attempts: row.attempts,
            retries: row.retries,
            lost: row.lost,
            replays: row.replays,
            state: row.state,
            fresh: row.fresh,
            start_by: row.start_by.unwrap_or(Time::MAX),
            finish_by: row.finish_by.unwrap_or(Time::MAX),
        }
    }

    /// Writes a resident run's row again after the entry was changed.
    pub(crate) fn put_run(&mut self, entry: &mut Entry) {
        let expect = Expect::Rev(entry.rev);
        entry.rev += 1;
        let row = self.row_of(entry);
        self.change(Key::Run(entry.id), expect, Some(Row::Run(row)));
    }

    pub(crate) fn remove_run(&mut self, entry: &Entry) {
        self.change(Key::Run(entry.id), Expect::Rev(entry.rev), None);
        if entry.checkpoint > 0 {
            self.change(Key::Checkpoint(entry.id), Expect::Rev(entry.checkpoint), None);
        }
    }

    pub(crate) fn next_token(&mut self) -> Token {
        self.counter += 1;
        let epoch = if self.planted.is(Bug::TokenIgnoresEpoch) { Epoch(1) } else { self.epoch };
        Token::new(epoch, self.counter)
    }

    pub(crate) fn schedule(
        &mut self,
        job: JobId,
        version: u32,
        spec: &Spec,
        versioned: Time,
    ) -> Option<Schedule> {
        if let Some(schedule) = self.schedules.get(&(job, version)) {
            return Some(schedule.clone());
        }
        let schedule = Schedule::new(&spec.schedule, &job.to_bytes(), versioned).ok()?;
        if self.schedules.len() >= crate::limits::CACHE_MAX {
            self.schedules.clear();
        }
        self.schedules.insert((job, version), schedule.clone());
        Some(schedule)
    }
}
