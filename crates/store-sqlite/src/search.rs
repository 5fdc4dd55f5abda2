//! Lists for people, on a connection of their own so that no question of theirs holds up the core.
//! Rows are found by index, newest first, and judged by `store`'s filters; a call ends after
//! `SCAN_MAX` rows and says where to go on.

use crate::cols::Cols;
use crate::error::Res;
use crate::ids::{self, job_bytes, run_bytes};
use crate::runs::bound;
use crate::{claims, history, jobs, runs};
use model::row::{HistoryRow, Row, RunRow};
use model::{Cause, JobId, RunId, RunState, Time};
use rusqlite::{Connection, params};
use std::cmp::Reverse;
use std::sync::LazyLock;
use store::search::filter::is_end;
use store::search::{FindJobs, FindRuns, Found, JobFound, RunFound, SCAN_MAX};

/// Rows that are read of each table at once.
const CHUNK: usize = 64;

pub(crate) static RECURRING: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {}, s.body, s.payload FROM jobs AS j INDEXED BY jobs_id
           CROSS JOIN specs AS s ON s.shard = j.shard AND s.job = j.id AND s.version = j.version
         WHERE j.id < ?1 ORDER BY j.id DESC LIMIT ?2",
        jobs::columns("j")
    )
});

pub(crate) static LIVE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM runs AS r INDEXED BY runs_id WHERE r.id < ?1 ORDER BY r.id DESC LIMIT ?2",
        runs::columns("r")
    )
});

pub(crate) static DEAD: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM runs AS r INDEXED BY runs_dead
         WHERE r.state = 5 AND r.namespace = ?3 AND r.id < ?1 ORDER BY r.id DESC LIMIT ?2",
        runs::columns("r")
    )
});

pub(crate) static ENDED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {}, hid FROM history AS h WHERE hid < ?1 ORDER BY hid DESC LIMIT ?2",
        history::columns("h")
    )
});

pub(crate) static FAILED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {}, hid FROM history AS h INDEXED BY history_failures
         WHERE state_after = 7 AND namespace = ?3 AND hid < ?1 ORDER BY hid DESC LIMIT ?2",
        history::columns("h")
    )
});

/// Ends of one-offs: part 0. A recurring job may have a million rows between two one-offs, so after
/// one of its rows the search goes on before the whole job.
pub(crate) static BY_RUN: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM history AS h INDEXED BY history_run
         WHERE run < ?1 ORDER BY run DESC LIMIT ?2",
        history::columns("h")
    )
});

pub(crate) static OF_JOB: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM history AS h INDEXED BY history_instants
         WHERE planned_job = ?1 AND (nominal, run) < (?2, ?3)
         ORDER BY nominal DESC, run DESC LIMIT ?4",
        history::columns("h")
    )
});

/// Three tables, each newest first, merged. A chunk of each is read; what is certain to come before
/// everything unread is taken.
pub(crate) fn jobs(conn: &Connection, find: &FindJobs) -> Res<Found<JobFound>> {
    let mut before: Vec<u8> = match find.after.as_deref().and_then(JobId::parse) {
        Some(id) => job_bytes(id).to_vec(),
        None => ids::LAST.to_vec(),
    };
    let (mut items, mut scanned) = (Vec::new(), 0);
    loop {
        let mut chunk: Vec<JobFound> = Vec::new();
        // Nothing at or after this place is unread.
        let mut certain: Option<JobId> = None;
        let mut add = |found: Vec<JobFound>, full: bool, last: Option<JobId>| {
            chunk.extend(found);
            if full {
                certain = certain.max(last);
            }
        };
        if find.recurring.is_some() {
            let found = recurring(conn, &before)?;
            let last = found.last().map(JobFound::id);
            add(found.clone(), found.len() == CHUNK, last);
        }
        if find.one_off.is_some_and(|states| states.live()) {
            let (found, last, full) = one_offs(conn, &before)?;
            add(found, full, last);
        }
        if find.one_off.is_some_and(|states| states.ended()) {
            let (found, last, full) = finished(conn, &before)?;
            add(found, full, last);
        }
        scanned += CHUNK;
        chunk.sort_by_key(|job| Reverse(job.id()));
        for job in chunk.into_iter().filter(|job| certain.is_none_or(|certain| job.id() >= certain))
        {
            if find.matches(&job) {
                items.push(job);
                if items.len() == find.limit {
                    let next = items.last().map(|job| job.id().to_string().into());
                    return Ok(Found { items, next });
                }
            }
        }
        let Some(certain) = certain else { return Ok(Found { items, next: None }) };
        if scanned >= SCAN_MAX {
            return Ok(Found { items, next: Some(certain.to_string().into()) });
        }
        before = job_bytes(certain).to_vec();
    }
}

