//! What can go wrong, as types.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Everything that this crate's calls fail with.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The server refused.
    Api(Box<ApiError>),
    /// No answer: the connection failed, and so did every retry. What was asked may have been done.
    Transport(String),
    /// The run belongs to somebody else by now. What its handler does counts no more.
    LeaseLost(String),
    /// An option or an argument is wrong, before anything was sent.
    Invalid(String),
}

/// One place of a request that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Fault {
    /// The JSON pointer of the field.
    pub pointer: String,
    /// What is wrong with it.
    pub message: String,
    /// A name that was perhaps meant.
    pub did_you_mean: Option<String>,
}

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// 400, 413, 415, 422: the request itself is wrong. [`ApiError::errors`] points at the fields.
    InvalidRequest,
    /// The idempotency key came with another body before.
    KeyReused,
    /// 401: no key, or one that is not known.
    Unauthorized,
    /// 403: the key does not allow this.
    Forbidden,
    /// 404, or 410 when it is past retention.
    NotFound,
    /// 409: its state, or another's name, does not allow this.
    Conflict,
    /// 412, 428: somebody changed it since it was read, or no version was named.
    VersionMismatch,
    /// 429: too much is waiting.
    Busy,
    /// 502, 503, 504: not now.
    Unavailable,
    /// It may have been done. The same request with the same key tells.
    OutcomeUnknown,
    /// 507: no room. Nothing was done.
    StoreFull,
    /// Any other.
    Other,
}

/// A problem document of the server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ApiError {
    /// The HTTP status.
    pub status: u16,
    /// What kind of refusal it is.
    pub refusal: Refusal,
    /// One word for programs.
    pub code: String,
    /// A sentence with the way out.
    pub detail: String,
    /// The request's id, in the server's log too.
    pub request_id: String,
    /// May the same request succeed later?
    pub retryable: bool,
    /// The server asks to be left alone for so long.
    pub retry_after: Option<Duration>,
    /// The places of the request that are wrong.
    pub errors: Vec<Fault>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Problem {
    code: Option<String>,
    detail: Option<String>,
    request_id: Option<String>,
    retryable: Option<bool>,
    errors: Vec<Fault>,
}

impl ApiError {
    pub(crate) fn read(status: u16, retry_after: Option<Duration>, body: &[u8]) -> ApiError {
        let problem = serde_json::from_slice(body).unwrap_or_else(|_| {
            // Somebody between us and the server.
            let text = String::from_utf8_lossy(body).chars().take(200).collect();
            Problem { detail: Some(text), ..Problem::default() }
        });
        let code = problem.code.unwrap_or_else(|| "unknown".to_string());
        let passes = matches!(status, 429 | 502 | 503 | 504);
        ApiError {
            status,
            refusal: refusal(status, &code),
            code,
            detail: problem.detail.unwrap_or_default(),
            request_id: problem.request_id.unwrap_or_default(),
            retryable: problem.retryable.unwrap_or(passes),
            retry_after,
            errors: problem.errors,
        }
    }
}

fn refusal(status: u16, code: &str) -> Refusal {
    match (status, code) {
        (_, "idempotency_key_reused") => Refusal::KeyReused,
        (_, "outcome_unknown") => Refusal::OutcomeUnknown,
        (400 | 413 | 415 | 422, _) => Refusal::InvalidRequest,
        (401, _) => Refusal::Unauthorized,
        (403, _) => Refusal::Forbidden,
        (404 | 410, _) => Refusal::NotFound,
        (409, _) => Refusal::Conflict,
        (412 | 428, _) => Refusal::VersionMismatch,
        (429, _) => Refusal::Busy,
        (502..=504, _) => Refusal::Unavailable,
        (507, _) => Refusal::StoreFull,
        _ => Refusal::Other,
    }
}

impl Error {
    /// What kind of refusal of the server it is, if it is one.
    pub fn refusal(&self) -> Option<Refusal> {
        self.api().map(|api| api.refusal)
    }

    /// The server's problem document, if it refused.
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Error::Api(api) => Some(api),
            _ => None,
        }
    }

    /// May the same request succeed later? An unknown outcome may: requests carry a key.
    pub fn may_pass(&self) -> bool {
        match self {
            Error::Api(api) => api.retryable || api.refusal == Refusal::OutcomeUnknown,
            Error::Transport(_) => true,
            Error::LeaseLost(_) | Error::Invalid(_) => false,
        }
    }

    pub(crate) fn unreadable(what: &str, error: impl fmt::Display) -> Error {
        Error::Transport(format!("{what}: the answer cannot be read: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Api(api) => write!(f, "{} {}: {}", api.status, api.code, api.detail),
            Error::Transport(text) | Error::LeaseLost(text) | Error::Invalid(text) => {
                f.write_str(text)
            }
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::{ApiError, Error, Refusal};

    #[test]
    fn a_problem_document_becomes_a_typed_error() {
        let body =
            br#"{"status":422,"code":"idempotency_key_reused","detail":"x","retryable":false,
            "errors":[{"pointer":"/a","message":"m","more":1}],"unheard_of":true}"#;
        let error = ApiError::read(422, None, body);
        assert_eq!(error.refusal, Refusal::KeyReused);
        assert_eq!(error.errors[0].pointer, "/a");
        assert!(!Error::Api(Box::new(error)).may_pass());
        let page = ApiError::read(502, None, b"<html>bad gateway");
        assert_eq!((page.refusal, page.code.as_str()), (Refusal::Unavailable, "unknown"));
        assert!(page.retryable && page.detail.contains("bad gateway"));
        let unknown = ApiError::read(503, None, br#"{"code":"outcome_unknown","retryable":false}"#);
        assert!(Error::Api(Box::new(unknown)).may_pass(), "the key makes a repetition safe");
    }
}
