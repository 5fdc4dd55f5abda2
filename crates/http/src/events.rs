//! What happens, as a stream (server-sent events). Each event has an id that a listener sends back as
//! `Last-Event-ID` to go on where it was; where that is not possible any more, the first event is
//! `gap`, and whoever must know reads again. A quiet stream gets a comment now and then.
//!
//! The stream pulls from the node's ring: a slow listener holds nothing but its connection. When it
//! falls out of the ring it is told `gap` and the stream ends; it comes again if it likes. What happens
//! at other nodes is joined by `merged`.

use crate::limits::{STREAM_QUIET, STREAM_RETRY_MS, STREAM_SLICE, STREAMS_MAX};
use crate::merged::Merged;
use crate::query::Query;
use crate::refusal::{Answered, Refusal};
use crate::run_read::{status, time};
use crate::tenant::Tenant;
use crate::{Api, Shared, find, operations};
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use futures_util::stream;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::{HeaderMap, StatusCode};
use model::row::Scope;
use model::{JobId, Namespace, RunState};
use node::events::{Happened, Next, What};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

static STREAMS: AtomicUsize = AtomicUsize::new(0);

/// What happens at this node.
pub(crate) struct Stream {
    api: Arc<Api>,
    cursor: u64,
    /// The cursor that was asked for cannot be gone on from.
    gap: bool,
    begun: bool,
    over: bool,
    filter: Filter,
}

#[derive(Clone)]
pub(crate) struct Filter {
    pub namespace: Namespace,
    pub types: Option<Vec<String>>,
    pub job: Option<JobId>,
    pub queue: Option<String>,
}

pub(crate) struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        STREAMS.fetch_sub(1, Ordering::Relaxed);
    }
}

pub async fn events(
    State(api): Shared,
    Tenant(namespace): Tenant,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let mut query = Query::read(query.as_deref());
    let filter = Filter {
        namespace,
        types: query.list("types"),
        job: match query.text("job") {
            Some(text) => Some(find::job(&api, namespace, &text).await?),
            None => None,
        },
        queue: query.text("queue"),
    };
    // A browser cannot set the header on its first request; a program may use either.
    let given = query.text("last_event_id");
    query.finish()?;
    let header = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let given = header.map(str::to_string).or(given);
    if STREAMS.fetch_add(1, Ordering::Relaxed) >= STREAMS_MAX {
        drop(Counted);
        let detail = format!("{STREAMS_MAX} streams are open; close one or come back later");
        return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "busy", detail));
    }
    Ok(respond(Merged::new(api, filter, given.as_deref(), Counted), |mut merged| async move {
        let piece = merged.next().await?;
        Some((piece, merged))
    }))
}

