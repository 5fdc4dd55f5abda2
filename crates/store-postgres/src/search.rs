//! Lists for people, on a connection of their own so that no question of theirs holds up the core.
//! Here are the statements; orders and cursors are `store`'s.

use crate::claims::{self, LEASES};
use crate::cols::cols;
use crate::conn::{Conn, Param};
use crate::days::{self, Day, source};
use crate::error::{Fault, Res};
use crate::history::{self, HISTORY};
use crate::jobs::{self, JOBS};
use crate::limits::DAYS_AT_ONCE;
use crate::runs::{self, RUNS, bound};
use model::row::{HistoryRow, RunRow};
use model::{JobId, Namespace, RunId, Spec, Time};
use std::cell::RefCell;
use std::sync::{Arc, LazyLock};
use store::codec::ids::{job_bytes, run_bytes};
use store::codec::rows;
use store::search::scan::{CHUNK, Rows};
use store::search::{JobFound, RunFound, SCAN_MAX};
use tokio_postgres::types::Type;

static RECURRING: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {}, s.body, s.payload FROM duly.jobs AS j
         JOIN duly.specs AS s ON s.shard = j.shard AND s.job = j.id AND s.version = j.version
         WHERE j.id < $1 ORDER BY j.id DESC LIMIT $2",
        JOBS.columns("j")
    )
});

static LIVE: LazyLock<String> = LazyLock::new(|| {
    let columns = RUNS.columns("r");
    format!("SELECT {columns} FROM duly.runs AS r WHERE r.id < $1 ORDER BY r.id DESC LIMIT $2")
});

static DEAD: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM duly.runs AS r
         WHERE r.state = 5 AND r.namespace = $3 AND r.id < $1 ORDER BY r.id DESC LIMIT $2",
        RUNS.columns("r")
    )
});

const ENDED: &str = "hid < $1 ORDER BY hid DESC LIMIT $2";
const FAILED: &str = "state_after = 7 AND namespace = $3 AND hid < $1 ORDER BY hid DESC LIMIT $2";
const BY_RUN: &str = "run < $1 ORDER BY run DESC LIMIT $2";
const OF_JOB: &str = "planned_job = $1 AND (nominal, run) < ($2, $3)
    ORDER BY nominal DESC, run DESC LIMIT $4";

static LEASE_OF: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT x.n, {} FROM unnest($1, $2) WITH ORDINALITY AS x(shard, run, n)
         JOIN duly.leases AS l ON l.shard = x.shard AND l.run = x.run",
        LEASES.columns("l")
    )
});

/// The connection for people.
pub(crate) struct People<'a>(RefCell<&'a mut Conn>);

impl<'a> People<'a> {
    pub fn new(conn: &'a mut Conn) -> People<'a> {
        People(RefCell::new(conn))
    }

    fn list<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        read: impl Fn(&tokio_postgres::Row) -> Res<T>,
    ) -> Res<Vec<T>> {
        self.0.borrow_mut().query(sql, params)?.iter().map(read).collect()
    }

    /// All of history.
    fn tables(&self) -> Res<String> {
        days::all(&mut self.0.borrow_mut())
    }

    /// A chunk of ends before a place, a few days at a time: places of a day are before those of
    /// the next.
    fn ends(&self, what: &str, before: i64, more: &[Param<'_>]) -> Res<Vec<(HistoryRow, i64)>> {
        let mut parts = days::list(&mut self.0.borrow_mut())?;
        parts.retain(|part| part.day <= Day::of_place(before));
        let mut found = Vec::new();
        for parts in parts.chunks(DAYS_AT_ONCE * 2) {
            let left = bound(CHUNK - found.len());
            let mut params: Vec<Param<'_>> = vec![(&before, Type::INT8), (&left, Type::INT8)];
            params.extend_from_slice(more);
            found.extend(self.list(&past(&source(parts), what), &params, with_hid)?);
            if found.len() >= CHUNK {
                break;
            }
        }
        Ok(found)
    }
}

/// Rows of these tables of history with their places.
fn past(tables: &str, what: &str) -> String {
    format!("SELECT {}, h.hid FROM {tables} AS h WHERE {what}", HISTORY.columns("h"))
}

/// Tokens grow, so the largest is the last attempt that ended.
fn last_of(tables: &str) -> String {
    format!(
        "SELECT x.n, {} FROM unnest($1) WITH ORDINALITY AS x(run, n)
         CROSS JOIN LATERAL (SELECT * FROM {tables} AS h WHERE h.run = x.run
           ORDER BY token DESC LIMIT 1) AS h",
        HISTORY.columns("h")
    )
}

fn with_hid(row: &tokio_postgres::Row) -> Res<(HistoryRow, i64)> {
    Ok((history::read(row, 0)?, cols(row, "history", HISTORY.width()).int()?))
}

impl Rows for People<'_> {
    type Fault = Fault;

