//! From what stands in an address to what it names: a job by its id, with what the store has of it.
//! A job of another namespace is not found.

use crate::Api;
use crate::refusal::{Refusal, unexpected};
use hyper::StatusCode;
use model::read::{Page, Read};
use model::row::{JobRow, Key, LeaseRow, Row, RunRow};
use model::{Cause, JobId, KeyId, Namespace, RunId, ShardId, Span, Spec, Time};
use node::names;
use std::sync::Arc;
use wire::job::is_name;

/// The job that an address names, by its id or by its name. Whether there is such a job, and whose,
/// is found when it is looked at.
pub async fn job(api: &Api, namespace: Namespace, text: &str) -> Result<JobId, Refusal> {
    if let Some(id) = JobId::parse(text) {
        return Ok(id);
    }
    if !is_name(text) {
        return Err(Refusal::not_found("job"));
    }
    let reserved = names::find(&api.node, namespace, text).await?;
    reserved.map(|reserved| reserved.job).ok_or_else(|| Refusal::not_found("job"))
}

/// The same for something that will be changed: a job of another namespace is not there.
pub async fn own_job(api: &Api, namespace: Namespace, text: &str) -> Result<JobId, Refusal> {
    let id = job(api, namespace, text).await?;
    if let Found::Ended = found(api, namespace, id).await? {
        crate::run_read::read(api, namespace, one_run(id)).await.map_err(as_job)?;
    }
    Ok(id)
}

/// What was not found is the job, and not the run that a one-off is.
pub fn as_job(refusal: Refusal) -> Refusal {
    match refusal.status {
        StatusCode::NOT_FOUND => Refusal::not_found("job"),
        _ => refusal,
    }
}

pub fn run(text: &str) -> Result<RunId, Refusal> {
    RunId::parse(text).ok_or_else(|| Refusal::not_found("run"))
}

/// A run that will be changed.
pub async fn own_run(api: &Api, namespace: Namespace, text: &str) -> Result<RunId, Refusal> {
    let id = run(text)?;
    match run_rows(api, id).await? {
        (Some(row), _) if row.flow.namespace == namespace => Ok(id),
        (Some(_), _) => Err(Refusal::not_found("run")),
        (None, _) => crate::run_read::read(api, namespace, id).await.map(|_| id),
    }
}

/// Something that is not there: gone with its history, or never made.
pub fn gone_or_never(api: &Api, what: &str, at: Time) -> Refusal {
    let kept = api.node.kept();
    if kept > Span::ZERO && at > Time::MIN && at < api.node.now().minus(kept) {
        let kept = wire::duration::format(kept.micros());
        let detail = format!("a {what} that ended is kept for {kept}; this one is older");
        return Refusal::new(StatusCode::GONE, "past_retention", detail);
    }
    Refusal::not_found(what)
}

/// A job as its rows say. A one-off that has ended has no row any more: only its history.
#[derive(Debug)]
pub enum Found {
    Recurring(Box<JobRow>, Arc<Spec>),
    OneOff(Box<RunRow>),
    Ended,
}

pub async fn rows(api: &Api, shard: ShardId, keys: Vec<Key>) -> Result<Vec<Option<Row>>, Refusal> {
    match api.node.read(shard, Read::Rows(keys)).await? {
        Page::Rows(rows) => Ok(rows),
        _ => Err(unexpected()),
    }
}

pub async fn found(api: &Api, namespace: Namespace, id: JobId) -> Result<Found, Refusal> {
    let one_off = RunId::new(id, Cause::OneOff);
    let mut job = None;
    for row in
        rows(api, id.shard(), vec![Key::Job(id), Key::Run(one_off)]).await?.into_iter().flatten()
    {
        match row {
            Row::Job(row) if row.namespace == namespace => job = Some(row),
            Row::Run(row) if row.flow.namespace == namespace => {
                return Ok(Found::OneOff(Box::new(row)));
            }
            _ => return Err(Refusal::not_found("job")),
        }
    }
    let Some(job) = job else { return Ok(Found::Ended) };
    let spec = spec(api, id, job.version).await?.ok_or_else(|| Refusal::not_found("job"))?;
    Ok(Found::Recurring(Box::new(job), spec))
}

/// The key that a job was made with, if somebody counts for that key.
pub async fn key_of(api: &Api, namespace: Namespace, id: JobId) -> Result<Option<KeyId>, Refusal> {
    match found(api, namespace, id).await? {
        Found::Recurring(_, spec) => Ok(spec.api_key),
        Found::OneOff(_) | Found::Ended => Ok(None),
    }
}

/// A recurring job, or why what is asked for needs one.
pub async fn recurring(
    api: &Api,
    namespace: Namespace,
    id: JobId,
    what: &str,
) -> Result<(Box<JobRow>, Arc<Spec>), Refusal> {
    match found(api, namespace, id).await? {
        Found::Recurring(row, spec) => Ok((row, spec)),
        Found::OneOff(_) => Err(Refusal::new(
            StatusCode::CONFLICT,
            "not_recurring",
            format!("a job that runs once has no {what}; its run is /v1/runs/{}", one_run(id)),
        )),
        Found::Ended => Err(Refusal::not_found("job")),
    }
}

fn one_run(id: JobId) -> RunId {
    RunId::new(id, Cause::OneOff)
}

pub async fn spec(api: &Api, id: JobId, version: u32) -> Result<Option<Arc<Spec>>, Refusal> {
    let row =
        rows(api, id.shard(), vec![Key::Spec(id, version)]).await?.into_iter().flatten().next();
    Ok(match row {
        Some(Row::Spec(spec)) => Some(spec),
        _ => None,
    })
}

/// A run's row and its lease, if they are there.
pub async fn run_rows(
    api: &Api,
    run: RunId,
) -> Result<(Option<RunRow>, Option<LeaseRow>), Refusal> {
    let (mut row, mut lease) = (None, None);
    let keys = vec![Key::Run(run), Key::Lease(run)];
    for found in rows(api, run.job.shard(), keys).await?.into_iter().flatten() {
        match found {
            Row::Run(found) => row = Some(found),
            Row::Lease(found) => lease = Some(found),
            _ => {}
        }
    }
    Ok((row, lease))
}
