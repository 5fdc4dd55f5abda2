//! What queues allow.

use crate::batch::{Value, values};
use crate::cols::cols;
use crate::conn::Conn;
use crate::error::Res;
use crate::table::Kind::{Int, Text as Words};
use crate::table::Table;
use model::id::ShardId;
use model::{Namespace, QueueRow, Span, Text};
use std::sync::LazyLock;
use store::codec::queues::{queue, rate_columns, weights_text};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

pub(crate) static QUEUES: Table = Table {
    name: "queues",
    key: &[("shard", Int), ("namespace", Int), ("queue", Words)],
    values: &[
        ("rev", Int),
        ("max_running", Int),
        ("rate_starts", Int),
        ("rate_per", Int),
        ("rate_burst", Int),
        ("group_max_running", Int),
        ("group_rate_starts", Int),
        ("group_rate_per", Int),
        ("group_rate_burst", Int),
        ("weights", Words),
        ("start_within", Int),
    ],
    kept: &[],
    made: &[],
    rev: true,
};

/// Version 3, of which older nodes notice nothing: they keep no limit.
pub(crate) const STEP_3: &str = r#"
ALTER TABLE duly.runs ADD COLUMN IF NOT EXISTS start_by bigint, ADD COLUMN IF NOT EXISTS finish_by bigint;
COMMENT ON COLUMN duly.runs.start_by IS 'not started by then it expires; NULL = never';
COMMENT ON COLUMN duly.runs.finish_by IS 'not done by then it expires; NULL = never';
CREATE TABLE IF NOT EXISTS duly.queues (
  shard smallint NOT NULL,
  namespace bigint NOT NULL,
  queue text COLLATE "C" NOT NULL,
  rev bigint NOT NULL,
  max_running bigint,
  rate_starts bigint,
  rate_per bigint,
  rate_burst bigint,
  group_max_running bigint,
  group_rate_starts bigint,
  group_rate_per bigint,
  group_rate_burst bigint,
  weights text COLLATE "C" NOT NULL,
  PRIMARY KEY (shard, namespace, queue)
);
COMMENT ON TABLE duly.queues IS 'What a queue allows; one without a row allows everything.';
COMMENT ON COLUMN duly.queues.max_running IS 'attempts at the same time; NULL = any number';
COMMENT ON COLUMN duly.queues.rate_starts IS 'starts in rate_per microseconds, and rate_burst at once after a pause; NULL = any number';
COMMENT ON COLUMN duly.queues.group_max_running IS 'this and the next three: for each group of the queue';
COMMENT ON COLUMN duly.queues.weights IS 'starts in a group''s turn: weight bytes group, one per line';
"#;

/// Version 4. Older nodes keep no service level.
pub(crate) const STEP_4: &str = r#"
ALTER TABLE duly.queues ADD COLUMN IF NOT EXISTS start_within bigint;
COMMENT ON COLUMN duly.queues.start_within IS 'microseconds in which a run that is ready should start; NULL = no service level';
"#;

pub(crate) fn row_values(
    shard: ShardId,
    namespace: Namespace,
    queue: &Text,
    row: &QueueRow,
) -> Vec<Value> {
    let (starts, per, burst) = rate_columns(row.rate);
    let (group_starts, group_per, group_burst) = rate_columns(row.group_rate);
    let weights = weights_text(&row.weights);
    values![
        shard.0,
        namespace.0,
        &**queue,
        row.rev,
        row.max_running,
        starts,
        per,
        burst,
        row.group_max_running,
        group_starts,
        group_per,
        group_burst,
        &*weights,
        row.start_within.map(Span::micros),
    ]
}

static OF_SHARD: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM duly.queues AS q WHERE q.shard = $1 ORDER BY q.namespace, q.queue",
        QUEUES.columns("q")
    )
});

pub(crate) fn all(conn: &mut Conn, shard: ShardId) -> Res<Vec<((Namespace, Text), QueueRow)>> {
    let rows = conn.query(&OF_SHARD, &[(&i64::from(shard.0), Type::INT8)])?;
    rows.iter().map(|row| read(row, 0)).collect()
}

pub(crate) fn read(row: &Row, at: usize) -> Res<((Namespace, Text), QueueRow)> {
    let mut cols = cols(row, "queues", at + 1);
    let place = (Namespace(cols.num()?), cols.text()?);
    Ok((place, queue(&mut cols)?))
}
