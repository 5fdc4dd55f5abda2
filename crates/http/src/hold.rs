//! The stop button: no new attempts start in the scope; those under way settle.

use crate::jobs::json_text;
use crate::limits::REASON_MAX;
use crate::refusal::{Answered, Refusal};
use crate::tenant::Tenant;
use crate::{Api, DEFAULT, Shared};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::IntoResponse;
use hyper::StatusCode;
use model::id::SHARDS;
use model::row::Scope;
use model::{Namespace, ShardId, Slot, Text, Time};
use node::namespaces::Namespaces;
use shard::command::{Answer, Command};
use wire::answer::Held;
use wire::{Faults, Object, WordOr};

struct Request {
    scope: Asked,
    reason: Text,
    until: Option<Time>,
}

/// What is held, in the words of the request.
enum Asked {
    /// Nothing was said: all of the caller's.
    Own,
    All,
    Namespace(String),
    Queue(String),
}

pub async fn hold(State(api): Shared, Tenant(namespace): Tenant, body: Bytes) -> Answered {
    let Request { scope, reason, until } = read(&body, Reason::Needed)?;
    let scope = resolved(&api, namespace, scope).await?;
    everywhere(&api, &scope, Command::Hold { scope: scope.clone(), reason, until }).await?;
    Ok(Json(Held { held: true }).into_response())
}

pub async fn release(State(api): Shared, Tenant(namespace): Tenant, body: Bytes) -> Answered {
    let scope = read(&body, Reason::Optional)?.scope;
    let scope = resolved(&api, namespace, scope).await?;
    everywhere(&api, &scope, Command::Release(scope.clone())).await?;
    Ok(Json(Held { held: false }).into_response())
}

/// Nobody stops what belongs to others: everything is held from the default namespace only.
async fn resolved(api: &Api, namespace: Namespace, asked: Asked) -> Result<Scope, Refusal> {
    match asked {
        Asked::Own | Asked::All if namespace == DEFAULT => Ok(Scope::All),
        Asked::Own => Ok(Scope::Namespace(namespace)),
        Asked::All => {
            let detail = "everything is held from the namespace default only; hold your namespace";
            Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden", detail))
        }
        Asked::Queue(queue) => Ok(Scope::Queue(namespace, Text::from(queue))),
        Asked::Namespace(name) => {
            let found = Namespaces::new(api.node.clone()).find(&name).await?;
            match found.filter(|found| *found == namespace || namespace == DEFAULT) {
                Some(found) => Ok(Scope::Namespace(found)),
                None => Err(Refusal::not_found("namespace")),
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    Needed,
    Optional,
}

fn read(body: &[u8], reason: Reason) -> Result<Request, Refusal> {
    let mut faults = Faults::default();
    let request = fields(json_text(body)?, reason, &mut faults);
    match request {
        Some(request) if faults.is_empty() => Ok(request),
        _ => Err(Refusal::faults(faults)),
    }
}

pub fn read_hold(text: &str, faults: &mut Faults) {
    fields(text, Reason::Needed, faults);
}

pub fn read_release(text: &str, faults: &mut Faults) {
    fields(text, Reason::Optional, faults);
}

fn fields(text: &str, needs: Reason, faults: &mut Faults) -> Option<Request> {
    let mut object = Object::read(text, "", faults)?;
    let scope = match object.word_or_object("scope", &["all"], faults) {
        None => Asked::Own,
        Some(WordOr::Word(_)) => Asked::All,
        Some(WordOr::Object(scope)) => inner(scope, faults),
    };
    let reason = object.short("reason", REASON_MAX, faults);
    if needs == Reason::Needed && reason.is_none() && !faults.at("/reason") {
        faults.add("/reason", "say why: whoever finds it held will ask");
    }
    let until = object.time("until", faults).map(Time::from_micros);
    object.finish(faults);
    Some(Request { scope, reason: Text::from(reason.unwrap_or_default()), until })
}

fn inner(mut scope: Object<'_>, faults: &mut Faults) -> Asked {
    let read = match scope.one_of(&["queue", "namespace"], faults) {
        Some("queue") => scope.short("queue", 128, faults).map(Asked::Queue),
        Some(_) => scope.short("namespace", 63, faults).map(Asked::Namespace),
        None => None,
    };
    scope.finish(faults);
    read.unwrap_or(Asked::Own)
}

/// A queue lives in one shard; anything wider is told to each. Telling again is harmless, so a
/// caller that hears of a failure asks again.
async fn everywhere(api: &Api, scope: &Scope, command: Command) -> Result<(), Refusal> {
    let shards: Vec<ShardId> = match scope {
        Scope::Queue(namespace, queue) => vec![Slot::of(*namespace, queue, 0).shard()],
        _ => (0..SHARDS).map(ShardId).collect(),
    };
    for shard in shards {
        match api.node.call(shard, command.clone()).await {
            Answer::Refused(refused) => return Err(refused.into()),
            _ => continue,
        }
    }
    Ok(())
}
