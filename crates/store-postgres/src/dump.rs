//! The whole store in the words of the model, for those who check it from outside: the crash test's
//! checker. Idempotency keys are left out (what they promise shows in what clients were answered),
//! and so are the leases of nodes.

use crate::cols::cols;
use crate::conn::Conn;
use crate::error::Res;
use crate::history::{self, HISTORY};
use crate::jobs::{self, BACKLOGS, JOBS, SPECS};
use crate::runs::{self, RUNS};
use crate::table::Table;
use crate::{claims, cluster, days, queues, starts};
use model::Time;
use model::cluster::ShardRow;
use model::id::ShardId;
use model::row::{Key, Row, Starts};
use std::collections::BTreeMap;
use store::codec::rows;
use store::memory::{Dump, ShardDump};

const LAST: &str = "SELECT s.shard, l.* FROM duly.shards AS s
    CROSS JOIN LATERAL (SELECT c.seq, c.floor, c.ready_from, c.leases_from FROM duly.commits AS c
      WHERE c.shard = s.shard ORDER BY c.seq DESC LIMIT 1) AS l";

/// In a transaction that sees one state.
pub(crate) fn read(conn: &mut Conn) -> Res<Dump> {
    let rows = conn.query("SELECT duly.clock()", &[])?;
    let now = rows.first().map_or(Ok(Time::MIN), |row| cols(row, "the clock", 0).time())?;
    let mut shards = BTreeMap::new();
    for (shard, owner, epoch) in cluster::owners(conn)? {
        let row = ShardRow { shard, owner, epoch, seq: 0 };
        let (floor, starts) = (Time::MIN, Starts::default());
        let (rows, history) = (BTreeMap::new(), Vec::new());
        shards.insert(shard, ShardDump { row, floor, starts, rows, history });
    }
    for row in conn.query(LAST, &[])? {
        let mut cols = cols(&row, "commits", 0);
        if let Some(shard) = shards.get_mut(&ShardId(cols.num()?)) {
            shard.row.seq = cols.bits()?;
            shard.floor = cols.time()?;
            shard.starts = starts::read(&mut cols)?;
        }
    }
    for (shard, key, row) in rows_of_all(conn)? {
        if let Some(shard) = shards.get_mut(&shard) {
            shard.rows.insert(key, row);
        }
    }
    let days = days::all(conn)?;
    for row in conn.query(&format!("SELECT {} FROM {days} AS h", HISTORY.columns("h")), &[])? {
        if let Some(shard) = shards.get_mut(&shard_of(&row)?) {
            shard.history.push(history::read(&row, 0)?);
        }
    }
    for shard in shards.values_mut() {
        shard.history.sort_by_key(|row| (row.run, row.token));
    }
    let incarnation = cluster::incarnation(conn)?;
    Ok(Dump { now, incarnation, nodes: Vec::new(), shards: shards.into_values().collect() })
}

fn all(conn: &mut Conn, table: &Table, more: &str) -> Res<Vec<tokio_postgres::Row>> {
    let sql = format!("SELECT {}{more} FROM duly.{} AS t", table.columns("t"), table.name);
    conn.query(&sql, &[])
}

/// Of every table all rows, with their shard; the shard is the first column of each.
fn rows_of_all(conn: &mut Conn) -> Res<Vec<(ShardId, Key, Row)>> {
    let mut found = Vec::new();
    for row in all(conn, &RUNS, ", t.body, t.payload")? {
        let mut run = runs::read(&row, 0)?;
        if cols(&row, "runs", RUNS.width()).opt_blob()?.is_some() {
            run.body = Some(rows::spec(&mut cols(&row, "runs", RUNS.width()))?);
        }
        found.push((shard_of(&row)?, Key::Run(run.id), Row::Run(run)));
    }
    for row in all(conn, &claims::LEASES, "")? {
        let lease = claims::read_lease(&row, 0)?;
        found.push((shard_of(&row)?, Key::Lease(lease.run), Row::Lease(lease)));
    }
    for row in all(conn, &JOBS, "")? {
        let job = jobs::read_job(&row, 0)?;
        found.push((shard_of(&row)?, Key::Job(job.id), Row::Job(job)));
    }
    for row in all(conn, &SPECS, "")? {
        let mut key = cols(&row, "specs", 1);
        let key = Key::Spec(key.job()?, key.num()?);
        let spec = rows::spec(&mut cols(&row, "specs", 5))?;
        found.push((shard_of(&row)?, key, Row::Spec(spec)));
    }
    for row in all(conn, &BACKLOGS, "")? {
        let backlog = jobs::read_backlog(&row, 0)?;
        found.push((shard_of(&row)?, Key::Backlog(backlog.id), Row::Backlog(backlog)));
    }
    for row in all(conn, &claims::CHECKPOINTS, "")? {
        let run = cols(&row, "checkpoints", 1).run()?;
        let checkpoint = claims::read_checkpoint(&row, 0)?;
        found.push((shard_of(&row)?, Key::Checkpoint(run), Row::Checkpoint(checkpoint)));
    }
    for row in all(conn, &claims::HOLDS, "")? {
        let (scope, hold) = claims::read_hold(&row, 0)?;
        found.push((shard_of(&row)?, Key::Hold(scope), Row::Hold(hold)));
    }
    for row in all(conn, &queues::QUEUES, "")? {
        let ((namespace, queue), limits) = queues::read(&row, 0)?;
        found.push((shard_of(&row)?, Key::Queue(namespace, queue), Row::Queue(limits)));
    }
    Ok(found)
}

fn shard_of(row: &tokio_postgres::Row) -> Res<ShardId> {
    cols(row, "row", 0).num().map(ShardId)
}
