//! What the caller may submit, and what of it is left.

use crate::Shared;
use crate::quota::Submitter;
use crate::refusal::Answered;
use crate::tenant::{Caller, Tenant};
use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use wire::answer::{Quota, QuotaCount, Quotas};

pub async fn show(State(api): Shared, tenant: Tenant, caller: Caller) -> Answered {
    let name = api.namespaces.name(tenant.0).await?;
    let submitter = Submitter { tenant, name: name.clone(), caller };
    let items = submitter.left(&api).into_iter().map(|one| Quota {
        name: one.name.to_string(),
        per_s: one.rate.per_s,
        burst: one.rate.burst as u64,
        remaining: one.left,
        full_in_s: one.full_in_s,
    });
    let nodes = api.node.view().alive().count();
    let in_flight = api.quotas.of(&name).in_flight;
    let counts = submitter.held_now(&api).await.into_iter().map(|one| QuotaCount {
        name: one.name.to_string(),
        limit: one.limit,
        current: one.current,
    });
    let (items, counts) = (items.collect(), counts.collect());
    let answer = Quotas { namespace: name.to_string(), nodes, in_flight, items, counts };
    Ok(Json(answer).into_response())
}
