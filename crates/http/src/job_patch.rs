//! Changing a job: a merge patch (RFC 7396) of its definition makes a new version. Instants up to now
//! keep the old one, and so do runs that exist.
//!
//! **If-Match is required** (428 without it): two people who change the same job must not undo each
//! other without noticing. `If-Match: *` says "whatever is there".

use crate::find::{self, Found};
use crate::job_read::{self, etag};
use crate::jobs::json_text;
use crate::refusal::{Answered, Refusal, unexpected};
use crate::tenant::Tenant;
use crate::{Api, Shared, definition, spec};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use calendar::Schedule;
use hyper::{HeaderMap, StatusCode};
use model::row::JobRow;
use model::{Cause, JobId, Namespace, RunId, Span, Spec, Time, When};
use serde_json::{Map, Value};
use shard::command::{Answer, Command, Refused};
use std::sync::Arc;
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

fn if_match(headers: &HeaderMap) -> Result<IfMatch, Refusal> {
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
        replace_kind(&mut whole, "target", target, &["http", "worker"]);
    }
    let mut whole = Value::Object(whole);
    merge(&mut whole, &Value::Object(patch.clone()));
    let text = whole.to_string();
    let request = JobRequest::read(&text, "", &mut faults);
    let new = spec::of(old.namespace, request, api.node.now(), "", &mut faults);
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    let mut new = new.ok_or_else(unexpected)?;
    new.name = old.name.clone();
    new.request_id = old.request_id.clone();
    if !["payload", "payload_base64", "content_type"].iter().any(|f| patch.contains_key(*f)) {
        // To the byte: what is signed must not change because something else did.
        new.payload = old.payload.clone();
        new.content_type = old.content_type.clone();
    }
    Ok(new)
}

fn replace_kind(
    whole: &mut Map<String, Value>,
    field: &str,
    patch: &Map<String, Value>,
    kinds: &[&str],
) {
    let new_kind = kinds.iter().any(|kind| patch.get(*kind).is_some_and(|value| !value.is_null()));
    if new_kind && let Some(Value::Object(old)) = whole.get_mut(field) {
        let other = |kind: &&&str| !patch.contains_key(**kind);
        kinds.iter().filter(other).for_each(|kind| drop(old.remove(*kind)));
        if !patch.contains_key("cron") {
            old.retain(|field, _| field != "timezone" && field != "dst");
        }
    }
}

/// RFC 7396: objects are merged, null removes, anything else replaces.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(target) = target {
        for (name, value) in patch {
            if value.is_null() {
                target.remove(name);
            } else {
                merge(target.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
    }
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

async fn at_its_instant(api: &Api, id: JobId, mut new: Spec) -> Result<Spec, Refusal> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_merge_patch_does_what_the_rfc_says() {
        // The cases of RFC 7396, appendix A.
        for (target, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            let mut merged = target.clone();
            merge(&mut merged, &patch);
            assert_eq!(merged, result, "{target} with {patch}");
        }
    }
}
