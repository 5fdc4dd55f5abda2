//! Making, listing and revoking API keys. A key's secret is answered once and never again.

use crate::Shared;
use crate::jobs::{json_text, key_header};
use crate::key_quota::KeyQuota;
use crate::keys::{self, Key, Wanted};
use crate::limits::{KEY_BYTES_MAX, KEY_NAME_MAX, KEY_RATE_MAX, KEYS_MAX, QUOTA_COUNT_MAX};
use crate::refusal::{Answered, Refusal};
use crate::route::Scope;
use crate::run_read::time;
use crate::tenant::Caller;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use hyper::{HeaderMap, StatusCode};
use model::Time;
use wire::answer::{ApiKey, ApiKeyMade, ApiKeys};
use wire::{Faults, Object};

pub async fn create(
    State(api): Shared,
    caller: Caller,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    let mut faults = Faults::default();
    let wanted = read(json_text(&body)?, &mut faults);
    let mut wanted = match wanted {
        Some(wanted) if faults.is_empty() => wanted,
        _ => return Err(Refusal::faults(faults)),
    };
    // An admin of one namespace makes keys for that one.
    if let Some(own) = caller.namespace() {
        match &wanted.namespace {
            Some(other) if other != own => return Err(Refusal::not_found("namespace")),
            _ => wanted.namespace = Some(own.to_string()),
        }
    }
    if api.ring.all().len() >= KEYS_MAX {
        let detail = format!("there are {KEYS_MAX} keys, revoked ones included");
        return Err(Refusal::new(StatusCode::CONFLICT, "too_many", detail));
    }
    let id = key_header(&headers)?.map(|key| keys::id_of_request(&key));
    let minted = keys::mint(wanted, id, api.node.now());
    if !keys::write(&api.node, &api.ring, &minted.id, &minted.key, None).await? {
        let detail = "this Idempotency-Key made a key before; its secret was shown then";
        return Err(Refusal::new(StatusCode::CONFLICT, "conflict", detail));
    }
    let made = ApiKeyMade { key: minted.text, about: shown(&minted.id, &minted.key) };
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

pub async fn list(State(api): Shared, caller: Caller) -> Answered {
    api.ring.load(&api.node).await?;
    let keys = api.ring.all();
    let mine = keys.iter().filter(|(_, key)| caller.rules(key));
    let items = mine.map(|(id, key)| shown(id, key)).collect();
    Ok(Json(ApiKeys { items }).into_response())
}

pub async fn revoke(State(api): Shared, caller: Caller, Path(id): Path<String>) -> Answered {
    let entry = api.node.entry(keys::place(&id)).await?;
    let found = entry.and_then(|entry| Some((entry.rev, keys::of_entry(&entry)?.1)));
    let Some((rev, mut key)) = found.filter(|(_, key)| caller.rules(key)) else {
        return Err(Refusal::not_found("key"));
    };
    if !key.is_revoked() {
        let all = api.ring.all();
        let opens = |other: &Key| other.scope == Scope::Admin && !other.is_revoked();
        let admins = all.iter().filter(|(other, key)| **other != id && opens(key)).count();
        if key.scope == Scope::Admin && admins == 0 {
            let detail = "this is the last admin key; make another one first";
            return Err(Refusal::new(StatusCode::CONFLICT, "last_admin", detail));
        }
        key.revoked = Some(api.node.now().micros());
        if !keys::write(&api.node, &api.ring, &id, &key, Some(rev)).await? {
            let detail = "somebody else changed this key just now; ask again";
            return Err(Refusal::new(StatusCode::CONFLICT, "conflict", detail));
        }
    }
    Ok(Json(shown(&id, &key)).into_response())
}

fn read(text: &str, faults: &mut Faults) -> Option<Wanted> {
    let mut object = Object::read(text, "", faults)?;
    let scope = object.choice("scope", &["admin", "submit", "read", "worker"], faults);
    if scope.is_none() && !faults.at("/scope") {
        faults.add("/scope", "one of admin, submit, read, worker is missing");
    }
    let namespace = object.short("namespace", 63, faults);
    if namespace.as_ref().is_some_and(|name| !node::namespaces::is_name(name)) {
        faults.add("/namespace", "a namespace has lower-case letters, digits, - and _");
    }
    let name = object.short("name", KEY_NAME_MAX, faults);
    let mut number = |name: &'static str, most: u64| {
        let number = object.number(name, 1..=most, faults);
        number.and_then(|number| u32::try_from(number).ok())
    };
    let quota = KeyQuota {
        submissions_per_s: number("submissions_per_s", KEY_RATE_MAX),
        bytes_per_s: number("bytes_per_s", KEY_BYTES_MAX),
        waiting: number("waiting", QUOTA_COUNT_MAX.into()),
        jobs: number("jobs", QUOTA_COUNT_MAX.into()),
        fires_per_min: number("fires_per_min", QUOTA_COUNT_MAX.into()),
    };
    object.finish(faults);
    Some(Wanted { scope: Scope::of(scope?)?, namespace, name, quota })
}

pub fn read_only(text: &str, faults: &mut Faults) {
    read(text, faults);
}

pub fn shown(id: &str, key: &Key) -> ApiKey {
    ApiKey {
        id: id.to_string(),
        scope: key.scope.name().to_string(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        created_at: time(Time::from_micros(key.created)),
        revoked_at: key.revoked.map(|at| time(Time::from_micros(at))),
        submissions_per_s: key.quota.submissions_per_s,
        bytes_per_s: key.quota.bytes_per_s,
        waiting: key.quota.waiting,
        jobs: key.quota.jobs,
        fires_per_min: key.quota.fires_per_min,
    }
}
