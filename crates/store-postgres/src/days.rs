//! History lies in plain tables, two for each day (UTC) on which something ended: `history_20261116`
//! and, because failures are kept longer, `failures_20261116`. A day is made ahead and dropped whole:
//! nothing of it is left for vacuum, whatever it held.
//!
//! - `duly.history_tables` names them. Who reads history reads that first and asks all of them, as
//!   one: `source`. A table that is dropped between the two is an error, and the call begins again.
//! - A row's place in the order of ends (`hid`) begins with its day, so that a list goes on from a
//!   place without knowing which tables there were.
//! - The table `history` of version 1 is day 0. It is written only while nodes of that version live
//!   (`contract` in `schema`) and goes when it is empty.
//!
//! What it does not do: find an attempt that is stored on two days. Only the core could write such a
//! thing, and the lease that it removes with the row of history guards that.

use crate::cols::cols;
use crate::conn::{Conn, WRITE};
use crate::error::{Fault, Res};
use crate::history::HISTORY;
use crate::limits::{DROP_WAIT_MS, MAKE_AHEAD_DAYS};
use model::Time;
use model::row::HistoryRow;
use std::collections::BTreeSet;
use store::search::filter::is_failure;
use tokio_postgres::types::Type;

pub(crate) const DAY: i64 = 86_400_000_000;
/// Places that a day has.
const PLACES_BITS: u32 = 40;
/// The last day whose places fit: in the year 13453.
const LAST: i64 = (1 << 22) - 1;

/// Written once, read rarely, dropped whole: a vacuum that only marks pages as visible would read
/// and write all of it for nothing.
const SETTINGS: &str = "autovacuum_vacuum_insert_threshold = -1, fillfactor = 100";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Day(i64);

impl Day {
    /// Of the table of version 1.
    const FORMER: Day = Day(0);

    pub fn of(at: Time) -> Day {
        Day(at.micros().div_euclid(DAY).clamp(1, LAST))
    }

    pub fn of_place(hid: i64) -> Day {
        Day((hid >> PLACES_BITS).clamp(0, LAST))
    }

    fn date(self) -> String {
        let (year, month, day) = model::civil_from_days(self.0);
        format!("{year:04}{month:02}{day:02}")
    }

    fn start(self) -> Time {
        Time::from_micros(self.0 * DAY)
    }

    fn end(self) -> Time {
        Time::from_micros((self.0 + 1) * DAY)
    }
}

/// Where a row belongs.
pub(crate) fn table_of(row: &HistoryRow) -> String {
    name(Day::of(row.finished), is_failure(row.status))
}

fn name(day: Day, failures: bool) -> String {
    let kind = if failures { "failures" } else { "history" };
    format!("{kind}_{}", day.date())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub name: String,
    pub day: Day,
    pub failures: bool,
    /// Rows were removed from it one by one.
    pub trimmed: bool,
}

impl Part {
    /// Is it the one table of version 1?
    pub fn is_former(&self) -> bool {
        self.day == Day::FORMER
    }
}

/// All tables of history, newest first.
pub(crate) fn list(conn: &mut Conn) -> Res<Vec<Part>> {
    const SQL: &str = "SELECT name, day, failures, trimmed FROM duly.history_tables
        ORDER BY day DESC, failures";
    let rows = conn.query(SQL, &[])?;
    rows.iter()
        .map(|row| {
            let mut cols = cols(row, "history_tables", 0);
            Ok(Part {
                name: cols.str()?.to_string(),
                day: Day(cols.int()?),
                failures: cols.flag()?,
                trimmed: cols.flag()?,
            })
        })
        .collect()
}

/// These tables as one, for a FROM.
pub(crate) fn source<'a>(parts: impl IntoIterator<Item = &'a Part>) -> String {
    let columns = HISTORY.columns("h");
    let of = |name: &str| format!("SELECT {columns}, h.hid FROM duly.{name} AS h");
    let mut all: Vec<String> = parts.into_iter().map(|part| of(&part.name)).collect();
    if all.is_empty() {
        all.push(of("history_template"));
    }
    format!("({})", all.join(" UNION ALL "))
}

/// All of history as one.
pub(crate) fn all(conn: &mut Conn) -> Res<String> {
    Ok(source(&list(conn)?))
}

/// Makes the tables of these days where they are missing.
pub(crate) fn make(conn: &mut Conn, days: &BTreeSet<Day>) -> Res<()> {
    let numbers: Vec<i64> = days.iter().map(|day| day.0).collect();
    const THERE: &str = "SELECT day, failures FROM duly.history_tables WHERE day = ANY ($1)";
    conn.transaction(WRITE, |conn| {
        // One at a time: others wait here, and then find them.
        conn.query("SELECT one FROM duly.meta FOR UPDATE", &[])?;
        let there = conn.query(THERE, &[(&numbers, Type::INT8_ARRAY)])?;
        let there = there.iter().map(|row| {
            let mut cols = cols(row, "history_tables", 0);
            Ok((Day(cols.int()?), cols.flag()?))
        });
        let there: BTreeSet<(Day, bool)> = there.collect::<Res<_>>()?;
        for day in days {
            for failures in [false, true].into_iter().filter(|kind| !there.contains(&(*day, *kind)))
            {
                conn.run(&definition(*day, failures))?;
            }
        }
        Ok(())
    })
}

