//! Making one job, and what its answer says.

use crate::door::RequestId;
use crate::limits::KEY_MAX;
use crate::quota::Submitter;
use crate::quota_counts::Adds;
use crate::refusal::{Answered, Refusal, unexpected};
use crate::tenant::{Caller, Tenant};
use crate::{Api, Shared, naming, spec, versions, warnings};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::IntoResponse;
use hyper::header::LOCATION;
use hyper::{HeaderMap, StatusCode};
use model::row::Made;
use model::{Cause, Namespace, RunId, Slot, Spec, Text, Time};
use serde_json::Value;
use serde_json::value::RawValue;
use shard::command::{KeyOf, NewJob, Submitted};
use std::sync::Arc;
use wire::answer::Created;
use wire::job::JobRequest;
use wire::{Faults, timestamp};

/// The seed of the hash of bodies; it never changes, because stored keys carry the hash.
const BODY_SEED: u64 = 0x6a6f_6273;

pub async fn create(
    State(api): Shared,
    Tenant(namespace): Tenant,
    request_id: RequestId,
    submitter: Submitter,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    let text = json_text(&body)?;
    let header = key_header(&headers)?;
    let job = read(&api, namespace, text, "", header.map(HeaderKey::Own))?;
    let job = asked_by(job, &request_id, &submitter.caller);
    let spec = job.spec.clone();
    submitter.admit(&api, adds(&spec), 0).await?;
    let paused = job.paused;
    let submitted = naming::submit(&api, job).await?;
    let created = created(&spec, paused, &submitted, api.node.now());
    let location = format!("/v1/jobs/{}", created.id);
    let replayed = if submitted.replayed { "true" } else { "false" };
    let headers = [(LOCATION.as_str(), location.as_str()), ("idempotency-replayed", replayed)];
    Ok((StatusCode::ACCEPTED, headers, Json(created)).into_response())
}

/// The header Idempotency-Key of a request.
#[derive(Clone, Debug)]
pub enum HeaderKey {
    /// Of this job.
    Own(String),
    /// Of a batch: each item without a key of its own gets one from it and its place.
    Batch(String, usize),
    /// Of a row of an outbox, unless the job has a key of its own.
    Outbox(String),
}

/// What a job counts as.
pub fn adds(spec: &Spec) -> Adds {
    if spec.schedule.is_recurring() { Adds::Job } else { Adds::Run }
}

/// Who asked goes with the job: every attempt sends the request's id, a version says whose it is, and where
/// somebody counts for the key it is kept.
pub fn asked_by(mut job: NewJob, request_id: &RequestId, caller: &Caller) -> NewJob {
    // Nobody else has it yet, so nothing is copied.
    let spec = Arc::make_mut(&mut job.spec);
    spec.request_id = Some(request_id.0.clone());
    spec.api_key = caller.0.as_ref().and_then(|key| key.counted_id());
    versions::sign(spec, caller);
    job
}

/// The body of `create`, for its description.
pub fn read_one(text: &str, faults: &mut Faults) {
    JobRequest::read(text, "", faults);
}

pub fn read(
    api: &Api,
    namespace: Namespace,
    text: &str,
    pointer: &str,
    header: Option<HeaderKey>,
) -> Result<NewJob, Refusal> {
    let mut faults = Faults::default();
    let request = JobRequest::read(text, pointer, &mut faults);
    let (field, paused) = (request.idempotency_key.clone(), request.paused);
    if let (Some(field), Some(HeaderKey::Own(header))) = (&field, &header)
        && field != header
    {
        faults.add(format!("{pointer}/idempotency_key"), "the header Idempotency-Key says another");
    }
    let now = api.node.now();
    let spec = spec::of(namespace, request, now, pointer, &mut faults);
    if let Some(spec) = &spec {
        api.allows(&spec.target, pointer, &mut faults);
    }
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    let spec = Arc::new(spec.ok_or_else(unexpected)?);
    let header = header.map(|header| match header {
        HeaderKey::Own(key) | HeaderKey::Outbox(key) => key,
        HeaderKey::Batch(key, index) => format!("{key}#{index}"),
    });
    let key = field.or(header).map(|key| KeyOf { key: Text::from(key), body: body_hash(text) });
    let id = node::random::job_id(now, Slot::of(namespace, &spec.queue, 0));
    Ok(NewJob { id, spec, key, paused })
}

/// The same for the same content, however it is spaced and whatever the order of its fields.
pub fn body_hash(text: &str) -> u64 {
    let mut value: Value = serde_json::from_str(text).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.remove("idempotency_key");
    }
    model::hash::hash(BODY_SEED, value.to_string().as_bytes())
}

fn created(spec: &Spec, paused: bool, submitted: &Submitted, now: Time) -> Created {
    let recurring = spec.schedule.is_recurring();
    let run_id = match submitted.made {
        Made::Job(id) if !recurring => Some(RunId::new(id, Cause::OneOff).to_string()),
        _ => None,
    };
    let status = match (recurring, submitted.next) {
        (true, _) if paused => "paused",
        (true, _) => "active",
        (false, Some(next)) if next > now => "scheduled",
        _ => "ready",
    };
    Created {
        id: naming::id_of(submitted).to_string(),
        run_id,
        status,
        next_run_at: submitted.next.map(|at| timestamp::format(at.micros())),
        version: 1,
        warnings: warnings::of(spec, submitted.next, now),
    }
}

pub fn key_header(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    match value.to_str() {
        Ok(key) if (1..=KEY_MAX).contains(&key.len()) => Ok(Some(key.to_string())),
        _ => {
            let detail = "the header Idempotency-Key has 1 to 255 visible characters";
            Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail))
        }
    }
}

/// The body as text that is JSON.
pub fn json_text(body: &[u8]) -> Result<&str, Refusal> {
    let text = std::str::from_utf8(body).map_err(|_| Refusal::not_json())?;
    serde_json::from_str::<&RawValue>(text).map_err(|_| Refusal::not_json())?;
    Ok(text)
}

/// The body of a request that may have none.
pub fn optional_text(body: &[u8]) -> Result<&str, Refusal> {
    if body.iter().all(u8::is_ascii_whitespace) { Ok("{}") } else { json_text(body) }
}
