//! The stop button: no new attempts start in the scope; those under way settle.

use crate::jobs::json_text;
use crate::limits::REASON_MAX;
use crate::refusal::{Answered, Refusal};
use crate::{Api, DEFAULT, Shared};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::IntoResponse;
use model::id::SHARDS;
use model::row::Scope;
use model::{ShardId, Slot, Text, Time};
use serde_json::json;
use shard::command::{Answer, Command};
use wire::{Faults, Object};

struct Request {
    scope: Scope,
    reason: Text,
    until: Option<Time>,
}

pub async fn hold(State(api): Shared, body: Bytes) -> Answered {
    let request = read(&body, true)?;
    let Request { scope, reason, until } = request;
    let command = Command::Hold { scope: scope.clone(), reason, until };
    everywhere(&api, &scope, command).await?;
    Ok(Json(json!({"held": true})).into_response())
}

pub async fn release(State(api): Shared, body: Bytes) -> Answered {
    let scope = read(&body, false)?.scope;
    everywhere(&api, &scope, Command::Release(scope.clone())).await?;
    Ok(Json(json!({"held": false})).into_response())
}

fn read(body: &[u8], needs_reason: bool) -> Result<Request, Refusal> {
    let mut faults = Faults::default();
    let Some(mut object) = Object::read(json_text(body)?, "", &mut faults) else {
        return Err(Refusal::faults(faults));
    };
    let scope = match object.raw("scope").map(|raw| raw.get()) {
        None | Some("\"all\"") => Scope::All,
        Some(text) => inner(text, &mut faults),
    };
    let reason = object.short("reason", REASON_MAX, &mut faults);
    if needs_reason && reason.is_none() && faults.is_empty() {
        faults.add("/reason", "say why: whoever finds it held will ask");
    }
    let until = object.time("until", &mut faults).map(Time::from_micros);
    object.finish(&mut faults);
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    Ok(Request { scope, reason: Text::from(reason.unwrap_or_default()), until })
}

fn inner(text: &str, faults: &mut Faults) -> Scope {
    let Some(mut scope) = Object::read(text, "/scope", faults) else { return Scope::All };
    let queue = scope.short("queue", 128, faults);
    let namespace = scope.choice("namespace", &["default"], faults);
    scope.finish(faults);
    match (queue, namespace) {
        (Some(queue), _) => Scope::Queue(DEFAULT, Text::from(queue)),
        (None, Some(_)) => Scope::Namespace(DEFAULT),
        (None, None) => {
            if faults.is_empty() {
                faults.add("/scope", "\"all\", {\"queue\":…} or {\"namespace\":…} is expected");
            }
            Scope::All
        }
    }
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
