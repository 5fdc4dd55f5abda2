//! Queues that have been used: how long they are, and whether somebody stopped them. A pause is a hold
//! of the queue: nothing new starts, what runs goes on.

use crate::find;
use crate::jobs::{json_text, optional_text};
use crate::limits::{LIST_LIMIT, LIST_LIMIT_MAX, QUEUE_SOON, REASON_MAX};
use crate::query::Query;
use crate::rates;
use crate::refusal::{Answered, Refusal, unexpected};
use crate::run_read::time;
use crate::tenant::Tenant;
use crate::{Api, Shared};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::response::IntoResponse;
use model::read::{Page, Read};
use model::row::{Key, Row, Scope};
use model::{Namespace, QueueRow, Rate, Slot, Span, Text, Time};
use shard::command::{Answer, Command};
use store::catalog::{Kind, List};
use wire::answer::{Queue, QueuePaused, Queues, ServiceLevel};
use wire::limits::SHORT_MAX;
use wire::queue::{GroupLimits, QueueLimits, QueueRequest, RateRequest, rate_text};
use wire::{Faults, Object};

pub async fn list(
    State(api): Shared,
    Tenant(namespace): Tenant,
    RawQuery(query): RawQuery,
) -> Answered {
    let mut query = Query::read(query.as_deref());
    let limit = query.number("limit", LIST_LIMIT_MAX).unwrap_or(LIST_LIMIT) as usize;
    let after = query.text("cursor").map(|name| (namespace, Text::from(name)));
    query.finish()?;
    let list = List { kind: Kind::Queue, namespace: Some(namespace), after, limit };
    let entries = api.node.list_entries(list).await?;
    let full = entries.len() >= limit;
    let next = entries.last().filter(|_| full).map(|last| last.place.name.to_string());
    let mut items = Vec::with_capacity(entries.len());
    for entry in entries {
        items.push(read(&api, namespace, &entry.place.name).await?);
    }
    rates::fill(&api, namespace, &mut items).await;
    Ok(Json(Queues { items, next_cursor: next }).into_response())
}

pub async fn show(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(queue): Path<String>,
) -> Answered {
    let queue = known(&api, namespace, &queue).await?;
    with_rates(&api, namespace, &queue).await
}

/// One queue, with how fast it moves.
async fn with_rates(api: &Api, namespace: Namespace, queue: &Text) -> Answered {
    let mut found = [read(api, namespace, queue).await?];
    rates::fill(api, namespace, &mut found).await;
    let [found] = found;
    Ok(Json(found).into_response())
}

pub async fn known(api: &Api, namespace: Namespace, queue: &str) -> Result<Text, Refusal> {
    let used = node::queues::is_used(&api.node, namespace, queue).await?;
    used.then(|| Text::from(queue)).ok_or_else(|| Refusal::not_found("queue"))
}

async fn read(api: &Api, namespace: Namespace, queue: &Text) -> Result<Queue, Refusal> {
    let counts = api.node.queue_counts(namespace, queue.clone(), QUEUE_SOON).await?;
    let shard = Slot::of(namespace, queue, 0).shard();
    let Page::Holds(holds) = api.node.read(shard, Read::Holds).await? else {
        return Err(unexpected());
    };
    let scope = Scope::Queue(namespace, queue.clone());
    let held = holds.into_iter().find(|(found, _)| *found == scope);
    let limits = limits(api, namespace, queue).await?;
    let now = api.node.now();
    Ok(Queue {
        name: queue.to_string(),
        ready: counts.ready,
        running: counts.running,
        retrying: counts.retrying,
        dead: counts.dead,
        due_next_5m: counts.due_soon,
        arrival_per_s: None,
        service_per_s: None,
        suggested_workers: None,
        oldest_ready_ms: counts.oldest_ready.map(|at| now.since(at).micros().max(0) / 1_000),
        paused: held.map(|(_, hold)| QueuePaused {
            reason: hold.reason.to_string(),
            until: hold.until.map(time),
        }),
        service_level: limits.as_ref().and_then(|row| row.start_within).map(|within| {
            let waited = counts.oldest_ready.map_or(0, |at| now.since(at).micros());
            let start_within = wire::duration::format(within.micros());
            ServiceLevel { start_within, kept: waited <= within.micros() }
        }),
        limits: limits.map(limits_view).unwrap_or_else(|| limits_view(QueueRow::default())),
    })
}