fn recurring(conn: &Connection, before: &[u8]) -> Res<Vec<JobFound>> {
    runs::list(conn, &RECURRING, params![before, bound(CHUNK)], |row| {
        let (job, at) = jobs::read_with_end(row)?;
        let spec = runs::spec(&mut Cols::from(row, "specs", at))?;
        Ok(JobFound::Recurring { row: job, spec })
    })
}

/// One-offs of a chunk of unfinished runs; the last job looked at, and whether there may be more.
fn one_offs(conn: &Connection, before: &[u8]) -> Res<(Vec<JobFound>, Option<JobId>, bool)> {
    let rows = runs::list(conn, &LIVE, params![before, bound(CHUNK)], |row| runs::read(row, 0))?;
    let (full, last) = (rows.len() == CHUNK, rows.last().map(|row| row.id.job));
    let mut found = Vec::new();
    for row in rows.into_iter().filter(|row| row.id.cause() == Cause::OneOff) {
        let Some(spec) = runs::body(conn, row.id.job.shard(), row.id)? else { continue };
        found.push(JobFound::OneOff { run: live(conn, row)?, spec });
    }
    Ok((found, last, full))
}

fn finished(conn: &Connection, before: &[u8]) -> Res<(Vec<JobFound>, Option<JobId>, bool)> {
    let mut found = Vec::new();
    let (mut before, mut last) = (before.to_vec(), None);
    // Each round reads rows of one-offs until a recurring job is met, and steps over that.
    for _ in 0..CHUNK {
        let mut statement = conn.prepare_cached(&BY_RUN)?;
        let mut rows = statement.query(params![before, bound(CHUNK)])?;
        let (mut seen, mut stepped) = (0, false);
        while let Some(row) = rows.next()? {
            seen += 1;
            let row = history::read(row)?;
            last = Some(row.run.job);
            if row.run.cause() != Cause::OneOff {
                before = job_bytes(row.run.job).to_vec();
                stepped = true;
                break;
            }
            if is_end(&row) {
                found.push(JobFound::Finished(row));
            }
        }
        if !stepped || found.len() >= CHUNK {
            return Ok((found, last, stepped || seen == CHUNK));
        }
    }
    Ok((found, last, true))
}

/// An unfinished run with its attempt under way and the last one that ended.
fn live(conn: &Connection, row: RunRow) -> Res<RunFound> {
    let shard = row.id.job.shard();
    let lease = match claims::get_lease(conn, shard, row.id)? {
        Some(Row::Lease(lease)) => Some(lease),
        _ => None,
    };
    let last = history::last_of_run(conn, row.id)?.map(Box::new);
    Ok(RunFound::Live { row, lease, last })
}

pub(crate) fn runs(conn: &Connection, find: &FindRuns) -> Res<Found<RunFound>> {
    match find.job {
        Some(job) => runs_of_job(conn, job, find),
        None => all_runs(conn, find),
    }
}

/// By (nominal, id), latest first. A job's unfinished runs are few, or the first `SCAN_MAX`.
fn runs_of_job(conn: &Connection, job: JobId, find: &FindRuns) -> Res<Found<RunFound>> {
    let start = find.after.as_deref().and_then(place);
    let mut unfinished = Vec::new();
    if find.states.live() {
        for row in runs::of_job(conn, job.shard(), job, None, SCAN_MAX)? {
            if start.is_none_or(|start| (row.nominal, row.id) < start) {
                let found = live(conn, row)?;
                if find.matches(&found) {
                    unfinished.push(found);
                }
            }
        }
    }
    unfinished.sort_by_key(|run| Reverse(place_of(run)));
    let mut unfinished = unfinished.into_iter().peekable();
    let last = RunId { job, part: model::id::Part::from_bits(u64::MAX) };
    let mut before = start.unwrap_or((Time::from_micros(i64::MAX), last));
    let (mut items, mut scanned, mut more) = (Vec::new(), 0, find.states.ended());
    let end = |items: Vec<RunFound>, at: (Time, RunId)| Found {
        items,
        next: Some(format!("{}.{}", at.0.micros(), at.1).into()),
    };
    // The end of a one-off is not in the index of instants: it has only one.
    if more && find.after.is_none() {
        let one_off = RunId::new(job, Cause::OneOff);
        for row in history::of_run(conn, one_off, SCAN_MAX)?.into_iter().filter(is_end) {
            let found = RunFound::Ended(row);
            if find.matches(&found) {
                return Ok(Found { items: vec![found], next: None });
            }
        }
    }
    while more {
        let id = job_bytes(job);
        let params = params![id, before.0.micros(), run_bytes(before.1), bound(CHUNK)];
        let rows = runs::list(conn, &OF_JOB, params, history::read)?;
        more = rows.len() == CHUNK;
        scanned += rows.len();
        for row in rows {
            before = (row.nominal, row.run);
            while let Some(run) = unfinished.next_if(|run| place_of(run) > before) {
                items.push(run);
                if items.len() == find.limit {
                    let at = items.last().map_or(before, place_of);
                    return Ok(end(items, at));
                }
            }
            let found = RunFound::Ended(row);
            if find.matches(&found) {
                items.push(found);
                if items.len() == find.limit {
                    return Ok(end(items, before));
                }
            }
        }
        if more && scanned >= SCAN_MAX {
            return Ok(end(items, before));
        }
    }
    for run in unfinished {
        let at = place_of(&run);
        items.push(run);
        if items.len() == find.limit {
            return Ok(end(items, at));
        }
    }
    Ok(Found { items, next: None })
}

