//! Commits: one transaction for all shards of a call, a savepoint for each, so that one that is
//! refused leaves nothing and the others stay.

use crate::error::Res;
use crate::keys::Days;
use crate::table::Prepared;
use crate::{claims, history, jobs, keys, queues, reserve, runs};
use model::Time;
use model::id::ShardId;
use model::row::{Change, Commit, Key, Row};
use rusqlite::{Connection, OptionalExtension, params};
use store::Outcome;

/// In the writer's transaction.
pub(crate) fn apply(
    conn: &Connection,
    commits: &[Commit],
    now: Time,
    short: bool,
) -> Res<Vec<Outcome>> {
    let days = keys::turn(conn, now)?;
    let prepared = Prepared::new(conn);
    let apply = |commit: &Commit| match short && reserve::makes_jobs(commit) {
        true => Ok(Outcome::Room),
        false => shard(&prepared, commit, days, now),
    };
    commits.iter().map(apply).collect()
}

/// The fence first: an owner whose epoch has passed learns that, whatever else is wrong.
fn shard(prepared: &Prepared<'_>, commit: &Commit, days: Days, now: Time) -> Res<Outcome> {
    let conn = prepared.conn;
    let found = conn
        .prepare_cached("SELECT epoch, seq FROM shards WHERE shard = ?1")?
        .query_row([commit.shard.0], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    // A shard that does not exist belongs to nobody.
    let Some((epoch, last)) = found else { return Ok(Outcome::Fenced) };
    let last = last as u64;
    if i64::from(commit.epoch.0) != epoch {
        return Ok(Outcome::Fenced);
    }
    if Some(commit.seq) != last.checked_add(1) {
        return Ok(Outcome::Gap { last });
    }
    if commit.decided > now {
        return Ok(Outcome::Early);
    }
    conn.prepare_cached("SAVEPOINT shard")?.execute([])?;
    for (index, change) in commit.changes.iter().enumerate() {
        if !store::fits(change) || !put(prepared, commit.shard, change, days, now)? {
            conn.prepare_cached("ROLLBACK TO shard")?.execute([])?;
            conn.prepare_cached("RELEASE shard")?.execute([])?;
            return Ok(Outcome::Row { index });
        }
    }
    conn.prepare_cached(
        "UPDATE shards SET seq = ?2, floor = coalesce(?3, floor) WHERE shard = ?1",
    )?
    .execute(params![commit.shard.0, commit.seq as i64, commit.floor.map(Time::micros)])?;
    conn.prepare_cached("RELEASE shard")?.execute([])?;
    Ok(Outcome::Durable)
}

/// Makes one change; false where the row was not as expected. The row's kind is the key's: `fits`
/// was asked.
fn put(conn: &Prepared<'_>, shard: ShardId, change: &Change, days: Days, now: Time) -> Res<bool> {
    let expect = change.expect;
    macro_rules! row {
        ($kind:ident) => {
            match &change.row {
                Some(Row::$kind(row)) => Some(row),
                _ => None,
            }
        };
    }
    match &change.key {
        Key::Run(id) => runs::put(conn, shard, *id, row!(Run), expect, now),
        Key::Lease(id) => claims::put_lease(conn, shard, *id, row!(Lease), expect),
        Key::Job(id) => jobs::put_job(conn, shard, *id, row!(Job), expect, now),
        Key::Spec(id, version) => {
            let spec = row!(Spec).map(|spec| &**spec);
            jobs::put_spec(conn, shard, (*id, *version), spec, expect)
        }
        Key::Backlog(id) => jobs::put_backlog(conn, shard, *id, row!(Backlog), expect, now),
        Key::Idempotency(key) => keys::put(conn, days, shard, key, row!(Idempotency), expect),
        Key::Checkpoint(id) => claims::put_checkpoint(conn, shard, *id, row!(Checkpoint), expect),
        Key::Hold(scope) => claims::put_hold(conn, shard, scope, row!(Hold), expect),
        Key::Queue(namespace, queue) => {
            queues::put(conn, shard, (*namespace, queue), row!(Queue), expect)
        }
        Key::History(run, token) => {
            let row = row!(History).map(|row| &**row);
            history::put(conn, shard, (*run, *token), row, expect)
        }
    }
}
