//! How long a queue is, up to a bound; the end of history, in slices; and how much is stored.

use crate::cols::Cols;
use crate::conn::{Conn, Param};
use crate::error::Res;
use crate::runs::bound;
use model::{Namespace, Slot, Span, Time};
use store::search::filter::is_failure;
use store::search::{Prune, Pruned, QueueCounts, SCAN_MAX};
use tokio_postgres::types::Type;

/// Claimed runs are running, whatever their row says.
const COUNTS: &str = "WITH
    ready AS (SELECT r.due FROM duly.runs AS r
       WHERE r.state = 2 AND r.shard = $1 AND r.namespace = $2 AND r.queue = $3
         AND NOT EXISTS (SELECT 1 FROM duly.leases AS l WHERE l.shard = r.shard AND l.run = r.id)
       LIMIT $4),
    retrying AS (SELECT 1 FROM duly.runs AS r
       WHERE r.state = 4 AND r.shard = $1 AND r.namespace = $2 AND r.queue = $3
         AND NOT EXISTS (SELECT 1 FROM duly.leases AS l WHERE l.shard = r.shard AND l.run = r.id)
       LIMIT $4),
    dead AS (SELECT 1 FROM duly.runs AS r
       WHERE r.state = 5 AND r.namespace = $2 AND r.shard = $1 AND r.queue = $3 LIMIT $4),
    running AS (SELECT 1 FROM duly.leases AS l
       JOIN duly.runs AS r ON r.id = l.run AND r.shard = l.shard
       WHERE l.shard = $1 AND r.namespace = $2 AND r.queue = $3 LIMIT $4),
    soon AS (SELECT 1 FROM duly.runs AS r
       WHERE r.shard = $1 AND r.bucket < duly.clock() + $5 AND r.due < duly.clock() + $5
         AND r.bucket IS NOT NULL AND r.state IN (0, 4) AND r.namespace = $2 AND r.queue = $3
         AND NOT EXISTS (SELECT 1 FROM duly.leases AS l WHERE l.shard = r.shard AND l.run = r.id)
       LIMIT $4)
    SELECT (SELECT count(*) FROM ready), (SELECT count(*) FROM running),
      (SELECT count(*) FROM retrying), (SELECT count(*) FROM dead), (SELECT count(*) FROM soon),
      (SELECT min(due) FROM ready)";

/// A queue lives in one shard while it has one partition.
pub(crate) fn queue(
    conn: &mut Conn,
    namespace: Namespace,
    queue: &str,
    soon: Span,
) -> Res<QueueCounts> {
    let shard = Slot::of(namespace, queue, 0).shard();
    let params: [Param<'_>; 5] = [
        (&i64::from(shard.0), Type::INT8),
        (&i64::from(namespace.0), Type::INT8),
        (&queue, Type::TEXT),
        (&bound(SCAN_MAX), Type::INT8),
        (&soon.micros(), Type::INT8),
    ];
    let rows = conn.query(COUNTS, &params)?;
    let Some(row) = rows.first() else { return Ok(QueueCounts::default()) };
    let mut cols = Cols::from(row, "runs", 0);
    Ok(QueueCounts {
        ready: cols.num()?,
        running: cols.num()?,
        retrying: cols.num()?,
        dead: cols.num()?,
        due_soon: cols.num()?,
        oldest_ready: cols.opt_time()?,
    })
}

const OLD: &str = "SELECT hid, finished, status FROM duly.history
    WHERE hid > $1 ORDER BY hid LIMIT $2";
const REMOVE: &str = "WITH gone AS (
      DELETE FROM duly.history WHERE hid = ANY ($1) RETURNING bytes)
    UPDATE duly.meta SET pruned_bytes = pruned_bytes + (SELECT coalesce(sum(bytes), 0) FROM gone)";

/// In a transaction.
pub(crate) fn prune(conn: &mut Conn, prune: &Prune) -> Res<Pruned> {
    let params: [Param<'_>; 2] =
        [(&(prune.after as i64), Type::INT8), (&bound(prune.limit), Type::INT8)];
    let rows = conn.query(OLD, &params)?;
    let newest = prune.before.max(prune.failures_before);
    let (mut gone, mut next) = (Vec::new(), None);
    for row in &rows {
        let mut cols = Cols::from(row, "history", 0);
        let (hid, finished): (i64, Time) = (cols.int()?, cols.time()?);
        let status: model::Status = cols.code()?;
        if finished >= newest {
            next = None;
            break;
        }
        next = Some(hid as u64).filter(|_| rows.len() == prune.limit);
        let before = if is_failure(status) { prune.failures_before } else { prune.before };
        if finished < before {
            gone.push(hid);
        }
    }
    if !gone.is_empty() {
        conn.query(REMOVE, &[(&gone, Type::INT8_ARRAY)])?;
    }
    Ok(Pruned { removed: gone.len(), next })
}

/// Live work as the server counts it, free room inside included, because it is soon used again; and
/// the rows of history, which is where free room stays.
const USED: &str = "SELECT (
      (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class AS c
       WHERE c.relnamespace = to_regnamespace('duly') AND c.relkind = 'r' AND c.relname <> 'history')
      + (SELECT sum(l.history_bytes) FROM duly.shards AS s CROSS JOIN LATERAL (
           SELECT c.history_bytes FROM duly.commits AS c WHERE c.shard = s.shard
           ORDER BY c.seq DESC LIMIT 1) AS l)
      - (SELECT pruned_bytes FROM duly.meta))::bigint";

pub(crate) fn used_bytes(conn: &mut Conn) -> Res<u64> {
    let rows = conn.query(USED, &[])?;
    let used = rows.first().map_or(Ok(0), |row| Cols::from(row, "the database", 0).int())?;
    Ok(u64::try_from(used).unwrap_or(0))
}
