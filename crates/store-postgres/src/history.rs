//! The history: found by run and token, and by a job's nominal instants, in all tables that `days`
//! names.

use crate::batch::{Value, values};
use crate::cols::cols;
use crate::conn::{Conn, Param};
use crate::days;
use crate::error::Res;
use crate::runs::bound;
use crate::table::Kind::{Bytes, Int, Text};
use crate::table::Table;
use model::id::ShardId;
use model::read::Outcome;
use model::row::HistoryRow;
use model::{Cause, JobId, RunId, Time, Token};
use std::collections::BTreeMap;
use store::codec::codes::Code;
use store::codec::ids::{group_text, job_bytes, last_of, run_bytes};
use store::codec::rows;
use store::outcome::{Past, Seen, stands_for_an_instant};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

pub(crate) static HISTORY: Table = Table {
    name: "history",
    key: &[("shard", Int), ("run", Bytes), ("token", Int)],
    values: &[
        ("attempt", Int),
        ("namespace", Int),
        ("nominal", Int),
        ("due", Int),
        ("started", Int),
        ("finished", Int),
        ("version", Int),
        ("status", Int),
        ("worker", Text),
        ("code", Int),
        ("error", Text),
        ("output", Bytes),
        ("state_after", Int),
        ("next", Int),
        ("until", Int),
        ("count", Int),
        ("flow_namespace", Int),
        ("queue", Text),
        ("kind", Text),
        ("priority", Int),
        ("lane", Int),
        ("grp", Text),
        ("planned_job", Bytes),
        ("bytes", Int),
    ],
    kept: &[],
    made: &[],
    rev: false,
};

/// What changes rows of history in whichever table they are.
pub(crate) const ANYWHERE: &str = "past";

/// What a row takes without its texts: 28 columns, a row header, entries in three indexes.
const BYTES_FIXED: usize = 320;

/// About what a row takes in the database.
pub(crate) fn bytes(row: &HistoryRow) -> i64 {
    let text = |text: Option<&model::Text>| text.map_or(0, |text| text.len());
    let flow = row
        .flow
        .as_ref()
        .map_or(0, |flow| flow.queue.len() + flow.kind.len() + text(flow.group.as_ref()));
    let own = text(row.worker.as_ref()) + text(row.error.as_ref());
    bound(BYTES_FIXED + flow + own + row.output.as_ref().map_or(0, |output| output.len()))
}

pub(crate) fn values(shard: ShardId, row: &HistoryRow) -> Vec<Value> {
    let flow = row.flow.as_ref();
    let other = flow.map(|flow| flow.namespace).filter(|namespace| *namespace != row.namespace);
    values![
        shard.0,
        run_bytes(row.run).to_vec(),
        row.token.0,
        row.attempt,
        row.namespace.0,
        row.nominal.micros(),
        row.due.micros(),
        row.started.map(Time::micros),
        row.finished.micros(),
        row.version,
        row.status.code(),
        row.worker.as_deref(),
        row.code,
        row.error.as_deref(),
        row.output.as_deref(),
        row.after.code(),
        row.next.map(Time::micros),
        row.until.map(Time::micros),
        row.count,
        other.map(|namespace| namespace.0),
        flow.map(|flow| &*flow.queue),
        flow.map(|flow| &*flow.kind),
        flow.map(|flow| flow.priority),
        flow.map(|flow| flow.lane.code()),
        flow.map(|flow| group_text(flow.group.as_ref())),
        (row.run.cause() != Cause::OneOff).then(|| job_bytes(row.run.job).to_vec()),
        bytes(row),
    ]
}

/// Reads the columns of `HISTORY` beginning at column `at`.
pub(crate) fn read(row: &Row, at: usize) -> Res<HistoryRow> {
    rows::history(&mut cols(row, "history", at + 1))
}

