//! Recurring jobs, their specs, and the backlogs of their past instants.

use crate::batch::{Value, values};
use crate::cols::cols;
use crate::error::Res;
use crate::table::Kind::{Bytes, Int, Text};
use crate::table::Table;
use model::id::ShardId;
use model::row::{BacklogRow, JobRow};
use model::{JobId, KeyId, Spec, Time};
use store::codec::codes::Code;
use store::codec::encode;
use store::codec::ids::{backlog_bytes, job_bytes, run_bytes};
use store::codec::rows;
use tokio_postgres::Row;

pub(crate) static JOBS: Table = Table {
    name: "jobs",
    key: &[("shard", Int), ("id", Bytes)],
    values: &[
        ("rev", Int),
        ("due", Int),
        ("namespace", Int),
        ("state", Int),
        ("version", Int),
        ("created", Int),
        ("versioned", Int),
        ("mark", Int),
        ("next", Int),
        ("fired", Int),
        ("live", Text),
        ("active", Bytes),
        ("waiting", Bytes),
        ("pause_since", Int),
        ("pause_until", Int),
        ("pause_reason", Text),
        ("reruns", Int),
        ("backfills", Int),
        ("sweep", Int),
        ("removing", Int),
    ],
    kept: &[],
    made: &[("bucket", "duly.bucket(x.due, clock)")],
    rev: true,
};

pub(crate) static SPECS: Table = Table {
    name: "specs",
    key: &[("shard", Int), ("job", Bytes), ("version", Int)],
    values: &[
        ("namespace", Int),
        ("name", Text),
        ("body", Bytes),
        ("payload", Bytes),
        ("api_key", Int),
    ],
    kept: &[],
    made: &[],
    rev: false,
};

pub(crate) static BACKLOGS: Table = Table {
    name: "backlogs",
    key: &[("shard", Int), ("id", Bytes)],
    values: &[
        ("rev", Int),
        ("due", Int),
        ("cursor", Int),
        ("until", Int),
        ("per_second", Int),
        ("only_those", Int),
        ("version", Int),
        ("versioned", Int),
        ("done", Int),
        ("total", Int),
    ],
    kept: &[],
    made: &[("bucket", "duly.bucket(x.due, clock)")],
    rev: true,
};

pub(crate) fn job_values(shard: ShardId, row: &JobRow) -> Vec<Value> {
    let pause = row.pause.as_ref();
    values![
        shard.0,
        job_bytes(row.id).to_vec(),
        row.rev,
        row.due.map(Time::micros),
        row.namespace.0,
        row.state.code(),
        row.version,
        row.created.micros(),
        row.versioned.micros(),
        row.mark.micros(),
        row.next.map(Time::micros),
        row.fired,
        rows::live_text(&row.live),
        row.active.map(|run| run_bytes(run).to_vec()),
        row.waiting.map(|run| run_bytes(run).to_vec()),
        pause.map(|pause| pause.since.micros()),
        pause.and_then(|pause| pause.until).map(Time::micros),
        pause.map(|pause| &*pause.reason),
        row.reruns,
        row.backfills,
        row.sweep,
        row.delete,
    ]
}

/// Reads the columns of `JOBS` beginning at column `at`.
pub(crate) fn read_job(row: &Row, at: usize) -> Res<JobRow> {
    let mut cols = cols(row, "jobs", at + 1);
    let (id, rev) = (cols.job()?, cols.num()?);
    rows::job(&mut cols, id, rev)
}

pub(crate) fn spec_values(
    shard: ShardId,
    job: JobId,
    version: u32,
    spec: &Spec,
) -> Res<Vec<Value>> {
    Ok(values![
        shard.0,
        job_bytes(job).to_vec(),
        version,
        spec.namespace.0,
        spec.name.as_deref(),
        encode::encode(spec)?,
        &*spec.payload,
        spec.api_key.map(KeyId::bits),
    ])
}

pub(crate) fn backlog_values(shard: ShardId, row: &BacklogRow) -> Vec<Value> {
    values![
        shard.0,
        backlog_bytes(row.id).to_vec(),
        row.rev,
        row.due.micros(),
        row.cursor.micros(),
        row.until.micros(),
        row.per_second,
        row.only.code(),
        row.version,
        row.versioned.micros(),
        row.done,
        row.total,
    ]
}

pub(crate) fn read_backlog(row: &Row, at: usize) -> Res<BacklogRow> {
    let mut cols = cols(row, "backlogs", at + 1);
    let (id, rev) = (cols.backlog()?, cols.num()?);
    rows::backlog(&mut cols, id, rev)
}
