//! A page of the wheel: runs, jobs and backlogs that wait for an instant, merged in the order
//! (bucket, key). In one bucket runs come first, then jobs, then backlogs.
//!
//! There are no cursors behind a pooler, so places are read in portions as large as the page, and
//! the rows that are due are fetched by their keys.

use crate::cols::cols;
use crate::conn::{Conn, Param};
use crate::error::Res;
use crate::limits::EXAMINED_PER_ROW;
use crate::read;
use crate::runs::bound;
use model::Time;
use model::id::ShardId;
use model::read::{Bucket, Page, WheelCursor, WheelKey};
use model::row::Key;
use std::ops::Range;
use store::codec::ids::{self, FIRST, LAST};
use tokio_postgres::types::Type;

const PLACES: &str = "SELECT kind, bucket, id, due FROM (
      (SELECT 0 AS kind, bucket, id, due FROM duly.runs WHERE shard = $1 AND bucket IS NOT NULL
         AND (bucket, id) > ($2, $3) AND bucket < $6 ORDER BY bucket, id LIMIT $7)
      UNION ALL
      (SELECT 1, bucket, id, due FROM duly.jobs WHERE shard = $1 AND bucket IS NOT NULL
         AND (bucket, id) > ($2, $4) AND bucket < $6 ORDER BY bucket, id LIMIT $7)
      UNION ALL
      (SELECT 2, bucket, id, due FROM duly.backlogs WHERE shard = $1
         AND (bucket, id) > ($2, $5) AND bucket < $6 ORDER BY bucket, id LIMIT $7)) AS places
    ORDER BY bucket, kind, id LIMIT $7";

/// Where each kind begins: strictly after this bucket and id.
fn start(first: Bucket, after: Option<WheelCursor>) -> (i64, [Vec<u8>; 3]) {
    let Some(after) = after.filter(|after| after.bucket >= first) else {
        return (first.start.micros(), [FIRST.to_vec(), FIRST.to_vec(), FIRST.to_vec()]);
    };
    let (all, none) = (FIRST.to_vec(), LAST.to_vec());
    let ids = match after.key {
        WheelKey::Run(id) => [ids::run_bytes(id).to_vec(), all.clone(), all],
        WheelKey::Job(id) => [none, ids::job_bytes(id).to_vec(), all],
        WheelKey::Backlog(id) => [none.clone(), none, ids::backlog_bytes(id).to_vec()],
    };
    (after.bucket.start.micros(), ids)
}

/// The next places after a cursor, at most `limit`.
fn places(
    conn: &mut Conn,
    shard: ShardId,
    window: &Range<Time>,
    after: Option<WheelCursor>,
    limit: usize,
) -> Res<Vec<(WheelCursor, Time)>> {
    let (bucket, [runs, jobs, backlogs]) = start(Bucket::earliest(window.start), after);
    let params: [Param<'_>; 7] = [
        (&i64::from(shard.0), Type::INT8),
        (&bucket, Type::INT8),
        (&runs, Type::BYTEA),
        (&jobs, Type::BYTEA),
        (&backlogs, Type::BYTEA),
        (&window.end.micros(), Type::INT8),
        (&bound(limit), Type::INT8),
    ];
    let rows = conn.query(PLACES, &params)?;
    rows.iter()
        .map(|row| {
            let mut cols = cols(row, "the wheel", 0);
            let kind = cols.int()?;
            let bucket = Bucket { start: cols.time()? };
            let key = match kind {
                0 => WheelKey::Run(cols.run()?),
                1 => WheelKey::Job(cols.job()?),
                _ => WheelKey::Backlog(cols.backlog()?),
            };
            Ok((WheelCursor { bucket, key }, cols.time()?))
        })
        .collect()
}

pub(crate) fn page(
    conn: &mut Conn,
    shard: ShardId,
    window: Range<Time>,
    after: Option<WheelCursor>,
    limit: usize,
) -> Res<Page> {
    // Every page makes progress: one that returns nothing could not be told from the end.
    let limit = limit.max(1);
    let (mut keys, mut examined, mut last, mut more) = (Vec::new(), 0, after, true);
    while more && keys.len() < limit && examined < limit.saturating_mul(EXAMINED_PER_ROW) {
        // One more than may be returned tells whether there is more.
        let portion = limit.saturating_add(1);
        let found = places(conn, shard, &window, last, portion)?;
        more = found.len() == portion;
        let mut found = found.into_iter();
        for (cursor, due) in found.by_ref().take(limit) {
            examined += 1;
            last = Some(cursor);
            if window.contains(&due) {
                keys.push(match cursor.key {
                    WheelKey::Run(id) => Key::Run(id),
                    WheelKey::Job(id) => Key::Job(id),
                    WheelKey::Backlog(id) => Key::Backlog(id),
                });
                if keys.len() == limit {
                    break;
                }
            }
        }
        more |= found.next().is_some();
    }
    let rows = read::rows(conn, shard, &keys)?.into_iter().flatten().collect();
    Ok(Page::Due { rows, next: last.filter(|_| more) })
}
