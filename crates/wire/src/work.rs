//! What workers say: claim, heartbeat, settle, leave.

use crate::fields::{Faults, Object};
use crate::limits::{ERROR_MAX, ITEMS_MAX, LABELS_MAX, QUEUES_MAX, WORKER_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The lease and the wait of a claim, in microseconds.
const SECOND: i64 = 1_000_000;

/// What a worker says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// Handlers that it may run at once.
    pub capacity: Option<u64>,
    /// Handlers that run now.
    pub running: Option<u64>,
    pub version: Option<String>,
    pub labels: BTreeMap<String, String>,
}

impl About {
    fn read(object: &mut Object<'_>, faults: &mut Faults) -> Option<About> {
        let mut object = object.object("about", faults)?;
        let about = About {
            capacity: object.number("capacity", 0..=1_000_000, faults),
            running: object.number("running", 0..=1_000_000, faults),
            version: object.short("version", WORKER_MAX, faults),
            labels: object.pairs("labels", LABELS_MAX, faults).into_iter().collect(),
        };
        object.finish(faults);
        Some(about)
    }
}

#[derive(Debug, Default)]
pub struct ClaimRequest {
    pub worker: String,
    pub queues: Vec<String>,
    pub kinds: Option<Vec<String>>,
    pub max: usize,
    pub wait: i64,
    pub lease: i64,
    pub request_id: Option<String>,
    pub about: Option<About>,
}

impl ClaimRequest {
    pub fn read(text: &str, faults: &mut Faults) -> ClaimRequest {
        let mut claim = ClaimRequest::default();
        let Some(mut object) = Object::read(text, "", faults) else { return claim };
        claim.worker = required(&mut object, "worker", faults);
        claim.queues = object.texts("queues", QUEUES_MAX, faults).unwrap_or_default();
        if claim.queues.is_empty() && faults.list.iter().all(|f| f.pointer != "/queues") {
            faults.add("/queues", "at least one queue is expected here");
        }
        claim.kinds = object.texts("kinds", QUEUES_MAX, faults);
        claim.max = object.number("max", 1..=1_000, faults).unwrap_or(50) as usize;
        claim.wait = object.span("wait", faults).unwrap_or(20 * SECOND);
        if claim.wait > 60 * SECOND {
            faults.add("/wait", "a claim waits at most 60s");
        }
        claim.lease = object.span("lease", faults).unwrap_or(30 * SECOND);
        if claim.lease < SECOND || claim.lease > 3_600 * SECOND {
            faults.add("/lease", "a lease lasts 1s to 1h");
        }
        claim.request_id = object.short("request_id", WORKER_MAX, faults);
        claim.about = About::read(&mut object, faults);
        object.finish(faults);
        claim
    }
}

/// What a worker says about runs it holds.
#[derive(Debug)]
pub struct Said<T> {
    pub worker: String,
    pub about: Option<About>,
    pub runs: Vec<T>,
}

#[derive(Debug)]
pub struct BeatItem {
    pub run_id: String,
    pub token: u64,
    /// JSON as it was written.
    pub checkpoint: Option<String>,
    pub progress: Option<Progress>,
}

/// How far an attempt is. What cannot be read as that is ignored: it is only for people to look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// From 0 to 1.
    pub fraction: Option<f64>,
    pub message: Option<String>,
}

impl Progress {
    fn read(text: &str) -> Option<Progress> {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        let fraction = value["fraction"].as_f64().map(|fraction| fraction.clamp(0.0, 1.0));
        let message = value["message"].as_str().map(ToString::to_string);
        let said = fraction.is_some() || message.is_some();
        said.then_some(Progress { fraction, message })
    }
}

#[derive(Debug)]
pub struct SettleItem {
    pub run_id: String,
    pub token: u64,
    pub outcome: Outcome,
}

#[derive(Debug)]
pub enum Outcome {
    Succeeded { output: Option<String> },
    Failed { code: Option<u64>, message: String, retryable: bool, retry_after: Option<i64> },
    Snoozed { until: i64 },
    Released,
}

