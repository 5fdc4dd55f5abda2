//! Small tables around runs: leases, checkpoints, holds.

use crate::batch::{Value, values};
use crate::cols::cols;
use crate::conn::{Conn, Param};
use crate::error::Res;
use crate::runs::{self, bound};
use crate::starts;
use crate::table::Kind::{Bytes, Int, Text};
use crate::table::Table;
use model::id::ShardId;
use model::row::{CheckpointRow, HoldRow, Holder, LeaseRow, RunRow, Scope};
use model::{Namespace, RunId, Time};
use std::sync::LazyLock;
use store::codec::ids::{self, run_bytes};
use store::codec::rows;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

pub(crate) static LEASES: Table = Table {
    name: "leases",
    key: &[("shard", Int), ("run", Bytes)],
    values: &[
        ("rev", Int),
        ("attempt", Int),
        ("token", Int),
        ("worker", Text),
        ("node", Int),
        ("boot", Int),
        ("length", Int),
        ("started", Int),
        ("deadline", Int),
        ("request", Int),
        ("cancel", Int),
    ],
    kept: &[],
    made: &[],
    rev: true,
};

pub(crate) static CHECKPOINTS: Table = Table {
    name: "checkpoints",
    key: &[("shard", Int), ("run", Bytes)],
    values: &[("rev", Int), ("bytes", Bytes)],
    kept: &[],
    made: &[],
    rev: true,
};

pub(crate) static HOLDS: Table = Table {
    name: "holds",
    key: &[("shard", Int), ("scope", Int), ("namespace", Int), ("queue", Text)],
    values: &[("reason", Text), ("until", Int)],
    kept: &[],
    made: &[],
    rev: false,
};

pub(crate) fn lease_values(shard: ShardId, row: &LeaseRow) -> Vec<Value> {
    let (worker, node) = match &row.holder {
        Holder::Worker(worker) => (Some(&**worker), None),
        Holder::Node(node) => (None, Some(node)),
    };
    values![
        shard.0,
        run_bytes(row.run).to_vec(),
        row.rev,
        row.attempt,
        row.token.0,
        worker,
        node.map(|node| node.node),
        node.map(|node| node.boot),
        row.length.micros(),
        row.started.micros(),
        row.deadline.micros(),
        row.request,
        row.cancel,
    ]
}

/// Reads the columns of `LEASES` beginning at column `at`.
pub(crate) fn read_lease(row: &Row, at: usize) -> Res<LeaseRow> {
    rows::lease(&mut cols(row, "leases", at + 1))
}

/// The first page: by token, from the mark on, because before it may lie any number of removed rows
/// that cannot be cleared yet. In the order of runs, like the others: those that are there are sorted.
static FIRST_WITH_RUNS: LazyLock<String> = LazyLock::new(|| {
    let first = format!(
        "(SELECT * FROM duly.leases WHERE shard = $1 AND token >= {} ORDER BY shard, token)",
        starts::leases("$1")
    );
    format!("WITH l AS MATERIALIZED {first} {}", with_runs("l"))
});

/// Further pages, which only a shard with very many leases has: each begins where the one before it
/// ended, instead of sorting all of them again.
static NEXT_WITH_RUNS: LazyLock<String> = LazyLock::new(|| with_runs("duly.leases"));

fn with_runs(leases: &str) -> String {
    format!(
        "SELECT {}, {} FROM {leases} AS l JOIN duly.runs AS r ON r.id = l.run AND r.shard = l.shard
         WHERE l.shard = $1 AND l.run > $2 ORDER BY l.run LIMIT $3",
        LEASES.columns("l"),
        runs::RUNS.columns("r")
    )
}

/// Leases with their runs; one whose run is gone is passed over.
pub(crate) fn leases(
    conn: &mut Conn,
    shard: ShardId,
    after: Option<RunId>,
    limit: usize,
) -> Res<Vec<(LeaseRow, RunRow)>> {
    let sql = if after.is_none() { &FIRST_WITH_RUNS } else { &NEXT_WITH_RUNS };
    let after = after.map_or_else(|| ids::FIRST.to_vec(), |after| run_bytes(after).to_vec());
    let params: [Param<'_>; 3] =
        [(&i64::from(shard.0), Type::INT8), (&after, Type::BYTEA), (&bound(limit), Type::INT8)];
    let rows = conn.query(sql, &params)?;
    rows.iter().map(|row| Ok((read_lease(row, 0)?, runs::read(row, LEASES.width())?))).collect()
}

pub(crate) fn checkpoint_values(shard: ShardId, run: RunId, row: &CheckpointRow) -> Vec<Value> {
    values![shard.0, run_bytes(run).to_vec(), row.rev, &*row.bytes]
}

pub(crate) fn read_checkpoint(row: &Row, at: usize) -> Res<CheckpointRow> {
    let mut cols = cols(row, "checkpoints", at + 2);
    Ok(CheckpointRow { rev: cols.num()?, bytes: cols.bytes()? })
}

/// A scope as columns: what kind, whose, which queue. Their order is that of scopes.
pub(crate) fn scope_columns(scope: &Scope) -> (i64, u32, &str) {
    match scope {
        Scope::All => (0, 0, ""),
        Scope::Namespace(namespace) => (1, namespace.0, ""),
        Scope::Queue(namespace, queue) => (2, namespace.0, queue),
    }
}

pub(crate) fn hold_values(shard: ShardId, scope: &Scope, row: &HoldRow) -> Vec<Value> {
    let (kind, namespace, queue) = scope_columns(scope);
    values![shard.0, kind, namespace, queue, &*row.reason, row.until.map(Time::micros)]
}

pub(crate) fn holds(conn: &mut Conn, shard: ShardId) -> Res<Vec<(Scope, HoldRow)>> {
    const SQL: &str = "SELECT shard, scope, namespace, queue, reason, until FROM duly.holds
        WHERE shard = $1 ORDER BY scope, namespace, queue";
    let rows = conn.query(SQL, &[(&i64::from(shard.0), Type::INT8)])?;
    rows.iter().map(|row| read_hold(row, 0)).collect()
}

pub(crate) fn read_hold(row: &Row, at: usize) -> Res<(Scope, HoldRow)> {
    let mut cols = cols(row, "holds", at + 1);
    let kind = cols.int()?;
    let (namespace, queue) = (Namespace(cols.num()?), cols.text()?);
    let scope = match kind {
        0 => Scope::All,
        1 => Scope::Namespace(namespace),
        2 => Scope::Queue(namespace, queue),
        _ => return Err(cols.odd_before(2)),
    };
    Ok((scope, HoldRow { reason: cols.text()?, until: cols.opt_time()? }))
}
