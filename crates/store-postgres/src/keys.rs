//! Idempotency keys: one table per day, three of them, emptied whole.
//!
//! A row carries the day it was made on, by the store's clock, and counts through that day and the
//! next: 24 to 48 hours, whenever its table is emptied. A key of day d lies in table d mod 3, so on
//! day d + 2 its table is written by nobody and there is a whole day to find a moment to empty it;
//! should none be found, what is old there is overwritten row by row. Two tables, as the embedded
//! store has, would have to be emptied in the commit that first needs them, and emptying waits for
//! whoever reads, a backup for an hour perhaps.
//!
//! A clock that steps back over midnight (another server took over) finds rows of tomorrow: they
//! count too, so all three tables are asked.

use crate::batch::{Arrays, Value, values};
use crate::cols::cols;
use crate::conn::Conn;
use crate::error::Res;
use model::id::ShardId;
use model::row::{IdempotencyKey, IdempotencyRow, Made, Row};
use std::sync::LazyLock;
use store::codec::ids::{self, backlog_bytes, job_bytes, run_bytes};

pub(crate) const NAME: &str = "keys";

pub(crate) fn place(shard: ShardId, key: &IdempotencyKey) -> Vec<Value> {
    values![shard.0, key.namespace.0, &*key.queue, ids::group_text(key.group.as_ref()), &*key.key]
}

pub(crate) fn values(shard: ShardId, key: &IdempotencyKey, row: &IdempotencyRow) -> Vec<Value> {
    let (made, id): (i64, _) = match row.answer {
        Made::Job(id) => (0, job_bytes(id).to_vec()),
        Made::Run(id) => (1, run_bytes(id).to_vec()),
        Made::Backlog(id) => (2, backlog_bytes(id).to_vec()),
    };
    let mut all = place(shard, key);
    all.extend(values![row.at.micros(), row.body, made, id]);
    all
}

static KNOWN: LazyLock<String> = LazyLock::new(|| {
    let of = |n: usize| {
        format!(
            "SELECT x.n, k.at, k.body, k.made, k.made_id
             FROM unnest($1, $2, $3, $4, $5) WITH ORDINALITY
               AS x(shard, namespace, queue, grp, key, n)
             JOIN duly.keys_{n} AS k ON k.shard = x.shard AND k.namespace = x.namespace
               AND k.queue = x.queue AND k.grp = x.grp AND k.key = x.key
             WHERE k.day >= duly.clock() / 86400000000 - 1"
        )
    };
    (0..3).map(of).collect::<Vec<_>>().join(" UNION ALL ")
});

/// The rows of these keys, each with its place among them (from 1).
pub(crate) fn get(conn: &mut Conn, keys: &Arrays) -> Res<Vec<(usize, Row)>> {
    let rows = conn.query(&KNOWN, &keys.params())?;
    rows.iter()
        .map(|row| {
            let mut cols = cols(row, "keys", 0);
            let place = cols.num()?;
            let (at, body, made) = (cols.time()?, cols.bits()?, cols.int()?);
            let answer = match made {
                0 => Made::Job(cols.job()?),
                1 => Made::Run(cols.run()?),
                2 => Made::Backlog(cols.backlog()?),
                _ => return Err(cols.odd()),
            };
            Ok((place, Row::Idempotency(IdempotencyRow { at, body, answer })))
        })
        .collect()
}
