//! A run as the store has it: its row and its lease while it lives, its history after.

use crate::limits::{WAIT_LOOK, WAIT_MAX};
use crate::query::Query;
use crate::refusal::{Answered, Refusal};
use crate::tenant::Tenant;
use crate::{Api, Shared, find};
use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::response::IntoResponse;
use hyper::StatusCode;
use model::row::{HistoryRow, Holder, LeaseRow, RunRow};
use model::{Cause, Namespace, RunId, RunState, Status, Time};
use serde_json::value::RawValue;
use std::time::Duration;
use store::search::filter::is_end;
use wire::answer::{Attempt, Run};
use wire::timestamp;

/// The run now or, with `?wait=`, when it has ended (final, or dead and waiting for a person) or the
/// time is over.
pub async fn show(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(run): Path<String>,
    RawQuery(query): RawQuery,
) -> Answered {
    let run = find::run(&run)?;
    let mut query = Query::read(query.as_deref());
    let wait = query.span("wait");
    if wait.is_some_and(|wait| wait > WAIT_MAX) {
        query.faults.add("?wait", "a request waits at most 60s; ask again after that");
    }
    query.finish()?;
    let Some(wait) = wait else {
        return shown(&api, namespace, run).await;
    };
    let limit = Duration::from_micros(wait.micros().max(0).unsigned_abs());
    let over = tokio::time::sleep(limit);
    tokio::pin!(over);
    // Registered before the look, so that an end between the two is not missed.
    let Some(waiting) = api.node.events().wait_for(run) else {
        let detail = "too many requests wait; ask without ?wait";
        return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "busy", detail));
    };
    loop {
        // Where another node decides it, that node says when it ends. Shards move, and what was said
        // may be lost: so it is looked at now and then as well.
        api.node.watch(run);
        let elsewhere = !api.node.view().is_here(run.job.shard());
        let found = read(&api, namespace, run).await?;
        if found.status == "dead" || is_final(found.status) || api.node.events().is_closing() {
            return shown(&api, namespace, run).await;
        }
        tokio::select! {
            () = waiting.woken() => {}
            () = tokio::time::sleep(WAIT_LOOK), if elsewhere => {}
            () = &mut over => return shown(&api, namespace, run).await,
        }
    }
}

/// The run with what only a look at one run shows: how far it is, and what it stored.
async fn shown(api: &Api, namespace: Namespace, run: RunId) -> Answered {
    let mut found = read(api, namespace, run).await?;
    if !is_final(found.status) {
        found.checkpoint = crate::work::stored_checkpoint(api, run).await?;
        crate::progress::fill(api, run, &mut found).await;
    }
    Ok(Json(found).into_response())
}

pub fn is_final(status: &str) -> bool {
    RunState::ALL.iter().any(|state| state.is_final() && name(*state) == status)
}

pub async fn read(api: &Api, namespace: Namespace, run: RunId) -> Result<Run, Refusal> {
    let (row, lease) = find::run_rows(api, run).await?;
    let past = api.node.attempts_of(run).await?;
    match row {
        Some(row) if row.flow.namespace == namespace => Ok(live(&row, lease.as_ref(), &past)),
        Some(_) => Err(Refusal::not_found("run")),
        None => finished(api, namespace, run, &past),
    }
}

pub fn live(row: &RunRow, lease: Option<&LeaseRow>, past: &[HistoryRow]) -> Run {
    let state = if lease.is_some() { RunState::Running } else { row.state };
    Run {
        id: row.id.to_string(),
        job_id: row.id.job.to_string(),
        status: name(state),
        cancel_requested: lease.is_some_and(|lease| lease.cancel),
        scheduled_for: Some(time(row.nominal)),
        due_at: Some(time(row.due)),
        attempt: lease.map_or(row.attempts, |lease| lease.attempt),
        token: lease.map(|lease| lease.token.0),
        worker: lease.map(|lease| match &lease.holder {
            Holder::Node(node) => format!("node {}", node.node),
            Holder::Worker(name) => name.to_string(),
        }),
        next_attempt_at: (state == RunState::Retrying).then(|| time(row.due)),
        error: past.last().and_then(|last| last.error.as_ref()).map(ToString::to_string),
        // Attempts of an earlier process are missing from the list; then none is shown.
        attempts: (past.len() == usize::from(row.attempts)).then(|| attempts(past)),
        ..Run::default()
    }
}

fn finished(
    api: &Api,
    namespace: Namespace,
    run: RunId,
    past: &[HistoryRow],
) -> Result<Run, Refusal> {
    let last = past.last().filter(|last| last.namespace == namespace && is_end(last));
    let Some(last) = last else {
        let at = match run.cause() {
            Cause::Occurrence(at) => at.max(run.job.minted()),
            Cause::Backfill { .. } | Cause::Rerun(_) | Cause::Trigger(_) => Time::MIN,
            Cause::OneOff => run.job.minted(),
        };
        return Err(find::gone_or_never(api, "run", at));
    };
    Ok(Run { attempts: Some(attempts(past)), ..ended(last) })
}

/// A run as the row of its end says.
pub fn ended(last: &HistoryRow) -> Run {
    Run {
        id: last.run.to_string(),
        job_id: last.run.job.to_string(),
        status: name(last.after),
        scheduled_for: Some(time(last.nominal)),
        due_at: Some(time(last.due)),
        attempt: last.attempt,
        worker: last.worker.as_ref().map(ToString::to_string),
        finished_at: Some(time(last.finished)),
        error: last.error.as_ref().map(ToString::to_string),
        output: last.output.as_ref().map(|bytes| json_or_text(bytes)),
        ..Run::default()
    }
}

fn attempts(past: &[HistoryRow]) -> Vec<Attempt> {
    past.iter()
        .map(|row| Attempt {
            attempt: row.attempt,
            token: row.token.0,
            status: status(row.status),
            started_at: row.started.map(time),
            finished_at: time(row.finished),
            code: row.code,
            error: row.error.as_ref().map(ToString::to_string),
            worker: row.worker.as_ref().map(ToString::to_string),
        })
        .collect()
}

pub fn time(at: Time) -> String {
    timestamp::format(at.micros())
}

/// What a receiver answered need not be JSON; then it is shown as a string.
pub fn json_or_text(bytes: &[u8]) -> Box<RawValue> {
    let quoted = || serde_json::value::to_raw_value(&String::from_utf8_lossy(bytes));
    let raw = String::from_utf8(bytes.to_vec()).ok().map(RawValue::from_string);
    raw.and_then(Result::ok).unwrap_or_else(|| quoted().unwrap_or_default())
}

pub const fn name(state: RunState) -> &'static str {
    match state {
        RunState::Scheduled => "scheduled",
        RunState::Blocked => "blocked",
        RunState::Ready => "ready",
        RunState::Running => "running",
        RunState::Retrying => "retrying",
        RunState::Dead => "dead",
        RunState::Succeeded => "succeeded",
        RunState::Failed => "failed",
        RunState::Cancelled => "cancelled",
        RunState::Expired => "expired",
    }
}

pub const fn status(status: Status) -> &'static str {
    match status {
        Status::Succeeded => "succeeded",
        Status::Failed => "failed",
        Status::TimedOut => "timed_out",
        Status::Lost => "lost",
        Status::Cancelled => "cancelled",
        Status::Released => "released",
        Status::Snoozed => "snoozed",
        Status::Discarded => "discarded",
        Status::SkippedOverlap => "skipped_overlap",
        Status::SkippedPaused => "skipped_paused",
        Status::Coalesced => "coalesced",
        Status::Missed => "missed",
        Status::Delayed => "delayed",
    }
}
