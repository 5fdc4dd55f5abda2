//! Who is alive, and which shard belongs to whom. Rows are locked in the order of their keys,
//! shards before nodes, so that two who take at once never wait for each other.

use crate::cols::cols;
use crate::conn::{Conn, Param};
use crate::error::Res;
use crate::schema::VERSION;
use crate::starts;
use model::cluster::{About, Cluster, Give, NodeLease, Renew, ShardRow, Take, Taken};
use model::id::{Epoch, NodeId, ShardId};
use model::row::Starts;
use model::{Text, Time};
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::types::Type;

pub(crate) fn incarnation(conn: &mut Conn) -> Res<u64> {
    let rows = conn.query("SELECT one, incarnation FROM duly.meta", &[])?;
    rows.first().map_or(Ok(0), |row| cols(row, "meta", 1).bits())
}

pub(crate) fn set_incarnation(conn: &mut Conn, incarnation: u64) -> Res<()> {
    let sql = "UPDATE duly.meta SET incarnation = $1";
    conn.query(sql, &[(&(incarnation as i64), Type::INT8)]).map(drop)
}

/// What nodes say of themselves came later than their rows: a step that older nodes do not notice.
pub(crate) fn expand(conn: &mut Conn) -> Res<()> {
    const HAS: &str = "SELECT 1 FROM pg_catalog.pg_attribute
        WHERE attrelid = 'duly.nodes'::regclass AND attname = 'address'";
    if conn.query(HAS, &[])?.is_empty() {
        conn.run(
            "ALTER TABLE duly.nodes ADD COLUMN address text, ADD COLUMN owns boolean;
             COMMENT ON COLUMN duly.nodes.address IS 'where other nodes reach it; NULL = it did not say';
             COMMENT ON COLUMN duly.nodes.owns IS 'false = no shard is placed on it (its role, or it is drained)';",
        )?;
    }
    Ok(())
}

pub(crate) fn introduce(conn: &mut Conn, node: NodeId, about: &About) -> Res<()> {
    // Not alive before its first renewal.
    const SQL: &str = "INSERT INTO duly.nodes (node, boot, expires, address, owns)
        VALUES ($1, $2, 0, $3, $4)
        ON CONFLICT (node, boot) DO UPDATE SET address = excluded.address, owns = excluded.owns";
    let params: [Param<'_>; 4] = [
        (&i64::from(node.node), Type::INT8),
        (&(node.boot as i64), Type::INT8),
        (&about.address.as_deref(), Type::TEXT),
        (&about.owns, Type::BOOL),
    ];
    conn.query(SQL, &params).map(drop)
}

/// In a transaction. `about` is said again where the row was removed meanwhile. With the catalog's
/// revision, so that nobody need ask for it.
pub(crate) fn renew(
    conn: &mut Conn,
    renew: Renew,
    about: Option<&(NodeId, About)>,
) -> Res<(Cluster, u64)> {
    let params: [Param<'_>; 4] = [
        (&i64::from(renew.node.node), Type::INT8),
        (&(renew.node.boot as i64), Type::INT8),
        (&renew.ttl.micros(), Type::INT8),
        (&VERSION, Type::INT8),
    ];
    let rows = conn.query("SELECT duly.renew($1, $2, $3, $4)", &params)?;
    let now = rows.first().map_or(Ok(Time::MIN), |row| cols(row, "nodes", 0).time())?;
    let rows = conn.query("SELECT node, boot, expires, address, owns FROM duly.nodes", &[])?;
    let nodes = rows.iter().map(|row| {
        let mut cols = cols(row, "nodes", 0);
        let node = NodeId { node: cols.num()?, boot: cols.bits()? };
        let expires = cols.time()?;
        let address = row.try_get::<_, Option<&str>>(3).ok().flatten().map(Text::from);
        let owns = row.try_get::<_, Option<bool>>(4).ok().flatten().unwrap_or(true);
        Ok(NodeLease { node, expires, owns, address })
    });
    let mut nodes = nodes.collect::<Res<Vec<NodeLease>>>()?;
    if let Some((_, about)) = about.filter(|(node, _)| *node == renew.node)
        && let Some(own) = nodes.iter_mut().find(|lease| lease.node == renew.node)
        && (&own.address, own.owns) != (&about.address, about.owns)
    {
        introduce(conn, renew.node, about)?;
        (own.address, own.owns) = (about.address.clone(), about.owns);
    }
    let rows = conn.query(
        "SELECT s.shard, s.epoch, s.owner_node, s.owner_boot, s.incarnation,
           (SELECT max(c.seq) FROM duly.commits AS c WHERE c.shard = s.shard)
         FROM duly.shards AS s ORDER BY s.shard",
        &[],
    )?;
    let shards = rows.iter().map(|row| {
        let held = read(row)?;
        let seq = cols(row, "shards", 5).bits()?;
        Ok(ShardRow { shard: held.shard, owner: held.owner, epoch: held.epoch, seq })
    });
    let shards = shards.collect::<Res<_>>()?;
    let rows = conn.query(
        "SELECT m.one, m.incarnation, r.rev FROM duly.meta AS m, duly.catalog_rev AS r",
        &[],
    )?;
    let (incarnation, rev) = match rows.first() {
        Some(row) => (cols(row, "meta", 1).bits()?, cols(row, "catalog_rev", 2).bits()?),
        None => (0, 0),
    };
    Ok((Cluster { now, incarnation, nodes, shards }, rev))
}

