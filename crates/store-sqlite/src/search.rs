//! Lists for people, on a connection of their own so that no question of theirs holds up the core.
//! Here are the statements; orders and cursors are `store`'s.

use crate::cols::cols;
use crate::error::{Fault, Res};
use crate::runs::bound;
use crate::{claims, history, jobs, runs};
use model::row::{HistoryRow, Row, RunRow};
use model::{JobId, Namespace, RunId, Spec, Time};
use rusqlite::{Connection, params};
use std::sync::{Arc, LazyLock};
use store::codec::ids::{job_bytes, run_bytes};
use store::codec::rows;
use store::search::scan::{CHUNK, Rows};
use store::search::{JobFound, RunFound, SCAN_MAX};

pub(crate) static RECURRING: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {}, s.body, s.payload FROM jobs AS j INDEXED BY jobs_id
           CROSS JOIN specs AS s ON s.shard = j.shard AND s.job = j.id AND s.version = j.version
         WHERE j.id < ?1 ORDER BY j.id DESC LIMIT ?2",
        jobs::columns("j")
    )
});

pub(crate) static LIVE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM runs AS r INDEXED BY runs_id WHERE r.id < ?1 ORDER BY r.id DESC LIMIT ?2",
        runs::columns("r")
    )
});

pub(crate) static DEAD: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM runs AS r INDEXED BY runs_dead
         WHERE r.state = 5 AND r.namespace = ?3 AND r.id < ?1 ORDER BY r.id DESC LIMIT ?2",
        runs::columns("r")
    )
});

pub(crate) static ENDED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {}, hid FROM history AS h WHERE hid < ?1 ORDER BY hid DESC LIMIT ?2",
        history::columns("h")
    )
});

pub(crate) static FAILED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {}, hid FROM history AS h INDEXED BY history_failures
         WHERE state_after = 7 AND namespace = ?3 AND hid < ?1 ORDER BY hid DESC LIMIT ?2",
        history::columns("h")
    )
});

pub(crate) static BY_RUN: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM history AS h INDEXED BY history_run
         WHERE run < ?1 ORDER BY run DESC LIMIT ?2",
        history::columns("h")
    )
});

pub(crate) static OF_JOB: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM history AS h INDEXED BY history_instants
         WHERE planned_job = ?1 AND (nominal, run) < (?2, ?3)
         ORDER BY nominal DESC, run DESC LIMIT ?4",
        history::columns("h")
    )
});

/// The connection for people.
pub(crate) struct People<'a>(pub &'a Connection);

impl People<'_> {
    fn runs(&self, sql: &str, params: crate::table::Params<'_>) -> Res<Vec<RunRow>> {
        runs::list(self.0, sql, params, |row| runs::read(row, 0))
    }
}

impl Rows for People<'_> {
    type Fault = Fault;

    fn recurring(&self, before: &[u8]) -> Res<Vec<JobFound>> {
        runs::list(self.0, &RECURRING, params![before, bound(CHUNK)], |row| {
            let (job, at) = jobs::read_with_end(row)?;
            let spec = rows::spec(&mut cols(row, "specs", at))?;
            Ok(JobFound::Recurring { row: job, spec })
        })
    }

    fn unfinished(&self, before: &[u8]) -> Res<Vec<RunRow>> {
        self.runs(&LIVE, params![before, bound(CHUNK)])
    }

    fn dead(&self, namespace: Namespace, before: &[u8]) -> Res<Vec<RunRow>> {
        self.runs(&DEAD, params![before, bound(CHUNK), namespace.0])
    }

    fn unfinished_of(&self, job: JobId) -> Res<Vec<RunRow>> {
        runs::of_job(self.0, job.shard(), job, None, SCAN_MAX)
    }

    fn with_attempts(&self, rows: Vec<RunRow>) -> Res<Vec<RunFound>> {
        let found = rows.into_iter().map(|row| {
            let lease = match claims::get_lease(self.0, row.id.job.shard(), row.id)? {
                Some(Row::Lease(lease)) => Some(lease),
                _ => None,
            };
            let last = history::last_of_run(self.0, row.id)?.map(Box::new);
            Ok(RunFound::Live { row, lease, last })
        });
        found.collect()
    }

    fn bodies(&self, runs: &[RunId]) -> Res<Vec<Option<Arc<Spec>>>> {
        runs.iter().map(|run| runs::body(self.0, run.job.shard(), *run)).collect()
    }

    fn ended(&self, before: i64) -> Res<Vec<(HistoryRow, i64)>> {
        runs::list(self.0, &ENDED, params![before, bound(CHUNK)], history::read_with_hid)
    }

    fn failed(&self, namespace: Namespace, before: i64) -> Res<Vec<(HistoryRow, i64)>> {
        let params = params![before, bound(CHUNK), namespace.0];
        runs::list(self.0, &FAILED, params, history::read_with_hid)
    }

    fn by_run(&self, before: &[u8]) -> Res<Vec<HistoryRow>> {
        runs::list(self.0, &BY_RUN, params![before, bound(CHUNK)], history::read)
    }

    fn of_job(&self, job: JobId, before: (Time, RunId)) -> Res<Vec<HistoryRow>> {
        let (id, run) = (job_bytes(job), run_bytes(before.1));
        let params = params![id, before.0.micros(), run, bound(CHUNK)];
        runs::list(self.0, &OF_JOB, params, history::read)
    }

    fn of_run(&self, run: RunId) -> Res<Vec<HistoryRow>> {
        history::of_run(self.0, run, SCAN_MAX)
    }
}
