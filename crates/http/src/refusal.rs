//! The one place where a refusal becomes an HTTP status, a code and a sentence.

use crate::limits::RETRY_SHED_S;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use node::Reading;
use shard::command::Refused;
use wire::{Faults, FieldFault, Problem};

/// Why a request was not done. The door adds the request's id and writes the document.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub status: StatusCode,
    pub code: &'static str,
    pub detail: String,
    pub errors: Vec<FieldFault>,
    /// Seconds until it is worth asking again, where that is known.
    pub retry_after: Option<u32>,
}

pub type Answered = Result<Response, Refusal>;

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Refusal {
        Refusal { status, code, detail: detail.into(), errors: Vec::new(), retry_after: None }
    }

    pub fn not_found(what: &str) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, "not_found", format!("there is no such {what}"))
    }

    pub fn not_json() -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, "not_json", "the body is not JSON")
    }

    pub fn faults(faults: Faults) -> Refusal {
        let code = if faults.unknown { "unknown_field" } else { "invalid" };
        let first = faults.list.first();
        let detail = first.map(|one| format!("{}: {}", one.pointer, one.message));
        let errors = faults.list;
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Refusal { errors, ..Refusal::new(status, code, detail.unwrap_or_default()) }
    }

    pub fn problem(&self, request_id: &str) -> Problem {
        let retryable =
            matches!(self.status.as_u16(), 429 | 503 | 507) && self.code != "outcome_unknown";
        Problem {
            kind: "about:blank".to_string(),
            title: self.status.canonical_reason().unwrap_or("Refused").to_string(),
            status: self.status.as_u16(),
            detail: self.detail.clone(),
            code: self.code.to_string(),
            request_id: request_id.to_string(),
            retryable,
            errors: self.errors.clone(),
        }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Refusal {
        let (status, code, detail) = match refused {
            Refused::NotFound => (404, "not_found", "there is no such thing, or it has finished"),
            Refused::KeyReused => (
                422,
                "idempotency_key_reused",
                "this Idempotency-Key came with another body before",
            ),
            Refused::Taken => (409, "taken", "this id exists already"),
            Refused::Conflict => (409, "conflict", "its state does not allow this"),
            Refused::VersionMismatch { .. } => (412, "version", "it has another version by now"),
            Refused::Invalid(why) => (422, "invalid", why),
            Refused::Busy => (429, "busy", "too much is waiting; come back in a second"),
            Refused::Shed => (
                429,
                "shed",
                "runs of this queue wait longer than its start_within allows; until they do not, nothing \
                 with a priority below 5 is taken that is to run now: come back in 10 s, or give it a \
                 higher priority or a later time",
            ),
            Refused::Full => (507, "store_full", "the store has no room; nothing was done"),
            Refused::NotOwner | Refused::TooLate => {
                (503, "store_unavailable", "the store did not answer in time; nothing was done")
            }
            Refused::Unknown => (
                503,
                "outcome_unknown",
                "no answer in time: it may have been done; ask again with the same Idempotency-Key",
            ),
            Refused::Poison => (422, "not_storable", "the store cannot keep this request"),
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = (refused == Refused::Shed).then_some(RETRY_SHED_S);
        Refusal { retry_after, ..Refusal::new(status, code, detail) }
    }
}

impl From<Reading> for Refusal {
    fn from(_: Reading) -> Refusal {
        let detail = "the store did not answer the read";
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// For answers of the core that a command cannot have.
pub fn unexpected() -> Refusal {
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the core gave another answer")
}
