//! The history: found by run and token, and by a job's nominal instants.

use crate::cols::cols;
use crate::error::Res;
use crate::table::{Prepared, Shape, Table};
use model::id::ShardId;
use model::read::Outcome;
use model::row::{Expect, HistoryRow, Row};
use model::{Cause, JobId, RunId, Time, Token};
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use store::codec::codes::Code;
use store::codec::ids::{job_bytes, last_of, run_bytes};
use store::codec::rows;
use store::outcome::{Past, Seen, stands_for_an_instant};

const KEY: [&str; 3] = ["shard", "run", "token"];
const VALUES: [&str; 23] = [
    "attempt",
    "namespace",
    "nominal",
    "due",
    "started",
    "finished",
    "version",
    "status",
    "worker",
    "code",
    "error",
    "output",
    "state_after",
    "next",
    "until",
    "count",
    "flow_namespace",
    "queue",
    "kind",
    "priority",
    "lane",
    "grp",
    "planned_job",
];

pub(crate) static HISTORY: LazyLock<Table> = LazyLock::new(|| {
    Table::new(&Shape { name: "history", key: &KEY, values: &VALUES, kept: &[], rev: false })
});

/// The columns that `read` reads, for a statement in which the table is called `name`.
pub(crate) fn columns(name: &str) -> String {
    let columns: Vec<String> =
        KEY.iter().chain(&VALUES).map(|column| format!("{name}.{column}")).collect();
    columns.join(", ")
}

pub(crate) fn put(
    conn: &Prepared<'_>,
    shard: ShardId,
    (run, token): (RunId, Token),
    row: Option<&HistoryRow>,
    expect: Expect,
) -> Res<bool> {
    let id = run_bytes(run);
    let key = params![shard.0, id, token.0 as i64];
    let Some(row) = row else { return HISTORY.put(conn, key, None, expect) };
    let flow = row.flow.as_ref();
    let other = flow.map(|flow| flow.namespace).filter(|namespace| *namespace != row.namespace);
    let values = params![
        row.attempt,
        row.namespace.0,
        row.nominal.micros(),
        row.due.micros(),
        row.started.map(Time::micros),
        row.finished.micros(),
        row.version,
        row.status.code(),
        row.worker.as_deref(),
        row.code,
        row.error.as_deref(),
        row.output.as_deref(),
        row.after.code(),
        row.next.map(Time::micros),
        row.until.map(Time::micros),
        row.count as i64,
        other.map(|namespace| namespace.0),
        flow.map(|flow| &*flow.queue),
        flow.map(|flow| &*flow.kind),
        flow.map(|flow| flow.priority),
        flow.map(|flow| flow.lane.code()),
        flow.map(|flow| store::codec::ids::group_text(flow.group.as_ref())),
        (run.cause() != Cause::OneOff).then(|| job_bytes(run.job)),
    ];
    HISTORY.put(conn, key, Some(values), expect)
}

pub(crate) fn get(conn: &Connection, shard: ShardId, run: RunId, token: Token) -> Res<Option<Row>> {
    HISTORY.get(conn, params![shard.0, run_bytes(run), token.0 as i64], |row| {
        read(row).map(|row| Row::History(Box::new(row)))
    })
}

pub(crate) static OF_RUN: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM history AS h INDEXED BY history_run WHERE run = ?1 ORDER BY token LIMIT ?2",
        columns("h")
    )
});

/// What was tried for a run, in the order of the ends: what became of it without an attempt has no
/// token and comes last.
pub(crate) fn of_run(conn: &Connection, run: RunId, limit: usize) -> Res<Vec<HistoryRow>> {
    let params = params![run_bytes(run), crate::runs::bound(limit)];
    let mut rows = crate::runs::list(conn, &OF_RUN, params, read)?;
    rows.sort_by_key(|row| (row.finished, row.token == Token::NONE, row.token));
    Ok(rows)
}

pub(crate) static LAST_OF_RUN: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM history AS h INDEXED BY history_run
         WHERE run = ?1 ORDER BY token DESC LIMIT 1",
        columns("h")
    )
});

/// Tokens grow, so the largest is the last attempt that ended.
pub(crate) fn last_of_run(conn: &Connection, run: RunId) -> Res<Option<HistoryRow>> {
    let rows = crate::runs::list(conn, &LAST_OF_RUN, params![run_bytes(run)], read)?;
    Ok(rows.into_iter().next())
}

pub(crate) const REMOVE: &str = "DELETE FROM history WHERE hid = ?1";

pub(crate) static VERDICTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM history AS h INDEXED BY history_instants
         WHERE planned_job = ?1 AND nominal >= ?2 AND nominal <= ?3
         ORDER BY nominal LIMIT ?4",
        columns("h")
    )
});

pub(crate) static VERDICT_RANGES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM history AS h INDEXED BY history_ranges
         WHERE planned_job = ?1 AND until >= ?2 AND until > nominal AND nominal < ?2
         ORDER BY until LIMIT ?4",
        columns("h")
    )
});

