//! The whole store in the words of the model, for those who check it from outside: the crash test's
//! checker and `duly doctor`. Idempotency keys are left out: what they promise shows in what clients
//! were answered.

use crate::cols::cols;
use crate::error::Res;
use crate::runs::{self, list};
use crate::{claims, cluster, history, jobs, queues};
use model::Time;
use model::cluster::NodeLease;
use model::id::{NodeId, ShardId};
use model::row::{CheckpointRow, Key, Row, Starts};
use rusqlite::Connection;
use std::collections::BTreeMap;
use store::codec::rows;
use store::memory::{Dump, ShardDump};

pub(crate) fn read(conn: &Connection, now: Time) -> Res<Dump> {
    let mut shards: BTreeMap<ShardId, ShardDump> = list(conn, cluster::SHARDS, &[], |row| {
        let shard = cluster::read_shard(row)?;
        let (row, floor) = (shard.row, shard.floor);
        let (starts, rows, history) = (Starts::default(), BTreeMap::new(), Vec::new());
        Ok((row.shard, ShardDump { row, floor, starts, rows, history }))
    })?
    .into_iter()
    .collect();
    for (shard, key, row) in rows(conn)? {
        if let Some(shard) = shards.get_mut(&shard) {
            shard.rows.insert(key, row);
        }
    }
    let history =
        list(conn, &history::HISTORY.list, &[], |row| Ok((shard_of(row)?, history::read(row)?)))?;
    for (shard, row) in history {
        if let Some(shard) = shards.get_mut(&shard) {
            shard.history.push(row);
        }
    }
    for shard in shards.values_mut() {
        shard.history.sort_by_key(|row| (row.run, row.token));
    }
    let nodes = list(conn, "SELECT node, boot, expires FROM nodes", &[], |row| {
        let mut cols = cols(row, "nodes", 0);
        let node = NodeId { node: cols.num()?, boot: cols.bits()? };
        Ok(NodeLease::new(node, cols.time()?))
    })?;
    let incarnation = cluster::incarnation(conn)?;
    Ok(Dump { now, incarnation, nodes, shards: shards.into_values().collect() })
}

/// Of every table all rows, with their shard; the shard is the first column of each.
fn rows(conn: &Connection) -> Res<Vec<(ShardId, Key, Row)>> {
    let mut all = list(conn, &runs::RUNS.list, &[], |row| {
        let mut run = runs::read(row, 0)?;
        let mut body = cols(row, "runs", runs::BODY);
        if body.opt_blob()?.is_some() {
            run.body = Some(rows::spec(&mut cols(row, "runs", runs::BODY))?);
        }
        Ok((shard_of(row)?, Key::Run(run.id), Row::Run(run)))
    })?;
    all.extend(list(conn, &claims::LEASES.list, &[], |row| {
        let lease = claims::read_lease(row)?;
        Ok((shard_of(row)?, Key::Lease(lease.run), Row::Lease(lease)))
    })?);
    all.extend(list(conn, &jobs::JOBS.list, &[], |row| {
        let job = jobs::read_job(row)?;
        Ok((shard_of(row)?, Key::Job(job.id), Row::Job(job)))
    })?);
    all.extend(list(conn, &jobs::SPECS.list, &[], |row| {
        let mut key = cols(row, "specs", 1);
        let (job, version) = (key.job()?, key.num()?);
        let spec = rows::spec(&mut cols(row, "specs", 5))?;
        Ok((shard_of(row)?, Key::Spec(job, version), Row::Spec(spec)))
    })?);
    all.extend(list(conn, &jobs::BACKLOGS.list, &[], |row| {
        let backlog = jobs::read_backlog(row)?;
        Ok((shard_of(row)?, Key::Backlog(backlog.id), Row::Backlog(backlog)))
    })?);
    all.extend(list(conn, &claims::CHECKPOINTS.list, &[], |row| {
        let mut cols = cols(row, "checkpoints", 1);
        let run = cols.run()?;
        let checkpoint = CheckpointRow { rev: cols.num()?, bytes: cols.bytes()? };
        Ok((shard_of(row)?, Key::Checkpoint(run), Row::Checkpoint(checkpoint)))
    })?);
    all.extend(list(conn, &claims::HOLDS.list, &[], |row| {
        let (scope, hold) = claims::read_hold(row)?;
        Ok((shard_of(row)?, Key::Hold(scope), Row::Hold(hold)))
    })?);
    all.extend(list(conn, &queues::QUEUES.list, &[], |row| {
        let ((namespace, queue), limits) = queues::read(row)?;
        Ok((shard_of(row)?, Key::Queue(namespace, queue), Row::Queue(limits)))
    })?);
    Ok(all)
}

fn shard_of(row: &rusqlite::Row<'_>) -> Res<ShardId> {
    cols(row, "row", 0).num().map(ShardId)
}
