//! The cluster as it is: nodes, shards, leases; and draining one of them. What only the node itself
//! knows it is asked for, over the door of the nodes (`routes`).

use crate::events::{Filter, Stream, respond};
use crate::jobs::json_text;
use crate::query::Query;
use crate::refusal::{Answered, Refusal};
use crate::run_read::time;
use crate::{Api, Shared, outbox, workers};
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use hyper::StatusCode;
use model::cluster::NodeLease;
use model::{JobId, Namespace, NodeId, RunId, Time};
use node::View;
use peers::{node_of, node_text};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::answer::{Cluster, ClusterNode, ClusterShard, Drained, NodeAbout};
use wire::{Faults, Object};

const NODE: &str = "/cluster/v1/node";
const DRAIN: &str = "/cluster/v1/drain";
/// What a node knows of workers, and what it shall tell one of them.
pub(crate) const WORKERS: &str = "/cluster/v1/workers";
pub(crate) const WORKERS_TELL: &str = "/cluster/v1/workers/tell";
/// Where a node sends to.
pub(crate) const DESTINATIONS: &str = "/cluster/v1/destinations";
/// How fast the queues move that a node owns, and how far an attempt is as a node heard.
pub(crate) const RATES: &str = "/cluster/v1/rates";
pub(crate) const PROGRESS: &str = "/cluster/v1/progress";
const EVENTS: &str = "/cluster/v1/events";
/// What a node knows of outboxes.
pub(crate) const OUTBOX: &str = "/cluster/v1/outbox";

pub async fn show(State(api): Shared) -> Answered {
    let view = api.node.view();
    let mut nodes = Vec::new();
    for lease in view.alive() {
        nodes.push(shown(&api, &view, lease).await);
    }
    nodes.sort_by(|a, b| a.id.cmp(&b.id));
    let shards = view.shards.iter().map(|row| ClusterShard {
        shard: row.shard.0,
        owner: row.owner.map(node_text),
        alive: row.owner.is_some_and(|owner| view.is_alive(owner)),
        epoch: row.epoch.0,
        commits: row.seq,
    });
    let answer =
        Cluster { node: node_text(view.node), at: time(view.at), nodes, shards: shards.collect() };
    Ok(Json(answer).into_response())
}

async fn shown(api: &Api, view: &View, lease: &NodeLease) -> ClusterNode {
    let owned = view.shards.iter().filter(|row| row.owner == Some(lease.node)).count();
    let about = match lease.node == view.node {
        true => Some(about(api)),
        false => asked(api, lease).await,
    };
    ClusterNode {
        id: node_text(lease.node),
        number: lease.node.node,
        address: lease.address.as_deref().map(str::to_string),
        owns: lease.owns,
        lease_expires_at: time(lease.expires),
        shards: owned,
        answers: about.is_some(),
        about,
    }
}

async fn asked(api: &Api, lease: &NodeLease) -> Option<NodeAbout> {
    let address = lease.address.as_deref()?;
    let asked = api.peers()?.ask(lease.node, address, "GET", NODE, Bytes::new()).await;
    let (status, body) = asked.ok()?;
    if status == 200 { serde_json::from_slice(&body).ok() } else { None }
}

/// What this node knows of itself.
fn about(api: &Api) -> NodeAbout {
    let (view, metrics, now) = (api.node.view(), api.node.metrics(), api.node.now());
    let waiting = metrics.waiting();
    let oldest = waiting.iter().filter_map(|queue| queue.oldest).min();
    let taken = metrics.last_takeover.load(Ordering::Relaxed);
    NodeAbout {
        version: env!("CARGO_PKG_VERSION").to_string(),
        now: time(now),
        clock_within_ms: view.clock_within.map(|span| span.micros() as f64 / 1_000.0),
        shards_here: view.here.len(),
        shards_live: view.live,
        oldest_ready_ms: oldest.map_or(0, |at| now.since(at).micros().max(0) / 1_000),
        leaving: view.leaving,
        last_takeover_at: (taken != 0).then(|| time(Time::from_micros(taken))),
    }
}

pub async fn drain(State(api): Shared, body: Bytes) -> Answered {
    let mut faults = Faults::default();
    let wanted = read(json_text(&body)?, &mut faults);
    let Some(wanted) = wanted.filter(|_| faults.is_empty()) else {
        return Err(Refusal::faults(faults));
    };
    let view = api.node.view();
    let is_meant = |node: NodeId| match node_of(&wanted) {
        Some(id) => node == id,
        None => wanted.parse() == Ok(node.node),
    };
    let Some(lease) = view.alive().find(|lease| is_meant(lease.node)) else {
        return Err(Refusal::not_found("node"));
    };
    let others = view.alive().filter(|other| other.owns && other.node != lease.node);
    if others.count() == 0 {
        let detail = "no other node could take its shards; start one first";
        return Err(Refusal::new(StatusCode::CONFLICT, "last_node", detail));
    }
    if lease.node == view.node {
        api.node.leave().await?;
    } else {
        let address = lease.address.as_deref().unwrap_or_default();
        let peers = api.peers().ok_or_else(|| Refusal::not_found("node"))?;
        let told = peers.ask(lease.node, address, "POST", DRAIN, Bytes::new()).await;
        if !matches!(told, Ok((200, _))) {
            let detail = "the node did not answer; its shards move if it does not renew its lease";
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return Err(Refusal::new(status, "node_unreachable", detail));
        }
    }
    Ok(Json(Drained { node: node_text(lease.node), leaving: true }).into_response())
}

