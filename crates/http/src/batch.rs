//! Many jobs in one request: as `{"jobs": […]}`, or one per line (NDJSON), which is read as it comes.
//! Items are independent: one that is refused leaves the others made. Answers stand in order.

use crate::claiming::together;
use crate::door::RequestId;
use crate::jobs::{HeaderKey, adds, asked_by, json_text, key_header, read};
use crate::limits::{BATCH_MAX, BATCH_SLICE, BATCH_SLICE_BYTES, BODY_MAX, LINE_MAX, NDJSON_MAX};
use crate::quota::Submitter;
use crate::quota_counts::Adds;
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
use model::{Namespace, Text};
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
    let submitter = request.extensions().get::<Submitter>().cloned().ok_or_else(unexpected)?;
    let mut maker = Maker {
        api: &api,
        namespace,
        submitter,
        paid: 1,
        runs: 0,
        jobs: 0,
        request_id,
        key,
        new: false,
    };
    let body = request.into_body();
    let results = if lines { maker.by_lines(body).await? } else { maker.whole(body).await? };
    let headers = [("idempotency-replayed", if maker.new { "false" } else { "true" })];
    Ok((headers, Json(Results { results })).into_response())
}

#[derive(serde::Serialize)]
struct Results {
    results: Vec<Item>,
}

/// What became of one item.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Item {
    Made { status: u16, id: String },
    Refused(Value),
}

/// What all items of a request share.
struct Maker<'a> {
    api: &'a Api,
    namespace: Namespace,
    submitter: Submitter,
    /// Items that the quota was asked for already: the door asked for the first.
    paid: u32,
    /// Let in by this request.
    runs: usize,
    jobs: usize,
    request_id: RequestId,
    /// Of the whole batch: each item gets one of its own from it, by its place.
    key: Option<String>,
    /// One of the jobs was made by this request.
    new: bool,
}

