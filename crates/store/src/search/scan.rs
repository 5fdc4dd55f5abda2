//! How databases answer lists for people: rows are found by index, newest first, and judged by
//! `filter`; a call ends after `SCAN_MAX` rows and says where to go on. A database only brings the
//! rows (`Rows`); orders and cursors are here, so that all databases agree.

use super::cursor::{self, Cursor};
use super::filter::is_end;
use super::{FindJobs, FindRuns, Found, JobFound, RunFound, SCAN_MAX};
use crate::codec::ids::{self, job_bytes, run_bytes};
use model::row::{HistoryRow, RunRow};
use model::{Cause, JobId, Namespace, RunId, RunState, Spec, Time};
use std::cmp::Reverse;
use std::sync::Arc;

/// Rows that are read of each table at once.
pub const CHUNK: usize = 64;

/// What a database brings. `before` are the bytes of an id; what is listed is smaller.
pub trait Rows {
    type Fault;

    /// Recurring jobs with the spec in force, newest id first.
    fn recurring(&self, before: &[u8]) -> Result<Vec<JobFound>, Self::Fault>;
    /// Unfinished runs, newest id first.
    fn unfinished(&self, before: &[u8]) -> Result<Vec<RunRow>, Self::Fault>;
    fn dead(&self, namespace: Namespace, before: &[u8]) -> Result<Vec<RunRow>, Self::Fault>;
    /// All unfinished runs of a job, at most `SCAN_MAX`.
    fn unfinished_of(&self, job: JobId) -> Result<Vec<RunRow>, Self::Fault>;
    /// The runs with the attempt under way and the last one that ended, in the same order.
    fn with_attempts(&self, rows: Vec<RunRow>) -> Result<Vec<RunFound>, Self::Fault>;
    /// The runs' own specs.
    fn bodies(&self, runs: &[RunId]) -> Result<Vec<Option<Arc<Spec>>>, Self::Fault>;
    /// History with its place in the order of ends, last end first, before a place.
    fn ended(&self, before: i64) -> Result<Vec<(HistoryRow, i64)>, Self::Fault>;
    /// The same of failed runs of a namespace.
    fn failed(
        &self,
        namespace: Namespace,
        before: i64,
    ) -> Result<Vec<(HistoryRow, i64)>, Self::Fault>;
    /// History, newest run first.
    fn by_run(&self, before: &[u8]) -> Result<Vec<HistoryRow>, Self::Fault>;
    /// History of a job's instants by (nominal, run), latest first.
    fn of_job(&self, job: JobId, before: (Time, RunId)) -> Result<Vec<HistoryRow>, Self::Fault>;
    /// What was tried for a run.
    fn of_run(&self, run: RunId) -> Result<Vec<HistoryRow>, Self::Fault>;
}

