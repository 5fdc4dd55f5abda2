//! Making jobs: one, or a batch in which each has its own answer.

use crate::limits::{BATCH_MAX, KEY_MAX};
use crate::refusal::{Answered, Refusal, unexpected};
use crate::{Api, DEFAULT, Shared, spec};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::IntoResponse;
use hyper::header::LOCATION;
use hyper::{HeaderMap, StatusCode};
use model::row::Made;
use model::{Cause, RunId, Slot, Spec, Text, Time, When};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use shard::command::{Answer, Command, KeyOf, NewJob, Submitted};
use std::sync::Arc;
use wire::answer::{Created, Warning};
use wire::job::JobRequest;
use wire::{Faults, Object, timestamp};

/// The seed of the hash of bodies; it never changes, because stored keys carry the hash.
const BODY_SEED: u64 = 0x6a6f_6273;

pub async fn create(State(api): Shared, headers: HeaderMap, body: Bytes) -> Answered {
    let text = json_text(&body)?;
    let header = key_header(&headers)?;
    let job = read(&api, text, "", header)?;
    let spec = job.spec.clone();
    let paused = job.paused;
    let answer = api.node.call(job.id.shard(), Command::Submit(vec![job])).await;
    let submitted = match answer {
        Answer::Submitted(mut list) => list.pop().ok_or_else(unexpected)??,
        Answer::Refused(refused) => return Err(refused.into()),
        _ => return Err(unexpected()),
    };
    let created = created(&spec, paused, &submitted, api.node.now());
    let location = format!("/v1/jobs/{}", created.id);
    let replayed = if submitted.replayed { "true" } else { "false" };
    let headers = [(LOCATION.as_str(), location.as_str()), ("idempotency-replayed", replayed)];
    Ok((StatusCode::ACCEPTED, headers, Json(created)).into_response())
}

/// Items are independent: one that is refused leaves the others made.
pub async fn batch(State(api): Shared, body: Bytes) -> Answered {
    let mut faults = Faults::default();
    let items = read_batch(json_text(&body)?, &mut faults);
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    let mut results: Vec<Value> = vec![Value::Null; items.len()];
    // The jobs of one shard travel together, so that they share a commit.
    let mut shards: std::collections::BTreeMap<_, Vec<(usize, NewJob)>> = Default::default();
    for (index, item) in items.iter().enumerate() {
        match read(&api, item.get(), &format!("/jobs/{index}"), None) {
            Ok(job) => shards.entry(job.id.shard()).or_default().push((index, job)),
            Err(refusal) => results[index] = refused(&refusal),
        }
    }
    for (shard, jobs) in shards {
        let command = Command::Submit(jobs.iter().map(|(_, job)| job.clone()).collect());
        match api.node.call(shard, command).await {
            Answer::Submitted(answers) => {
                for ((index, _), answer) in jobs.iter().zip(answers) {
                    results[*index] = match answer {
                        Ok(submitted) => json!({"status": 202, "id": job_of(&submitted)}),
                        Err(why) => refused(&why.into()),
                    };
                }
            }
            Answer::Refused(why) => {
                let refusal = Refusal::from(why);
                jobs.iter().for_each(|(index, _)| results[*index] = refused(&refusal));
            }
            _ => jobs.iter().for_each(|(index, _)| results[*index] = refused(&unexpected())),
        }
    }
    Ok(Json(json!({ "results": results })).into_response())
}

/// The body of `create`, for its description.
pub fn read_one(text: &str, faults: &mut Faults) {
    JobRequest::read(text, "", faults);
}

fn read_batch<'a>(text: &'a str, faults: &mut Faults) -> Vec<&'a RawValue> {
    let Some(mut object) = Object::read(text, "", faults) else { return Vec::new() };
    let items = object.list("jobs", BATCH_MAX, faults);
    if items.is_none() && !faults.at("/jobs") {
        faults.add("/jobs", "jobs are missing");
    }
    object.finish(faults);
    items.unwrap_or_default()
}

/// The body of `batch` with its items, for its description.
pub fn read_batch_fully(text: &str, faults: &mut Faults) {
    for (index, item) in read_batch(text, faults).into_iter().enumerate() {
        JobRequest::read(item.get(), &format!("/jobs/{index}"), faults);
    }
}

fn refused(refusal: &Refusal) -> Value {
    let error = json!({
        "code": refusal.code, "detail": refusal.detail, "errors": refusal.errors,
    });
    json!({"status": refusal.status.as_u16(), "error": error})
}

fn read(api: &Api, text: &str, pointer: &str, header: Option<String>) -> Result<NewJob, Refusal> {
    let mut faults = Faults::default();
    let request = JobRequest::read(text, pointer, &mut faults);
    let (field, paused) = (request.idempotency_key.clone(), request.paused);
    if let (Some(field), Some(header)) = (&field, &header)
        && field != header
    {
        faults.add(format!("{pointer}/idempotency_key"), "the header Idempotency-Key says another");
    }
    let now = api.node.now();
    let spec = spec::of(request, now, pointer, &mut faults);
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    let spec = Arc::new(spec.ok_or_else(unexpected)?);
    let key = field.or(header).map(|key| KeyOf { key: Text::from(key), body: body_hash(text) });
    let id = node::random::job_id(now, Slot::of(DEFAULT, &spec.queue, 0));
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

fn job_of(submitted: &Submitted) -> String {
    match submitted.made {
        Made::Job(id) => id.to_string(),
        Made::Run(run) => run.job.to_string(),
        Made::Backlog(backlog) => backlog.job.to_string(),
    }
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
    let mut warnings = Vec::new();
    if let When::At(at) = spec.schedule.when
        && at < now
    {
        let message = "this instant has passed; the job runs now".to_string();
        warnings.push(Warning { code: "in_the_past", message });
    }
    Created {
        id: job_of(submitted),
        run_id,
        status,
        next_run_at: submitted.next.map(|at| timestamp::format(at.micros())),
        version: 1,
        warnings,
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
