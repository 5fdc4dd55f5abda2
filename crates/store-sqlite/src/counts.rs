//! How long a queue is, up to a bound; and the end of history, in slices.

use crate::cols::cols;
use crate::error::Res;
use crate::runs::bound;
use crate::{history, runs};
use model::id::SHARDS;
use model::{KeyId, Namespace, Slot, Time};
use rusqlite::{Connection, params};
use store::codec::ids;
use store::search::filter::is_failure;
use store::search::{Prune, Pruned, QueueCounts, QuotaCounts, SCAN_MAX};

pub(crate) const READY: &str = "SELECT count(*) FROM (SELECT 1 FROM runs AS r INDEXED BY runs_ready
       WHERE r.state = 2 AND r.shard = ?1 AND r.namespace = ?2 AND r.queue = ?3
         AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.shard = r.shard AND l.run = r.id)
       LIMIT ?4)";
pub(crate) const OLDEST: &str =
    "SELECT min(due) FROM (SELECT due FROM runs AS r INDEXED BY runs_ready
       WHERE r.state = 2 AND r.shard = ?1 AND r.namespace = ?2 AND r.queue = ?3
         AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.shard = r.shard AND l.run = r.id)
       LIMIT ?4)";
pub(crate) const RETRYING: &str =
    "SELECT count(*) FROM (SELECT 1 FROM runs AS r INDEXED BY runs_retrying
       WHERE r.state = 4 AND r.shard = ?1 AND r.namespace = ?2 AND r.queue = ?3
         AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.shard = r.shard AND l.run = r.id)
       LIMIT ?4)";
pub(crate) const DEAD: &str = "SELECT count(*) FROM (SELECT 1 FROM runs AS r INDEXED BY runs_dead
       WHERE r.state = 5 AND r.namespace = ?2 AND r.shard = ?1 AND r.queue = ?3 LIMIT ?4)";
pub(crate) const RUNNING: &str = "SELECT count(*) FROM (SELECT 1 FROM leases AS l
         CROSS JOIN runs AS r INDEXED BY runs_id ON r.id = l.run AND r.shard = l.shard
       WHERE l.shard = ?1 AND r.namespace = ?2 AND r.queue = ?3 LIMIT ?4)";
pub(crate) const SOON: &str = "SELECT count(*) FROM (SELECT 1 FROM runs AS r
       WHERE r.shard = ?1 AND r.bucket < ?5 AND r.due < ?5 AND r.state IN (0, 4)
         AND r.namespace = ?2 AND r.queue = ?3
         AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.shard = r.shard AND l.run = r.id)
       LIMIT ?4)";

/// A queue lives in one shard while it has one partition.
pub(crate) fn queue(
    conn: &Connection,
    namespace: Namespace,
    queue: &str,
    until: Time,
) -> Res<QueueCounts> {
    let shard = Slot::of(namespace, queue, 0).shard();
    let limit = bound(SCAN_MAX);
    let count = |sql: &str| -> Res<usize> {
        let mut statement = conn.prepare_cached(sql)?;
        let count: i64 =
            statement.query_row(params![shard.0, namespace.0, queue, limit], |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or(0))
    };
    let mut statement = conn.prepare_cached(SOON)?;
    let soon: i64 = statement
        .query_row(params![shard.0, namespace.0, queue, limit, until.micros()], |row| row.get(0))?;
    let mut statement = conn.prepare_cached(OLDEST)?;
    let oldest: Option<i64> =
        statement.query_row(params![shard.0, namespace.0, queue, limit], |row| row.get(0))?;
    Ok(QueueCounts {
        ready: count(READY)?,
        running: count(RUNNING)?,
        retrying: count(RETRYING)?,
        dead: count(DEAD)?,
        due_soon: usize::try_from(soon).unwrap_or(0),
        oldest_ready: oldest.map(Time::from_micros),
    })
}

pub(crate) const WAITING: [&str; 2] = [
    "SELECT count(*) FROM (SELECT 1 FROM runs AS r INDEXED BY runs_ready
       WHERE r.state = 2 AND r.shard = ?1 AND r.namespace = ?2
         AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.shard = r.shard AND l.run = r.id)
       LIMIT ?3)",
    "SELECT count(*) FROM (SELECT 1 FROM runs AS r INDEXED BY runs_retrying
       WHERE r.state = 4 AND r.shard = ?1 AND r.namespace = ?2
         AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.shard = r.shard AND l.run = r.id)
       LIMIT ?3)",
];
/// Narrow rows without an index by namespace: this looks at all jobs, which is why it is asked seldom.
const LIVING_JOBS: &str = "SELECT count(*) FROM (SELECT 1 FROM jobs
       WHERE namespace = ?1 AND state IN (0, 1) LIMIT ?2)";

