//! Which table a change touches, and how.

use crate::batch::{Batch, Value, Verb, values};
use crate::commit::{is_replaced, verb};
use crate::error::Res;
use crate::net::Net;
use crate::{claims, days, history, jobs, keys, queues, runs};
use model::id::ShardId;
use model::row::{Expect, Key, Row};
use std::borrow::Cow;
use store::codec::ids::{backlog_bytes, job_bytes, run_bytes};

/// `by_day`: history has a table per day, and not the one of version 1.
pub(crate) fn push(batch: &mut Batch, shard: ShardId, net: &Net<'_>, by_day: bool) -> Res<()> {
    let table = table(net.key);
    let verb = verb(net.expect, net.row.is_some());
    let expected = match net.expect {
        Expect::Rev(rev) => Some(Value::from(rev)),
        Expect::Absent => None,
    };
    let by_key = |mut key: Vec<Value>| {
        key.extend(expected.clone());
        key
    };
    let inserted = match net.row {
        Some(Row::History(row)) if by_day => Cow::Owned(days::table_of(row)),
        _ if matches!(net.key, Key::History(..)) => Cow::Borrowed("history"),
        _ => Cow::Borrowed(table),
    };
    let Some(row) = net.row else {
        batch.push(table, verb, by_key(place(shard, net.key)));
        return Ok(());
    };
    let mut row = row_values(shard, net, row)?;
    if is_replaced(net.key) && verb == Verb::Update {
        batch.push(table, Verb::Remove, by_key(place(shard, net.key)));
        batch.push(inserted, Verb::Insert, row);
        return Ok(());
    }
    row.extend(expected);
    batch.push(inserted, verb, row);
    Ok(())
}

fn table(key: &Key) -> &'static str {
    match key {
        Key::Run(_) => runs::RUNS.name,
        Key::Lease(_) => claims::LEASES.name,
        Key::Job(_) => jobs::JOBS.name,
        Key::Spec(..) => jobs::SPECS.name,
        Key::Backlog(_) => jobs::BACKLOGS.name,
        Key::Idempotency(_) => keys::NAME,
        Key::Checkpoint(_) => claims::CHECKPOINTS.name,
        Key::Hold(_) => claims::HOLDS.name,
        Key::Queue(..) => queues::QUEUES.name,
        Key::History(..) => history::ANYWHERE,
    }
}

/// The columns that say which row it is.
pub(crate) fn place(shard: ShardId, key: &Key) -> Vec<Value> {
    match key {
        Key::Run(id) | Key::Lease(id) | Key::Checkpoint(id) => {
            values![shard.0, run_bytes(*id).to_vec()]
        }
        Key::Job(id) => values![shard.0, job_bytes(*id).to_vec()],
        Key::Spec(id, version) => values![shard.0, job_bytes(*id).to_vec(), *version],
        Key::Backlog(id) => values![shard.0, backlog_bytes(*id).to_vec()],
        Key::Idempotency(key) => keys::place(shard, key),
        Key::Hold(scope) => {
            let (kind, namespace, queue) = claims::scope_columns(scope);
            values![shard.0, kind, namespace, queue]
        }
        Key::Queue(namespace, queue) => values![shard.0, namespace.0, &**queue],
        Key::History(run, token) => values![shard.0, run_bytes(*run).to_vec(), token.0],
    }
}

/// The row's kind is the key's: `fits` was asked.
fn row_values(shard: ShardId, net: &Net<'_>, row: &Row) -> Res<Vec<Value>> {
    Ok(match (net.key, row) {
        (_, Row::Run(row)) => runs::values(shard, row, net.body.map(|body| &**body))?,
        (_, Row::Lease(row)) => claims::lease_values(shard, row),
        (_, Row::Job(row)) => jobs::job_values(shard, row),
        (Key::Spec(id, version), Row::Spec(spec)) => jobs::spec_values(shard, *id, *version, spec)?,
        (_, Row::Backlog(row)) => jobs::backlog_values(shard, row),
        (Key::Idempotency(key), Row::Idempotency(row)) => keys::values(shard, key, row),
        (Key::Checkpoint(id), Row::Checkpoint(row)) => claims::checkpoint_values(shard, *id, row),
        (Key::Hold(scope), Row::Hold(row)) => claims::hold_values(shard, scope, row),
        (Key::Queue(namespace, queue), Row::Queue(row)) => {
            queues::row_values(shard, *namespace, queue, row)
        }
        (_, Row::History(row)) => history::values(shard, row),
        _ => Vec::new(),
    })
}
