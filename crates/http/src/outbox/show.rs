//! `GET /v1/outbox`: how the sources stand. The node that reads one knows; the others are asked.

use super::State;
use crate::cluster::OUTBOX;
use crate::refusal::Answered;
use crate::run_read::time;
use crate::tenant::Caller;
use crate::{Api, Shared, workers};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State as Extracted;
use axum::response::IntoResponse;
use peers::node_text;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::outbox::COUNT_MAX;
use wire::answer::{OutboxSource, Outboxes};

pub async fn show(Extracted(api): Shared, caller: Caller) -> Answered {
    let mut all: BTreeMap<String, OutboxSource> = BTreeMap::new();
    let theirs = workers::asked(&api, "GET", OUTBOX, Bytes::new()).await;
    let theirs = theirs
        .into_iter()
        .flatten()
        .filter_map(|(_, body)| serde_json::from_slice::<Vec<OutboxSource>>(&body).ok());
    for source in known(&api).into_iter().chain(theirs.flatten()) {
        let name = source.name.clone();
        match all.get(&name) {
            Some(former) if former.node.is_some() || source.node.is_none() => {}
            _ => drop(all.insert(name, source)),
        }
    }
    let mut items: Vec<OutboxSource> = all.into_values().collect();
    // A key of one namespace sees the sources of that namespace.
    if let Some(own) = caller.namespace() {
        items.retain(|source| source.namespace == own);
    }
    Ok(Json(Outboxes { items }).into_response())
}

/// What this node knows.
pub fn known(api: &Api) -> Vec<OutboxSource> {
    api.outboxes().iter().map(|state| shown(api, state)).collect()
}

fn shown(api: &Api, state: &Arc<State>) -> OutboxSource {
    let now = api.node.now();
    let oldest = state.oldest(now);
    let seen = state.seen().clone();
    let look = seen.look.filter(|_| seen.reading);
    let count = |of: u64| of.min(COUNT_MAX);
    OutboxSource {
        name: state.name.clone(),
        namespace: state.namespace.clone(),
        node: seen.reading.then(|| node_text(api.node.node())),
        waiting: look.map(|look| count(look.waiting)),
        waiting_more: look.is_some_and(|look| look.waiting > COUNT_MAX),
        oldest_ms: look.and(oldest).map(|age| age.micros() / 1_000),
        refused: look.map(|look| count(look.refused)),
        delivered_total: state.delivered.get(),
        refused_total: state.refused.get(),
        looked_at: seen.looked_at.filter(|_| seen.reading).map(time),
        last_delivered_at: seen.delivered_at.map(time),
        last_error: seen.error,
        last_error_at: seen.error_at.map(time),
    }
}