/// A stream of pieces as an answer.
pub(crate) fn respond<S, F>(first: S, next: fn(S) -> F) -> Response
where
    S: Send + 'static,
    F: Future<Output = Option<(String, S)>> + Send + 'static,
{
    let pieces = stream::unfold(first, move |state| async move {
        let (piece, state) = next(state).await?;
        Some((Ok::<_, Infallible>(piece), state))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-store"));
    response
}

impl Stream {
    /// From behind this number on; without one, from now on.
    pub(crate) fn new(api: Arc<Api>, filter: Filter, after: Option<u64>, gap: bool) -> Stream {
        let cursor = after.unwrap_or_else(|| api.node.events().last());
        Stream { api, cursor, gap, begun: false, over: false, filter }
    }

    pub(crate) async fn next(&mut self) -> Option<String> {
        if self.over {
            return None;
        }
        if !self.begun {
            self.begun = true;
            let mut text = format!("retry: {STREAM_RETRY_MS}\n");
            // A cursor at once, so that a listener that saw nothing yet can still go on from here.
            let id = self.api.node.events().cursor(self.cursor);
            match self.gap {
                true => text.push_str(&self.gap_event(self.cursor)),
                false => text.push_str(&format!("id: {id}\n: listening\n\n")),
            }
            return Some(text);
        }
        let api = self.api.clone();
        let ring = api.node.events();
        loop {
            match ring.after(self.cursor, STREAM_SLICE) {
                Next::Gap(first) => {
                    self.over = true;
                    return Some(self.gap_event(first.saturating_sub(1)));
                }
                Next::Events(list) => {
                    let mut text = String::new();
                    for event in &list {
                        self.cursor = event.seq;
                        if let Some(data) = self.tell(event).await {
                            let (id, name) = (ring.cursor(event.seq), event.what.name());
                            text.push_str(&format!("id: {id}\nevent: {name}\ndata: {data}\n\n"));
                        }
                    }
                    if !text.is_empty() {
                        return Some(text);
                    }
                }
            }
            // Only now: what happened before is told.
            if ring.is_closing() {
                return None;
            }
            tokio::select! {
                () = ring.more(self.cursor) => {}
                () = tokio::time::sleep(STREAM_QUIET) => return Some(": quiet\n\n".to_string()),
            }
        }
    }

    fn gap_event(&self, cursor: u64) -> String {
        let id = self.api.node.events().cursor(cursor);
        let data =
            json!({"type": "gap", "detail": "events were lost here; read again what matters"});
        format!("id: {id}\nevent: gap\ndata: {data}\n\n")
    }

    async fn tell(&self, event: &Happened) -> Option<Value> {
        let filter = &self.filter;
        if matches!(event.what, What::Gap) {
            return Some(json!({"type": "gap", "detail": "an outcome is not known; read again"}));
        }
        let name = event.what.name();
        let wanted = |one: &String| {
            name == one || name.strip_prefix(one.as_str()).is_some_and(|rest| rest.starts_with('.'))
        };
        if filter.types.as_ref().is_some_and(|types| !types.iter().any(wanted)) {
            return None;
        }
        if filter.job.is_some_and(|job| event.job != Some(job)) {
            return None;
        }
        let (namespace, queue) = match event.namespace {
            Some(namespace) => (namespace, event.queue.clone()),
            // So old that nothing is remembered of its job: its row says where it belongs.
            None => {
                let (row, _) = find::run_rows(&self.api, event.run?).await.ok()?;
                let flow = row?.flow;
                (flow.namespace, Some(flow.queue))
            }
        };
        let here = namespace == filter.namespace || is_for_all(&event.what);
        let other_queue =
            filter.queue.as_deref().is_some_and(|wanted| queue.as_deref() != Some(wanted));
        if !here || other_queue {
            return None;
        }
        let mut data = details(&event.what);
        data["type"] = json!(name);
        data["at"] = json!(time(event.at));
        if let Some(job) = event.job {
            data["job_id"] = json!(job.to_string());
        }
        if let Some(run) = event.run.filter(|_| !matches!(event.what, What::Skipped { .. })) {
            data["run_id"] = json!(run.to_string());
        }
        if let Some(queue) = queue {
            data["queue"] = json!(queue.as_ref());
        }
        Some(data)
    }
}

fn is_for_all(what: &What) -> bool {
    matches!(what, What::Held { scope: Scope::All, .. } | What::Released { scope: Scope::All })
}

fn details(what: &What) -> Value {
    match what {
        What::JobUpdated { version } => json!({"version": version}),
        What::JobPaused { reason, until } => {
            json!({"reason": reason.as_ref(), "until": until.map(time)})
        }
        What::RunScheduled { due } => json!({"due_at": time(*due)}),
        What::RunStarted { attempt, token, worker } => {
            json!({"attempt": attempt, "token": token.0, "worker": worker.as_deref()})
        }
        What::AttemptEnded(ended) => {
            let mut data = json!({"attempt": ended.attempt, "outcome": status(ended.status)});
            if let Some(error) = &ended.error {
                data["error"] = json!(error.as_ref());
            }
            if let Some(code) = ended.code {
                data["code"] = json!(code);
            }
            if let Some(next) = ended.next.filter(|_| ended.after == RunState::Retrying) {
                data["next_attempt_at"] = json!(time(next));
            }
            data
        }
        What::Skipped { status: why, from, until, count } => json!({
            "verdict": status(*why), "from": time(*from), "until": time(*until), "count": count,
        }),
        What::Held { scope, reason, until } => json!({
            "scope": scope_words(scope), "reason": reason.as_ref(), "until": until.map(time),
        }),
        What::Released { scope } => json!({"scope": scope_words(scope)}),
        What::Operation { id, done, total } => {
            json!({"operation_id": operations::id_of(*id), "done": done, "total": total})
        }
        What::Bulk { id, done, total, .. } => {
            json!({"operation_id": id.as_ref(), "done": done, "total": total})
        }
        What::DestinationOpened { host, until } => {
            json!({"host": host.as_ref(), "next_probe_at": time(*until)})
        }
        What::FiredLate { due, reason } => {
            json!({"due_at": time(*due), "reason": reason.as_ref()})
        }
        What::DestinationClosed { host } => json!({"host": host.as_ref()}),
        What::OperationOver { id } => json!({"operation_id": operations::id_of(*id)}),
        _ => json!({}),
    }
}

fn scope_words(scope: &Scope) -> &'static str {
    match scope {
        Scope::All => "all",
        Scope::Namespace(_) => "namespace",
        Scope::Queue(..) => "queue",
    }
}
