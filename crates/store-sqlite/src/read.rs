//! Reads: which table answers what. All reads of a call see one state of the file.

use crate::error::Res;
use crate::keys::Days;
use crate::{claims, history, jobs, keys, queues, runs, wheel};
use model::id::ShardId;
use model::read::{Page, Read};
use model::row::{Key, Row};
use model::{RunId, Spec, Time};
use rusqlite::Connection;
use std::sync::Arc;

pub(crate) fn pages(conn: &Connection, reads: &[(ShardId, Read)], now: Time) -> Res<Vec<Page>> {
    let days = keys::days(conn, now)?;
    reads.iter().map(|(shard, read)| page(conn, *shard, read, days)).collect()
}

fn page(conn: &Connection, shard: ShardId, read: &Read, days: Days) -> Res<Page> {
    Ok(match read {
        Read::Rows(keys) => {
            let rows = keys.iter().map(|key| get(conn, shard, key, days));
            Page::Rows(rows.collect::<Res<_>>()?)
        }
        Read::Due { from, before, after, limit } => {
            wheel::page(conn, shard, *from..*before, *after, *limit)?
        }
        Read::Flow { flow, after, limit } => {
            Page::Runs(runs::of_flow(conn, shard, flow, *after, *limit)?)
        }
        Read::Flows { after, limit } => {
            Page::Flows(runs::flows(conn, shard, after.as_ref(), *limit)?)
        }
        Read::Leases { after, limit } => Page::Leases(claims::leases(conn, shard, *after, *limit)?),
        Read::Holds => Page::Holds(claims::holds(conn, shard)?),
        Read::Queues => Page::Queues(queues::all(conn, shard)?),
        Read::RunsOf { job, after, limit } => {
            Page::Runs(runs::of_job(conn, shard, *job, *after, *limit)?)
        }
        Read::Spec { run, version } => {
            Page::Spec(specs(conn, &[(*run, *version)])?.into_iter().next().flatten())
        }
        Read::Outcomes { job, after, until, limit } => {
            Page::Outcomes(history::outcomes(conn, shard, *job, (*after, *until), *limit)?)
        }
    })
}

/// The row under a key, a run without its body.
fn get(conn: &Connection, shard: ShardId, key: &Key, days: Days) -> Res<Option<Row>> {
    match key {
        Key::Run(id) => runs::get(conn, shard, *id),
        Key::Lease(id) => claims::get_lease(conn, shard, *id),
        Key::Job(id) => jobs::get_job(conn, shard, *id),
        Key::Spec(id, version) => Ok(jobs::get_spec(conn, shard, *id, *version)?.map(Row::Spec)),
        Key::Backlog(id) => jobs::get_backlog(conn, shard, *id),
        Key::Idempotency(key) => keys::get(conn, days, shard, key),
        Key::Checkpoint(id) => claims::get_checkpoint(conn, shard, *id),
        Key::Hold(scope) => claims::get_hold(conn, shard, scope),
        Key::Queue(namespace, queue) => queues::get(conn, shard, *namespace, queue),
        Key::History(run, token) => history::get(conn, shard, *run, *token),
    }
}

pub(crate) fn specs(conn: &Connection, runs: &[(RunId, u32)]) -> Res<Vec<Option<Arc<Spec>>>> {
    let spec = |(run, version): &(RunId, u32)| {
        let shard = run.job.shard();
        match runs::body(conn, shard, *run)? {
            Some(body) => Ok(Some(body)),
            None => jobs::get_spec(conn, shard, run.job, *version),
        }
    };
    runs.iter().map(spec).collect()
}
