//! A new version of a job: what PATCH and PUT share.

use crate::find::Found;
use crate::refusal::{Refusal, unexpected};
use crate::{Api, find, job_read};
use calendar::Schedule;
use hyper::StatusCode;
use model::row::JobRow;
use model::{Cause, JobId, Namespace, RunId, Span, Spec, Time, When};
use shard::command::{Answer, Command, Refused};
use std::sync::Arc;
use wire::Faults;

pub fn mismatch(found: u32) -> Refusal {
    let detail =
        format!("the job has version {found} by now: GET it, look, and send ETag \"{found}\"");
    Refusal::new(StatusCode::PRECONDITION_FAILED, "version", detail)
}

/// The definition in force, its version, and the row of a recurring job.
pub async fn current(
    api: &Api,
    namespace: Namespace,
    id: JobId,
) -> Result<(Arc<Spec>, u32, Option<Box<JobRow>>), Refusal> {
    match find::found(api, namespace, id).await? {
        Found::Recurring(row, spec) => Ok((spec, row.version, Some(row))),
        Found::OneOff(row) => {
            let run = (RunId::new(id, Cause::OneOff), row.version);
            let spec = api.node.specs(vec![run]).await?.into_iter().next().flatten();
            Ok((spec.ok_or_else(|| Refusal::not_found("job"))?, row.version, None))
        }
        Found::Ended => {
            // Never made, or done: the reader knows which.
            job_read::read(api, namespace, id).await?;
            Err(started("the job has ended"))
        }
    }
}

fn started(why: &str) -> Refusal {
    let detail = format!("{why}; make a new job with POST /v1/jobs");
    Refusal::new(StatusCode::CONFLICT, "conflict", detail)
}

/// An interval, and a number of runs, count from the version's birth. A change of anything else must
/// not move them, so where they began becomes part of the definition.
pub fn keep_anchor(row: &JobRow, old: &Spec, mut new: Spec, now: Time) -> Spec {
    let mut alike = new.schedule.clone();
    alike.start_at = old.schedule.start_at;
    if new.schedule.start_at.is_some() || alike != old.schedule {
        return new;
    }
    if let Some(began) = old.schedule.start_at {
        if began <= now {
            new.schedule.start_at = Some(began);
        }
        return new;
    }
    let interval = match &old.schedule.when {
        When::Every(_) => true,
        When::Cron { expression, .. } => expression.trim_start().starts_with("@every"),
        _ => false,
    };
    if interval {
        let schedule = Schedule::new(&old.schedule, &row.id.to_bytes(), row.versioned).ok();
        new.schedule.start_at = schedule.and_then(|schedule| {
            let first = schedule.next(Time::MIN)?;
            match (old.schedule.max_runs, schedule.next(first)) {
                // One interval before the first: it has passed, so it is known for what it is when
                // the same definition comes again.
                (None, Some(second)) => Some(first.minus(second.since(first))),
                // Runs are counted from it.
                _ => Some(first),
            }
        });
    } else if old.schedule.max_runs.is_some() {
        new.schedule.start_at = Some(row.versioned.plus(Span::from_micros(1)));
    }
    new
}

pub async fn at_its_instant(api: &Api, id: JobId, mut new: Spec) -> Result<Spec, Refusal> {
    let (row, _) = find::run_rows(api, RunId::new(id, Cause::OneOff)).await?;
    if let Some(row) = row
        && !matches!(new.schedule.when, When::Now)
    {
        new.schedule.when = When::At(row.nominal);
    }
    Ok(new)
}

pub async fn update(
    api: &Api,
    id: JobId,
    old: &Spec,
    new: Spec,
    if_version: Option<u32>,
) -> Result<u32, Refusal> {
    if new.schedule.is_recurring() != old.schedule.is_recurring() {
        let mut faults = Faults::default();
        let message = "a job that runs once stays one, and a recurring one stays recurring";
        faults.add("/schedule", message);
        return Err(Refusal::faults(faults));
    }
    let command = Command::Update { job: id, spec: Arc::new(new), if_version };
    match api.node.call(id.shard(), command).await {
        Answer::Job(_, version) => Ok(version),
        Answer::Refused(Refused::VersionMismatch { found }) => Err(mismatch(found)),
        Answer::Refused(Refused::Conflict) => {
            Err(started("the job has started, ended or was cancelled"))
        }
        Answer::Refused(refused) => Err(refused.into()),
        _ => Err(unexpected()),
    }
}
