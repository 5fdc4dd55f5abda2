//! A job as the store has it. A one-off is its run; a recurring job is a row and its spec.

use crate::job_verbs::job_id;
use crate::refusal::{Answered, Refusal, unexpected};
use crate::run_read::{self, json_or_text, time};
use crate::{Api, Shared};
use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use calendar::Schedule;
use model::read::{Page, Read};
use model::row::{JobRow, JobState, Key, Row};
use model::{Cause, JobId, RunId, Spec};
use std::sync::Arc;
use wire::answer::{Job, Paused, Target};

pub async fn show(State(api): Shared, Path(job): Path<String>) -> Answered {
    let id = job_id(&job)?;
    let read = Read::Rows(vec![Key::Job(id)]);
    let row = match api.node.read(id.shard(), read).await? {
        Page::Rows(rows) => rows.into_iter().flatten().next(),
        _ => return Err(unexpected()),
    };
    let job = match row {
        Some(Row::Job(row)) => recurring(&api, row).await?,
        _ => one_off(&api, id).await?,
    };
    let tag = format!("\"{}\"", job.version);
    Ok(([("etag", tag.as_str())], Json(job)).into_response())
}

async fn recurring(api: &Api, row: JobRow) -> Result<Job, Refusal> {
    let key = Key::Spec(row.id, row.version);
    let spec = match api.node.read(row.id.shard(), Read::Rows(vec![key])).await? {
        Page::Rows(rows) => rows.into_iter().flatten().next(),
        _ => None,
    };
    let Some(Row::Spec(spec)) = spec else { return Err(Refusal::not_found("job")) };
    let schedule = Schedule::new(&spec.schedule, &row.id.to_bytes(), row.versioned).ok();
    let due = row.next.zip(schedule.as_ref()).map(|(at, s)| s.occurrence(at).effective);
    Ok(Job {
        status: match row.state {
            JobState::Active => "active",
            JobState::Paused => "paused",
            JobState::Ended => "ended",
            JobState::Cancelled => "cancelled",
        },
        version: row.version,
        next_run_at: row.next.map(time),
        next_due_at: due.map(time),
        created_at: Some(time(row.created)),
        runs_fired: Some(row.fired),
        running: row.active.map(|run| run.to_string()),
        paused: row.pause.map(|pause| Paused {
            reason: pause.reason.to_string(),
            since: time(pause.since),
            until: pause.until.map(time),
        }),
        description: schedule.map(|schedule| schedule.describe()),
        ..definition(row.id, Some(spec))
    })
}

async fn one_off(api: &Api, id: JobId) -> Result<Job, Refusal> {
    let run = RunId::new(id, Cause::OneOff);
    let found = run_read::read(api, run).await?;
    let spec = api.node.specs(vec![(run, 1)]).await?.into_iter().next().flatten();
    let waits = matches!(found.status, "scheduled" | "retrying");
    Ok(Job {
        status: found.status,
        version: 1,
        run_id: Some(found.id),
        next_run_at: found.scheduled_for.filter(|_| waits),
        next_due_at: found.due_at.filter(|_| waits),
        ..definition(id, spec)
    })
}

/// What the user said. Gone with the run of a one-off: only its history stays.
fn definition(id: JobId, spec: Option<Arc<Spec>>) -> Job {
    let mut job = Job { id: id.to_string(), ..Job::default() };
    if let Some(spec) = spec {
        job.queue = Some(spec.queue.to_string());
        job.group = spec.group.as_ref().map(ToString::to_string);
        job.priority = Some(spec.priority);
        job.payload = (!spec.payload.is_empty()).then(|| json_or_text(&spec.payload));
        job.target = match &spec.target {
            model::Target::Http { url, method, .. } => {
                Some(Target::Http { url: url.to_string(), method: method.to_string() })
            }
            model::Target::Worker { kind } => Some(Target::Worker { kind: kind.to_string() }),
            _ => None,
        };
    }
    job
}
