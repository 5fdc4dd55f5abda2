//! What is in memory, for `duly doctor` and for whoever waits until nothing is left to do.

use crate::Shared;
use crate::refusal::{Answered, Refusal};
use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use hyper::StatusCode;
use serde_json::json;

pub async fn show(State(api): Shared) -> Answered {
    let counts = api.node.counts().await;
    if counts.is_empty() {
        let detail = "the node is too busy to count";
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail));
    }
    let sum = |of: fn(&shard::Counts) -> usize| counts.iter().map(|(_, c)| of(c)).sum::<usize>();
    let memory = json!({
        "shards": counts.len(),
        "ready": sum(|c| c.ready),
        "timers": sum(|c| c.timers),
        "leases": sum(|c| c.leases),
        "claims_waiting": sum(|c| c.waiters),
    });
    Ok(Json(json!({ "memory": memory })).into_response())
}
