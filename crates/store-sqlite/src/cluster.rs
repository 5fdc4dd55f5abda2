//! Who is alive, and which shard belongs to whom.

use crate::cols::cols;
use crate::error::{Fault, Res};
use crate::runs::list;
use model::cluster::{Cluster, Give, NodeLease, Renew, ShardRow, Take, Taken};
use model::id::{Epoch, NodeId, ShardId};
use model::row::Starts;
use model::{Span, Time};
use rusqlite::{Connection, OptionalExtension, params};

/// A lease row that expired so long ago is dropped at the next renewal: every restart is a new
/// node, so without a bound the rows of former lives would pile up. Absent and expired are the
/// same to a taker.
const LEASE_KEPT: Span = Span::from_secs(3_600);

pub(crate) fn incarnation(conn: &Connection) -> Res<u64> {
    let found: i64 =
        conn.prepare_cached("SELECT incarnation FROM meta")?.query_row([], |row| row.get(0))?;
    Ok(found as u64)
}

pub(crate) fn set_incarnation(conn: &Connection, incarnation: u64) -> Res<()> {
    conn.prepare_cached("UPDATE meta SET incarnation = ?1")?.execute([incarnation as i64])?;
    Ok(())
}

pub(crate) fn renew(conn: &Connection, renew: Renew, now: Time) -> Res<Cluster> {
    let NodeId { node, boot } = renew.node;
    conn.prepare_cached("INSERT OR REPLACE INTO nodes (node, boot, expires) VALUES (?1, ?2, ?3)")?
        .execute(params![node, boot as i64, now.plus(renew.ttl).micros()])?;
    conn.prepare_cached("DELETE FROM nodes WHERE (node, boot) <> (?1, ?2) AND expires <= ?3")?
        .execute(params![node, boot as i64, now.minus(LEASE_KEPT).micros()])?;
    let nodes = list(conn, "SELECT node, boot, expires FROM nodes", &[], |row| {
        let mut cols = cols(row, "nodes", 0);
        let node = NodeId { node: cols.num()?, boot: cols.bits()? };
        Ok(NodeLease::new(node, cols.time()?))
    })?;
    let shards = list(conn, SHARDS, &[], |row| read_shard(row).map(|shard| shard.row))?;
    Ok(Cluster { now, incarnation: incarnation(conn)?, nodes, shards })
}

pub(crate) const SHARDS: &str =
    "SELECT shard, epoch, seq, owner_node, owner_boot, floor, incarnation
    FROM shards ORDER BY shard";
const SHARD: &str = "SELECT shard, epoch, seq, owner_node, owner_boot, floor, incarnation
    FROM shards WHERE shard = ?1";

pub(crate) struct Shard {
    pub(crate) row: ShardRow,
    pub(crate) floor: Time,
    incarnation: u64,
}

pub(crate) fn read_shard(row: &rusqlite::Row<'_>) -> Res<Shard> {
    let mut cols = cols(row, "shards", 0);
    let (shard, epoch, seq) = (ShardId(cols.num()?), Epoch(cols.num()?), cols.bits()?);
    let owner = match (cols.opt_int()?, cols.opt_int()?) {
        (Some(node), Some(boot)) => {
            let node = u32::try_from(node).map_err(|_| cols.odd_before(1))?;
            Some(NodeId { node, boot: boot as u64 })
        }
        _ => None,
    };
    let row = ShardRow { shard, owner, epoch, seq };
    Ok(Shard { row, floor: cols.time()?, incarnation: cols.bits()? })
}

fn shard(conn: &Connection, id: ShardId) -> Res<Option<Shard>> {
    let mut statement = conn.prepare_cached(SHARD)?;
    let mut rows = statement.query([id.0])?;
    rows.next()?.map(read_shard).transpose()
}

fn expires(conn: &Connection, node: NodeId) -> Res<Option<Time>> {
    let found: Option<i64> = conn
        .prepare_cached("SELECT expires FROM nodes WHERE node = ?1 AND boot = ?2")?
        .query_row(params![node.node, node.boot as i64], |row| row.get(0))
        .optional()?;
    Ok(found.map(Time::from_micros))
}

fn own(conn: &Connection, shard: ShardId, owner: NodeId, epoch: Epoch, of: u64) -> Res<()> {
    let changed = conn
        .prepare_cached(
            "UPDATE shards SET owner_node = ?2, owner_boot = ?3, epoch = ?4, incarnation = ?5
             WHERE shard = ?1",
        )?
        .execute(params![shard.0, owner.node, owner.boot as i64, epoch.0, of as i64])?;
    if changed == 1 {
        Ok(())
    } else {
        Err(Fault::Odd(format!("table shards, row shard={}: gone while it changed owner", shard.0)))
    }
}

pub(crate) fn take(conn: &Connection, take: Take, now: Time, current: u64) -> Res<Option<Taken>> {
    let Some(shard) = shard(conn, take.shard)? else { return Ok(None) };
    let free = match shard.row.owner {
        None => true,
        Some(owner) if owner == take.node => true,
        Some(owner) => expires(conn, owner)?.is_none_or(|expires| expires <= now),
    };
    // Each incarnation has a range of its own, so that two losses in a row cannot meet.
    let jump = current.saturating_sub(shard.incarnation).saturating_mul(Epoch::INCARNATION.into());
    let jump = u32::try_from(jump).unwrap_or(u32::MAX);
    let by = if take.by == 0 { 0 } else { take.by.max(jump) };
    let Some(epoch) = step(take.epoch, by) else { return Ok(None) };
    if !free || shard.row.epoch != take.epoch {
        return Ok(None);
    }
    own(conn, take.shard, take.node, epoch, current)?;
    let (seq, floor) = (shard.row.seq, shard.floor);
    // Removed rows are gone here: nobody needs to know where the others begin.
    Ok(Some(Taken { shard: take.shard, epoch, seq, floor, starts: Starts::default() }))
}

pub(crate) fn give(conn: &Connection, give: Give) -> Res<bool> {
    let Some(shard) = shard(conn, give.shard)? else { return Ok(false) };
    if shard.row.owner != Some(give.node) || shard.row.epoch != give.epoch {
        return Ok(false);
    }
    let Some(epoch) = step(give.epoch, 1) else { return Ok(false) };
    own(conn, give.shard, give.to, epoch, shard.incarnation)?;
    Ok(true)
}

/// The next epoch. None where it would not grow (it would fence nobody) or would make tokens that
/// do not fit into a JSON integer.
fn step(epoch: Epoch, by: u32) -> Option<Epoch> {
    let next = epoch.0.checked_add(by).map(Epoch)?;
    (by > 0 && next <= Epoch::MAX).then_some(next)
}