pub fn read_beats(text: &str, faults: &mut Faults) -> Said<BeatItem> {
    items(text, faults, |mut object, faults| {
        let item = BeatItem {
            run_id: required(&mut object, "run_id", faults),
            token: token(&mut object, faults),
            checkpoint: object.raw("checkpoint").map(|raw| raw.get().to_string()),
            progress: object.raw("progress").and_then(|raw| Progress::read(raw.get())),
        };
        object.finish(faults);
        item
    })
}

pub fn read_settles(text: &str, faults: &mut Faults) -> Said<SettleItem> {
    items(text, faults, |mut object, faults| {
        let run_id = required(&mut object, "run_id", faults);
        let token = token(&mut object, faults);
        let outcomes = ["succeeded", "failed", "snoozed", "released"];
        let outcome = match object.choice("outcome", &outcomes, faults) {
            Some("succeeded") => {
                Outcome::Succeeded { output: object.raw("output").map(|raw| raw.get().to_string()) }
            }
            Some("failed") => failed(&mut object, faults),
            Some("snoozed") => {
                let until_at = object.at("until");
                let until = object.time("until", faults);
                if until.is_none() && faults.list.iter().all(|f| f.pointer != until_at) {
                    faults.add(until_at, "until when is missing");
                }
                Outcome::Snoozed { until: until.unwrap_or_default() }
            }
            Some(_) => Outcome::Released,
            None => {
                let outcome_at = object.at("outcome");
                if faults.list.iter().all(|fault| fault.pointer != outcome_at) {
                    faults.add(outcome_at, format!("one of {} is missing", outcomes.join(", ")));
                }
                Outcome::Released
            }
        };
        object.finish(faults);
        SettleItem { run_id, token, outcome }
    })
}

fn failed(object: &mut Object<'_>, faults: &mut Faults) -> Outcome {
    let (mut code, mut message) = (None, "failed".to_string());
    if let Some(mut error) = object.object("error", faults) {
        code = error.number("code", 0..=65_535, faults);
        if let Some(text) = error.text("message", faults) {
            message = text.chars().take(ERROR_MAX).collect();
        }
        let _ = error.raw("detail");
        error.finish(faults);
    }
    let retryable = object.flag("retryable", faults).unwrap_or(true);
    Outcome::Failed { code, message, retryable, retry_after: object.span("retry_after", faults) }
}

fn items<T>(
    text: &str,
    faults: &mut Faults,
    mut read: impl FnMut(Object<'_>, &mut Faults) -> T,
) -> Said<T> {
    let mut said = Said { worker: String::new(), about: None, runs: Vec::new() };
    let Some(mut object) = Object::read(text, "", faults) else { return said };
    said.worker = required(&mut object, "worker", faults);
    said.about = About::read(&mut object, faults);
    let list = object.list("runs", ITEMS_MAX, faults);
    if list.is_none() && faults.list.iter().all(|fault| fault.pointer != "/runs") {
        faults.add("/runs", "runs are missing");
    }
    for (index, raw) in list.unwrap_or_default().into_iter().enumerate() {
        if let Some(item) = Object::read(raw.get(), &format!("/runs/{index}"), faults) {
            said.runs.push(read(item, faults));
        }
    }
    object.finish(faults);
    said
}

/// A worker that goes.
pub fn read_leave(text: &str, faults: &mut Faults) -> String {
    let Some(mut object) = Object::read(text, "", faults) else { return String::new() };
    let worker = required(&mut object, "worker", faults);
    object.finish(faults);
    worker
}

fn token(object: &mut Object<'_>, faults: &mut Faults) -> u64 {
    let token = object.number("token", 1..=(1 << 53) - 1, faults);
    if token.is_none() && !faults.at(&object.at("token")) {
        faults.add(object.at("token"), "the token is missing");
    }
    token.unwrap_or_default()
}

fn required(object: &mut Object<'_>, name: &'static str, faults: &mut Faults) -> String {
    let text = object.short(name, WORKER_MAX, faults);
    if text.is_none() && !faults.at(&object.at(name)) {
        faults.add(object.at(name), format!("{name} is missing"));
    }
    text.unwrap_or_default()
}