fn place_of(run: &RunFound) -> (Time, RunId) {
    match run {
        RunFound::Live { row, .. } => (row.nominal, row.id),
        RunFound::Ended(row) => (row.nominal, row.run),
    }
}

fn place(text: &str) -> Option<(Time, RunId)> {
    let (nominal, run) = text.split_once('.')?;
    Some((Time::from_micros(nominal.parse().ok()?), RunId::parse(run)?))
}

/// Unfinished ones first, newest job first; then the ends, last one first.
fn all_runs(conn: &Connection, find: &FindRuns) -> Res<Found<RunFound>> {
    let (mut items, mut scanned) = (Vec::new(), 0);
    let after = find.after.as_deref().unwrap_or("l.");
    let ended = after.strip_prefix("e.").map(|hid| hid.parse::<i64>().unwrap_or(0));
    if ended.is_none() && find.states.live() {
        let start = after.strip_prefix("l.").and_then(RunId::parse);
        let mut before = start.map_or(ids::LAST.to_vec(), |run| run_bytes(run).to_vec());
        let dead = find.states.only(RunState::Dead);
        loop {
            let rows = match dead {
                true => {
                    let params = params![before, bound(CHUNK), find.namespace.0];
                    runs::list(conn, &DEAD, params, |row| runs::read(row, 0))?
                }
                false => runs::list(conn, &LIVE, params![before, bound(CHUNK)], |row| {
                    runs::read(row, 0)
                })?,
            };
            let full = rows.len() == CHUNK;
            scanned += rows.len();
            for row in rows {
                let id = row.id;
                before = run_bytes(id).to_vec();
                let found = live(conn, row)?;
                if find.matches(&found) {
                    items.push(found);
                    if items.len() == find.limit {
                        return Ok(Found { items, next: Some(format!("l.{id}").into()) });
                    }
                }
            }
            if !full {
                break;
            }
            if scanned >= SCAN_MAX {
                let next = ids::run_id(&before).map(|id| format!("l.{id}").into());
                return Ok(Found { items, next });
            }
        }
    }
    if !find.states.ended() {
        return Ok(Found { items, next: None });
    }
    let mut before = ended.unwrap_or(i64::MAX);
    let failed = find.states.only(RunState::Failed);
    loop {
        let rows = match failed {
            true => {
                let params = params![before, bound(CHUNK), find.namespace.0];
                runs::list(conn, &FAILED, params, history::read_with_hid)?
            }
            false => {
                runs::list(conn, &ENDED, params![before, bound(CHUNK)], history::read_with_hid)?
            }
        };
        let full = rows.len() == CHUNK;
        scanned += rows.len();
        for (row, hid) in rows {
            before = hid;
            // Ends are stored in their order, so all that follows is older.
            if find.since.is_some_and(|since| row.finished < since) && !nearly(&row, find) {
                return Ok(Found { items, next: None });
            }
            let found = RunFound::Ended(row);
            if find.matches(&found) {
                items.push(found);
                if items.len() == find.limit {
                    return Ok(Found { items, next: Some(format!("e.{hid}").into()) });
                }
            }
        }
        if !full {
            return Ok(Found { items, next: None });
        }
        if scanned >= SCAN_MAX {
            return Ok(Found { items, next: Some(format!("e.{before}").into()) });
        }
    }
}

/// Shards commit beside each other, so neighbours may be a little out of order.
fn nearly(row: &HistoryRow, find: &FindRuns) -> bool {
    const SLACK_MICROS: i64 = 60_000_000;
    find.since.is_some_and(|since| since.since(row.finished).micros() < SLACK_MICROS)
}
