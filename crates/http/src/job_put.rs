//! PUT: this job shall exist, with this definition. Made if there is none of the name, changed if it
//! differs, left alone (with its version) if it does not: applying twice changes nothing.

use crate::door::RequestId;
use crate::job_patch::{IfMatch, read_if_match};
use crate::job_read::{self, etag};
use crate::job_update::{current, keep_anchor, mismatch, update};
use crate::jobs::{self, json_text};
use crate::quota::Submitter;
use crate::refusal::{Answered, Refusal, unexpected};
use crate::tenant::Tenant;
use crate::{Api, Shared, find, naming};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use hyper::{HeaderMap, StatusCode};
use model::row::JobState;
use model::{JobId, Namespace, Spec, Text};
use node::names;
use shard::command::{Answer, Command, NewJob, Submitted};
use std::sync::Arc;
use wire::Faults;
use wire::job::is_name;

pub async fn put(
    State(api): Shared,
    Tenant(namespace): Tenant,
    request_id: RequestId,
    submitter: Submitter,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    let text = json_text(&body)?;
    let wanted = read_if_match(&headers)?;
    let job = jobs::read(&api, namespace, text, "", None)?;
    let mut job = jobs::asked_by(job, &request_id, &submitter.caller);
    let existing = find_existing(&api, namespace, &name).await?;
    let mut spec = (*job.spec).clone();
    match (&spec.name, JobId::parse(&name)) {
        (Some(given), None) if given.as_ref() != name => {
            let mut faults = Faults::default();
            faults.add("/name", format!("the address says {name}; leave the name out here"));
            return Err(Refusal::faults(faults));
        }
        (_, None) => spec.name = Some(Text::from(name.as_str())),
        (_, Some(_)) => {}
    }
    job.spec = Arc::new(spec);
    match existing {
        Some(id) => replace(&api, namespace, id, job, wanted).await,
        None if matches!(wanted, Some(IfMatch::Version(_))) => {
            let detail = "there is no such job, so no version of it matches";
            Err(Refusal::new(StatusCode::PRECONDITION_FAILED, "version", detail))
        }
        None => match make(&api, &submitter, job.clone()).await {
            Ok(made) => answer(&api, namespace, naming::id_of(&made), StatusCode::CREATED).await,
            // Somebody applied the same name at the same moment: then it is there to be changed.
            Err(refusal) if refusal.code == "name_taken" => {
                let there = find_existing(&api, namespace, &name).await?;
                let id = there.ok_or(refusal)?;
                replace(&api, namespace, id, job, wanted).await
            }
            Err(refusal) => Err(refusal),
        },
    }
}

async fn make(api: &Api, submitter: &Submitter, job: NewJob) -> Result<Submitted, Refusal> {
    submitter.admit(api, jobs::adds(&job.spec), 0).await?;
    naming::submit(api, job).await
}

/// The unfinished job that the address names.
async fn find_existing(
    api: &Api,
    namespace: Namespace,
    name: &str,
) -> Result<Option<JobId>, Refusal> {
    if JobId::parse(name).is_some() {
        return find::own_job(api, namespace, name).await.map(Some);
    }
    if !is_name(name) {
        let mut faults = Faults::default();
        faults.add("/name", "the address holds no name: a-z, 0-9, dot, _ and -, not job_ in front");
        return Err(Refusal::faults(faults));
    }
    let Some(reserved) = names::find(&api.node, namespace, name).await? else { return Ok(None) };
    Ok(naming::is_alive(api, reserved.job).await?.then_some(reserved.job))
}

async fn replace(
    api: &Api,
    namespace: Namespace,
    id: JobId,
    job: NewJob,
    wanted: Option<IfMatch>,
) -> Answered {
    let (old, version, row) = current(api, namespace, id).await?;
    if let Some(IfMatch::Version(wanted)) = wanted
        && wanted != version
    {
        return Err(mismatch(version));
    }
    let mut new = (*job.spec).clone();
    if (&new.queue, &new.group) != (&old.queue, &old.group) {
        let mut faults = Faults::default();
        let field = if new.queue == old.queue { "/group" } else { "/queue" };
        faults.add(field, "a job keeps its queue and its group; cancel it and make another");
        return Err(Refusal::faults(faults));
    }
    if new.name.is_none() {
        new.name = old.name.clone();
    }
    // Whoever changes a job does not take it over: it counts for the key that it was made with.
    new.api_key = old.api_key;
    let anchored = match &row {
        Some(row) => keep_anchor(row, &old, new.clone(), api.node.now()),
        None => new.clone(),
    };
    if !is_same(&new, &old) && !is_same(&anchored, &old) {
        update(api, id, &old, anchored, Some(version)).await?;
    }
    if job.paused && row.is_some_and(|row| row.state == JobState::Active) {
        let reason = Text::from("applied with paused: true");
        let pause = Command::Pause { job: id, reason, until: None };
        match api.node.call(id.shard(), pause).await {
            Answer::Job(..) => {}
            Answer::Refused(refused) => return Err(refused.into()),
            _ => return Err(unexpected()),
        }
    }
    answer(api, namespace, id, StatusCode::OK).await
}

/// Who asked is not part of what was asked for.
fn is_same(new: &Spec, old: &Spec) -> bool {
    let (request_id, origin) = (old.request_id.clone(), old.origin.clone());
    Spec { request_id, origin, ..new.clone() } == *old
}

async fn answer(api: &Api, namespace: Namespace, id: JobId, status: StatusCode) -> Answered {
    let job = job_read::read(api, namespace, id).await?;
    let (tag, location) = (etag(job.version), format!("/v1/jobs/{id}"));
    let headers = [("etag", tag.as_str()), ("location", location.as_str())];
    Ok((status, headers, Json(job)).into_response())
}
