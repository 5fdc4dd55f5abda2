//! Is it alive, is it ready, which version is it.

use crate::Shared;
use crate::refusal::{Answered, Refusal};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use wire::answer::{Health, StoreAbout, Version};

pub async fn healthz() -> Response {
    Json(Health { status: "ok" }).into_response()
}

/// Ready means that every shard answers, here or at another node. A node that leaves answers what it
/// is asked; who can choose shall ask another one.
pub async fn readyz(State(api): Shared) -> Answered {
    if api.node.view().leaving {
        let detail = "this node gives its shards away and leaves";
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", detail));
    }
    if api.node.is_live() {
        return Ok(Json(Health { status: "ready" }).into_response());
    }
    let detail = "shards are being loaded";
    Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", detail))
}

pub async fn version(State(api): Shared) -> Answered {
    let tzdb = calendar::tzdb_version();
    let about = api.node.about_store().await?;
    let store = StoreAbout {
        kind: about.kind,
        durability: about.durability,
        answers: about.answers,
        facts: about.facts.into_iter().collect(),
    };
    Ok(Json(Version { version: env!("CARGO_PKG_VERSION"), tzdb, store }).into_response())
}
