//! Runs and flows. The table is clustered by bucket; `runs_id` finds a run, `runs_ready` holds the
//! flows in their order.

use crate::cols::cols;
use crate::error::Res;
use crate::table::{Prepared, Shape, Table};
use model::id::ShardId;
use model::read::Bucket;
use model::row::{Expect, Row, RunRow};
use model::{FlowKey, JobId, RunId, Spec, Time};
use rusqlite::{Connection, params};
use std::sync::{Arc, LazyLock};
use store::codec::codes::Code;
use store::codec::encode;
use store::codec::ids::{self, run_bytes};
use store::codec::rows;

/// The bucket of rows that wait for no instant: after all buckets, and never read by the wheel.
pub(crate) const OFF_WHEEL: i64 = i64::MAX;

const KEY: [&str; 2] = ["shard", "id"];
const VALUES: [&str; 26] = [
    "rev",
    "bucket",
    "state",
    "due",
    "nominal",
    "namespace",
    "queue",
    "kind",
    "priority",
    "lane",
    "grp",
    "version",
    "attempts",
    "retries",
    "lost",
    "replays",
    "max_retries",
    "backoff_initial",
    "backoff_factor",
    "backoff_cap",
    "max_lost",
    "timeout",
    "checkpoint",
    "fresh",
    "start_by",
    "finish_by",
];

/// Where the body lies behind those, in a list of all columns.
pub(crate) const BODY: usize = KEY.len() + VALUES.len();

pub(crate) static RUNS: LazyLock<Table> = LazyLock::new(|| {
    Table::new(&Shape {
        name: "runs",
        key: &KEY,
        values: &VALUES,
        kept: &["body", "payload", "api_key"],
        rev: true,
    })
});

/// The columns that `read` reads, for a statement in which the table is called `name`.
pub(crate) fn columns(name: &str) -> String {
    let columns: Vec<String> =
        KEY.iter().chain(&VALUES).map(|column| format!("{name}.{column}")).collect();
    columns.join(", ")
}

pub(crate) fn put(
    conn: &Prepared<'_>,
    shard: ShardId,
    id: RunId,
    row: Option<&RunRow>,
    expect: Expect,
    now: Time,
) -> Res<bool> {
    let id = run_bytes(id);
    let key = params![shard.0, id];
    let Some(row) = row else { return RUNS.put(conn, key, None, expect) };
    let on_wheel = !matches!(row.state, model::RunState::Ready | model::RunState::Blocked);
    let bucket = if on_wheel { Bucket::of(row.due, now).start.micros() } else { OFF_WHEEL };
    let body = row.body.as_ref().map(|spec| encode::encode(spec)).transpose()?;
    let payload = row.body.as_ref().map(|spec| &*spec.payload);
    let api_key = row.body.as_ref().and_then(|spec| spec.api_key).map(|key| key.bits() as i64);
    let (flow, policy) = (&row.flow, &row.policy);
    let values = params![
        row.rev,
        bucket,
        row.state.code(),
        row.due.micros(),
        row.nominal.micros(),
        flow.namespace.0,
        &*flow.queue,
        &*flow.kind,
        flow.priority,
        flow.lane.code(),
        ids::group_text(flow.group.as_ref()),
        row.version,
        row.attempts,
        row.retries,
        row.lost,
        row.replays,
        policy.max_retries,
        policy.initial.micros(),
        policy.factor,
        policy.cap.micros(),
        policy.max_lost,
        policy.timeout.micros(),
        row.checkpoint,
        row.fresh,
        row.start_by.map(Time::micros),
        row.finish_by.map(Time::micros),
        body,
        payload,
        api_key,
    ];
    RUNS.put(conn, key, Some(values), expect)
}

/// Reads `columns` beginning at column `at`.
pub(crate) fn read(row: &rusqlite::Row<'_>, at: usize) -> Res<RunRow> {
    let mut cols = cols(row, "runs", at + 1);
    let (id, rev) = (cols.run()?, cols.num()?);
    cols.skip(1);
    rows::run(&mut cols, id, rev)
}

pub(crate) fn get(conn: &Connection, shard: ShardId, id: RunId) -> Res<Option<Row>> {
    RUNS.get(conn, params![shard.0, run_bytes(id)], |row| read(row, 0).map(Row::Run))
}

