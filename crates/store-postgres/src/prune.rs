//! The end of history, and how much is stored. Days that are over go whole, a table at a time and the
//! oldest first; rows one by one only where a table cannot go: of the present day, if history is kept
//! for less than a day or takes too much room, and of the one table of version 1.

use crate::cols::cols;
use crate::conn::{Conn, Param, WRITE};
use crate::days::{self, Part, source};
use crate::error::Res;
use crate::limits::SIZE_SAMPLE;
use crate::runs::bound;
use model::Time;
use store::search::filter::is_failure;
use store::search::{Prune, Pruned};
use tokio_postgres::types::Type;

pub(crate) fn prune(conn: &mut Conn, prune: &Prune) -> Res<Pruned> {
    let today = days::today(conn)?;
    let old = days::old(days::list(conn)?, today, (prune.before, prune.failures_before));
    if let Some(oldest) = old.whole.first().map(|part| part.day) {
        let (mut removed, mut dropped) = (0, true);
        for part in old.whole.iter().filter(|part| part.day == oldest) {
            let rows = rows(conn, part)?;
            // Where somebody reads, the next pass finds the table again.
            match days::drop_whole(conn, part)? {
                true => removed += rows,
                false => dropped = false,
            }
        }
        return Ok(Pruned { removed, next: dropped.then_some(prune.after) });
    }
    if old.in_part.is_empty() {
        return Ok(Pruned { removed: 0, next: None });
    }
    let pruned = conn.transaction(WRITE, |conn| rows_of(conn, &old.in_part, prune))?;
    if pruned.removed == 0 && pruned.next.is_none() {
        drop_former(conn, &old.in_part)?;
    }
    Ok(pruned)
}

/// How many rows a table holds, about: places that were given out for rows that did not stay count
/// too.
fn rows(conn: &mut Conn, part: &Part) -> Res<usize> {
    let sql = format!("SELECT coalesce(max(hid) - min(hid) + 1, 0) FROM duly.{}", part.name);
    let rows = conn.query(&sql, &[])?;
    rows.first().map_or(Ok(0), |row| cols(row, "history", 0).num())
}

/// In a transaction.
fn rows_of(conn: &mut Conn, parts: &[Part], prune: &Prune) -> Res<Pruned> {
    let sql = format!(
        "SELECT hid, finished, status FROM {} AS h WHERE hid > $1 ORDER BY hid LIMIT $2",
        source(parts)
    );
    let params: [Param<'_>; 2] =
        [(&(prune.after as i64), Type::INT8), (&bound(prune.limit), Type::INT8)];
    let rows = conn.query(&sql, &params)?;
    let newest = prune.before.max(prune.failures_before);
    let (mut gone, mut next) = (Vec::new(), None);
    for row in &rows {
        let mut cols = cols(row, "history", 0);
        let (hid, finished): (i64, Time) = (cols.int()?, cols.time()?);
        let status: model::Status = cols.code()?;
        if finished >= newest {
            next = None;
            break;
        }
        next = Some(hid as u64).filter(|_| rows.len() == prune.limit);
        let before = if is_failure(status) { prune.failures_before } else { prune.before };
        if finished < before {
            gone.push(hid);
        }
    }
    for Part { name, .. } in parts.iter().filter(|_| !gone.is_empty()) {
        // Version 1 counts the bytes that are gone; this version asks how large tables are.
        let remove = format!(
            "WITH gone AS (DELETE FROM duly.{name} WHERE hid = ANY ($1) RETURNING bytes)
             UPDATE duly.meta SET pruned_bytes = pruned_bytes + coalesce((SELECT sum(bytes) FROM gone), 0)
             WHERE EXISTS (SELECT 1 FROM gone)"
        );
        conn.query(&remove, &[(&gone, Type::INT8_ARRAY)])?;
        conn.run(&format!(
            "UPDATE duly.history_tables SET trimmed = 1 WHERE name = '{name}' AND trimmed = 0"
        ))?;
    }
    Ok(Pruned { removed: gone.len(), next })
}

/// The one table of version 1 goes when it is empty and nobody writes to it any more.
fn drop_former(conn: &mut Conn, parts: &[Part]) -> Res<()> {
    const OVER: &str = "SELECT 1 FROM duly.meta WHERE by_day = 1";
    let Some(former) = parts.iter().find(|part| part.is_former()) else { return Ok(()) };
    if rows(conn, former)? == 0 && !conn.query(OVER, &[])?.is_empty() {
        days::drop_whole(conn, former)?;
    }
    Ok(())
}

const USED: &str =
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c
    WHERE c.relnamespace = to_regnamespace('duly') AND c.relkind = 'r'";

/// As the server counts it, free room inside included, because it is soon used again; except in
/// tables of history from which rows were removed: what is left there.
pub(crate) fn used_bytes(conn: &mut Conn) -> Res<u64> {
    let number = |conn: &mut Conn, sql: &str, params: &[Param<'_>]| -> Res<i64> {
        let rows = conn.query(sql, params)?;
        rows.first().map_or(Ok(0), |row| cols(row, "the database", 0).int())
    };
    let mut used = number(conn, USED, &[])?;
    for Part { name, .. } in days::list(conn)?.iter().filter(|part| part.trimmed) {
        let sql = format!(
            "SELECT pg_total_relation_size('duly.{name}') - least(pg_total_relation_size('duly.{name}'),
               coalesce((SELECT max(hid) - min(hid) + 1 FROM duly.{name})
                 * (SELECT sum(s.bytes) / (max(s.hid) - min(s.hid) + 1)
                    FROM (SELECT hid, bytes FROM duly.{name} ORDER BY hid DESC LIMIT $1) AS s), 0))::bigint"
        );
        used -= number(conn, &sql, &[(&SIZE_SAMPLE, Type::INT8)])?;
    }
    Ok(u64::try_from(used).unwrap_or(0))
}
