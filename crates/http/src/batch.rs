//! Many jobs in one request: as `{"jobs": […]}`, or one per line (NDJSON), which is read as it comes.
//! Items are independent: one that is refused leaves the others made. Answers stand in order.

use crate::door::RequestId;
use crate::jobs::{asked_by, json_text, key_header, read};
use crate::limits::{BATCH_MAX, BATCH_SLICE, BODY_MAX, LINE_MAX, NDJSON_MAX};
use crate::refusal::{Answered, Refusal, unexpected};
use crate::tenant::Tenant;
use crate::{Api, Shared, naming};
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::IntoResponse;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use model::Namespace;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use shard::command::{Answer, Command, NewJob, Submitted};
use std::collections::BTreeMap;
use wire::job::JobRequest;
use wire::{Faults, Object};

pub const NDJSON: &str = "application/x-ndjson";

pub async fn batch(
    State(api): Shared,
    Tenant(namespace): Tenant,
    request_id: RequestId,
    request: Request,
) -> Answered {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let lines = kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with(NDJSON));
    let key = key_header(request.headers())?;
    let mut made = Made { namespace, request_id, key, new: false };
    let body = request.into_body();
    let results = if lines {
        by_lines(&api, &mut made, body).await?
    } else {
        whole(&api, &mut made, body).await?
    };
    let headers = [("idempotency-replayed", if made.new { "false" } else { "true" })];
    Ok((headers, Json(json!({ "results": results }))).into_response())
}

/// Whose jobs these are, and whether one of them is new.
struct Made {
    namespace: Namespace,
    request_id: RequestId,
    /// Of the whole batch: each item gets one of its own from it, by its place.
    key: Option<String>,
    new: bool,
}

async fn whole(api: &Api, made: &mut Made, body: Body) -> Result<Vec<Value>, Refusal> {
    let body = axum::body::to_bytes(body, BODY_MAX).await.map_err(|_| too_large(BODY_MAX))?;
    let mut faults = Faults::default();
    let items = read_items(json_text(&body)?, &mut faults);
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    let items = items.iter().map(|item| item.get());
    Ok(make(api, made, items, |index| format!("/jobs/{index}"), 0).await)
}

fn read_items<'a>(text: &'a str, faults: &mut Faults) -> Vec<&'a RawValue> {
    let Some(mut object) = Object::read(text, "", faults) else { return Vec::new() };
    let items = object.list("jobs", BATCH_MAX, faults);
    if items.is_none() && !faults.at("/jobs") {
        faults.add("/jobs", "jobs are missing");
    }
    object.finish(faults);
    items.unwrap_or_default()
}

/// The body with its items, for its description.
pub fn read_only(text: &str, faults: &mut Faults) {
    for (index, item) in read_items(text, faults).into_iter().enumerate() {
        JobRequest::read(item.get(), &format!("/jobs/{index}"), faults);
    }
}

/// A slice of lines is made while the rest is still on its way: what a request holds in memory does
/// not grow with it.
async fn by_lines(api: &Api, made: &mut Made, mut body: Body) -> Result<Vec<Value>, Refusal> {
    let mut results = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    let (mut rest, mut heard) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let broken = |_| Refusal::new(StatusCode::BAD_REQUEST, "not_json", "the body broke off");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        heard += data.len();
        if heard > NDJSON_MAX {
            return Err(too_large(NDJSON_MAX));
        }
        rest.extend_from_slice(&data);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            keep(&line, &mut lines);
            if lines.len() >= BATCH_SLICE {
                flush(api, made, &mut lines, &mut results).await?;
            }
        }
        if rest.len() > LINE_MAX {
            return Err(too_large(LINE_MAX));
        }
    }
    keep(&rest, &mut lines);
    flush(api, made, &mut lines, &mut results).await?;
    Ok(results)
}

/// What is not UTF-8 stays an item, so that its answer says so in its place.
fn keep(line: &[u8], lines: &mut Vec<String>) {
    if !line.iter().all(u8::is_ascii_whitespace) {
        lines.push(String::from_utf8_lossy(line).trim().to_string());
    }
}

async fn flush(
    api: &Api,
    made: &mut Made,
    lines: &mut Vec<String>,
    results: &mut Vec<Value>,
) -> Result<(), Refusal> {
    let first = results.len();
    if first + lines.len() > BATCH_MAX {
        let detail = format!(
            "a batch has at most {BATCH_MAX} lines; the first {first} were made, send the others again"
        );
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail));
    }
    let items = lines.iter().map(String::as_str);
    results.extend(make(api, made, items, |index| format!("/{index}"), first).await);
    lines.clear();
    Ok(())
}

async fn make<'a>(
    api: &Api,
    made: &mut Made,
    items: impl Iterator<Item = &'a str>,
    pointer: impl Fn(usize) -> String,
    first: usize,
) -> Vec<Value> {
    let mut results: Vec<Value> = Vec::new();
    // The jobs of one shard travel together, so that they share a commit.
    let mut shards: BTreeMap<_, Vec<(usize, NewJob)>> = BTreeMap::new();
    for (index, item) in items.enumerate() {
        results.push(Value::Null);
        let at = first + index;
        let key = made.key.as_ref().map(|key| format!("{key}#{at}"));
        let job = json_text(item.as_bytes())
            .and_then(|text| read(api, made.namespace, text, &pointer(at), key))
            .map(|job| asked_by(job, &made.request_id));
        match job {
            // A name is reserved on its own.
            Ok(job) if job.spec.name.is_some() => {
                results[index] = one(naming::submit(api, job).await, made);
            }
            Ok(job) => {
                if node::queues::used(&api.node, made.namespace, &job.spec.queue).await.is_err() {
                    results[index] = refused(&Refusal::from(node::Reading));
                    continue;
                }
                shards.entry(job.id.shard()).or_default().push((index, job));
            }
            Err(refusal) => results[index] = refused(&refusal),
        }
    }
    for (shard, jobs) in shards {
        let command = Command::Submit(jobs.iter().map(|(_, job)| job.clone()).collect());
        match api.node.call(shard, command).await {
            Answer::Submitted(answers) => {
                for ((index, _), answer) in jobs.iter().zip(answers) {
                    results[*index] = one(answer.map_err(Refusal::from), made);
                }
            }
            Answer::Refused(why) => {
                let refusal = Refusal::from(why);
                jobs.iter().for_each(|(index, _)| results[*index] = refused(&refusal));
            }
            _ => jobs.iter().for_each(|(index, _)| results[*index] = refused(&unexpected())),
        }
    }
    results
}

fn one(answer: Result<Submitted, Refusal>, made: &mut Made) -> Value {
    made.new |= answer.as_ref().is_ok_and(|submitted| !submitted.replayed);
    match answer {
        Ok(submitted) => json!({"status": 202, "id": naming::id_of(&submitted).to_string()}),
        Err(refusal) => refused(&refusal),
    }
}

fn too_large(most: usize) -> Refusal {
    let detail = format!("the request is larger than {most} bytes; send it in parts");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
}

fn refused(refusal: &Refusal) -> Value {
    let error = json!({
        "code": refusal.code, "detail": refusal.detail, "errors": refusal.errors,
    });
    json!({"status": refusal.status.as_u16(), "error": error})
}
