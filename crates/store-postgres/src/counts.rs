//! How long a queue is, up to a bound.

use crate::cols::cols;
use crate::conn::{Conn, Param};
use crate::error::Res;
use crate::runs::bound;
use model::id::SHARDS;
use model::{KeyId, Namespace, Slot, Span};
use store::search::{QueueCounts, QuotaCounts, SCAN_MAX};
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

/// One short look per shard: the index begins with it, and a plain join may read all that is ready.
const NAMESPACE: &str = "SELECT
    (SELECT count(*) FROM (SELECT 1 FROM generate_series(0, $3 - 1) AS s(shard), LATERAL (
       SELECT 1 FROM duly.runs AS r
       WHERE r.state = 2 AND r.shard = s.shard AND r.namespace = $1
         AND NOT EXISTS (SELECT 1 FROM duly.leases AS l WHERE l.shard = r.shard AND l.run = r.id)
       LIMIT $2) AS ready LIMIT $2) AS all_ready),
    (SELECT count(*) FROM (SELECT 1 FROM generate_series(0, $3 - 1) AS s(shard), LATERAL (
       SELECT 1 FROM duly.runs AS r
       WHERE r.state = 4 AND r.shard = s.shard AND r.namespace = $1
         AND NOT EXISTS (SELECT 1 FROM duly.leases AS l WHERE l.shard = r.shard AND l.run = r.id)
       LIMIT $2) AS retrying LIMIT $2) AS all_retrying),
    (SELECT count(*) FROM (SELECT 1 FROM duly.jobs
       WHERE namespace = $1 AND state IN (0, 1) LIMIT $2) AS living)";

/// How much a namespace has, up to a bound.
pub(crate) fn namespace(conn: &mut Conn, namespace: Namespace, limit: usize) -> Res<QuotaCounts> {
    let params: [Param<'_>; 3] = [
        (&i64::from(namespace.0), Type::INT8),
        (&bound(limit), Type::INT8),
        (&i64::from(SHARDS), Type::INT8),
    ];
    let rows = conn.query(NAMESPACE, &params)?;
    let Some(row) = rows.first() else { return Ok(QuotaCounts::default()) };
    let mut cols = cols(row, "runs", 0);
    let (ready, retrying, jobs): (usize, usize, usize) = (cols.num()?, cols.num()?, cols.num()?);
    Ok(QuotaCounts { waiting: (ready + retrying).min(limit), jobs })
}

/// What has a spec of its own (one-off jobs, and triggers with a payload), the other runs of recurring
/// jobs, by the version whose spec says so, and those jobs.
const KEY: &str = "SELECT
    (SELECT count(*) FROM (SELECT 1 FROM duly.runs AS r
       WHERE r.api_key = $1 AND r.state IN (2, 4)
         AND NOT EXISTS (SELECT 1 FROM duly.leases AS l WHERE l.shard = r.shard AND l.run = r.id)
       LIMIT $2) AS own),
    (SELECT count(*) FROM (SELECT 1 FROM duly.specs AS s, LATERAL (SELECT 1 FROM duly.runs AS r
       WHERE r.id > s.job AND r.id <= s.job || decode('ffffffffffffffff', 'hex')
         AND r.version = s.version AND r.api_key IS NULL AND r.state IN (2, 4)
         AND NOT EXISTS (SELECT 1 FROM duly.leases AS l WHERE l.shard = r.shard AND l.run = r.id)
       LIMIT $2) AS of_job WHERE s.api_key = $1 LIMIT $2) AS of_jobs),
    (SELECT count(*) FROM (SELECT 1 FROM duly.specs AS s
       JOIN duly.jobs AS j ON j.id = s.job AND j.version = s.version
       WHERE s.api_key = $1 AND j.state IN (0, 1) LIMIT $2) AS living)";

/// What was made with an API key, up to a bound.
pub(crate) fn key(conn: &mut Conn, key: KeyId, limit: usize) -> Res<QuotaCounts> {
    let bits = key.bits() as i64;
    let params: [Param<'_>; 2] = [(&bits, Type::INT8), (&bound(limit), Type::INT8)];
    let rows = conn.query(KEY, &params)?;
    let Some(row) = rows.first() else { return Ok(QuotaCounts::default()) };
    let mut cols = cols(row, "runs", 0);
    let (own, of_jobs, jobs): (usize, usize, usize) = (cols.num()?, cols.num()?, cols.num()?);
    Ok(QuotaCounts { waiting: (own + of_jobs).min(limit), jobs })
}

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
    let mut cols = cols(row, "runs", 0);
    Ok(QueueCounts {
        ready: cols.num()?,
        running: cols.num()?,
        retrying: cols.num()?,
        dead: cols.num()?,
        due_soon: cols.num()?,
        oldest_ready: cols.opt_time()?,
    })
}