pub(crate) fn list(conn: &mut Conn, sql: &str, params: &[Param<'_>]) -> Res<Vec<HistoryRow>> {
    conn.query(sql, params)?.iter().map(|row| read(row, 0)).collect()
}

/// What was tried for a run, in the order of the ends: what became of it without an attempt has no
/// token and comes last.
pub(crate) fn of_run(conn: &mut Conn, run: RunId, limit: usize) -> Res<Vec<HistoryRow>> {
    let (id, columns, all) = (run_bytes(run).to_vec(), HISTORY.columns("h"), days::all(conn)?);
    let sql = format!("SELECT {columns} FROM {all} AS h WHERE run = $1 ORDER BY token LIMIT $2");
    let mut rows = list(conn, &sql, &[(&id, Type::BYTEA), (&bound(limit), Type::INT8)])?;
    rows.sort_by_key(|row| (row.finished, row.token == Token::NONE, row.token));
    Ok(rows)
}

const VERDICTS: &str = "planned_job = $1 AND nominal >= $2 AND nominal <= $3
    ORDER BY nominal LIMIT $4";
const VERDICT_RANGES: &str = "planned_job = $1 AND until >= $2 AND until > nominal AND nominal < $2
    ORDER BY until LIMIT $3";

/// Ends and verdicts of a job's instants in `[from, until]`; ranges that reach into it are whole.
pub(crate) fn verdicts(
    conn: &mut Conn,
    job: JobId,
    (from, until): (Time, Time),
    limit: usize,
) -> Res<Vec<HistoryRow>> {
    let (id, from, until) = (job_bytes(job).to_vec(), from.micros(), until.micros());
    let (limited, columns, all) = (bound(limit), HISTORY.columns("h"), days::all(conn)?);
    let that = |what: &str| format!("SELECT {columns} FROM {all} AS h WHERE {what}");
    let ranges: [Param<'_>; 3] = [(&id, Type::BYTEA), (&from, Type::INT8), (&limited, Type::INT8)];
    let mut rows = list(conn, &that(VERDICT_RANGES), &ranges)?;
    let inside: [Param<'_>; 4] =
        [(&id, Type::BYTEA), (&from, Type::INT8), (&until, Type::INT8), (&limited, Type::INT8)];
    rows.extend(list(conn, &that(VERDICTS), &inside)?);
    rows.retain(|row| {
        stands_for_an_instant(row.run)
            && (row.status.is_verdict_only() || store::search::filter::is_end(row))
    });
    rows.sort_by_key(|row| (row.nominal, row.run, row.token));
    rows.truncate(limit);
    Ok(rows)
}

/// Triggers (their part begins with 2) say nothing about the schedule.
const RANGES: &str = "SELECT run, token, nominal, until, finished, status FROM ALL_TABLES AS h
     WHERE planned_job = $2 AND until > $3 AND until > nominal AND nominal <= $4
       AND shard = $1 AND get_byte(run, 16) >> 4 <> 2";

const INSTANTS: &str = "SELECT run, token, nominal, nominal, finished, status FROM (
       SELECT h.*, dense_rank() OVER (ORDER BY nominal) AS place FROM ALL_TABLES AS h
       WHERE planned_job = $2 AND nominal > $3 AND nominal <= $4 AND shard = $1
         AND (until IS NULL OR until <= nominal) AND get_byte(run, 16) >> 4 <> 2) AS ranked
     WHERE place <= $5";

const LIVE: &str = "SELECT id, nominal FROM duly.runs
     WHERE id > $2 AND id <= $3 AND shard = $1 AND nominal > $4 AND nominal <= $5";

/// One outcome for each instant, and one for each range that overlaps `(after, until]`, whole.
pub(crate) fn outcomes(
    conn: &mut Conn,
    shard: ShardId,
    job: JobId,
    (after, until): (Time, Time),
    limit: usize,
) -> Res<Vec<Outcome>> {
    let mut seen: BTreeMap<(Time, Time), Seen> = BTreeMap::new();
    if after >= until {
        return Ok(Vec::new());
    }
    let (shard, id) = (i64::from(shard.0), job_bytes(job).to_vec());
    let (after, until, last) = (after.micros(), until.micros(), last_of(job).to_vec());
    let window: [Param<'_>; 4] =
        [(&shard, Type::INT8), (&id, Type::BYTEA), (&after, Type::INT8), (&until, Type::INT8)];
    let live: [Param<'_>; 5] = [
        (&shard, Type::INT8),
        (&id, Type::BYTEA),
        (&last, Type::BYTEA),
        (&after, Type::INT8),
        (&until, Type::INT8),
    ];
    for row in conn.query(LIVE, &live)? {
        let mut cols = cols(&row, "runs", 0);
        if stands_for_an_instant(cols.run()?) {
            let nominal = cols.time()?;
            seen.entry((nominal, nominal)).or_default().live();
        }
    }
    let limited = bound(limit);
    let all = days::all(conn)?;
    let mut rows = conn.query(&RANGES.replace("ALL_TABLES", &all), &window)?;
    let mut counted = window.to_vec();
    counted.push((&limited, Type::INT8));
    rows.extend(conn.query(&INSTANTS.replace("ALL_TABLES", &all), &counted)?);
    for row in rows {
        let past = past(&row)?;
        seen.entry((past.nominal, past.until)).or_default().add(&past);
    }
    Ok(seen.into_iter().map(|(instants, seen)| seen.outcome(instants)).take(limit).collect())
}

fn past(row: &Row) -> Res<Past> {
    let mut cols = cols(row, "history", 0);
    Ok(Past {
        run: cols.run()?,
        token: Token(cols.bits()?),
        nominal: cols.time()?,
        until: cols.time()?,
        finished: cols.time()?,
        status: cols.code()?,
    })
}