/// The run's own spec, if it has one.
pub(crate) fn body(conn: &Connection, shard: ShardId, id: RunId) -> Res<Option<Arc<Spec>>> {
    const SQL: &str = "SELECT shard, id, version, body, payload FROM runs
        WHERE shard = ?1 AND id = ?2 AND body IS NOT NULL";
    let mut statement = conn.prepare_cached(SQL)?;
    let mut rows = statement.query(params![shard.0, run_bytes(id)])?;
    rows.next()?.map(|row| rows::spec(&mut cols(row, "runs", 3))).transpose()
}

pub(crate) static OF_FLOW: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM runs AS r INDEXED BY runs_ready
             WHERE state = 2 AND shard = ?1 AND namespace = ?2 AND queue = ?3 AND kind = ?4
               AND priority = ?5 AND lane = ?6 AND grp = ?7 AND (due, id) > (?8, ?9)
             ORDER BY due, id LIMIT ?10",
        columns("r")
    )
});

pub(crate) fn of_flow(
    conn: &Connection,
    shard: ShardId,
    flow: &FlowKey,
    after: Option<(Time, RunId)>,
    limit: usize,
) -> Res<Vec<RunRow>> {
    let (due, id) = match after {
        Some((due, id)) => (due.micros(), run_bytes(id).to_vec()),
        None => (i64::MIN, ids::FIRST.to_vec()),
    };
    let group = ids::group_text(flow.group.as_ref());
    let params = params![
        shard.0,
        flow.namespace.0,
        &*flow.queue,
        &*flow.kind,
        flow.priority,
        flow.lane.code(),
        group,
        due,
        id,
        bound(limit)
    ];
    list(conn, &OF_FLOW, params, |row| read(row, 0))
}

pub(crate) const FLOWS: &str =
    "SELECT shard, id, state, namespace, queue, kind, priority, lane, grp
        FROM runs INDEXED BY runs_ready
        WHERE state = 2 AND shard = ?1
          AND (namespace, queue, kind, priority, lane, grp) > (?2, ?3, ?4, ?5, ?6, ?7)
        ORDER BY namespace, queue, kind, priority, lane, grp LIMIT 1";

/// One seek per flow, however many runs each has.
pub(crate) fn flows(
    conn: &Connection,
    shard: ShardId,
    after: Option<&FlowKey>,
    limit: usize,
) -> Res<Vec<FlowKey>> {
    let mut statement = conn.prepare_cached(FLOWS)?;
    let mut found: Vec<FlowKey> = Vec::new();
    while found.len() < limit {
        let mut rows = match found.last().or(after) {
            Some(last) => statement.query(params![
                shard.0,
                last.namespace.0,
                &*last.queue,
                &*last.kind,
                last.priority,
                last.lane.code(),
                ids::group_text(last.group.as_ref())
            ])?,
            // Before every namespace.
            None => statement.query(params![shard.0, -1, "", "", 0, 0, ""])?,
        };
        let Some(row) = rows.next()? else { break };
        found.push(rows::flow(&mut cols(row, "runs", 3))?);
    }
    Ok(found)
}

pub(crate) static OF_JOB: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM runs AS r INDEXED BY runs_id
             WHERE id > ?2 AND id <= ?3 AND shard = ?1 ORDER BY id LIMIT ?4",
        columns("r")
    )
});

pub(crate) fn of_job(
    conn: &Connection,
    shard: ShardId,
    job: JobId,
    after: Option<RunId>,
    limit: usize,
) -> Res<Vec<RunRow>> {
    // The job's id alone sorts before all its runs.
    let start = match after {
        Some(after) if after >= RunId::first_of(job) => run_bytes(after).to_vec(),
        _ => ids::job_bytes(job).to_vec(),
    };
    let params = params![shard.0, start, ids::last_of(job), bound(limit)];
    list(conn, &OF_JOB, params, |row| read(row, 0))
}

/// All rows of a bounded statement.
pub(crate) fn list<T>(
    conn: &Connection,
    sql: &str,
    params: crate::table::Params<'_>,
    read: impl Fn(&rusqlite::Row<'_>) -> Res<T>,
) -> Res<Vec<T>> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// A limit as SQLite takes it.
pub(crate) fn bound(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
