//! Idempotency keys: today's table and yesterday's, emptied whole.
//!
//! Days are counted by the store's clock, so a key lives through its own day and the next one: 24
//! to 48 hours. The tables turn with the first commit or `rotate` of a new day. A read comes from
//! a connection that cannot write, so until then it leaves out what the turn would empty: a late
//! turn cannot make a key live longer.
//!
//! Which table is today's is stored and not computed from the day's parity: a clock that steps
//! back must not make yesterday's keys today's.

use crate::cols::cols;
use crate::error::Res;
use crate::table::{Prepared, Shape, Table};
use model::Time;
use model::id::ShardId;
use model::row::{Expect, IdempotencyKey, IdempotencyRow, Made, Row};
use rusqlite::{Connection, params};
use std::sync::LazyLock;
use store::codec::ids::{self, backlog_bytes, job_bytes, run_bytes};

const DAY_MICROS: i64 = 86_400_000_000;
const EMPTY: [&str; 2] = ["DELETE FROM keys_0", "DELETE FROM keys_1"];

pub(crate) static KEYS: LazyLock<[Table; 2]> = LazyLock::new(|| {
    ["keys_0", "keys_1"].map(|name| {
        Table::new(&Shape {
            name,
            key: &["shard", "namespace", "queue", "grp", "key"],
            values: &["at", "body", "made", "made_id"],
            kept: &[],
            rev: false,
        })
    })
});

/// The tables as they count at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Days {
    today: usize,
    /// Does today's table hold keys that still count; does yesterday's?
    known: [bool; 2],
}

impl Days {
    /// Yesterday's table.
    fn other(self) -> usize {
        1 - self.today
    }
}

fn stored(conn: &Connection) -> Res<(i64, usize)> {
    let mut statement =
        conn.prepare_cached("SELECT one, version, incarnation, key_day, key_table FROM meta")?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else {
        return Err(crate::error::Fault::Odd("table meta has no row".into()));
    };
    let mut cols = cols(row, "meta", 3);
    let day = cols.int()?;
    let table: usize = cols.num()?;
    if table > 1 { Err(cols.odd()) } else { Ok((day, table)) }
}

fn day_of(now: Time) -> i64 {
    now.micros().div_euclid(DAY_MICROS)
}

/// For a reader.
pub(crate) fn days(conn: &Connection, now: Time) -> Res<Days> {
    let (day, today) = stored(conn)?;
    let known = match day_of(now).saturating_sub(day) {
        // What a turn would make yesterday's is all that counts.
        1 => [true, false],
        days if days > 1 => [false, false],
        _ => [true, true],
    };
    Ok(Days { today, known })
}

/// For a writer, in its transaction: empties what is too old.
pub(crate) fn turn(conn: &Connection, now: Time) -> Res<Days> {
    let (day, mut today) = stored(conn)?;
    let new = day_of(now);
    let days = new.saturating_sub(day);
    match days {
        // The same day, or the clock stepped back over midnight: what is known stays known.
        0 | -1 => return Ok(Days { today, known: [true, true] }),
        1 => {
            today = 1 - today;
            conn.prepare_cached(EMPTY[today])?.execute([])?;
        }
        days if days > 1 => {
            for table in EMPTY {
                conn.prepare_cached(table)?.execute([])?;
            }
        }
        // The clock had been far ahead: all that is known counts as new, so it ends in time.
        _ => {}
    }
    conn.prepare_cached("UPDATE meta SET key_day = ?1, key_table = ?2")?
        .execute(params![new, today as i64])?;
    Ok(Days { today, known: [true, true] })
}

pub(crate) fn put(
    conn: &Prepared<'_>,
    days: Days,
    shard: ShardId,
    key: &IdempotencyKey,
    row: Option<&IdempotencyRow>,
    expect: Expect,
) -> Res<bool> {
    let group = ids::group_text(key.group.as_ref());
    let place = params![shard.0, key.namespace.0, &*key.queue, group, &*key.key];
    let (today, yesterday) = (&KEYS[days.today], &KEYS[days.other()]);
    match expect {
        Expect::Absent if yesterday.exists(conn.conn, place)? => return Ok(false),
        Expect::Absent => {}
        // Wherever it lies; what replaces it is today's.
        Expect::Rev(_) => {
            let gone = today.put(conn, place, None, expect)?
                || yesterday.put(conn, place, None, expect)?;
            if !gone {
                return Ok(false);
            }
        }
    }
    let Some(row) = row else { return today.put(conn, place, None, Expect::Absent) };
    let (made, id) = match row.answer {
        Made::Job(id) => (0, job_bytes(id).to_vec()),
        Made::Run(id) => (1, run_bytes(id).to_vec()),
        Made::Backlog(id) => (2, backlog_bytes(id).to_vec()),
    };
    let values = params![row.at.micros(), row.body as i64, made, id];
    today.put(conn, place, Some(values), Expect::Absent)
}

pub(crate) fn get(
    conn: &Connection,
    days: Days,
    shard: ShardId,
    key: &IdempotencyKey,
) -> Res<Option<Row>> {
    let group = ids::group_text(key.group.as_ref());
    let place = params![shard.0, key.namespace.0, &*key.queue, group, &*key.key];
    for (table, known) in [days.today, days.other()].into_iter().zip(days.known) {
        if known && let Some(row) = KEYS[table].get(conn, place, read)? {
            return Ok(Some(Row::Idempotency(row)));
        }
    }
    Ok(None)
}

fn read(row: &rusqlite::Row<'_>) -> Res<IdempotencyRow> {
    let mut cols = cols(row, "keys", 5);
    let (at, body, made) = (cols.time()?, cols.bits()?, cols.int()?);
    let answer = match made {
        0 => Made::Job(cols.job()?),
        1 => Made::Run(cols.run()?),
        2 => Made::Backlog(cols.backlog()?),
        _ => return Err(cols.odd()),
    };
    Ok(IdempotencyRow { at, body, answer })
}
