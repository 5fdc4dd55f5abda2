//! What the caller may submit, and what of it is left.

use crate::quota::Submitter;
use crate::quota_fires::share;
use crate::refusal::Answered;
use crate::run_read::time;
use crate::tenant::{Caller, Tenant};
use crate::{Api, Shared};
use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use shard::FiresLeft;
use wire::answer::{Quota, QuotaCount, QuotaFires, Quotas};

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
    let fires = fires(&api, &submitter, nodes);
    let answer = Quotas { namespace: name.to_string(), nodes, in_flight, items, counts, fires };
    Ok(Json(answer).into_response())
}

/// What the core has let fire here; before it was told of a quota, all of it is left.
fn fires(api: &Api, submitter: &Submitter, nodes: usize) -> Vec<QuotaFires> {
    let (now, core) = (api.node.now(), api.node.quotas());
    let key = submitter.caller.0.as_ref();
    let of_key = key.and_then(|key| {
        let left = key.counted_id().and_then(|id| core.key_left(id, now));
        Some(("key", key.quota.fires()?, left))
    });
    let of_namespace = api.quotas.of(&submitter.name).fires;
    let of_namespace =
        of_namespace.map(|rate| ("namespace", rate, core.left(submitter.tenant.0, now)));
    let each = of_namespace.into_iter().chain(of_key).map(|(name, rate, left)| {
        let part = share(rate, nodes);
        let left = left.unwrap_or(FiresLeft { left: part.burst, next: now });
        let minutes = part.per.micros() as f64 / 60e6;
        QuotaFires {
            name: name.to_string(),
            per_min: f64::from(part.starts) / minutes,
            burst: part.burst,
            remaining: left.left,
            next_at: time(left.next.max(now)),
        }
    });
    each.collect()
}
