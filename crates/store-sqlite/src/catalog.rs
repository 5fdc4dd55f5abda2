//! Entries of the whole cluster: one table, one number that counts the changes.

use crate::cols::cols;
use crate::error::{Fault, Res};
use crate::runs::bound;
use model::{Namespace, Time};
use rusqlite::{Connection, params};
use store::catalog::{Changed, Entry, EntryChange, Kind, List, Place};

const COLUMNS: &str = "kind, namespace, name, rev, at, text";

pub(crate) fn number(kind: Kind) -> i64 {
    match kind {
        Kind::Namespace => 1,
        Kind::NamespaceNumber => 2,
        Kind::Name => 3,
        Kind::Queue => 4,
        Kind::ApiKey => 5,
        Kind::Operation => 6,
        Kind::Setting => 7,
    }
}

pub(crate) fn get(conn: &Connection, place: &Place) -> Res<Option<Entry>> {
    let sql =
        format!("SELECT {COLUMNS} FROM catalog WHERE kind = ?1 AND namespace = ?2 AND name = ?3");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![number(place.kind), place.namespace.0, &*place.name])?;
    rows.next()?.map(|row| read(row, place.kind)).transpose()
}

pub(crate) fn list(conn: &Connection, list: &List) -> Res<Vec<Entry>> {
    let first = list.namespace.map_or(0, |namespace| namespace.0);
    let last = list.namespace.map_or(u32::MAX, |namespace| namespace.0);
    // Nothing sorts before the number before the first.
    let (after, name) = match &list.after {
        Some((namespace, name)) if namespace.0 >= first => (i64::from(namespace.0), &**name),
        _ => (i64::from(first) - 1, ""),
    };
    // Behind every name of the namespace before.
    let after = (after, if after < i64::from(first) { "\u{10ffff}" } else { name });
    let sql = format!(
        "SELECT {COLUMNS} FROM catalog
         WHERE kind = ?1 AND (namespace, name) > (?2, ?3) AND namespace <= ?4
         ORDER BY namespace, name LIMIT ?5"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let params = params![number(list.kind), after.0, after.1, last, bound(list.limit)];
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row, list.kind)?);
    }
    Ok(found)
}

/// In the writer's transaction. A change that finds something else ends all of them: the caller
/// rolls back.
pub(crate) fn change(conn: &Connection, changes: &[EntryChange], now: Time) -> Res<Changed> {
    let rev: i64 = conn
        .prepare_cached("UPDATE catalog_rev SET rev = rev + 1 RETURNING rev")?
        .query_row([], |row| row.get(0))?;
    for (index, change) in changes.iter().enumerate() {
        let place = &change.place;
        let key = params![number(place.kind), place.namespace.0, &*place.name];
        let found = get(conn, place)?.map(|entry| entry.rev);
        if found != change.expect {
            return Ok(Changed::Other { index });
        }
        match &change.text {
            Some(text) => {
                conn.prepare_cached(
                    "INSERT OR REPLACE INTO catalog VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![
                    number(place.kind),
                    place.namespace.0,
                    &*place.name,
                    rev,
                    now.micros(),
                    &**text
                ])?;
            }
            None => {
                conn.prepare_cached(
                    "DELETE FROM catalog WHERE kind = ?1 AND namespace = ?2 AND name = ?3",
                )?
                .execute(key)?;
            }
        }
    }
    Ok(Changed::Made { rev: rev as u64 })
}

fn read(row: &rusqlite::Row<'_>, kind: Kind) -> Res<Entry> {
    let mut cols = cols(row, "catalog", 1);
    let place = Place { kind, namespace: Namespace(cols.num()?), name: cols.text()? };
    let (rev, at): (u64, Time) = (cols.bits()?, cols.time()?);
    Ok::<Entry, Fault>(Entry { place, rev, at, text: cols.text()? })
}