/// How much a namespace has, up to a bound.
pub(crate) fn namespace(conn: &Connection, namespace: Namespace, limit: usize) -> Res<QuotaCounts> {
    let mut waiting = 0;
    for sql in WAITING {
        let mut statement = conn.prepare_cached(sql)?;
        for shard in 0..SHARDS {
            let params = params![shard, namespace.0, bound(limit.saturating_sub(waiting))];
            let count: i64 = statement.query_row(params, |row| row.get(0))?;
            waiting += usize::try_from(count).unwrap_or(0);
        }
    }
    let mut statement = conn.prepare_cached(LIVING_JOBS)?;
    let jobs: i64 = statement.query_row(params![namespace.0, bound(limit)], |row| row.get(0))?;
    Ok(QuotaCounts { waiting, jobs: usize::try_from(jobs).unwrap_or(0) })
}

/// What has a spec of its own: one-off jobs, and triggers with a payload.
pub(crate) const KEY_OWN: &str = "SELECT count(*) FROM (SELECT 1 FROM runs AS r INDEXED BY runs_key
       WHERE r.api_key = ?1 AND r.state IN (2, 4)
         AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.shard = r.shard AND l.run = r.id)
       LIMIT ?2)";
/// The other runs of one version of a recurring job.
pub(crate) const KEY_OF_JOB: &str =
    "SELECT count(*) FROM (SELECT 1 FROM runs AS r INDEXED BY runs_id
       WHERE r.id > ?1 AND r.id <= ?2 AND r.version = ?3 AND r.api_key IS NULL
         AND r.state IN (2, 4)
         AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.shard = r.shard AND l.run = r.id)
       LIMIT ?4)";
pub(crate) const KEY_SPECS: &str = "SELECT s.shard, s.job, s.version, j.state
       FROM specs AS s INDEXED BY specs_key
         LEFT JOIN jobs AS j ON j.shard = s.shard AND j.id = s.job AND j.version = s.version
       WHERE s.api_key = ?1";

/// What was made with an API key, up to a bound.
pub(crate) fn key(conn: &Connection, key: KeyId, limit: usize) -> Res<QuotaCounts> {
    let bits = key.bits() as i64;
    let mut statement = conn.prepare_cached(KEY_OWN)?;
    let own: i64 = statement.query_row(params![bits, bound(limit)], |row| row.get(0))?;
    let (mut waiting, mut jobs) = (usize::try_from(own).unwrap_or(0), 0);
    let mut of_job = conn.prepare_cached(KEY_OF_JOB)?;
    let mut specs = conn.prepare_cached(KEY_SPECS)?;
    let mut rows = specs.query(params![bits])?;
    while (waiting < limit || jobs < limit)
        && let Some(row) = rows.next()?
    {
        let mut cols = cols(row, "specs", 1);
        let (job, version): (_, u32) = (cols.job()?, cols.num()?);
        let is_living = matches!(cols.opt_int()?, Some(0 | 1));
        jobs = jobs.saturating_add(is_living.into()).min(limit);
        let left = bound(limit.saturating_sub(waiting));
        let params = params![ids::job_bytes(job), ids::last_of(job), version, left];
        let count: i64 = of_job.query_row(params, |row| row.get(0))?;
        waiting += usize::try_from(count).unwrap_or(0);
    }
    Ok(QuotaCounts { waiting, jobs })
}

pub(crate) const OLD: &str = "SELECT shard, run, token, hid, finished, status FROM history
       WHERE hid > ?1 ORDER BY hid LIMIT ?2";

/// In the writer's transaction.
pub(crate) fn prune(conn: &Connection, prune: &Prune) -> Res<Pruned> {
    let params = params![prune.after as i64, bound(prune.limit)];
    let rows = runs::list(conn, OLD, params, |row| {
        let mut cols = cols(row, "history", 3);
        Ok((cols.int()?, cols.time()?, cols.code::<model::Status>()?))
    })?;
    let newest = prune.before.max(prune.failures_before);
    let (mut removed, mut next) = (0, None);
    for (hid, finished, status) in &rows {
        if *finished >= newest {
            return Ok(Pruned { removed, next: None });
        }
        next = Some(*hid as u64);
        let before = if is_failure(*status) { prune.failures_before } else { prune.before };
        if *finished < before {
            removed += 1;
            conn.prepare_cached(history::REMOVE)?.execute([hid])?;
        }
    }
    Ok(Pruned { removed, next: next.filter(|_| rows.len() == prune.limit) })
}

/// Pages that hold something. The file itself does not shrink: what is removed makes room inside.
pub(crate) fn used_bytes(conn: &Connection) -> Res<u64> {
    let number =
        |name: &str| -> Res<i64> { Ok(conn.pragma_query_value(None, name, |row| row.get(0))?) };
    let pages = number("page_count")?.saturating_sub(number("freelist_count")?);
    Ok(u64::try_from(pages.saturating_mul(number("page_size")?)).unwrap_or(0))
}
