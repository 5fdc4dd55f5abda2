//! The four ways a change touches a table, as SQL made from its list of columns. Whether a change
//! found what it expected is read from the number of changed rows: no look before the write.
//!
//! Parameters are always: the key, then the values, then the expected revision.

use crate::error::Res;
use model::row::Expect;
use rusqlite::{CachedStatement, Connection, Params as Bound, ToSql, params_from_iter};
use std::cell::RefCell;

/// The statements of one call, kept at hand: a commit makes thousands of changes with a handful of
/// statements, and looking each up by its text costs as much as a small change.
pub(crate) struct Prepared<'c> {
    pub conn: &'c Connection,
    /// By where their text lies: it belongs to a table, and tables stay where they are.
    held: RefCell<Vec<(usize, CachedStatement<'c>)>>,
}

impl<'c> Prepared<'c> {
    pub fn new(conn: &'c Connection) -> Prepared<'c> {
        Prepared { conn, held: RefCell::default() }
    }

    /// Changes rows and says how many.
    fn execute(&self, sql: &str, params: impl Bound) -> Res<usize> {
        let place = sql.as_ptr() as usize;
        let mut held = self.held.borrow_mut();
        if let Some((_, statement)) = held.iter_mut().find(|(other, _)| *other == place) {
            return Ok(statement.execute(params)?);
        }
        let mut statement = self.conn.prepare_cached(sql)?;
        let changed = statement.execute(params)?;
        held.push((place, statement));
        Ok(changed)
    }
}

pub(crate) type Params<'a> = &'a [&'a dyn ToSql];

#[derive(Debug)]
pub(crate) struct Table {
    insert: String,
    update: String,
    delete: String,
    exists: String,
    /// All columns, key first, of the row with this key.
    pub select: String,
    /// Of all rows, with the columns that `select` leaves out.
    pub list: String,
}

/// What a table is made of. `rev`: does a row count its changes? Those that do not have 1.
/// `kept`: columns where a NULL in an update means "as it was"; they come last and are left out of
/// `select`.
#[derive(Debug)]
pub(crate) struct Shape<'a> {
    pub name: &'a str,
    pub key: &'a [&'a str],
    pub values: &'a [&'a str],
    pub kept: &'a [&'a str],
    pub rev: bool,
}

impl Table {
    pub fn new(shape: &Shape<'_>) -> Table {
        let Shape { name, key, values, kept, rev } = shape;
        let all: Vec<&str> = key.iter().chain(*values).chain(*kept).copied().collect();
        let marks: Vec<String> = (1..=all.len()).map(|n| format!("?{n}")).collect();
        let equal = |(n, column): (usize, &&str)| format!("{column} = ?{}", n + 1);
        let is_row = key.iter().enumerate().map(equal).collect::<Vec<_>>().join(" AND ");
        let first = key.len();
        let mut set: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(n, column)| format!("{column} = ?{}", first + n + 1))
            .collect();
        let first = first + values.len();
        set.extend(
            kept.iter()
                .enumerate()
                .map(|(n, column)| format!("{column} = coalesce(?{}, {column})", first + n + 1)),
        );
        // A row that does not count has revision 1, which no statement needs to look up.
        let met = |n: usize| if *rev { format!("rev = ?{n}") } else { format!("1 = ?{n}") };
        Table {
            insert: format!(
                "INSERT INTO {name} ({}) VALUES ({}) ON CONFLICT DO NOTHING",
                all.join(", "),
                marks.join(", ")
            ),
            update: format!(
                "UPDATE {name} SET {} WHERE {is_row} AND {}",
                set.join(", "),
                met(all.len() + 1)
            ),
            delete: format!("DELETE FROM {name} WHERE {is_row} AND {}", met(key.len() + 1)),
            exists: format!("SELECT 1 FROM {name} WHERE {is_row}"),
            select: format!(
                "SELECT {} FROM {name} WHERE {is_row}",
                all[..all.len() - kept.len()].join(", ")
            ),
            list: format!("SELECT {} FROM {name}", all.join(", ")),
        }
    }

    #[cfg(test)]
    pub fn all(&self) -> Vec<&str> {
        vec![&self.update, &self.delete, &self.exists, &self.select]
    }

    /// Makes one change; false where the row was not as expected.
    pub fn put(
        &self,
        conn: &Prepared<'_>,
        key: Params<'_>,
        values: Option<Params<'_>>,
        expect: Expect,
    ) -> Res<bool> {
        match (expect, values) {
            (Expect::Absent, Some(values)) => {
                let params = params_from_iter(key.iter().chain(values));
                Ok(conn.execute(&self.insert, params)? == 1)
            }
            (Expect::Absent, None) => Ok(!self.exists(conn.conn, key)?),
            (Expect::Rev(rev), Some(values)) => {
                let rev: &dyn ToSql = &rev;
                let params = params_from_iter(key.iter().chain(values).chain([&rev]));
                Ok(conn.execute(&self.update, params)? == 1)
            }
            (Expect::Rev(rev), None) => {
                let rev: &dyn ToSql = &rev;
                let params = params_from_iter(key.iter().chain([&rev]));
                Ok(conn.execute(&self.delete, params)? == 1)
            }
        }
    }

    pub fn exists(&self, conn: &Connection, key: Params<'_>) -> Res<bool> {
        Ok(conn.prepare_cached(&self.exists)?.exists(key)?)
    }

    /// The row with this key, read by `read`.
    pub fn get<T>(
        &self,
        conn: &Connection,
        key: Params<'_>,
        read: impl FnOnce(&rusqlite::Row<'_>) -> Res<T>,
    ) -> Res<Option<T>> {
        let mut statement = conn.prepare_cached(&self.select)?;
        let mut rows = statement.query(key)?;
        match rows.next()? {
            Some(row) => read(row).map(Some),
            None => Ok(None),
        }
    }
}