fn definition(day: Day, failures: bool) -> String {
    let (date, first, number, kind) = (day.date(), day.0 << PLACES_BITS, day.0, u8::from(failures));
    let (name, other) = (name(day, failures), name(day, !failures));
    let what = if failures { "did not succeed" } else { "succeeded, and verdicts" };
    // An attempt that ended well and badly: as little as one that ended twice.
    let insert = HISTORY.insert(
        &name,
        &format!(
            " WHERE NOT EXISTS (SELECT 1 FROM duly.{other} AS o \
             WHERE o.run = x.run AND o.token = x.token)"
        ),
    );
    format!(
        "CREATE SEQUENCE IF NOT EXISTS duly.history_{date}_hid START {first} MINVALUE {first} CACHE 1;
         CREATE TABLE duly.{name} (LIKE duly.history_template INCLUDING ALL) WITH ({SETTINGS});
         ALTER TABLE duly.{name} ALTER hid SET DEFAULT nextval('duly.history_{date}_hid');
         COMMENT ON TABLE duly.{name} IS 'What ended on that day (UTC) and {what}. Columns: history_template.';
         INSERT INTO duly.history_tables (name, day, failures, trimmed) VALUES ('{name}', {number}, {kind}, 0);
         {insert}"
    )
}

/// Today and the days to come, by the store's clock.
pub(crate) fn make_ahead(conn: &mut Conn) -> Res<()> {
    let Day(today) = today(conn)?;
    make(conn, &(today..=today + MAKE_AHEAD_DAYS).map(Day).collect())
}

pub(crate) fn today(conn: &mut Conn) -> Res<Day> {
    let rows = conn.query("SELECT duly.clock()", &[])?;
    let now = rows.first().map_or(Ok(Time::MIN), |row| cols(row, "the clock", 0).time())?;
    Ok(Day::of(now))
}

/// What may go: tables of days that were over before, and those of which single rows may go.
#[derive(Debug, Default)]
pub(crate) struct Old {
    /// Oldest first.
    pub whole: Vec<Part>,
    pub in_part: Vec<Part>,
}

/// `before` and the same for failures. A day goes when it was over before; of the present day, which
/// cannot go whole, the rows; and those of the one table of version 1.
pub(crate) fn old(parts: Vec<Part>, today: Day, (before, failures): (Time, Time)) -> Old {
    let mut old = Old::default();
    for part in parts.into_iter().rev() {
        let limit = if part.failures { failures } else { before };
        if part.is_former() || (part.day == today && limit > today.start()) {
            old.in_part.push(part);
        } else if part.day < today && part.day.end() <= limit {
            old.whole.push(part);
        }
    }
    old
}

/// Drops one table. False: somebody reads it, and those who come after would wait behind us.
pub(crate) fn drop_whole(conn: &mut Conn, part: &Part) -> Res<bool> {
    let (name, date) = (&part.name, part.day.date());
    let dropped = conn.transaction(WRITE, |conn| {
        conn.run(&format!("SET LOCAL lock_timeout = {DROP_WAIT_MS}"))?;
        // Who makes a day that is being dropped waits, and makes it anew.
        conn.query("SELECT one FROM duly.meta FOR UPDATE", &[])?;
        conn.run(&format!(
            "DELETE FROM duly.history_tables WHERE name = '{name}'; DROP TABLE duly.{name};"
        ))?;
        if part.is_former() {
            return Ok(());
        }
        conn.run(&HISTORY.drop_insert(name))?;
        let left = "SELECT 1 FROM duly.history_tables WHERE day = $1";
        if conn.query(left, &[(&part.day.0, Type::INT8)])?.is_empty() {
            conn.run(&format!("DROP SEQUENCE duly.history_{date}_hid"))?;
        }
        Ok(())
    });
    match dropped {
        Ok(()) => Ok(true),
        Err(Fault::Sql(error)) if error.code().is_some_and(|code| code.code() == "55P03") => {
            Ok(false)
        }
        Err(fault) => Err(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_names_and_places() {
        let day = Day::of(Time::from_secs(1_794_787_200));
        assert_eq!(name(day, false), "history_20261116");
        assert_eq!(name(day, true), "failures_20261116");
        assert_eq!(Day::of_place(day.0 << PLACES_BITS), day);
        assert_eq!(Day::of_place((day.0 << PLACES_BITS) + 7), day);
        assert_eq!(Day::of_place(5), Day::FORMER, "a place of version 1");
        assert_eq!(Day::of(Time::MIN), Day(1));
        assert!(Day::of(Time::MAX).0 << PLACES_BITS > 0, "the last day has places");
    }

    #[test]
    fn whole_days_go_and_rows_of_today() {
        let part = |day: i64, failures| Part {
            name: name(Day(day), failures),
            day: Day(day),
            failures,
            trimmed: false,
        };
        let parts =
            vec![part(9, false), part(9, true), part(8, false), part(7, false), part(7, true)];
        let at = |day: i64| Day(day).start();
        let names = |parts: &[Part]| parts.iter().map(|part| part.day.0).collect::<Vec<_>>();
        let gone = old(parts.clone(), Day(9), (at(8), at(3)));
        assert_eq!((names(&gone.whole), names(&gone.in_part)), (vec![7], vec![]));
        let noon = Time::from_micros(at(8).micros() - 1);
        assert!(old(parts.clone(), Day(9), (noon, noon)).whole.is_empty(), "not over before");
        let gone = old(parts, Day(9), (Time::from_micros(at(9).micros() + 5), at(8)));
        assert_eq!((names(&gone.whole), names(&gone.in_part)), (vec![7, 7, 8], vec![9]));
    }
}
