//! A page of the wheel: runs, jobs and backlogs that wait for an instant, merged in the order
//! (bucket, key). In one bucket runs come first, then jobs, then backlogs.
//!
//! Statements are stepped row by row and left when the page is full, so a page costs what it
//! looks at and never the whole bucket.

use crate::error::Res;
use crate::{jobs, runs};
use model::Time;
use model::id::ShardId;
use model::read::{Bucket, Page, WheelCursor, WheelKey};
use model::row::Row;
use rusqlite::{Connection, Rows, params};
use std::sync::LazyLock;
use store::codec::ids::{self, FIRST, LAST};

/// A page reads at most so many rows for each that it may return. An hour's bucket may hold a
/// million rows of which few are due soon.
const EXAMINED_PER_ROW: usize = 16;

pub(crate) static RUNS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT bucket, id, due, {} FROM runs AS r WHERE shard = ?1
         AND (bucket, id) > (?2, ?3) AND bucket < ?4 ORDER BY bucket, id",
        runs::columns("r")
    )
});
pub(crate) const JOBS: &str =
    "SELECT bucket, id, due FROM jobs INDEXED BY jobs_wheel WHERE shard = ?1
    AND bucket IS NOT NULL AND (bucket, id) > (?2, ?3) AND bucket < ?4 ORDER BY bucket, id";
pub(crate) const BACKLOGS: &str = "SELECT bucket, id, due FROM backlogs INDEXED BY backlogs_wheel
    WHERE shard = ?1 AND (bucket, id) > (?2, ?3) AND bucket < ?4 ORDER BY bucket, id";

/// Where each kind begins: strictly after this bucket and id.
fn start(first: Bucket, after: Option<WheelCursor>) -> [(i64, Vec<u8>); 3] {
    let Some(after) = after.filter(|after| after.bucket >= first) else {
        return [0; 3].map(|_| (first.start.micros(), FIRST.to_vec()));
    };
    let (all, none) = (FIRST.to_vec(), LAST.to_vec());
    let ids = match after.key {
        WheelKey::Run(id) => [ids::run_bytes(id).to_vec(), all.clone(), all],
        WheelKey::Job(id) => [none, ids::job_bytes(id).to_vec(), all],
        WheelKey::Backlog(id) => [none.clone(), none, ids::backlog_bytes(id).to_vec()],
    };
    ids.map(|id| (after.bucket.start.micros(), id))
}

/// The head of one of the three statements.
struct Head {
    bucket: i64,
    key: WheelKey,
    due: Time,
    /// A run is read with its place; the others are fetched when they are wanted.
    run: Option<Row>,
}

fn next(rows: &mut Rows<'_>, kind: usize, window: &std::ops::Range<Time>) -> Res<Option<Head>> {
    let Some(row) = rows.next()? else { return Ok(None) };
    let table = ["runs", "jobs", "backlogs"][kind];
    let mut cols = crate::cols::cols(row, table, 0);
    let bucket = cols.int()?;
    let key = match kind {
        0 => WheelKey::Run(cols.run()?),
        1 => WheelKey::Job(cols.job()?),
        _ => WheelKey::Backlog(cols.backlog()?),
    };
    let due = cols.time()?;
    let wanted = kind == 0 && window.contains(&due);
    let run = if wanted { Some(Row::Run(runs::read(row, 3)?)) } else { None };
    Ok(Some(Head { bucket, key, due, run }))
}

pub(crate) fn page(
    conn: &Connection,
    shard: ShardId,
    window: std::ops::Range<Time>,
    after: Option<WheelCursor>,
    limit: usize,
) -> Res<Page> {
    // Every page makes progress: one that returns nothing could not be told from the end.
    let limit = limit.max(1);
    let [run, job, backlog] = start(Bucket::earliest(window.start), after);
    let before = window.end.micros();
    let mut statements =
        [conn.prepare_cached(&RUNS)?, conn.prepare_cached(JOBS)?, conn.prepare_cached(BACKLOGS)?];
    let [runs, jobs, backlogs] = &mut statements;
    let mut rows = [
        runs.query(params![shard.0, run.0, run.1, before])?,
        jobs.query(params![shard.0, job.0, job.1, before])?,
        backlogs.query(params![shard.0, backlog.0, backlog.1, before])?,
    ];
    let mut heads: [Option<Head>; 3] = [None, None, None];
    for (kind, head) in heads.iter_mut().enumerate() {
        *head = next(&mut rows[kind], kind, &window)?;
    }
    let (mut found, mut examined, mut last) = (Vec::new(), 0, None);
    while found.len() < limit && examined < limit.saturating_mul(EXAMINED_PER_ROW) {
        // In one bucket the first kind wins, which is the order of keys.
        let first =
            (0..3).filter_map(|kind| heads[kind].as_ref().map(|head| (head.bucket, kind))).min();
        let Some((_, kind)) = first else { break };
        let following = next(&mut rows[kind], kind, &window)?;
        let Some(head) = std::mem::replace(&mut heads[kind], following) else { break };
        examined += 1;
        last = Some(WheelCursor {
            bucket: Bucket { start: Time::from_micros(head.bucket) },
            key: head.key,
        });
        if window.contains(&head.due) {
            let row = match head.key {
                WheelKey::Run(_) => head.run,
                WheelKey::Job(id) => jobs::get_job(conn, shard, id)?,
                WheelKey::Backlog(id) => jobs::get_backlog(conn, shard, id)?,
            };
            found.extend(row);
        }
    }
    let more = heads.iter().any(Option::is_some);
    Ok(Page::Due { rows: found, next: last.filter(|_| more) })
}
