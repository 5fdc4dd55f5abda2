//! Whose request this is. The door finds out (`door::pass`); a handler takes `Tenant` or `Caller` as an
//! argument.

use crate::Api;
use crate::keys::Key;
use crate::refusal::{Refusal, unexpected};
use axum::extract::FromRequestParts;
use hyper::http::request::Parts;
use model::Namespace;
use std::sync::Arc;

/// The namespace that a request speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenant(pub Namespace);

/// The key that a request came with; none while there are no keys at all.
#[derive(Clone, Debug, Default)]
pub struct Caller(pub Option<Arc<Key>>);

impl Caller {
    /// The only namespace that it may speak for, if it is bound to one.
    pub fn namespace(&self) -> Option<&str> {
        self.0.as_ref().and_then(|key| key.namespace.as_deref())
    }

    pub fn rules(&self, other: &Key) -> bool {
        self.0.as_ref().is_none_or(|key| key.rules(other))
    }
}

impl FromRequestParts<Arc<Api>> for Tenant {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Tenant, Refusal> {
        // Absent only if a route had no gate, which the table does not allow.
        parts.extensions.get::<Tenant>().copied().ok_or_else(unexpected)
    }
}

impl FromRequestParts<Arc<Api>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Caller, Refusal> {
        parts.extensions.get::<Caller>().cloned().ok_or_else(unexpected)
    }
}
