//! Recurring jobs, their specs, and the backlogs of their past instants.

use crate::cols::cols;
use crate::error::Res;
use crate::table::{Prepared, Shape, Table};
use model::id::ShardId;
use model::read::Bucket;
use model::row::{BacklogId, BacklogRow, Expect, JobRow, Row};
use model::{JobId, Spec, Time};
use rusqlite::{Connection, params};
use std::sync::{Arc, LazyLock};
use store::codec::codes::Code;
use store::codec::encode;
use store::codec::ids::{backlog_bytes, job_bytes, run_bytes};
use store::codec::rows;

const JOB_KEY: [&str; 2] = ["shard", "id"];
const JOB_VALUES: [&str; 21] = [
    "rev",
    "bucket",
    "due",
    "namespace",
    "state",
    "version",
    "created",
    "versioned",
    "mark",
    "next",
    "fired",
    "live",
    "active",
    "waiting",
    "pause_since",
    "pause_until",
    "pause_reason",
    "reruns",
    "backfills",
    "sweep",
    "removing",
];

pub(crate) static JOBS: LazyLock<Table> = LazyLock::new(|| {
    Table::new(&Shape { name: "jobs", key: &JOB_KEY, values: &JOB_VALUES, kept: &[], rev: true })
});

/// The columns that `read_job` reads, for a statement in which the table is called `name`.
pub(crate) fn columns(name: &str) -> String {
    let columns: Vec<String> =
        JOB_KEY.iter().chain(&JOB_VALUES).map(|column| format!("{name}.{column}")).collect();
    columns.join(", ")
}

/// A job, and the number of the first column behind its own.
pub(crate) fn read_with_end(row: &rusqlite::Row<'_>) -> Res<(JobRow, usize)> {
    Ok((read_job(row)?, JOB_KEY.len() + JOB_VALUES.len()))
}

pub(crate) static SPECS: LazyLock<Table> = LazyLock::new(|| {
    Table::new(&Shape {
        name: "specs",
        key: &["shard", "job", "version"],
        values: &["namespace", "name", "body", "payload", "api_key"],
        kept: &[],
        rev: false,
    })
});

pub(crate) static BACKLOGS: LazyLock<Table> = LazyLock::new(|| {
    Table::new(&Shape {
        name: "backlogs",
        key: &["shard", "id"],
        values: &[
            "rev",
            "bucket",
            "due",
            "cursor",
            "until",
            "per_second",
            "only_those",
            "version",
            "versioned",
            "done",
            "total",
        ],
        kept: &[],
        rev: true,
    })
});

pub(crate) fn put_job(
    conn: &Prepared<'_>,
    shard: ShardId,
    id: JobId,
    row: Option<&JobRow>,
    expect: Expect,
    now: Time,
) -> Res<bool> {
    let id = job_bytes(id);
    let key = params![shard.0, id];
    let Some(row) = row else { return JOBS.put(conn, key, None, expect) };
    let pause = row.pause.as_ref();
    let values = params![
        row.rev,
        row.due.map(|due| Bucket::of(due, now).start.micros()),
        row.due.map(Time::micros),
        row.namespace.0,
        row.state.code(),
        row.version,
        row.created.micros(),
        row.versioned.micros(),
        row.mark.micros(),
        row.next.map(Time::micros),
        row.fired as i64,
        rows::live_text(&row.live),
        row.active.map(run_bytes),
        row.waiting.map(run_bytes),
        pause.map(|pause| pause.since.micros()),
        pause.and_then(|pause| pause.until).map(Time::micros),
        pause.map(|pause| &*pause.reason),
        row.reruns,
        row.backfills,
        row.sweep,
        row.delete,
    ];
    JOBS.put(conn, key, Some(values), expect)
}

pub(crate) fn get_job(conn: &Connection, shard: ShardId, id: JobId) -> Res<Option<Row>> {
    JOBS.get(conn, params![shard.0, job_bytes(id)], |row| read_job(row).map(Row::Job))
}

pub(crate) fn read_job(row: &rusqlite::Row<'_>) -> Res<JobRow> {
    let mut cols = cols(row, "jobs", 1);
    let (id, rev) = (cols.job()?, cols.num()?);
    cols.skip(1);
    rows::job(&mut cols, id, rev)
}

pub(crate) fn put_spec(
    conn: &Prepared<'_>,
    shard: ShardId,
    (job, version): (JobId, u32),
    spec: Option<&Spec>,
    expect: Expect,
) -> Res<bool> {
    let job = job_bytes(job);
    let key = params![shard.0, job, version];
    let Some(spec) = spec else { return SPECS.put(conn, key, None, expect) };
    let values = params![
        spec.namespace.0,
        spec.name.as_deref(),
        encode::encode(spec)?,
        &*spec.payload,
        spec.api_key.map(|key| key.bits() as i64),
    ];
    SPECS.put(conn, key, Some(values), expect)
}

pub(crate) fn get_spec(
    conn: &Connection,
    shard: ShardId,
    job: JobId,
    version: u32,
) -> Res<Option<Arc<Spec>>> {
    SPECS.get(conn, params![shard.0, job_bytes(job), version], |row| {
        rows::spec(&mut cols(row, "specs", 5))
    })
}

pub(crate) fn put_backlog(
    conn: &Prepared<'_>,
    shard: ShardId,
    id: BacklogId,
    row: Option<&BacklogRow>,
    expect: Expect,
    now: Time,
) -> Res<bool> {
    let id = backlog_bytes(id);
    let key = params![shard.0, id];
    let Some(row) = row else { return BACKLOGS.put(conn, key, None, expect) };
    let values = params![
        row.rev,
        Bucket::of(row.due, now).start.micros(),
        row.due.micros(),
        row.cursor.micros(),
        row.until.micros(),
        row.per_second,
        row.only.code(),
        row.version,
        row.versioned.micros(),
        row.done as i64,
        row.total as i64,
    ];
    BACKLOGS.put(conn, key, Some(values), expect)
}

pub(crate) fn get_backlog(conn: &Connection, shard: ShardId, id: BacklogId) -> Res<Option<Row>> {
    BACKLOGS
        .get(conn, params![shard.0, backlog_bytes(id)], |row| read_backlog(row).map(Row::Backlog))
}

pub(crate) fn read_backlog(row: &rusqlite::Row<'_>) -> Res<BacklogRow> {
    let mut cols = cols(row, "backlogs", 1);
    let (id, rev) = (cols.backlog()?, cols.num()?);
    cols.skip(1);
    rows::backlog(&mut cols, id, rev)
}
