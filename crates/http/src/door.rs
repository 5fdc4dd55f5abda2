//! The door: who is heard at all, the request's id, and the form of every refusal.
//!
//! Without keys duly listens on loopback only. A web page in a browser on this machine could still
//! reach it, so a foreign Host (DNS rebinding) or Origin is refused, and writes need a JSON content
//! type, which a page cannot send across origins without asking first.

use crate::limits::REQUEST_ID_MAX;
use crate::refusal::Refusal;
use crate::route::{Route, Scope};
use crate::tenant::Tenant;
use crate::{Api, DEFAULT, Shared};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, ORIGIN, RETRY_AFTER};
use hyper::{HeaderMap, Method, StatusCode};
use std::net::IpAddr;
use std::sync::Arc;

pub async fn guard(State(api): Shared, request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let mut response = match admit(&api, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    if let Some(refusal) = refusal_of(&response) {
        response = write(&refusal, &id);
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", value);
    }
    response
}

fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get("x-request-id").and_then(|value| value.to_str().ok());
    match given {
        Some(id) if (1..=REQUEST_ID_MAX).contains(&id.len()) => id.to_string(),
        _ => format!("req_{:016x}", node::random::bits()),
    }
}

fn admit(api: &Arc<Api>, request: &Request) -> Result<(), Refusal> {
    let headers = request.headers();
    let forbidden = |what: &str| {
        let detail = format!("{what} is foreign; without keys only this machine is heard");
        Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden", detail))
    };
    if api.listen.ip().is_loopback() {
        let host = headers.get(HOST).and_then(|value| value.to_str().ok());
        if !host.is_some_and(is_local) {
            return forbidden("the Host");
        }
        if let Some(origin) = headers.get(ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let local = origin.strip_prefix("http://").is_some_and(is_local);
            if !local {
                return forbidden("the Origin");
            }
        }
    }
    let writes = [Method::POST, Method::PUT, Method::PATCH].contains(request.method());
    let json =
        headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|kind| {
            kind.split(';')
                .next()
                .unwrap_or_default()
                .trim()
                .eq_ignore_ascii_case("application/json")
        });
    if writes && !json {
        let detail = "writes need the header Content-Type: application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", detail));
    }
    Ok(())
}

/// What stands in front of one route.
#[derive(Debug)]
pub struct Gate {
    scope: Scope,
    query: Vec<&'static str>,
}

impl Gate {
    pub fn of(_api: Arc<Api>, route: &Route) -> Gate {
        Gate { scope: route.scope, query: route.query.iter().map(|param| param.name).collect() }
    }
}

/// Lets a request through to its route: the tenant is found, unknown parameters are refused.
pub async fn pass(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    match enter(&gate, &request) {
        Ok(tenant) => {
            request.extensions_mut().insert(tenant);
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

fn enter(gate: &Gate, request: &Request) -> Result<Tenant, Refusal> {
    let mut namespace = None;
    if gate.scope != Scope::Open {
        namespace = request.headers().get("x-namespace").map(|name| name.to_str().unwrap_or("?"));
    }
    for pair in request.uri().query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty())
    {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "namespace" if gate.scope != Scope::Open => namespace = Some(value),
            name if gate.query.contains(&name) => {}
            _ => return Err(unknown_parameter(&gate.query)),
        }
    }
    if namespace.is_some_and(|name| name != "default") {
        return Err(Refusal::not_found("namespace"));
    }
    Ok(Tenant(DEFAULT))
}

fn unknown_parameter(known: &[&'static str]) -> Refusal {
    let known = match known.is_empty() {
        true => "none but namespace".to_string(),
        false => known.join(", "),
    };
    let detail = format!("a parameter behind the ? is not known here; known are {known}");
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "unknown_field", detail)
}

/// `localhost` or a loopback address, with or without a port.
fn is_local(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Ours, or one that the router or an extractor made.
fn refusal_of(response: &Response) -> Option<Refusal> {
    if let Some(refusal) = response.extensions().get::<Refusal>() {
        return Some(refusal.clone());
    }
    let status = response.status();
    match status.as_u16() {
        404 => Some(Refusal::not_found("address")),
        405 => Some(Refusal::new(status, "method", "this address has no such method")),
        413 => Some(Refusal::new(status, "too_large", "the request is too large")),
        400..=599 => Some(Refusal::new(status, "refused", "the request could not be read")),
        _ => None,
    }
}

fn write(refusal: &Refusal, id: &str) -> Response {
    let body = serde_json::to_vec(&refusal.problem(id)).unwrap_or_default();
    let mut response = (refusal.status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if matches!(refusal.status.as_u16(), 429 | 503) {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
