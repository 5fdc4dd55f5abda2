//! Is it alive, is it ready, which version is it.

use crate::Shared;
use crate::refusal::{Answered, Refusal};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use serde_json::json;

pub async fn healthz() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

/// Ready means that every shard answers.
pub async fn readyz(State(api): Shared) -> Answered {
    if api.node.is_live() {
        return Ok(Json(json!({"status": "ready"})).into_response());
    }
    let detail = "shards are being loaded";
    Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", detail))
}

pub async fn version() -> Response {
    let tzdb = calendar::tzdb_version();
    Json(json!({"version": env!("CARGO_PKG_VERSION"), "tzdb": tzdb})).into_response()
}