#[derive(Clone, Copy, Debug)]
struct Held {
    shard: ShardId,
    owner: Option<NodeId>,
    epoch: Epoch,
    incarnation: u64,
}

fn read(row: &tokio_postgres::Row) -> Res<Held> {
    let mut cols = cols(row, "shards", 0);
    let (shard, epoch) = (ShardId(cols.num()?), Epoch(cols.num()?));
    let owner = match (cols.opt_int()?, cols.opt_int()?) {
        (Some(node), Some(boot)) => {
            let node = u32::try_from(node).map_err(|_| cols.odd_before(1))?;
            Some(NodeId { node, boot: boot as u64 })
        }
        _ => None,
    };
    Ok(Held { shard, owner, epoch, incarnation: cols.bits()? })
}

/// Which shard is whose, and in which epoch.
pub(crate) fn owners(conn: &mut Conn) -> Res<Vec<(ShardId, Option<NodeId>, Epoch)>> {
    const SQL: &str = "SELECT shard, epoch, owner_node, owner_boot, incarnation
        FROM duly.shards ORDER BY shard";
    let rows = conn.query(SQL, &[])?;
    rows.iter().map(|row| read(row).map(|held| (held.shard, held.owner, held.epoch))).collect()
}

/// The rows of these shards, held until the transaction ends: commits of them wait.
fn hold(conn: &mut Conn, shards: impl Iterator<Item = ShardId>) -> Res<BTreeMap<ShardId, Held>> {
    const SQL: &str = "SELECT shard, epoch, owner_node, owner_boot, incarnation
        FROM duly.shards WHERE shard = ANY ($1) ORDER BY shard FOR NO KEY UPDATE";
    let shards: Vec<i64> = shards.map(|shard| shard.0.into()).collect();
    let rows = conn.query(SQL, &[(&shards, Type::INT8_ARRAY)])?;
    rows.iter().map(|row| read(row).map(|held| (held.shard, held))).collect()
}

/// When the owners' leases end, held until the transaction ends: a renewal waits, and cannot come
/// between the look and the taking. Not the takers' own: they may take what is theirs anyway, and
/// their renewal waits for nobody.
fn leases(
    conn: &mut Conn,
    held: &BTreeMap<ShardId, Held>,
    takers: &BTreeSet<NodeId>,
) -> Res<BTreeMap<NodeId, Time>> {
    const SQL: &str = "SELECT n.node, n.boot, n.expires FROM duly.nodes AS n
        JOIN unnest($1, $2) AS x(node, boot) ON n.node = x.node AND n.boot = x.boot
        ORDER BY n.node, n.boot FOR SHARE OF n";
    let owners: BTreeSet<NodeId> = held
        .values()
        .filter_map(|held| held.owner)
        .filter(|owner| takers.len() > 1 || !takers.contains(owner))
        .collect();
    let nodes: Vec<i64> = owners.iter().map(|owner| owner.node.into()).collect();
    let boots: Vec<i64> = owners.iter().map(|owner| owner.boot as i64).collect();
    let rows = conn.query(SQL, &[(&nodes, Type::INT8_ARRAY), (&boots, Type::INT8_ARRAY)])?;
    rows.iter()
        .map(|row| {
            let mut cols = cols(row, "nodes", 0);
            Ok((NodeId { node: cols.num()?, boot: cols.bits()? }, cols.time()?))
        })
        .collect()
}

/// What the last commit of a shard said: its number, floor and starts.
type Last = (u64, Time, Starts);

fn last(conn: &mut Conn, held: &BTreeMap<ShardId, Held>) -> Res<BTreeMap<ShardId, Last>> {
    const SQL: &str = "SELECT x.shard, l.* FROM unnest($1) AS x(shard)
        CROSS JOIN LATERAL (SELECT c.seq, c.floor, c.ready_from, c.leases_from FROM duly.commits AS c
          WHERE c.shard = x.shard ORDER BY c.seq DESC LIMIT 1) AS l";
    let shards: Vec<i64> = held.keys().map(|shard| shard.0.into()).collect();
    let rows = conn.query(SQL, &[(&shards, Type::INT8_ARRAY)])?;
    rows.iter()
        .map(|row| {
            let mut cols = cols(row, "commits", 0);
            let shard = ShardId(cols.num()?);
            Ok((shard, (cols.bits()?, cols.time()?, starts::read(&mut cols)?)))
        })
        .collect()
}

