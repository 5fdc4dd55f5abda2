//! Signing secrets: seen and rotated. Who keeps them is handed in; this crate only asks.

use crate::Shared;
use crate::jobs::{key_header, optional_text};
use crate::limits::OVERLAP_MAX;
use crate::refusal::{Answered, Refusal};
use crate::tenant::Tenant;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::IntoResponse;
use hyper::{HeaderMap, StatusCode};
use model::{Namespace, Span, Time};
use std::fmt;
use wire::{Faults, Object, timestamp, webhook};

/// How long the old secrets sign beside the new one unless told otherwise.
const OVERLAP: Span = Span::from_secs(86_400);

#[derive(Clone, Debug)]
pub struct SigningSecret {
    pub id: String,
    /// `whsec_…`
    pub secret: String,
    pub created_at: Time,
    pub expires_at: Option<Time>,
}

impl SigningSecret {
    pub fn wire(&self) -> webhook::SigningSecret {
        let time = |at: Time| timestamp::format(at.micros());
        webhook::SigningSecret {
            id: self.id.clone(),
            secret: self.secret.clone(),
            created_at: time(self.created_at),
            expires_at: self.expires_at.map(time),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Rotation {
    pub overlap: Span,
    /// The same key again rotates nothing and gets the same answer.
    pub key: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RotationRefused {
    /// The key came with another overlap before.
    KeyReused,
    TooMany,
    Failed(String),
}

impl fmt::Display for RotationRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RotationRefused::KeyReused => {
                f.write_str("this Idempotency-Key came with another body before")
            }
            RotationRefused::TooMany => f.write_str(
                "four secrets sign already; wait until one ends, or rotate with overlap 0s",
            ),
            RotationRefused::Failed(why) => f.write_str(why),
        }
    }
}

pub trait SigningSecrets: fmt::Debug + Send + Sync {
    /// Those that sign now, the newest first.
    fn list(&self, namespace: Namespace, now: Time) -> Result<Vec<SigningSecret>, String>;

    /// Durable when it returns. True: this key has rotated before.
    fn rotate(
        &self,
        namespace: Namespace,
        rotation: &Rotation,
        now: Time,
    ) -> Result<bool, RotationRefused>;
}

pub async fn list(State(api): Shared, Tenant(namespace): Tenant) -> Answered {
    let list = api.secrets.list(namespace, api.node.now()).map_err(failed)?;
    Ok(Json(items(&list)).into_response())
}

pub async fn rotate(
    State(api): Shared,
    Tenant(namespace): Tenant,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    let key = key_header(&headers)?;
    let rotation = Rotation { overlap: read(&body)?, key };
    // It syncs a file: a thread that may block.
    let secrets = api.secrets.clone();
    let now = api.node.now();
    let done = tokio::task::block_in_place(|| secrets.rotate(namespace, &rotation, now));
    let replayed = done.map_err(|why| match why {
        RotationRefused::KeyReused => {
            let detail = why.to_string();
            Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", detail)
        }
        RotationRefused::TooMany => Refusal::new(StatusCode::CONFLICT, "conflict", why.to_string()),
        RotationRefused::Failed(why) => failed(why),
    })?;
    let list = api.secrets.list(namespace, now).map_err(failed)?;
    let replayed = if replayed { "true" } else { "false" };
    Ok(([("idempotency-replayed", replayed)], Json(items(&list))).into_response())
}

fn read(body: &[u8]) -> Result<Span, Refusal> {
    let mut faults = Faults::default();
    let overlap = overlap(optional_text(body)?, &mut faults);
    if faults.is_empty() { Ok(overlap) } else { Err(Refusal::faults(faults)) }
}

pub fn read_only(text: &str, faults: &mut Faults) {
    overlap(text, faults);
}

fn overlap(text: &str, faults: &mut Faults) -> Span {
    let Some(mut object) = Object::read(text, "", faults) else { return OVERLAP };
    let overlap = object.span("overlap", faults).map_or(OVERLAP, Span::from_micros);
    object.finish(faults);
    if overlap.micros() < 0 || overlap > OVERLAP_MAX {
        faults.add("/overlap", "secrets overlap by 0s to 30d");
    }
    overlap
}

fn items(list: &[SigningSecret]) -> webhook::SigningSecrets {
    webhook::SigningSecrets { items: list.iter().map(SigningSecret::wire).collect() }
}

fn failed(why: String) -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", why)
}
