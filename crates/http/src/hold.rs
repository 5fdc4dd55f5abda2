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
use shard::command::{Answer, Command};
use wire::answer::Held;
use wire::{Faults, Object, WordOr};

struct Request {
    scope: Scope,
    reason: Text,
    until: Option<Time>,
}

pub async fn hold(State(api): Shared, body: Bytes) -> Answered {
    let request = read(&body, Reason::Needed)?;
    let Request { scope, reason, until } = request;
    let command = Command::Hold { scope: scope.clone(), reason, until };
    everywhere(&api, &scope, command).await?;
    Ok(Json(Held { held: true }).into_response())
}

pub async fn release(State(api): Shared, body: Bytes) -> Answered {
    let scope = read(&body, Reason::Optional)?.scope;
    everywhere(&api, &scope, Command::Release(scope.clone())).await?;
    Ok(Json(Held { held: false }).into_response())
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
        None | Some(WordOr::Word(_)) => Scope::All,
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

fn inner(mut scope: Object<'_>, faults: &mut Faults) -> Scope {
    let read = match scope.one_of(&["queue", "namespace"], faults) {
        Some("queue") => {
            scope.short("queue", 128, faults).map(|queue| Scope::Queue(DEFAULT, Text::from(queue)))
        }
        Some(_) => {
            scope.choice("namespace", &["default"], faults).map(|_| Scope::Namespace(DEFAULT))
        }
        None => None,
    };
    scope.finish(faults);
    read.unwrap_or(Scope::All)
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
