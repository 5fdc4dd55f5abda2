//! Small tables around runs: leases, checkpoints, holds.

use crate::cols::cols;
use crate::error::Res;
use crate::runs;
use crate::table::{Prepared, Shape, Table};
use model::id::ShardId;
use model::row::{CheckpointRow, Expect, HoldRow, Holder, LeaseRow, Row, RunRow, Scope};
use model::{Namespace, RunId, Text, Time};
use rusqlite::{Connection, params};
use std::sync::LazyLock;
use store::codec::ids::{self, run_bytes};
use store::codec::rows;

const LEASE_VALUES: [&str; 11] = [
    "rev", "attempt", "token", "worker", "node", "boot", "length", "started", "deadline",
    "request", "cancel",
];

pub(crate) static LEASES: LazyLock<Table> = LazyLock::new(|| {
    Table::new(&Shape {
        name: "leases",
        key: &["shard", "run"],
        values: &LEASE_VALUES,
        kept: &[],
        rev: true,
    })
});

pub(crate) static CHECKPOINTS: LazyLock<Table> = LazyLock::new(|| {
    Table::new(&Shape {
        name: "checkpoints",
        key: &["shard", "run"],
        values: &["rev", "bytes"],
        kept: &[],
        rev: true,
    })
});

pub(crate) static HOLDS: LazyLock<Table> = LazyLock::new(|| {
    Table::new(&Shape {
        name: "holds",
        key: &["shard", "scope", "namespace", "queue"],
        values: &["reason", "until"],
        kept: &[],
        rev: false,
    })
});

pub(crate) fn put_lease(
    conn: &Prepared<'_>,
    shard: ShardId,
    run: RunId,
    row: Option<&LeaseRow>,
    expect: Expect,
) -> Res<bool> {
    let run = run_bytes(run);
    let key = params![shard.0, run];
    let Some(row) = row else { return LEASES.put(conn, key, None, expect) };
    let (worker, node) = match &row.holder {
        Holder::Worker(worker) => (Some(&**worker), None),
        Holder::Node(node) => (None, Some(node)),
    };
    let values = params![
        row.rev,
        row.attempt,
        row.token.0 as i64,
        worker,
        node.map(|node| node.node),
        node.map(|node| node.boot as i64),
        row.length.micros(),
        row.started.micros(),
        row.deadline.micros(),
        row.request as i64,
        row.cancel,
    ];
    LEASES.put(conn, key, Some(values), expect)
}

pub(crate) fn get_lease(conn: &Connection, shard: ShardId, run: RunId) -> Res<Option<Row>> {
    LEASES.get(conn, params![shard.0, run_bytes(run)], |row| read_lease(row).map(Row::Lease))
}

pub(crate) fn read_lease(row: &rusqlite::Row<'_>) -> Res<LeaseRow> {
    rows::lease(&mut cols(row, "leases", 1))
}

pub(crate) static WITH_RUNS: LazyLock<String> = LazyLock::new(|| {
    let lease: Vec<String> = LEASE_VALUES.iter().map(|name| format!("l.{name}")).collect();
    format!(
        "SELECT l.shard, l.run, {}, {} FROM leases AS l
             CROSS JOIN runs AS r INDEXED BY runs_id ON r.id = l.run AND r.shard = l.shard
             WHERE l.shard = ?1 AND l.run > ?2 ORDER BY l.run LIMIT ?3",
        lease.join(", "),
        runs::columns("r")
    )
});

/// Leases with their runs; one whose run is gone is passed over.
pub(crate) fn leases(
    conn: &Connection,
    shard: ShardId,
    after: Option<RunId>,
    limit: usize,
) -> Res<Vec<(LeaseRow, RunRow)>> {
    let after = after.map_or_else(|| ids::FIRST.to_vec(), |after| run_bytes(after).to_vec());
    runs::list(conn, &WITH_RUNS, params![shard.0, after, runs::bound(limit)], |row| {
        Ok((read_lease(row)?, runs::read(row, 2 + LEASE_VALUES.len())?))
    })
}

pub(crate) fn put_checkpoint(
    conn: &Prepared<'_>,
    shard: ShardId,
    run: RunId,
    row: Option<&CheckpointRow>,
    expect: Expect,
) -> Res<bool> {
    let run = run_bytes(run);
    let key = params![shard.0, run];
    let Some(row) = row else { return CHECKPOINTS.put(conn, key, None, expect) };
    CHECKPOINTS.put(conn, key, Some(params![row.rev, &*row.bytes]), expect)
}

pub(crate) fn get_checkpoint(conn: &Connection, shard: ShardId, run: RunId) -> Res<Option<Row>> {
    CHECKPOINTS.get(conn, params![shard.0, run_bytes(run)], |row| {
        let mut cols = cols(row, "checkpoints", 2);
        Ok(Row::Checkpoint(CheckpointRow { rev: cols.num()?, bytes: cols.bytes()? }))
    })
}

/// A scope as columns: what kind, whose, which queue. Their order is that of scopes.
fn scope_columns(scope: &Scope) -> (i64, u32, &str) {
    match scope {
        Scope::All => (0, 0, ""),
        Scope::Namespace(namespace) => (1, namespace.0, ""),
        Scope::Queue(namespace, queue) => (2, namespace.0, queue),
    }
}

pub(crate) fn put_hold(
    conn: &Prepared<'_>,
    shard: ShardId,
    scope: &Scope,
    row: Option<&HoldRow>,
    expect: Expect,
) -> Res<bool> {
    let (kind, namespace, queue) = scope_columns(scope);
    let key = params![shard.0, kind, namespace, queue];
    let Some(row) = row else { return HOLDS.put(conn, key, None, expect) };
    HOLDS.put(conn, key, Some(params![&*row.reason, row.until.map(Time::micros)]), expect)
}

pub(crate) fn get_hold(conn: &Connection, shard: ShardId, scope: &Scope) -> Res<Option<Row>> {
    let (kind, namespace, queue) = scope_columns(scope);
    HOLDS.get(conn, params![shard.0, kind, namespace, queue], |row| {
        read_hold(row).map(|(_, hold)| Row::Hold(hold))
    })
}

pub(crate) fn holds(conn: &Connection, shard: ShardId) -> Res<Vec<(Scope, HoldRow)>> {
    const SQL: &str = "SELECT shard, scope, namespace, queue, reason, until FROM holds
        WHERE shard = ?1 ORDER BY scope, namespace, queue";
    runs::list(conn, SQL, params![shard.0], read_hold)
}

pub(crate) fn read_hold(row: &rusqlite::Row<'_>) -> Res<(Scope, HoldRow)> {
    let mut cols = cols(row, "holds", 1);
    let kind = cols.int()?;
    let (namespace, queue): (_, Text) = (Namespace(cols.num()?), cols.text()?);
    let scope = match kind {
        0 => Scope::All,
        1 => Scope::Namespace(namespace),
        2 => Scope::Queue(namespace, queue),
        _ => return Err(cols.odd_before(2)),
    };
    Ok((scope, HoldRow { reason: cols.text()?, until: cols.opt_time()? }))
}
