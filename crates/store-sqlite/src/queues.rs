//! What queues allow.

use crate::cols::cols;
use crate::error::Res;
use crate::runs;
use crate::table::{Prepared, Shape, Table};
use model::id::ShardId;
use model::row::{Expect, Row};
use model::{Namespace, QueueRow, Span, Text};
use rusqlite::{Connection, params};
use std::sync::LazyLock;
use store::codec::queues::{queue, rate_columns, weights_text};

const VALUES: [&str; 11] = [
    "rev",
    "max_running",
    "rate_starts",
    "rate_per",
    "rate_burst",
    "group_max_running",
    "group_rate_starts",
    "group_rate_per",
    "group_rate_burst",
    "weights",
    "start_within",
];

pub(crate) static QUEUES: LazyLock<Table> = LazyLock::new(|| {
    Table::new(&Shape {
        name: "queues",
        key: &["shard", "namespace", "queue"],
        values: &VALUES,
        kept: &[],
        rev: true,
    })
});

pub(crate) static OF_SHARD: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT shard, namespace, queue, {} FROM queues WHERE shard = ?1 ORDER BY namespace, queue",
        VALUES.join(", ")
    )
});

pub(crate) fn put(
    conn: &Prepared<'_>,
    shard: ShardId,
    (namespace, queue): (Namespace, &Text),
    row: Option<&QueueRow>,
    expect: Expect,
) -> Res<bool> {
    let key = params![shard.0, namespace.0, &**queue];
    let Some(row) = row else { return QUEUES.put(conn, key, None, expect) };
    let (starts, per, burst) = rate_columns(row.rate);
    let (group_starts, group_per, group_burst) = rate_columns(row.group_rate);
    let values = params![
        row.rev,
        row.max_running,
        starts,
        per,
        burst,
        row.group_max_running,
        group_starts,
        group_per,
        group_burst,
        weights_text(&row.weights),
        row.start_within.map(Span::micros),
    ];
    QUEUES.put(conn, key, Some(values), expect)
}

pub(crate) fn get(
    conn: &Connection,
    shard: ShardId,
    namespace: Namespace,
    queue: &Text,
) -> Res<Option<Row>> {
    QUEUES.get(conn, params![shard.0, namespace.0, &**queue], |row| {
        read(row).map(|(_, row)| Row::Queue(row))
    })
}

pub(crate) fn all(conn: &Connection, shard: ShardId) -> Res<Vec<((Namespace, Text), QueueRow)>> {
    runs::list(conn, &OF_SHARD, params![shard.0], read)
}

pub(crate) fn read(row: &rusqlite::Row<'_>) -> Res<((Namespace, Text), QueueRow)> {
    let mut cols = cols(row, "queues", 1);
    let place = (Namespace(cols.num()?), cols.text()?);
    Ok((place, queue(&mut cols)?))
}
