//! Reads. Each answers from the tables as they are under the lock.

use super::tables::Tables;
use model::read::{Page, Read, WheelKey};
use model::row::{Key, LeaseRow, Row, RunRow};
use model::{JobId, RunId};
use std::ops::Bound::{self, Excluded, Included, Unbounded};

impl Tables {
    pub fn read(&self, read: &Read) -> Page {
        match read {
            Read::Rows(keys) => Page::Rows(keys.iter().map(|key| self.get(key)).collect()),
            Read::Due { from, before, after, limit } => {
                let (keys, next) = self.wheel.page(*from, *before, *after, *limit);
                let rows = keys.into_iter().filter_map(|key| self.get(&key_of(key))).collect();
                Page::Due { rows, next }
            }
            Read::Flow { flow, after, limit } => {
                let runs = self.flows.runs(flow, *after).filter_map(|id| self.runs.get(&id));
                let runs = runs.filter(|run| Some(run.row.due) >= self.starts.ready);
                Page::Runs(runs.take(*limit).map(|run| run.row.clone()).collect())
            }
            Read::Flows { after, limit } => {
                let keys = self.flows.keys(after.as_ref()).filter(|flow| {
                    let mut runs = self.flows.runs(flow, None).filter_map(|id| self.runs.get(&id));
                    runs.any(|run| Some(run.row.due) >= self.starts.ready)
                });
                Page::Flows(keys.take(*limit).cloned().collect())
            }
            Read::Leases { after, limit } => {
                let leases = self.leases.range((after.map_or(Unbounded, Excluded), Unbounded));
                let leases = leases.filter(|(_, lease)| Some(lease.token) >= self.starts.leases);
                let pairs = leases.filter_map(|(id, lease)| {
                    self.runs.get(id).map(|run| (LeaseRow::clone(lease), run.row.clone()))
                });
                Page::Leases(pairs.take(*limit).collect())
            }
            Read::Holds => Page::Holds(
                self.holds.iter().map(|(scope, row)| (scope.clone(), row.clone())).collect(),
            ),
            Read::Queues => Page::Queues(
                self.queues.iter().map(|(queue, row)| (queue.clone(), row.clone())).collect(),
            ),
            Read::RunsOf { job, after, limit } => {
                let first = RunId::first_of(*job);
                let start = match after {
                    Some(after) if *after >= first => Excluded(*after),
                    _ => Included(first),
                };
                Page::Runs(self.runs_from(start, *job).take(*limit).cloned().collect())
            }
            Read::Spec { run, version } => Page::Spec(self.spec(*run, *version)),
            Read::Outcomes { job, after, until, limit } => {
                let live = self.runs_from(Included(RunId::first_of(*job)), *job);
                Page::Outcomes(self.history.outcomes(*job, (*after, *until), *limit, live))
            }
        }
    }

    /// A ready run or a lease that lies before where they are said to begin.
    pub fn hidden(&self) -> Option<RunId> {
        let lease = self.leases.values().find(|lease| Some(lease.token) < self.starts.leases);
        let firsts = self.flows.keys(None).filter_map(|flow| self.flows.runs(flow, None).next());
        let mut ready = firsts.filter_map(|id| self.runs.get(&id));
        let ready = ready.find(|run| Some(run.row.due) < self.starts.ready);
        lease.map(|lease| lease.run).or(ready.map(|run| run.row.id))
    }

    fn runs_from(&self, start: Bound<RunId>, job: JobId) -> impl Iterator<Item = &RunRow> {
        let runs = self.runs.range((start, Unbounded));
        runs.take_while(move |(id, _)| id.job == job).map(|(_, run)| &run.row)
    }

    /// All rows but the history, runs with their bodies.
    pub fn rows(&self) -> Vec<(Key, Row)> {
        let mut keys: Vec<Key> = Vec::new();
        keys.extend(self.runs.keys().map(|id| Key::Run(*id)));
        keys.extend(self.leases.keys().map(|id| Key::Lease(*id)));
        keys.extend(self.jobs.keys().map(|id| Key::Job(*id)));
        keys.extend(self.specs.keys().map(|(job, version)| Key::Spec(*job, *version)));
        keys.extend(self.backlogs.keys().map(|id| Key::Backlog(*id)));
        keys.extend(self.keys.iter().map(|(key, _)| Key::Idempotency(key.clone())));
        keys.extend(self.checkpoints.keys().map(|id| Key::Checkpoint(*id)));
        keys.extend(self.holds.keys().map(|scope| Key::Hold(scope.clone())));
        keys.extend(
            self.queues.keys().map(|(namespace, queue)| Key::Queue(*namespace, queue.clone())),
        );
        let rows = keys.into_iter().filter_map(|key| self.get(&key).map(|row| (key, row)));
        rows.map(|(key, row)| (key, self.with_body(row))).collect()
    }

    fn with_body(&self, row: Row) -> Row {
        match row {
            Row::Run(run) => {
                let body = self.runs.get(&run.id).and_then(|stored| stored.body.clone());
                Row::Run(RunRow { body, ..run })
            }
            row => row,
        }
    }
}

fn key_of(key: WheelKey) -> Key {
    match key {
        WheelKey::Run(id) => Key::Run(id),
        WheelKey::Job(id) => Key::Job(id),
        WheelKey::Backlog(id) => Key::Backlog(id),
    }
}
