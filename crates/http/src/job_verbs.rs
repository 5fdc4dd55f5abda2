//! What a person does to a job: cancel, pause, resume, trigger.

use crate::jobs::{body_hash, key_header, optional_text};
use crate::limits::{PAYLOAD_MAX, REASON_MAX};
use crate::quota::Submitter;
use crate::quota_counts::Adds;
use crate::refusal::{Answered, Refusal, unexpected};
use crate::run_read::name;
use crate::tenant::Tenant;
use crate::{Api, Shared, find};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use hyper::{HeaderMap, StatusCode};
use model::row::Made;
use model::{Cause, JobId, Namespace, RunId, Text, Time};
use serde_json::json;
use shard::command::{Answer, Command, KeyOf};
use wire::{Faults, Object};

pub async fn cancel(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(job): Path<String>,
) -> Answered {
    done(&api, namespace, &job, "cancelled", Command::CancelJob).await
}

pub async fn resume(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(job): Path<String>,
) -> Answered {
    done(&api, namespace, &job, "active", Command::Resume).await
}

async fn done(
    api: &Api,
    namespace: Namespace,
    job: &str,
    status: &str,
    command: impl FnOnce(JobId) -> Command,
) -> Answered {
    let id = find::own_job(api, namespace, job).await?;
    answer(api.node.call(id.shard(), command(id)).await, id, status)
}

fn answer(answer: Answer, id: JobId, status: &str) -> Answered {
    let body = match answer {
        Answer::Job(_, version) => {
            json!({"id": id.to_string(), "status": status, "version": version})
        }
        Answer::Run(run, state) => {
            json!({"id": id.to_string(), "run_id": run.to_string(), "status": name(state)})
        }
        Answer::Stopping(run) => json!({
            "id": id.to_string(), "run_id": run.to_string(), "status": "running",
            "cancel_requested": true,
        }),
        Answer::Done => json!({"id": id.to_string(), "status": status}),
        Answer::Refused(refused) => return Err(refused.into()),
        _ => return Err(unexpected()),
    };
    Ok(Json(body).into_response())
}

fn read_pause(text: &str, faults: &mut Faults) -> (Option<String>, Option<Time>) {
    let Some(mut object) = Object::read(text, "", faults) else { return (None, None) };
    let reason = object.short("reason", REASON_MAX, faults);
    let until = object.time("until", faults).map(Time::from_micros);
    object.finish(faults);
    (reason, until)
}

pub fn read_pause_only(text: &str, faults: &mut Faults) {
    read_pause(text, faults);
}

/// The body of trigger and replay.
pub fn read_payload(text: &str, faults: &mut Faults) -> Option<model::Bytes> {
    let mut object = Object::read(text, "", faults)?;
    let payload = object.raw("payload").map(|raw| model::Bytes::from(raw.get().as_bytes()));
    object.finish(faults);
    if payload.as_ref().is_some_and(|payload| payload.len() > PAYLOAD_MAX) {
        faults.add("/payload", "a payload has at most 256 KiB");
    }
    payload
}

pub fn read_payload_only(text: &str, faults: &mut Faults) {
    read_payload(text, faults);
}

pub async fn pause(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(job): Path<String>,
    body: Bytes,
) -> Answered {
    let id = find::own_job(&api, namespace, &job).await?;
    let mut faults = Faults::default();
    let (reason, until) = read_pause(optional_text(&body)?, &mut faults);
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    let reason = Text::from(reason.unwrap_or_default());
    let command = Command::Pause { job: id, reason, until };
    answer(api.node.call(id.shard(), command).await, id, "paused")
}

pub async fn trigger(
    State(api): Shared,
    Tenant(namespace): Tenant,
    submitter: Submitter,
    Path(job): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    let id = find::own_job(&api, namespace, &job).await?;
    let text = optional_text(&body)?;
    let mut faults = Faults::default();
    let payload = read_payload(text, &mut faults);
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    let key = match api.ring.counts() {
        true => find::key_of(&api, namespace, id).await?,
        false => None,
    };
    submitter.for_key(&api, key).admit(&api, Adds::Run, 0).await?;
    // The job is part of what the key was used for.
    let key = key_header(&headers)?.map(|key| KeyOf {
        key: Text::from(key),
        body: body_hash(text) ^ model::hash::mix(id.bits().1),
    });
    let number = node::random::bits();
    let trigger = Command::Trigger { job: id, id: number, payload, key };
    let run = match api.node.call(id.shard(), trigger).await {
        Answer::Made(Made::Run(run)) => run,
        Answer::Refused(refused) => return Err(refused.into()),
        _ => return Err(unexpected()),
    };
    // Another run than the one that was asked for is that of the first request under this key.
    let ours = RunId::new(id, Cause::Trigger(number));
    let replayed = if run == ours { "false" } else { "true" };
    let body = json!({"id": id.to_string(), "run_id": run.to_string(), "status": "ready"});
    let headers = [("idempotency-replayed", replayed)];
    Ok((StatusCode::ACCEPTED, headers, Json(body)).into_response())
}
