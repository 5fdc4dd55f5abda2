//! Makes the schema, brings it to this version, and tells who may use it.
//!
//! `tables` has what is made. A later version is a step behind the others, raises `VERSION`, and raises
//! `min_reader` or `min_writer` only when older code would misread or damage what it writes, because
//! nodes of both versions run together while a cluster is upgraded. A step is one transaction.
//! Functions are told apart by their parameters, so those of an older version stay beside new ones.
//!
//! **Version 1 to 2**: `expand` adds what version 2 needs and changes nothing for version 1. Nodes of
//! version 2 read all tables of history and write to the one that version 1 knows. When no node of
//! version 1 has a lease any more, the first of version 2 that looks `contract`s: from then on history
//! is written by day, version 1 may not open the database, and one that slept meanwhile is refused
//! its lease and its history in words.
//!
//! Several nodes may start at once: the step locks the row of `meta`, or, before there is one, the
//! name of the schema, which only one transaction can make. No session lock: a pooler would leave it
//! with a stranger.
//!
//! What it does not do: go back to a former version, touch a schema that is not duly's, or need a
//! superuser: it needs CREATE on the database once, and owns what it makes.

use crate::cols::cols;
use crate::conn::{Conn, WRITE};
use crate::error::{Fault, OpenError, Res};
use crate::queues::{QUEUES, STEP_3, STEP_4};
use crate::starts::STEP_5;
use crate::table::Table;
use crate::tables::{HOT, STEP_2, STEP_6, STEP_7, TABLES, key_tables};
use crate::{claims, functions, history, jobs, origin, runs};
use model::id::SHARDS;

/// The version this code writes, and the newest `min_reader`/`min_writer` it satisfies.
pub(crate) const VERSION: i64 = 7;

/// Makes the tables where there are none; checks that others can be used by this code.
pub(crate) fn migrate(conn: &mut Conn) -> Result<(), OpenError> {
    // Two nodes that make the schema at once: one is refused by a name that is taken, and looks
    // again. More than two tries would mean something else.
    for last in [false, true] {
        match conn.transaction(WRITE, step) {
            Ok(()) => break,
            Err(fault) if !last && is_taken(&fault) => {
                // The failed transaction may not have been ended: such faults drop a connection
                // elsewhere, here it is still ours.
                conn.run("ROLLBACK")?;
            }
            Err(fault) => return Err(fault.into()),
        }
    }
    let rows = conn
        .query("SELECT min_reader, min_writer FROM duly.meta", &[])
        .map_err(|_| OpenError::Foreign)?;
    let Some(row) = rows.first() else { return Err(OpenError::Foreign) };
    let needs = row.get::<_, i64>(0).max(row.get(1));
    if needs > VERSION { Err(OpenError::Newer { needs, knows: VERSION }) } else { Ok(()) }
}

fn is_taken(fault: &Fault) -> bool {
    // unique_violation in a catalog, duplicate_schema, duplicate_table, duplicate_function
    fault.state().is_some_and(|state| ["23505", "42P06", "42P07", "42723"].contains(&state.code()))
}

fn step(conn: &mut Conn) -> Res<()> {
    let there = conn.query(
        "SELECT to_regnamespace('duly') IS NOT NULL, to_regclass('duly.meta') IS NOT NULL",
        &[],
    )?;
    let (schema, meta) = there.first().map_or((false, false), |row| (row.get(0), row.get(1)));
    if !schema {
        make(conn)?;
        return expand(conn);
    }
    if !meta {
        return Ok(());
    }
    // Who comes second waits here until the first is done.
    let rows = conn.query("SELECT one, version FROM duly.meta FOR UPDATE", &[])?;
    crate::cluster::expand(conn)?;
    match rows.first().map(|row| cols(row, "meta", 1).int()).transpose()? {
        Some(1) => expand(conn),
        Some(2) => limits(conn),
        Some(3) => levels(conn),
        Some(4) => starts(conn),
        Some(5) => keys(conn),
        Some(6) => lookups(conn),
        _ => Ok(()),
    }
}

/// From version 2 to 3.
fn limits(conn: &mut Conn) -> Res<()> {
    conn.run(STEP_3)?;
    levels(conn)
}

