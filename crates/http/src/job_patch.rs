//! Changing a job: a merge patch (RFC 7396) of its definition makes a new version. Instants up to now
//! keep the old one, and so do runs that exist.
//!
//! **If-Match is required** (428 without it): two people who change the same job must not undo each
//! other without noticing. `If-Match: *` says "whatever is there".

use crate::job_read::{self, etag};
use crate::job_update::{at_its_instant, current, keep_anchor, mismatch, update};
use crate::jobs::json_text;
use crate::merge_patch::{merge, replace_kind};
use crate::refusal::{Answered, Refusal, unexpected};
use crate::tenant::{Caller, Tenant};
use crate::{Api, Shared, definition, find, spec, versions};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use hyper::{HeaderMap, StatusCode};
use model::Spec;
use serde_json::{Map, Value};
use wire::Faults;
use wire::job::JobRequest;

/// Fields of a request that are not part of a definition, and what to do instead.
const ELSEWHERE: [(&str, &str); 3] = [
    ("paused", "use POST /v1/jobs/{job}/pause and resume"),
    ("idempotency_key", "a key belongs to the request that makes a job"),
    ("name", "a job keeps its name; make another one under the new name"),
];
/// A job keeps its place: what is stored and counted of it lives there.
const FIXED: [&str; 2] = ["queue", "group"];

pub async fn patch(
    State(api): Shared,
    Tenant(namespace): Tenant,
    caller: Caller,
    Path(job): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    let id = find::job(&api, namespace, &job).await?;
    let text = json_text(&body)?;
    let wanted = if_match(&headers)?;
    let patch: Map<String, Value> = match serde_json::from_str(text) {
        Ok(Value::Object(patch)) => patch,
        _ => {
            let mut faults = Faults::default();
            faults.add("", "a JSON object with the fields to change is expected");
            return Err(Refusal::faults(faults));
        }
    };
    let (old, version, job) = current(&api, namespace, id).await?;
    if let IfMatch::Version(wanted) = wanted
        && wanted != version
    {
        return Err(mismatch(version));
    }
    let new = patched(&api, &old, &patch)?;
    if new != *old {
        let new = match &job {
            Some(row) => keep_anchor(row, &old, new, api.node.now()),
            // A delay would count from now again: the instant stays unless it is what changes.
            None if !patch.contains_key("schedule") => at_its_instant(&api, id, new).await?,
            None => new,
        };
        let new = versions::made_by(new, &caller);
        update(&api, id, &old, new, Some(version)).await?;
    }
    let job = job_read::read(&api, namespace, id).await?;
    Ok(([("etag", etag(job.version).as_str())], Json(job)).into_response())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMatch {
    Any,
    Version(u32),
}

pub fn if_match(headers: &HeaderMap) -> Result<IfMatch, Refusal> {
    read_if_match(headers)?.ok_or_else(|| {
        let detail = "send the job's ETag as If-Match, so that nobody's change is lost; If-Match: * \
                      changes whatever is there";
        Refusal::new(StatusCode::PRECONDITION_REQUIRED, "if_match_required", detail)
    })
}

pub fn read_if_match(headers: &HeaderMap) -> Result<Option<IfMatch>, Refusal> {
    let Some(value) = headers.get("if-match") else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(Some(IfMatch::Any));
    }
    let number = text.trim_matches('"').parse().ok().map(IfMatch::Version);
    match number {
        Some(found) => Ok(Some(found)),
        // A tag that was never ours matches nothing.
        None => {
            let detail = "this If-Match is not an ETag of a job; GET the job for its ETag";
            Err(Refusal::new(StatusCode::PRECONDITION_FAILED, "version", detail))
        }
    }
}

/// The fields of a patch, for its description.
pub fn read_only(text: &str, faults: &mut Faults) {
    if let Some(mut object) = wire::Object::read(text, "", faults) {
        for field in definition::FIELDS {
            let _ = object.raw(field);
        }
        object.finish(faults);
    }
}

/// The old definition with the patch merged in, read and checked like a new one.
fn patched(api: &Api, old: &Spec, patch: &Map<String, Value>) -> Result<Spec, Refusal> {
    let mut faults = Faults::default();
    for (field, instead) in ELSEWHERE {
        if patch.contains_key(field) {
            faults.add(format!("/{field}"), format!("this cannot be changed here: {instead}"));
        }
    }
    let mut whole = definition::object(old);
    for field in FIXED {
        let same = whole.get(field) == patch.get(field).filter(|value| !value.is_null());
        if patch.contains_key(field) && !same {
            let message = "a job keeps its queue and its group; cancel it and make another";
            faults.add(format!("/{field}"), message);
        }
    }
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    whole.remove("name");
    // One form of payload replaces the other.
    if patch.get("payload").is_some_and(|value| !value.is_null()) {
        whole.retain(|field, _| field != "payload_base64" && field != "content_type");
    }
    if patch.get("payload_base64").is_some_and(|value| !value.is_null()) {
        whole.remove("payload");
    }
    // So does one form of schedule or target.
    if let Some(Value::Object(schedule)) = patch.get("schedule") {
        let kinds = ["at", "delay", "every", "cron"];
        replace_kind(&mut whole, "schedule", schedule, &kinds);
        // Where an old schedule began says nothing about a new one.
        let began = old.schedule.start_at.is_some_and(|start| start <= api.node.now());
        if began
            && kinds.iter().any(|kind| schedule.contains_key(*kind))
            && let Some(Value::Object(old)) = whole.get_mut("schedule")
        {
            old.remove("start_at");
        }
    }
    if let Some(Value::Object(target)) = patch.get("target") {
        replace_kind(&mut whole, "target", target, &wire::job::TARGETS);
    }
    let mut whole = Value::Object(whole);
    merge(&mut whole, &Value::Object(patch.clone()));
    let text = whole.to_string();
    let request = JobRequest::read(&text, "", &mut faults);
    let new = spec::of(old.namespace, request, api.node.now(), "", &mut faults);
    if let Some(new) = &new {
        api.allows(&new.target, "", &mut faults);
    }
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    let mut new = new.ok_or_else(unexpected)?;
    new.name = old.name.clone();
    new.request_id = old.request_id.clone();
    new.api_key = old.api_key;
    new.origin = old.origin.clone();
    if !["payload", "payload_base64", "content_type"].iter().any(|f| patch.contains_key(*f)) {
        // To the byte: what is signed must not change because something else did.
        new.payload = old.payload.clone();
        new.content_type = old.content_type.clone();
    }
    Ok(new)
}
