//! Where the runs of a namespace are sent to, and how it goes there: what the executors of all nodes
//! know. Nothing here is stored; a node that was just started knows little.

use crate::cluster::DESTINATIONS;
use crate::limits::{LIST_LIMIT, LIST_LIMIT_MAX};
use crate::query::Query;
use crate::refusal::{Answered, Refusal};
use crate::tenant::Tenant;
use crate::workers::asked;
use crate::{Api, Shared};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use model::row::RunRow;
use model::{Namespace, Target, Time};
use std::collections::BTreeMap;
use std::fmt::Debug;
use wire::answer::{Destination, Destinations as DestinationsAnswer};

/// What the executor of this process knows.
pub trait Destinations: Debug + Send + Sync {
    fn of(&self, namespace: Namespace, now: Time) -> Vec<Destination>;
    /// Where a target is, as `Destination::host` says it. None for what is not sent anywhere.
    fn host(&self, target: &Target) -> Option<String>;
    /// How many fail now.
    fn open(&self) -> u64;
}

/// What all nodes know, by host. One that does not answer is left out.
pub(crate) async fn everywhere(api: &Api, namespace: Namespace) -> BTreeMap<String, Destination> {
    let mut all: BTreeMap<String, Destination> = BTreeMap::new();
    let here = api.destinations.of(namespace, api.node.now());
    let path = format!("{DESTINATIONS}?of={}", namespace.0);
    let theirs = asked(api, "GET", &path, Bytes::new()).await.into_iter().flatten();
    let theirs = theirs.flat_map(|(_, body)| {
        serde_json::from_slice::<Vec<Destination>>(&body).unwrap_or_default()
    });
    for one in here.into_iter().chain(theirs) {
        match all.get_mut(&one.host) {
            Some(known) => known.join(&one),
            None => {
                all.insert(one.host.clone(), one);
            }
        }
    }
    all
}

pub async fn list(
    State(api): Shared,
    Tenant(namespace): Tenant,
    RawQuery(query): RawQuery,
) -> Answered {
    let mut query = Query::read(query.as_deref());
    let limit = query.number("limit", LIST_LIMIT_MAX).unwrap_or(LIST_LIMIT) as usize;
    let after = query.text("cursor");
    query.finish()?;
    let all = everywhere(&api, namespace).await.into_values();
    let rest = all.filter(|one| after.as_ref().is_none_or(|after| one.host > *after));
    let items: Vec<Destination> = rest.take(limit).collect();
    let full = items.len() >= limit;
    let next_cursor = items.last().filter(|_| full).map(|last| last.host.clone());
    Ok(Json(DestinationsAnswer { items, next_cursor }).into_response())
}

/// The destination of a run, if it fails now.
pub(crate) async fn failing(api: &Api, row: &RunRow) -> Result<Option<Destination>, Refusal> {
    let kind = row.flow.kind.as_ref();
    if !Target::BUILT_IN.contains(&kind) {
        return Ok(None);
    }
    let spec = api.node.specs(vec![(row.id, row.version)]).await?.into_iter().flatten().next();
    let host = spec.and_then(|spec| api.destinations.host(&spec.target));
    let Some(host) = host else { return Ok(None) };
    let found = everywhere(api, row.flow.namespace).await.remove(&host);
    Ok(found.filter(|one| one.state != "closed"))
}
