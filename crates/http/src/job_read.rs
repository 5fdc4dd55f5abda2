//! A job as the store has it. A one-off is its run; a recurring job is a row and its spec.

use crate::find::{self, Found};
use crate::limits::RUNNING_SHOWN;
use crate::refusal::{Answered, Refusal, unexpected};
use crate::run_read::{self, time};
use crate::tenant::Tenant;
use crate::{Api, Shared, definition};
use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use calendar::Schedule;
use model::read::{Page, Read};
use model::row::{JobRow, JobState, Key, Row, RunRow};
use model::{Cause, JobId, Namespace, RunId, Span, Spec};
use std::sync::Arc;
use wire::answer::{Counts, Delayed, Job, LastRun, Paused, Run};

pub async fn show(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(job): Path<String>,
) -> Answered {
    let id = find::job(&api, namespace, &job).await?;
    let job = read(&api, namespace, id).await?;
    let tag = etag(job.version);
    Ok(([("etag", tag.as_str())], Json(job)).into_response())
}

pub fn etag(version: u32) -> String {
    format!("\"{version}\"")
}

pub async fn read(api: &Api, namespace: Namespace, id: JobId) -> Result<Job, Refusal> {
    match find::found(api, namespace, id).await? {
        Found::Recurring(row, spec) => recurring(api, *row, spec).await,
        Found::OneOff(row) => one_off(api, namespace, id, Some(*row)).await,
        Found::Ended => one_off(api, namespace, id, None).await,
    }
}

pub const fn state(state: JobState) -> &'static str {
    match state {
        JobState::Active => "active",
        JobState::Paused => "paused",
        JobState::Ended => "ended",
        JobState::Cancelled => "cancelled",
    }
}

async fn recurring(api: &Api, row: JobRow, spec: Arc<Spec>) -> Result<Job, Refusal> {
    let schedule = Schedule::new(&spec.schedule, &row.id.to_bytes(), row.versioned).ok();
    Ok(Job {
        last_run: last_run(api, &row, schedule.as_ref()).await?,
        running: running(api, row.id).await?,
        ..of_row(&row, &spec)
    })
}

/// What a recurring job's own rows say.
pub fn of_row(row: &JobRow, spec: &Spec) -> Job {
    let schedule = Schedule::new(&spec.schedule, &row.id.to_bytes(), row.versioned).ok();
    let due = row.next.zip(schedule.as_ref()).map(|(at, s)| s.occurrence(at).effective);
    let mut job = Job {
        id: row.id.to_string(),
        status: state(row.state),
        version: row.version,
        next_run_at: row.next.map(time),
        next_due_at: due.map(time),
        created_at: Some(time(row.created)),
        updated_at: Some(time(row.versioned)),
        running: row.active.iter().map(ToString::to_string).collect(),
        counts: Some(Counts {
            fired: row.fired,
            unfinished: row.live.iter().map(|(_, count)| u64::from(*count)).sum(),
            backfills: row.backfills,
            reruns: row.reruns,
        }),
        delayed: row.pause.as_ref().filter(|_| row.state == JobState::Active).map(|pause| {
            Delayed {
                reason: pause.reason.to_string(),
                fired_at: None,
                until: pause.until.map(time),
            }
        }),
        paused: row.pause.as_ref().filter(|_| row.state == JobState::Paused).map(|pause| Paused {
            by: paused_by(&pause.reason),
            reason: pause.reason.to_string(),
            since: time(pause.since),
            until: pause.until.map(time),
        }),
        description: schedule.map(|schedule| schedule.describe()),
        ..Job::default()
    };
    definition::write(&mut job, spec);
    job
}

/// duly itself pauses a job only when its receiver says that it is gone.
fn paused_by(reason: &str) -> &'static str {
    if reason.starts_with("the receiver answered 410") { "duly" } else { "user" }
}

/// The run of the last instant that was decided, if it made one.
async fn last_run(
    api: &Api,
    row: &JobRow,
    schedule: Option<&Schedule>,
) -> Result<Option<LastRun>, Refusal> {
    let after_mark = row.mark.plus(Span::from_micros(1));
    let Some(nominal) = schedule.and_then(|schedule| schedule.previous(after_mark)) else {
        return Ok(None);
    };
    let run = RunId::new(row.id, Cause::Occurrence(nominal));
    Ok(match run_read::read(api, row.namespace, run).await {
        Ok(found) => {
            Some(LastRun { id: found.id, status: found.status, scheduled_for: time(nominal) })
        }
        Err(refusal) if matches!(refusal.status.as_u16(), 404 | 410) => None,
        Err(refusal) => return Err(refusal),
    })
}

/// Runs of the job that somebody works on, the first few.
async fn running(api: &Api, job: JobId) -> Result<Vec<String>, Refusal> {
    let runs = unfinished(api, job, RUNNING_SHOWN).await?;
    let keys = runs.iter().map(|run| Key::Lease(run.id)).collect();
    let leases = find::rows(api, job.shard(), keys).await?;
    let held = leases.into_iter().flatten().filter_map(|row| match row {
        Row::Lease(lease) => Some(lease.run.to_string()),
        _ => None,
    });
    Ok(held.collect())
}

pub async fn unfinished(api: &Api, job: JobId, limit: usize) -> Result<Vec<RunRow>, Refusal> {
    match api.node.read(job.shard(), Read::RunsOf { job, after: None, limit }).await? {
        Page::Runs(runs) => Ok(runs),
        _ => Err(unexpected()),
    }
}

async fn one_off(
    api: &Api,
    namespace: Namespace,
    id: JobId,
    row: Option<RunRow>,
) -> Result<Job, Refusal> {
    let run = RunId::new(id, Cause::OneOff);
    let found = run_read::read(api, namespace, run).await.map_err(find::as_job)?;
    let version = row.as_ref().map_or(1, |row| row.version);
    let spec = match row {
        Some(_) => api.node.specs(vec![(run, version)]).await?.into_iter().next().flatten(),
        None => None,
    };
    Ok(of_run(id, version, found, spec.as_deref()))
}

/// A one-off is its run.
pub fn of_run(id: JobId, version: u32, found: Run, spec: Option<&Spec>) -> Job {
    let waits = matches!(found.status, "scheduled" | "retrying");
    let running = if found.status == "running" { vec![found.id.clone()] } else { Vec::new() };
    let mut job = Job {
        id: id.to_string(),
        status: found.status,
        version,
        run_id: Some(found.id),
        next_run_at: found.scheduled_for.filter(|_| waits),
        next_due_at: found.due_at.filter(|_| waits),
        created_at: Some(time(id.minted())),
        attempts: Some(found.attempt),
        running,
        ..Job::default()
    };
    if let Some(spec) = spec {
        job.description = Schedule::new(&spec.schedule, &id.to_bytes(), id.minted())
            .ok()
            .map(|schedule| schedule.describe());
        definition::write(&mut job, spec);
    }
    job
}