impl Maker<'_> {
    async fn whole(&mut self, body: Body) -> Result<Vec<Item>, Refusal> {
        let body = axum::body::to_bytes(body, BODY_MAX).await.map_err(|_| too_large(BODY_MAX))?;
        let mut faults = Faults::default();
        let text = std::str::from_utf8(&body).map_err(|_| Refusal::not_json())?;
        let items = read_items(text, &mut faults);
        if !faults.is_empty() {
            // No object, or no JSON at all? Asked only now, so that a good batch is not read twice.
            json_text(&body)?;
            return Err(Refusal::faults(faults));
        }
        let items = items.iter().map(|item| Ok(item.get()));
        Ok(self.make(items, |index| format!("/jobs/{index}"), 0).await)
    }

    /// A slice of lines is made while the rest is still on its way: what a request holds in memory
    /// does not grow with it.
    async fn by_lines(&mut self, mut body: Body) -> Result<Vec<Item>, Refusal> {
        let mut results = Vec::new();
        let mut lines: Vec<Vec<u8>> = Vec::new();
        let (mut rest, mut heard, mut kept) = (Vec::new(), 0, 0);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| broken_off())?.into_data() else { continue };
            heard += data.len();
            if heard > NDJSON_MAX {
                return Err(too_large(NDJSON_MAX));
            }
            rest.extend_from_slice(&data);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                kept += line.len();
                keep(line, &mut lines);
                if lines.len() >= BATCH_SLICE || kept >= BATCH_SLICE_BYTES {
                    kept = 0;
                    self.flush(&mut lines, &mut results).await?;
                }
            }
            if rest.len() > LINE_MAX {
                return Err(too_large(LINE_MAX));
            }
        }
        keep(rest, &mut lines);
        self.flush(&mut lines, &mut results).await?;
        Ok(results)
    }

    async fn flush(
        &mut self,
        lines: &mut Vec<Vec<u8>>,
        results: &mut Vec<Item>,
    ) -> Result<(), Refusal> {
        let first = results.len();
        if first + lines.len() > BATCH_MAX {
            let detail = format!(
                "a batch has at most {BATCH_MAX} lines; the first {first} were made, send the others again"
            );
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail));
        }
        let items = lines.iter().map(|line| json_text(line));
        results.extend(self.make(items, |index| format!("/{index}"), first).await);
        lines.clear();
        Ok(())
    }

    async fn make<'i>(
        &mut self,
        items: impl Iterator<Item = Result<&'i str, Refusal>>,
        pointer: impl Fn(usize) -> String,
        first: usize,
    ) -> Vec<Item> {
        let (api, namespace) = (self.api, self.namespace);
        let mut results: Vec<Item> = Vec::with_capacity(items.size_hint().0);
        // The jobs of one shard travel together, so that they share a commit.
        let mut shards: BTreeMap<_, (Vec<usize>, Vec<NewJob>)> = BTreeMap::new();
        let mut used: Option<Text> = None;
        for (index, item) in items.enumerate() {
            results.push(Item::Refused(Value::Null));
            let place = first + index;
            let key = self.key.clone().map(|key| HeaderKey::Batch(key, place));
            // Whoever asks for more than its quota is refused what is beyond it, and only that.
            let job = item
                .and_then(|text| self.pay().map(|()| text))
                .and_then(|text| read(api, namespace, text, &pointer(place), key))
                .map(|job| asked_by(job, &self.request_id, &self.submitter.caller));
            let job = match job {
                Ok(job) => self.admit(&job).await.map(|()| job),
                Err(refusal) => Err(refusal),
            };
            match job {
                // A name is reserved on its own.
                Ok(job) if job.spec.name.is_some() => {
                    results[index] = self.one(naming::submit(api, job).await);
                }
                Ok(job) => {
                    let queue = &job.spec.queue;
                    if used.as_ref() != Some(queue) {
                        if node::queues::used(&api.node, namespace, queue).await.is_err() {
                            results[index] = refused(&Refusal::from(node::Reading));
                            continue;
                        }
                        used = Some(queue.clone());
                    }
                    let (places, jobs) = shards.entry(job.id.shard()).or_default();
                    places.push(index);
                    jobs.push(job);
                }
                Err(refusal) => results[index] = refused(&refusal),
            }
        }
        // All at once, so that a batch for many queues takes as long as its slowest shard.
        let asked = shards.into_iter().map(|(shard, (places, jobs))| async move {
            (places, api.node.call(shard, Command::Submit(jobs)).await)
        });
        for (places, answer) in together(asked.collect()).await {
            match answer {
                Answer::Submitted(answers) => {
                    for (index, answer) in places.into_iter().zip(answers) {
                        results[index] = self.one(answer.map_err(Refusal::from));
                    }
                }
                Answer::Refused(why) => {
                    let refusal = Refusal::from(why);
                    places.iter().for_each(|index| results[*index] = refused(&refusal));
                }
                _ => places.iter().for_each(|index| results[*index] = refused(&unexpected())),
            }
        }
        results
    }

    /// The first item may ask the store how much there is; the others are counted beside it.
    async fn admit(&mut self, job: &NewJob) -> Result<(), Refusal> {
        let adds = adds(&job.spec);
        let beside = match adds {
            Adds::Run => &mut self.runs,
            Adds::Job => &mut self.jobs,
        };
        self.submitter.admit(self.api, adds, *beside).await?;
        *beside += 1;
        Ok(())
    }

    fn pay(&mut self) -> Result<(), Refusal> {
        if self.paid > 0 {
            self.paid -= 1;
            return Ok(());
        }
        self.submitter.take(self.api, 1, 0)
    }

    fn one(&mut self, answer: Result<Submitted, Refusal>) -> Item {
        self.new |= answer.as_ref().is_ok_and(|submitted| !submitted.replayed);
        match answer {
            Ok(made) => Item::Made { status: 202, id: naming::id_of(&made).to_string() },
            Err(refusal) => refused(&refusal),
        }
    }
}

fn keep(line: Vec<u8>, lines: &mut Vec<Vec<u8>>) {
    if !line.iter().all(u8::is_ascii_whitespace) {
        lines.push(line);
    }
}

fn broken_off() -> Refusal {
    let detail = "the body broke off; lines before that may have been made, so send it again with the \
                  same Idempotency-Key";
    Refusal::new(StatusCode::BAD_REQUEST, "broken_off", detail)
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

fn too_large(most: usize) -> Refusal {
    let detail = format!("the request is larger than {most} bytes; send it in parts");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
}

fn refused(refusal: &Refusal) -> Item {
    let error = json!({
        "code": refusal.code, "detail": refusal.detail, "errors": refusal.errors,
    });
    Item::Refused(json!({"status": refusal.status.as_u16(), "error": error}))
}
