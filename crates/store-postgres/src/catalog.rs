//! Entries of the whole cluster: one table, one number that counts the changes and whose row orders
//! those who change.

use crate::cols::cols;
use crate::conn::{Conn, Param};
use crate::error::{Fault, Res};
use crate::runs::bound;
use model::Namespace;
use std::collections::BTreeMap;
use store::catalog::{Changed, Entry, EntryChange, Kind, List, Place};
use tokio_postgres::types::Type;

fn number(kind: Kind) -> i64 {
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

/// Places as arrays: kinds, namespaces, names.
struct Places(Vec<i64>, Vec<i64>, Vec<String>);

impl Places {
    fn of<'a>(places: impl Iterator<Item = &'a Place>) -> Places {
        let mut all = Places(Vec::new(), Vec::new(), Vec::new());
        for place in places {
            all.0.push(number(place.kind));
            all.1.push(place.namespace.0.into());
            all.2.push(place.name.to_string());
        }
        all
    }

    fn params(&self) -> Vec<Param<'_>> {
        let ints: [Param<'_>; 2] = [(&self.0, Type::INT8_ARRAY), (&self.1, Type::INT8_ARRAY)];
        ints.into_iter().chain([(&self.2 as _, Type::TEXT_ARRAY)]).collect()
    }
}

pub(crate) fn get(conn: &mut Conn, places: &[Place]) -> Res<Vec<Option<Entry>>> {
    const SQL: &str = "SELECT x.n, c.namespace, c.name, c.rev, c.at, c.text
        FROM unnest($1, $2, $3) WITH ORDINALITY AS x(kind, namespace, name, n)
        JOIN duly.catalog AS c ON c.kind = x.kind AND c.namespace = x.namespace AND c.name = x.name";
    let mut found = vec![None; places.len()];
    let wanted = Places::of(places.iter());
    for row in conn.query(SQL, &wanted.params())? {
        let n: usize = cols(&row, "catalog", 0).num()?;
        let at = n.saturating_sub(1);
        if let (Some(slot), Some(place)) = (found.get_mut(at), places.get(at)) {
            *slot = Some(read(&row, place.kind)?);
        }
    }
    Ok(found)
}

pub(crate) fn list(conn: &mut Conn, list: &List) -> Res<Vec<Entry>> {
    const SQL: &str = "SELECT kind, namespace, name, rev, at, text FROM duly.catalog
        WHERE kind = $1 AND (namespace, name) > ($2, $3) AND namespace <= $4
        ORDER BY namespace, name LIMIT $5";
    let first = list.namespace.map_or(0, |namespace| namespace.0);
    let last = list.namespace.map_or(u32::MAX, |namespace| namespace.0);
    // Behind every name of the namespace before the first, or after the one that is named.
    let (after, name) = match &list.after {
        Some((namespace, name)) if namespace.0 >= first => (i64::from(namespace.0), &**name),
        _ => (i64::from(first) - 1, "\u{10ffff}"),
    };
    let params: [Param<'_>; 5] = [
        (&number(list.kind), Type::INT8),
        (&after, Type::INT8),
        (&name, Type::TEXT),
        (&i64::from(last), Type::INT8),
        (&bound(list.limit), Type::INT8),
    ];
    conn.query(SQL, &params)?.iter().map(|row| read(row, list.kind)).collect()
}

/// In a transaction; those who change wait for each other at the number. What does not find what it
/// expects changes nothing, but for the number, which no entry has.
pub(crate) fn change(conn: &mut Conn, changes: &[EntryChange]) -> Res<Changed> {
    let rows = conn.query("UPDATE duly.catalog_rev SET rev = rev + 1 RETURNING one, rev", &[])?;
    let Some(row) = rows.first() else {
        return Err(Fault::Odd("table catalog_rev has no row".into()));
    };
    let rev = cols(row, "catalog_rev", 1).bits()?;
    let places: Vec<Place> = changes.iter().map(|change| change.place.clone()).collect();
    let found = get(conn, &places)?;
    let mut now: BTreeMap<&Place, Option<u64>> = places
        .iter()
        .zip(found)
        .map(|(place, entry)| (place, entry.map(|entry| entry.rev)))
        .collect();
    let mut left: BTreeMap<&Place, Option<&str>> = BTreeMap::new();
    for (index, change) in changes.iter().enumerate() {
        let stands = now.entry(&change.place).or_default();
        if *stands != change.expect {
            return Ok(Changed::Other { index });
        }
        *stands = change.text.as_ref().map(|_| rev);
        left.insert(&change.place, change.text.as_deref());
    }
    let all = Places::of(left.keys().copied());
    let texts: Vec<Option<&str>> = left.values().copied().collect();
    let mut params = all.params();
    conn.query(
        "DELETE FROM duly.catalog AS c USING unnest($1, $2, $3) AS x(kind, namespace, name)
         WHERE c.kind = x.kind AND c.namespace = x.namespace AND c.name = x.name",
        &params,
    )?;
    params.push((&texts, Type::TEXT_ARRAY));
    let rev_param = rev as i64;
    params.push((&rev_param, Type::INT8));
    conn.query(
        "INSERT INTO duly.catalog (kind, namespace, name, rev, at, text)
         SELECT x.kind, x.namespace, x.name, $5, duly.clock(), x.text
         FROM unnest($1, $2, $3, $4) AS x(kind, namespace, name, text) WHERE x.text IS NOT NULL",
        &params,
    )?;
    Ok(Changed::Made { rev })
}

fn read(row: &tokio_postgres::Row, kind: Kind) -> Res<Entry> {
    let mut cols = cols(row, "catalog", 1);
    let place = Place { kind, namespace: Namespace(cols.num()?), name: cols.text()? };
    Ok(Entry { place, rev: cols.bits()?, at: cols.time()?, text: cols.text()? })
}