/// What the queue allows, if somebody limited it.
pub async fn limits(
    api: &Api,
    namespace: Namespace,
    queue: &Text,
) -> Result<Option<QueueRow>, Refusal> {
    let shard = Slot::of(namespace, queue, 0).shard();
    let keys = vec![Key::Queue(namespace, queue.clone())];
    let row = find::rows(api, shard, keys).await?.into_iter().next().flatten();
    Ok(match row {
        Some(Row::Queue(row)) => Some(row),
        _ => None,
    })
}

fn limits_view(row: QueueRow) -> QueueLimits {
    let told = |rate: Option<Rate>| rate.map(|rate| rate_text(rate.starts, rate.per.micros()));
    QueueLimits {
        max_running: row.max_running,
        rate: told(row.rate),
        burst: row.rate.map(|rate| rate.burst),
        groups: GroupLimits {
            max_running: row.group_max_running,
            rate: told(row.group_rate),
            burst: row.group_rate.map(|rate| rate.burst),
            weights: row.weights.into_iter().map(|(g, weight)| (g.to_string(), weight)).collect(),
        },
        start_within: row.start_within.map(|within| wire::duration::format(within.micros())),
        partitions: 1,
    }
}

pub fn read_put_only(text: &str, faults: &mut Faults) {
    drop(QueueRequest::read(text, faults));
}

/// Sets what a queue allows. What is left out is not limited any more.
pub async fn put(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(queue): Path<String>,
    body: Bytes,
) -> Answered {
    let mut faults = Faults::default();
    let request = QueueRequest::read(json_text(&body)?, &mut faults);
    let named = !queue.is_empty()
        && queue.chars().count() <= SHORT_MAX
        && !queue.chars().any(char::is_control);
    if !named {
        let message = format!("a queue's name has 1 to {SHORT_MAX} characters, none a control");
        faults.add("/queue", message);
    }
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    let queue = Text::from(queue);
    // A queue may be limited before its first job.
    node::queues::used(&api.node, namespace, &queue).await?;
    let rate = |rate: Option<RateRequest>| {
        rate.map(|rate| Rate {
            starts: rate.starts,
            per: Span::from_micros(rate.per),
            burst: rate.burst,
        })
    };
    let limits = QueueRow {
        rev: 0,
        max_running: request.max_running,
        rate: rate(request.rate),
        group_max_running: request.group_max_running,
        group_rate: rate(request.group_rate),
        weights: request.weights.into_iter().map(|(g, weight)| (Text::from(g), weight)).collect(),
        start_within: request.start_within.map(Span::from_micros),
    };
    let command = Command::SetQueue { namespace, queue: queue.clone(), limits };
    told(&api, namespace, &queue, command).await
}

pub fn read_only(text: &str, faults: &mut Faults) {
    fields(text, faults);
}

fn fields(text: &str, faults: &mut Faults) -> (Option<String>, Option<Time>) {
    let Some(mut object) = Object::read(text, "", faults) else { return (None, None) };
    let reason = object.short("reason", REASON_MAX, faults);
    let until = object.time("until", faults).map(Time::from_micros);
    object.finish(faults);
    (reason, until)
}

pub async fn pause(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(queue): Path<String>,
    body: Bytes,
) -> Answered {
    let queue = known(&api, namespace, &queue).await?;
    let mut faults = Faults::default();
    let (reason, until) = fields(optional_text(&body)?, &mut faults);
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    let reason = Text::from(reason.unwrap_or_else(|| "paused".to_string()));
    let scope = Scope::Queue(namespace, queue.clone());
    told(&api, namespace, &queue, Command::Hold { scope, reason, until }).await
}

pub async fn resume(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(queue): Path<String>,
) -> Answered {
    let queue = known(&api, namespace, &queue).await?;
    let scope = Scope::Queue(namespace, queue.clone());
    told(&api, namespace, &queue, Command::Release(scope)).await
}

async fn told(api: &Api, namespace: Namespace, queue: &Text, command: Command) -> Answered {
    match api.node.call(Slot::of(namespace, queue, 0).shard(), command).await {
        Answer::Refused(refused) => Err(refused.into()),
        _ => with_rates(api, namespace, queue).await,
    }
}