/// Ends and verdicts of a job's instants in `[from, until]`; ranges that reach into it are whole.
pub(crate) fn verdicts(
    conn: &Connection,
    job: JobId,
    (from, until): (Time, Time),
    limit: usize,
) -> Res<Vec<HistoryRow>> {
    let id = job_bytes(job);
    let params = params![id, from.micros(), until.micros(), crate::runs::bound(limit)];
    let mut rows = crate::runs::list(conn, &VERDICT_RANGES, params, read)?;
    rows.extend(crate::runs::list(conn, &VERDICTS, params, read)?);
    rows.retain(|row| {
        stands_for_an_instant(row.run)
            && (row.status.is_verdict_only() || store::search::filter::is_end(row))
    });
    rows.sort_by_key(|row| (row.nominal, row.run, row.token));
    rows.truncate(limit);
    Ok(rows)
}

/// A row, and its place in the order of ends.
pub(crate) fn read_with_hid(row: &rusqlite::Row<'_>) -> Res<(HistoryRow, i64)> {
    let hid = cols(row, "history", KEY.len() + VALUES.len()).int()?;
    Ok((read(row)?, hid))
}

pub(crate) fn read(row: &rusqlite::Row<'_>) -> Res<HistoryRow> {
    rows::history(&mut cols(row, "history", 1))
}

pub(crate) const RANGES: &str = "SELECT shard, run, token, nominal, until, finished, status
         FROM history INDEXED BY history_ranges
         WHERE planned_job = ?2 AND until > ?3 AND until > nominal AND nominal <= ?4
           AND shard = ?1 AND NOT substr(run, 17, 1) BETWEEN x'20' AND x'2f'";

pub(crate) const INSTANTS: &str = "SELECT shard, run, token, nominal, nominal, finished, status
         FROM history INDEXED BY history_instants
         WHERE planned_job = ?2 AND nominal > ?3 AND nominal <= ?4 AND shard = ?1
           AND NOT coalesce(until > nominal, 0)
           AND NOT substr(run, 17, 1) BETWEEN x'20' AND x'2f'
         ORDER BY nominal";

/// One outcome for each instant, and one for each range that overlaps `(after, until]`, whole.
pub(crate) fn outcomes(
    conn: &Connection,
    shard: ShardId,
    job: JobId,
    (after, until): (Time, Time),
    limit: usize,
) -> Res<Vec<Outcome>> {
    let mut seen: BTreeMap<(Time, Time), Seen> = BTreeMap::new();
    if after >= until {
        return Ok(Vec::new());
    }
    live(conn, shard, job, (after, until), &mut seen)?;
    let id = job_bytes(job);
    let params = params![shard.0, id, after.micros(), until.micros()];
    let mut statement = conn.prepare_cached(RANGES)?;
    let mut rows = statement.query(params)?;
    while let Some(row) = rows.next()? {
        let past = past(row)?;
        seen.entry((past.nominal, past.until)).or_default().add(&past);
    }
    let mut statement = conn.prepare_cached(INSTANTS)?;
    let mut rows = statement.query(params)?;
    let (mut counted, mut last) = (0, None);
    while let Some(row) = rows.next()? {
        let past = past(row)?;
        if last != Some(past.nominal) {
            last = Some(past.nominal);
            counted += 1;
            if counted > limit {
                break;
            }
        }
        seen.entry((past.nominal, past.nominal)).or_default().add(&past);
    }
    Ok(seen.into_iter().map(|(instants, seen)| seen.outcome(instants)).take(limit).collect())
}

/// The unfinished runs of the job.
fn live(
    conn: &Connection,
    shard: ShardId,
    job: JobId,
    (after, until): (Time, Time),
    seen: &mut BTreeMap<(Time, Time), Seen>,
) -> Res<()> {
    let mut statement = conn.prepare_cached(
        "SELECT shard, id, rev, nominal FROM runs INDEXED BY runs_id
         WHERE id > ?2 AND id <= ?3 AND shard = ?1 AND nominal > ?4 AND nominal <= ?5",
    )?;
    let params = params![shard.0, job_bytes(job), last_of(job), after.micros(), until.micros()];
    let mut rows = statement.query(params)?;
    while let Some(row) = rows.next()? {
        let mut cols = cols(row, "runs", 1);
        if stands_for_an_instant(cols.run()?) {
            cols.skip(1);
            let nominal = cols.time()?;
            seen.entry((nominal, nominal)).or_default().live();
        }
    }
    Ok(())
}

fn past(row: &rusqlite::Row<'_>) -> Res<Past> {
    let mut cols = cols(row, "history", 1);
    Ok(Past {
        run: cols.run()?,
        token: Token(cols.bits()?),
        nominal: cols.time()?,
        until: cols.time()?,
        finished: cols.time()?,
        status: cols.code()?,
    })
}
