//! Runs and flows. `runs_wheel` finds what is due, `runs_ready` holds the flows in their order.

use crate::batch::{Value, values};
use crate::cols::cols;
use crate::conn::{Conn, Param};
use crate::error::Res;
use crate::starts;
use crate::table::Kind::{Bytes, Int, Text};
use crate::table::Table;
use model::id::ShardId;
use model::row::RunRow;
use model::{FlowKey, JobId, KeyId, RunId, Spec, Time};
use std::sync::{Arc, LazyLock};
use store::codec::codes::Code;
use store::codec::encode;
use store::codec::ids::{self, run_bytes};
use store::codec::rows;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

pub(crate) static RUNS: Table = Table {
    name: "runs",
    key: &[("shard", Int), ("id", Bytes)],
    values: &[
        ("rev", Int),
        ("state", Int),
        ("due", Int),
        ("nominal", Int),
        ("namespace", Int),
        ("queue", Text),
        ("kind", Text),
        ("priority", Int),
        ("lane", Int),
        ("grp", Text),
        ("version", Int),
        ("attempts", Int),
        ("retries", Int),
        ("lost", Int),
        ("replays", Int),
        ("max_retries", Int),
        ("backoff_initial", Int),
        ("backoff_factor", Int),
        ("backoff_cap", Int),
        ("max_lost", Int),
        ("timeout", Int),
        ("checkpoint", Int),
        ("fresh", Int),
        ("start_by", Int),
        ("finish_by", Int),
    ],
    kept: &[("body", Bytes), ("payload", Bytes), ("api_key", Int)],
    // What is ready waits for a claimer, what is blocked for another run: neither for an instant.
    made: &[("bucket", "CASE WHEN x.state NOT IN (1, 2) THEN duly.bucket(x.due, clock) END")],
    rev: true,
};

pub(crate) fn values(shard: ShardId, row: &RunRow, body: Option<&Spec>) -> Res<Vec<Value>> {
    let (flow, policy) = (&row.flow, &row.policy);
    Ok(values![
        shard.0,
        run_bytes(row.id).to_vec(),
        row.rev,
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
        body.map(encode::encode).transpose()?,
        body.map(|spec| &*spec.payload),
        body.and_then(|spec| spec.api_key).map(KeyId::bits),
    ])
}

/// Reads the columns of `RUNS` beginning at column `at`.
pub(crate) fn read(row: &Row, at: usize) -> Res<RunRow> {
    let mut cols = cols(row, "runs", at + 1);
    let (id, rev) = (cols.run()?, cols.num()?);
    rows::run(&mut cols, id, rev)
}

/// The runs' own specs, where they have one.
pub(crate) fn bodies(conn: &mut Conn, runs: &[RunId]) -> Res<Vec<Option<Arc<Spec>>>> {
    const SQL: &str = "SELECT x.n, r.shard, r.id, r.body, r.payload
        FROM unnest($1) WITH ORDINALITY AS x(id, n) JOIN duly.runs AS r ON r.id = x.id
        WHERE r.body IS NOT NULL";
    let ids: Vec<Vec<u8>> = runs.iter().map(|run| run_bytes(*run).to_vec()).collect();
    let mut found = vec![None; runs.len()];
    for row in conn.query(SQL, &[(&ids, Type::BYTEA_ARRAY)])? {
        let mut cols = cols(&row, "runs", 0);
        let place: usize = cols.num()?;
        cols.skip(2);
        if let Some(slot) = found.get_mut(place.saturating_sub(1)) {
            *slot = Some(rows::spec(&mut cols)?);
        }
    }
    Ok(found)
}

static OF_FLOW: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM duly.runs AS r
         WHERE state = 2 AND shard = $1 AND namespace = $2 AND queue = $3 AND kind = $4
           AND priority = $5 AND lane = $6 AND grp = $7 AND (due, id) > (greatest($8, {} - 1), $9)
         ORDER BY due, id LIMIT $10",
        RUNS.columns("r"),
        starts::ready("$1")
    )
});

pub(crate) fn of_flow(
    conn: &mut Conn,
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
    let params: [Param<'_>; 10] = [
        (&i64::from(shard.0), Type::INT8),
        (&i64::from(flow.namespace.0), Type::INT8),
        (&&*flow.queue, Type::TEXT),
        (&&*flow.kind, Type::TEXT),
        (&i64::from(flow.priority), Type::INT8),
        (&flow.lane.code(), Type::INT8),
        (&group, Type::TEXT),
        (&due, Type::INT8),
        (&id, Type::BYTEA),
        (&bound(limit), Type::INT8),
    ];
    conn.query(&OF_FLOW, &params)?.iter().map(|row| read(row, 0)).collect()
}

/// One seek per flow, however many runs each has.
static FLOWS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH RECURSIVE s AS MATERIALIZED (SELECT {} AS ready), f AS (
      (SELECT namespace, queue, kind, priority, lane, grp FROM duly.runs
       WHERE state = 2 AND shard = $1 AND due >= (SELECT ready FROM s)
         AND (namespace, queue, kind, priority, lane, grp) > ($2, $3, $4, $5, $6, $7)
       ORDER BY namespace, queue, kind, priority, lane, grp LIMIT 1)
      UNION ALL
      SELECT n.* FROM f CROSS JOIN LATERAL (
        SELECT namespace, queue, kind, priority, lane, grp FROM duly.runs AS r
        WHERE r.state = 2 AND r.shard = $1 AND r.due >= (SELECT ready FROM s)
          AND (r.namespace, r.queue, r.kind, r.priority, r.lane, r.grp)
            > (f.namespace, f.queue, f.kind, f.priority, f.lane, f.grp)
        ORDER BY namespace, queue, kind, priority, lane, grp LIMIT 1) AS n)
    SELECT * FROM f LIMIT $8",
        starts::ready("$1")
    )
});

pub(crate) fn flows(
    conn: &mut Conn,
    shard: ShardId,
    after: Option<&FlowKey>,
    limit: usize,
) -> Res<Vec<FlowKey>> {
    // Before every namespace, if nothing is before.
    let group = after.map_or_else(String::new, |flow| ids::group_text(flow.group.as_ref()));
    let params: [Param<'_>; 8] = [
        (&i64::from(shard.0), Type::INT8),
        (&after.map_or(-1, |flow| i64::from(flow.namespace.0)), Type::INT8),
        (&after.map_or("", |flow| &*flow.queue), Type::TEXT),
        (&after.map_or("", |flow| &*flow.kind), Type::TEXT),
        (&after.map_or(0, |flow| i64::from(flow.priority)), Type::INT8),
        (&after.map_or(0, |flow| flow.lane.code()), Type::INT8),
        (&group, Type::TEXT),
        (&bound(limit), Type::INT8),
    ];
    let rows = conn.query(&FLOWS, &params)?;
    rows.iter().map(|row| rows::flow(&mut cols(row, "runs", 0))).collect()
}

static OF_JOB: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM duly.runs AS r WHERE id > $2 AND id <= $3 AND shard = $1 ORDER BY id LIMIT $4",
        RUNS.columns("r")
    )
});

pub(crate) fn of_job(
    conn: &mut Conn,
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
    let params: [Param<'_>; 4] = [
        (&i64::from(shard.0), Type::INT8),
        (&start, Type::BYTEA),
        (&ids::last_of(job).to_vec(), Type::BYTEA),
        (&bound(limit), Type::INT8),
    ];
    conn.query(&OF_JOB, &params)?.iter().map(|row| read(row, 0)).collect()
}

/// A limit as PostgreSQL takes it.
pub(crate) fn bound(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