/// Three tables, each newest first, merged. A chunk of each is read; what is certain to come before
/// everything unread is taken.
pub fn jobs<R: Rows>(rows: &R, find: &FindJobs) -> Result<Found<JobFound>, R::Fault> {
    let mut before: Vec<u8> = match find.after.as_deref().and_then(cursor::jobs) {
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
            let found = rows.recurring(&before)?;
            let (full, last) = (found.len() == CHUNK, found.last().map(JobFound::id));
            add(found, full, last);
        }
        if find.one_off.is_some_and(|states| states.live()) {
            let (found, last, full) = one_offs(rows, &before)?;
            add(found, full, last);
        }
        if find.one_off.is_some_and(|states| states.ended()) {
            let (found, last, full) = finished(rows, &before)?;
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

/// One-offs of a chunk of unfinished runs; the last job looked at, and whether there may be more.
#[allow(clippy::type_complexity)] // three answers, named above
fn one_offs<R: Rows>(
    rows: &R,
    before: &[u8],
) -> Result<(Vec<JobFound>, Option<JobId>, bool), R::Fault> {
    let mut found = rows.unfinished(before)?;
    let (full, last) = (found.len() == CHUNK, found.last().map(|row| row.id.job));
    found.retain(|row| row.id.cause() == Cause::OneOff);
    let ids: Vec<RunId> = found.iter().map(|row| row.id).collect();
    let specs = rows.bodies(&ids)?;
    let runs = rows.with_attempts(found)?.into_iter().zip(specs);
    let found = runs.filter_map(|(run, spec)| spec.map(|spec| JobFound::OneOff { run, spec }));
    Ok((found.collect(), last, full))
}

/// Ends of one-offs. A recurring job may have a million rows between two one-offs, so after one of
/// its rows the search goes on before the whole job.
#[allow(clippy::type_complexity)] // as `one_offs`
fn finished<R: Rows>(
    rows: &R,
    before: &[u8],
) -> Result<(Vec<JobFound>, Option<JobId>, bool), R::Fault> {
    let mut found = Vec::new();
    let (mut before, mut last) = (before.to_vec(), None);
    // Each round reads rows of one-offs until a recurring job is met, and steps over that.
    for _ in 0..CHUNK {
        let chunk = rows.by_run(&before)?;
        let full = chunk.len() == CHUNK;
        let mut stepped = false;
        for row in chunk {
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
            return Ok((found, last, stepped || full));
        }
    }
    Ok((found, last, true))
}

pub fn runs<R: Rows>(rows: &R, find: &FindRuns) -> Result<Found<RunFound>, R::Fault> {
    match find.job {
        Some(job) => runs_of_job(rows, job, find),
        None => all_runs(rows, find),
    }
}

/// By (nominal, id), latest first. A job's unfinished runs are few, or the first `SCAN_MAX`.
fn runs_of_job<R: Rows>(
    rows: &R,
    job: JobId,
    find: &FindRuns,
) -> Result<Found<RunFound>, R::Fault> {
    let start = find.after.as_deref().and_then(|text| match cursor::runs(text) {
        Some(Cursor::OfJob(nominal, run)) => Some((nominal, run)),
        _ => None,
    });
    let mut unfinished = Vec::new();
    if find.states.live() {
        let mut live = rows.unfinished_of(job)?;
        live.retain(|row| start.is_none_or(|start| (row.nominal, row.id) < start));
        unfinished = rows.with_attempts(live)?;
        unfinished.retain(|found| find.matches(found));
    }
    unfinished.sort_by_key(|run| Reverse(place_of(run)));
    let mut unfinished = unfinished.into_iter().peekable();
    let last = RunId { job, part: model::id::Part::from_bits(u64::MAX) };
    let mut before = start.unwrap_or((Time::from_micros(i64::MAX), last));
    let (mut items, mut scanned, mut more) = (Vec::new(), 0, find.states.ended());
    let end = |items: Vec<RunFound>, at: (Time, RunId)| Found {
        items,
        next: Some(Cursor::OfJob(at.0, at.1).to_string().into()),
    };
    // The end of a one-off is not in the index of instants: it has only one.
    if more && find.after.is_none() {
        let one_off = RunId::new(job, Cause::OneOff);
        for row in rows.of_run(one_off)?.into_iter().filter(is_end) {
            let found = RunFound::Ended(row);
            if find.matches(&found) {
                return Ok(Found { items: vec![found], next: None });
            }
        }
    }
    while more {
        let chunk = rows.of_job(job, before)?;
        more = chunk.len() == CHUNK;
        scanned += chunk.len();
        for row in chunk {
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

/// Unfinished ones first, newest job first; then the ends, last one first.
fn all_runs<R: Rows>(rows: &R, find: &FindRuns) -> Result<Found<RunFound>, R::Fault> {
    let (mut items, mut scanned) = (Vec::new(), 0);
    let (start, ended) = match find.after.as_deref().and_then(cursor::runs) {
        Some(Cursor::Unfinished(run)) => (Some(run), None),
        Some(Cursor::Ended(place)) => (None, Some(place)),
        Some(Cursor::OfJob(..)) | None => (None, None),
    };
    if ended.is_none() && find.states.live() {
        let mut before = start.map_or(ids::LAST.to_vec(), |run| run_bytes(run).to_vec());
        let dead = find.states.only(RunState::Dead);
        loop {
            let chunk = match dead {
                true => rows.dead(find.namespace, &before)?,
                false => rows.unfinished(&before)?,
            };
            let full = chunk.len() == CHUNK;
            scanned += chunk.len();
            for found in rows.with_attempts(chunk)? {
                let id = found.id();
                before = run_bytes(id).to_vec();
                if find.matches(&found) {
                    items.push(found);
                    if items.len() == find.limit {
                        return Ok(Found {
                            items,
                            next: Some(Cursor::Unfinished(id).to_string().into()),
                        });
                    }
                }
            }
            if !full {
                break;
            }
            if scanned >= SCAN_MAX {
                let next = ids::run_id(&before).map(Cursor::Unfinished);
                let next = next.map(|cursor| cursor.to_string().into());
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
        let chunk = match failed {
            true => rows.failed(find.namespace, before)?,
            false => rows.ended(before)?,
        };
        let full = chunk.len() == CHUNK;
        scanned += chunk.len();
        for (row, hid) in chunk {
            before = hid;
            // Ends are stored in their order, so all that follows is older.
            if find.since.is_some_and(|since| row.finished < since) && !nearly(&row, find) {
                return Ok(Found { items, next: None });
            }
            let found = RunFound::Ended(row);
            if find.matches(&found) {
                items.push(found);
                if items.len() == find.limit {
                    return Ok(Found { items, next: Some(Cursor::Ended(hid).to_string().into()) });
                }
            }
        }
        if !full {
            return Ok(Found { items, next: None });
        }
        if scanned >= SCAN_MAX {
            return Ok(Found { items, next: Some(Cursor::Ended(before).to_string().into()) });
        }
    }
}

/// Shards commit beside each other, so neighbours may be a little out of order.
fn nearly(row: &HistoryRow, find: &FindRuns) -> bool {
    const SLACK_MICROS: i64 = 60_000_000;
    find.since.is_some_and(|since| since.since(row.finished).micros() < SLACK_MICROS)
}
