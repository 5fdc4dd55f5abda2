//! Whose request this is. The door finds out (`door::pass`); a handler takes `Tenant` as an argument.

use crate::Api;
use crate::refusal::{Refusal, unexpected};
use axum::extract::FromRequestParts;
use hyper::http::request::Parts;
use model::Namespace;
use std::sync::Arc;

/// The namespace that a request speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenant(pub Namespace);

impl FromRequestParts<Arc<Api>> for Tenant {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Tenant, Refusal> {
        // Absent only if a route had no gate, which the table does not allow.
        parts.extensions.get::<Tenant>().copied().ok_or_else(unexpected)
    }
}
