//! Many jobs in one request: as `{"jobs": […]}`, or one per line (NDJSON), which is read as it comes.
//! Items are independent: one that is refused leaves the others made. Answers stand in order.

use crate::jobs::{job_of, json_text, read};
use crate::limits::{BATCH_MAX, BATCH_SLICE, BODY_MAX, LINE_MAX, NDJSON_MAX};
use crate::refusal::{Answered, Refusal, unexpected};
use crate::{Api, Shared};
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::IntoResponse;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use serde_json::{Value, json};
use shard::command::{Answer, Command, NewJob};
use std::collections::BTreeMap;
use wire::{Faults, Object};

pub const NDJSON: &str = "application/x-ndjson";

pub async fn batch(State(api): Shared, request: Request) -> Answered {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let lines = kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with(NDJSON));
    let body = request.into_body();
    let results = if lines { by_lines(&api, body).await? } else { whole(&api, body).await? };
    Ok(Json(json!({ "results": results })).into_response())
}

async fn whole(api: &Api, body: Body) -> Result<Vec<Value>, Refusal> {
    let body = axum::body::to_bytes(body, BODY_MAX).await.map_err(|_| too_large(BODY_MAX))?;
    let mut faults = Faults::default();
    let items = match Object::read(json_text(&body)?, "", &mut faults) {
        Some(mut object) => {
            let items = object.list("jobs", BATCH_MAX, &mut faults);
            object.finish(&mut faults);
            if items.is_none() && faults.is_empty() {
                faults.add("/jobs", "a list of jobs is missing");
            }
            items.unwrap_or_default()
        }
        None => Vec::new(),
    };
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    let items = items.iter().map(|item| item.get());
    Ok(make(api, items, |index| format!("/jobs/{index}"), 0).await)
}

/// A slice of lines is made while the rest is still on its way: what a request holds in memory does
/// not grow with it.
async fn by_lines(api: &Api, mut body: Body) -> Result<Vec<Value>, Refusal> {
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
                flush(api, &mut lines, &mut results).await?;
            }
        }
        if rest.len() > LINE_MAX {
            return Err(too_large(LINE_MAX));
        }
    }
    keep(&rest, &mut lines);
    flush(api, &mut lines, &mut results).await?;
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
    results.extend(make(api, items, |index| format!("/{index}"), first).await);
    lines.clear();
    Ok(())
}

async fn make<'a>(
    api: &Api,
    items: impl Iterator<Item = &'a str>,
    pointer: impl Fn(usize) -> String,
    first: usize,
) -> Vec<Value> {
    let mut results: Vec<Value> = Vec::new();
    // The jobs of one shard travel together, so that they share a commit.
    let mut shards: BTreeMap<_, Vec<(usize, NewJob)>> = BTreeMap::new();
    for (index, item) in items.enumerate() {
        results.push(Value::Null);
        match json_text(item.as_bytes())
            .and_then(|text| read(api, text, &pointer(first + index), None))
        {
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
    results
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