fn own(conn: &mut Conn, held: &[Held]) -> Res<()> {
    const SQL: &str = "UPDATE duly.shards AS s SET owner_node = x.node, owner_boot = x.boot,
          epoch = x.epoch, incarnation = x.incarnation
        FROM unnest($1, $2, $3, $4, $5) AS x(shard, node, boot, epoch, incarnation)
        WHERE s.shard = x.shard";
    let of = |value: fn(&Held) -> Option<i64>| held.iter().map(value).collect::<Vec<_>>();
    let columns = [
        of(|held| Some(held.shard.0.into())),
        of(|held| held.owner.map(|owner| owner.node.into())),
        of(|held| held.owner.map(|owner| owner.boot as i64)),
        of(|held| Some(held.epoch.0.into())),
        of(|held| Some(held.incarnation as i64)),
    ];
    let params: Vec<Param<'_>> =
        columns.iter().map(|column| (column as _, Type::INT8_ARRAY)).collect();
    conn.query(SQL, &params).map(drop)
}

/// In a transaction. One take after the other, each on what those before it left.
pub(crate) fn take(conn: &mut Conn, takes: &[Take]) -> Res<Vec<Option<Taken>>> {
    let mut held = hold(conn, takes.iter().map(|take| take.shard))?;
    conn.query("SELECT duly.same_server()", &[])?;
    let takers = takes.iter().map(|take| take.node).collect();
    let leases = leases(conn, &held, &takers)?;
    let last = last(conn, &held)?;
    let current = incarnation(conn)?;
    // After the locks: waiting for them took time.
    let rows = conn.query("SELECT duly.clock()", &[])?;
    let now = rows.first().map_or(Ok(Time::MIN), |row| cols(row, "the clock", 0).time())?;
    let mut changed = BTreeSet::new();
    let answers = takes.iter().map(|take| {
        let shard = held.get_mut(&take.shard)?;
        let free = shard.owner.is_none_or(|owner| {
            owner == take.node || leases.get(&owner).is_none_or(|expires| *expires <= now)
        });
        // Each incarnation has a range of its own, so that two losses in a row cannot meet.
        let jump =
            current.saturating_sub(shard.incarnation).saturating_mul(Epoch::INCARNATION.into());
        let jump = u32::try_from(jump).unwrap_or(u32::MAX);
        let by = if take.by == 0 { 0 } else { take.by.max(jump) };
        let epoch = step(take.epoch, by)?;
        if !free || shard.epoch != take.epoch {
            return None;
        }
        (shard.owner, shard.epoch, shard.incarnation) = (Some(take.node), epoch, current);
        changed.insert(take.shard);
        let none = (0, Time::MIN, Starts::default());
        let (seq, floor, starts) = last.get(&take.shard).copied().unwrap_or(none);
        Some(Taken { shard: take.shard, epoch, seq, floor, starts })
    });
    let answers = answers.collect();
    let changed: Vec<Held> = changed.iter().filter_map(|shard| held.get(shard)).copied().collect();
    if !changed.is_empty() {
        own(conn, &changed)?;
    }
    Ok(answers)
}

/// In a transaction.
pub(crate) fn give(conn: &mut Conn, gives: &[Give]) -> Res<Vec<bool>> {
    let mut held = hold(conn, gives.iter().map(|give| give.shard))?;
    let mut changed = BTreeSet::new();
    let answers = gives.iter().map(|give| {
        let Some(shard) = held.get_mut(&give.shard) else { return false };
        let (true, Some(epoch)) =
            (shard.owner == Some(give.node) && shard.epoch == give.epoch, step(give.epoch, 1))
        else {
            return false;
        };
        (shard.owner, shard.epoch) = (Some(give.to), epoch);
        changed.insert(give.shard);
        true
    });
    let answers = answers.collect();
    let changed: Vec<Held> = changed.iter().filter_map(|shard| held.get(shard)).copied().collect();
    if !changed.is_empty() {
        own(conn, &changed)?;
    }
    Ok(answers)
}

/// The next epoch. None where it would not grow (it would fence nobody) or would make tokens that
/// do not fit into a JSON integer.
fn step(epoch: Epoch, by: u32) -> Option<Epoch> {
    let next = epoch.0.checked_add(by).map(Epoch)?;
    (by > 0 && next <= Epoch::MAX).then_some(next)
}