/// From version 3 to 4.
fn levels(conn: &mut Conn) -> Res<()> {
    conn.run(STEP_4)?;
    starts(conn)
}

/// From version 4 to 5.
fn starts(conn: &mut Conn) -> Res<()> {
    conn.run(STEP_5)?;
    conn.run(&functions::fence())?;
    keys(conn)
}

/// From version 5 to 6, which counts for API keys.
fn keys(conn: &mut Conn) -> Res<()> {
    conn.run(STEP_6)?;
    lookups(conn)
}

/// From version 6 to 7, whose functions find rows by their keys whatever the statistics say. Those of all
/// tables are made here only, whatever version it began with: they name the columns that the steps add.
fn lookups(conn: &mut Conn) -> Res<()> {
    conn.run(STEP_7)?;
    conn.run(&functions::all())?;
    // Nodes of version 5 call those of their own columns, also where this version made the tables.
    let (runs, specs) = (runs::RUNS, jobs::SPECS);
    let runs = Table { kept: &runs.kept[..runs.kept.len() - 1], ..runs };
    let specs = Table { values: &specs.values[..specs.values.len() - 1], ..specs };
    let tables = [
        &runs,
        &specs,
        &runs::RUNS,
        &claims::LEASES,
        &claims::CHECKPOINTS,
        &claims::HOLDS,
        &jobs::JOBS,
        &jobs::SPECS,
        &jobs::BACKLOGS,
        &QUEUES,
    ];
    for table in tables {
        conn.run(&table.functions())?;
    }
    conn.run(&format!("UPDATE duly.meta SET version = {VERSION}"))
}

/// Version 1, without its one table of history, which nobody needs who begins with version 2.
fn make(conn: &mut Conn) -> Res<()> {
    conn.run(&TABLES.replace("HOT_TABLE", HOT))?;
    conn.run(&key_tables())?;
    conn.run(&format!(
        "INSERT INTO duly.meta VALUES (1, 1, 1, 1, 1, 0, 0);
         INSERT INTO duly.shards SELECT n, NULL, NULL, 0, 1 FROM generate_series(0, {SHARDS} - 1) n;
         INSERT INTO duly.commits SELECT n, 0, 0, 0, 0, 0 FROM generate_series(0, {SHARDS} - 1) n;"
    ))?;
    crate::cluster::expand(conn)
}

/// From version 1 to 2, of which version 1 notices nothing. Each step goes on with
/// the next one, and the last one makes the functions of the tables.
fn expand(conn: &mut Conn) -> Res<()> {
    conn.run(STEP_2)?;
    conn.run(
        "INSERT INTO duly.history_tables SELECT 'history', 0, 0, 0
         WHERE to_regclass('duly.history') IS NOT NULL",
    )?;
    conn.run(&functions::all())?;
    origin::record(conn)?;
    limits(conn)
}

/// Begins to write history by day, if no node of version 1 lives. Returns whether it is so.
pub(crate) fn contract(conn: &mut Conn) -> Res<bool> {
    const DONE: &str = "SELECT one, by_day FROM duly.meta";
    const ALIVE: &str = "SELECT 1 FROM duly.nodes WHERE version < 2 AND expires > duly.clock()";
    let is_done = |rows: Vec<tokio_postgres::Row>| {
        rows.first().map_or(Ok(false), |row| cols(row, "meta", 1).flag())
    };
    if is_done(conn.query(DONE, &[])?)? {
        return Ok(true);
    }
    conn.transaction(WRITE, |conn| {
        if is_done(conn.query(&format!("{DONE} FOR UPDATE"), &[])?)? {
            return Ok(true);
        }
        // A renewal that is under way is waited for, and seen.
        conn.run("LOCK TABLE duly.nodes IN SHARE ROW EXCLUSIVE MODE")?;
        if !conn.query(ALIVE, &[])?.is_empty() {
            return Ok(false);
        }
        let there = conn.query("SELECT 1 FROM duly.history_tables WHERE day = 0", &[])?;
        if !there.is_empty() {
            conn.run(&functions::former(&history::HISTORY.kinds()))?;
        }
        conn.run("UPDATE duly.meta SET by_day = 1, min_reader = 2, min_writer = 2")?;
        Ok(true)
    })
}