    fn recurring(&self, before: &[u8]) -> Res<Vec<JobFound>> {
        self.list(&RECURRING, &[(&before, Type::BYTEA), (&bound(CHUNK), Type::INT8)], |row| {
            let spec = rows::spec(&mut cols(row, "specs", JOBS.width()))?;
            Ok(JobFound::Recurring { row: jobs::read_job(row, 0)?, spec })
        })
    }

    fn unfinished(&self, before: &[u8]) -> Res<Vec<RunRow>> {
        let params: [Param<'_>; 2] = [(&before, Type::BYTEA), (&bound(CHUNK), Type::INT8)];
        self.list(&LIVE, &params, |row| runs::read(row, 0))
    }

    fn dead(&self, namespace: Namespace, before: &[u8]) -> Res<Vec<RunRow>> {
        let params: [Param<'_>; 3] = [
            (&before, Type::BYTEA),
            (&bound(CHUNK), Type::INT8),
            (&i64::from(namespace.0), Type::INT8),
        ];
        self.list(&DEAD, &params, |row| runs::read(row, 0))
    }

    fn unfinished_of(&self, job: JobId) -> Res<Vec<RunRow>> {
        runs::of_job(&mut self.0.borrow_mut(), job.shard(), job, None, SCAN_MAX)
    }

    fn with_attempts(&self, rows: Vec<RunRow>) -> Res<Vec<RunFound>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let shards: Vec<i64> = rows.iter().map(|row| row.id.job.shard().0.into()).collect();
        let ids: Vec<Vec<u8>> = rows.iter().map(|row| run_bytes(row.id).to_vec()).collect();
        let place = |row: &tokio_postgres::Row| -> Res<usize> {
            Ok(cols(row, "runs", 0).num::<usize>()?.saturating_sub(1))
        };
        let (mut leases, mut lasts) = (vec![None; rows.len()], vec![None; rows.len()]);
        let params: [Param<'_>; 2] = [(&shards, Type::INT8_ARRAY), (&ids, Type::BYTEA_ARRAY)];
        for (at, lease) in
            self.list(&LEASE_OF, &params, |row| Ok((place(row)?, claims::read_lease(row, 1)?)))?
        {
            leases[at] = Some(lease);
        }
        let sql = last_of(&self.tables()?);
        for (at, last) in
            self.list(&sql, &params[1..], |row| Ok((place(row)?, history::read(row, 1)?)))?
        {
            lasts[at] = Some(Box::new(last));
        }
        let found = rows.into_iter().zip(leases).zip(lasts);
        Ok(found.map(|((row, lease), last)| RunFound::Live { row, lease, last }).collect())
    }

    fn bodies(&self, runs: &[RunId]) -> Res<Vec<Option<Arc<Spec>>>> {
        runs::bodies(&mut self.0.borrow_mut(), runs)
    }

    fn ended(&self, before: i64) -> Res<Vec<(HistoryRow, i64)>> {
        self.ends(ENDED, before, &[])
    }

    fn failed(&self, namespace: Namespace, before: i64) -> Res<Vec<(HistoryRow, i64)>> {
        self.ends(FAILED, before, &[(&i64::from(namespace.0), Type::INT8)])
    }

    fn by_run(&self, before: &[u8]) -> Res<Vec<HistoryRow>> {
        let params: [Param<'_>; 2] = [(&before, Type::BYTEA), (&bound(CHUNK), Type::INT8)];
        self.list(&past(&self.tables()?, BY_RUN), &params, |row| history::read(row, 0))
    }

    fn of_job(&self, job: JobId, before: (Time, RunId)) -> Res<Vec<HistoryRow>> {
        let params: [Param<'_>; 4] = [
            (&job_bytes(job).to_vec(), Type::BYTEA),
            (&before.0.micros(), Type::INT8),
            (&run_bytes(before.1).to_vec(), Type::BYTEA),
            (&bound(CHUNK), Type::INT8),
        ];
        self.list(&past(&self.tables()?, OF_JOB), &params, |row| history::read(row, 0))
    }

    fn of_run(&self, run: RunId) -> Res<Vec<HistoryRow>> {
        history::of_run(&mut self.0.borrow_mut(), run, SCAN_MAX)
    }
}