fn read(text: &str, faults: &mut Faults) -> Option<String> {
    let mut object = Object::read(text, "", faults)?;
    let node = object.short("node", 64, faults);
    if node.is_none() && !faults.at("/node") {
        faults.add("/node", "the id or the number of a node; GET /v1/cluster lists them");
    }
    object.finish(faults);
    node
}

pub fn read_only(text: &str, faults: &mut Faults) {
    read(text, faults);
}

/// What nodes ask each other, besides letters. The door is `peers`'.
pub fn routes(api: Arc<Api>) -> Router {
    Router::new()
        .route(NODE, get(|State(api): Shared| async move { Json(about(&api)) }))
        .route(DRAIN, post(drained))
        .route(EVENTS, get(events))
        .route(OUTBOX, get(|State(api): Shared| async move { Json(outbox::known(&api)) }))
        .route(WORKERS, get(workers))
        .route(RATES, get(rates))
        .route(PROGRESS, get(progress))
        .route(WORKERS_TELL, post(told))
        .route(DESTINATIONS, get(destinations))
        .with_state(api)
}

async fn drained(State(api): Shared) -> Response {
    match api.node.leave().await {
        Ok(()) => StatusCode::OK.into_response(),
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// The namespace that another node asks about.
fn of(query: Option<&str>) -> Option<Namespace> {
    Query::read(query).text("of").and_then(|text| text.parse().ok()).map(Namespace)
}

async fn destinations(State(api): Shared, RawQuery(query): RawQuery) -> Response {
    match of(query.as_deref()) {
        Some(namespace) => Json(api.destinations.of(namespace, api.node.now())).into_response(),
        None => StatusCode::BAD_REQUEST.into_response(),
    }
}

async fn workers(State(api): Shared, RawQuery(query): RawQuery) -> Response {
    match of(query.as_deref()) {
        Some(namespace) => Json(api.workers.of(namespace)).into_response(),
        None => StatusCode::BAD_REQUEST.into_response(),
    }
}

async fn rates(State(api): Shared, RawQuery(query): RawQuery) -> Response {
    let of = Query::read(query.as_deref()).text("of").and_then(|text| text.parse().ok());
    match of.map(Namespace) {
        Some(namespace) => Json(crate::rates::here(&api, namespace)).into_response(),
        None => StatusCode::BAD_REQUEST.into_response(),
    }
}

async fn progress(State(api): Shared, RawQuery(query): RawQuery) -> Response {
    match Query::read(query.as_deref()).text("run").and_then(|text| RunId::parse(&text)) {
        Some(run) => Json(api.progress.of(run)).into_response(),
        None => StatusCode::BAD_REQUEST.into_response(),
    }
}

async fn told(State(api): Shared, body: Bytes) -> Response {
    match serde_json::from_slice(&body) {
        Ok(tell) => {
            workers::note(&api, &tell);
            StatusCode::OK.into_response()
        }
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

/// The address of a node's own events.
pub(crate) fn events_path(filter: &Filter, after: Option<u64>) -> String {
    let mut path = format!("{EVENTS}?of={}", filter.namespace.0);
    let mut add = |name: &str, value: &str| {
        path.push_str(&format!("&{name}="));
        for byte in value.bytes() {
            path.push_str(&format!("%{byte:02X}"));
        }
    };
    if let Some(types) = &filter.types {
        add("types", &types.join(","));
    }
    if let Some(job) = filter.job {
        add("job", &job.to_string());
    }
    if let Some(queue) = &filter.queue {
        add("queue", queue);
    }
    if let Some(after) = after {
        add("after", &after.to_string());
    }
    path
}

async fn events(State(api): Shared, RawQuery(query): RawQuery) -> Response {
    let mut query = Query::read(query.as_deref());
    let namespace = query.text("of").and_then(|text| text.parse().ok()).map(Namespace);
    let Some(namespace) = namespace else { return StatusCode::BAD_REQUEST.into_response() };
    let filter = Filter {
        namespace,
        types: query.list("types"),
        job: query.text("job").and_then(|text| JobId::parse(&text)),
        queue: query.text("queue"),
    };
    let after = query.text("after").and_then(|text| text.parse().ok());
    // A node of a later version may say more.
    respond(Stream::new(api, filter, after, false), |mut stream| async move {
        let piece = stream.next().await?;
        Some((piece, stream))
    })
}
