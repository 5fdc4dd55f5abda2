//! The door: who is heard at all, the request's id, and the form of every refusal.
//!
//! Two layers. `guard` stands in front of everything: Host and Origin, the key, the request's id, the
//! problem document, the count and the log line. `pass` stands in front of each route of the table: the
//! scope, the namespace, the parameters, the body in time and in size.
//!
//! Without keys duly listens on loopback only. A web page in a browser on this machine could still
//! reach it, so a foreign Host (DNS rebinding) or Origin is refused, and writes need a JSON content
//! type, which a page cannot send across origins without asking first.

use crate::limits::{BODY_TIMEOUT, REQUEST_ID_MAX};
use crate::quota::{self, Submitter};
use crate::refusal::{Refusal, unexpected};
use crate::route::{Route, Scope};
use crate::tenant::{Caller, Tenant};
use crate::{Api, DEFAULT, Shared, body, dashboard, log};
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue, ORIGIN, RETRY_AFTER,
};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, StatusCode};
use model::Text;
use node::clock::BootClock;
use node::namespaces::DEFAULT_NAME;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::SemaphorePermit;

/// The caller's X-Request-Id, or a new one. A handler may take it as an argument.
#[derive(Clone, Debug)]
pub struct RequestId(pub Arc<str>);

impl FromRequestParts<Arc<Api>> for RequestId {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<RequestId, Refusal> {
        parts.extensions.get::<RequestId>().cloned().ok_or_else(unexpected)
    }
}

/// Which route of the table answered.
#[derive(Clone, Copy, Debug)]
struct Answering(usize);

pub async fn guard(State(api): Shared, mut request: Request, next: Next) -> Response {
    // Not by the store's time, which may be set while the request is under way.
    let began = BootClock.local();
    let id = RequestId(request_id(request.headers()).into());
    let line = log::Line::of(&request, &id.0);
    request.extensions_mut().insert(id.clone());
    api.requests.in_flight.fetch_add(1, Ordering::Relaxed);
    let under_way = UnderWay(&api);
    let mut admitted = admit(&api, &request);
    let unknown =
        admitted.as_ref().is_err_and(|refusal| refusal.status == StatusCode::UNAUTHORIZED);
    if unknown && request.headers().contains_key(AUTHORIZATION) && api.peers().is_some() {
        // Another node may have made it just now.
        if api.ring.look(&api.node).await {
            admitted = admit(&api, &request);
        }
    }
    let mut response = match admitted {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    };
    drop(under_way);
    let refusal = refusal_of(&response);
    let route = response.extensions().get::<Answering>().map(|route| route.0);
    let limited = response.extensions().get::<Limited>().cloned();
    if let Some(refusal) = &refusal {
        response = write(refusal, &id.0);
    }
    if let Some(Limited((policy, state))) = limited {
        for (name, text) in [("ratelimit-policy", policy), ("ratelimit", state)] {
            if let Ok(value) = HeaderValue::from_str(&text) {
                response.headers_mut().insert(name, value);
            }
        }
    }
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert("x-request-id", value);
    }
    let took = BootClock.local().since(began);
    api.requests.count(route, response.status().as_u16(), took);
    line.write(&response, refusal.as_ref(), took);
    response
}

/// Counted even if the caller hangs up and the request is dropped.
struct UnderWay<'a>(&'a Api);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.requests.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get("x-request-id").and_then(|value| value.to_str().ok());
    match given {
        Some(id) if (1..=REQUEST_ID_MAX).contains(&id.len()) => id.to_string(),
        _ => format!("req_{:016x}", node::random::bits()),
    }
}

fn admit(api: &Arc<Api>, request: &Request) -> Result<Caller, Refusal> {
    let headers = request.headers();
    let forbidden = |what: &str| {
        let detail = format!("{what} is foreign; without keys only this machine is heard");
        Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden", detail))
    };
    let needs_key = api.ring.is_closed() || !api.listen.ip().is_loopback();
    if !needs_key {
        let host = headers.get(HOST).and_then(|value| value.to_str().ok());
        if !host.is_some_and(is_local) {
            return forbidden("the Host");
        }
        if let Some(origin) = headers.get(ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let origin = origin.strip_prefix("https://").or(origin.strip_prefix("http://"));
            if !origin.is_some_and(is_local) {
                return forbidden("the Origin");
            }
        }
    }
    let writes = [Method::POST, Method::PUT, Method::PATCH].contains(request.method());
    if writes && !body::is_json(headers) {
        let detail = "writes need the header Content-Type: application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", detail));
    }
    let is_open = OPEN.contains(&request.uri().path()) || dashboard::is_asked(request);
    if !needs_key || is_open {
        return Ok(Caller(None));
    }
    let header = headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap_or_default());
    match api.ring.open(header) {
        Ok(key) => Ok(Caller(Some(key))),
        Err(refusal) => {
            api.requests.unauthorized.add(1);
            Err(refusal)
        }
    }
}

/// Heard without a key: who only asks whether we are alive has none.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// What stands in front of one route.
#[derive(Debug)]
pub struct Gate {
    api: Arc<Api>,
    route: usize,
    scope: Scope,
    /// Quotas apply, and it may make a namespace: a typing error in any other request shall not leave
    /// one behind.
    submits: bool,
    query: Vec<&'static str>,
}

impl Gate {
    pub fn of(api: Arc<Api>, index: usize, route: &Route) -> Gate {
        let query = route.query.iter().map(|param| param.name).collect();
        Gate { api, route: index, scope: route.scope, submits: route.submits(), query }
    }
}

/// Lets a request through to its route: the tenant is found, unknown parameters are refused, the
/// body is read.
pub async fn pass(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let mut submitter = None;
    let mut response = match enter(&gate, request, &mut submitter).await {
        Ok((request, _room)) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    response.extensions_mut().insert(Answering(gate.route));
    if let Some(one) = submitter {
        let (left, held) = (one.left(&gate.api), one.held(&gate.api).await);
        if let Some(left) = quota::headers(&left, &held) {
            response.extensions_mut().insert(Limited(left));
        }
    }
    response
}

/// What the headers about quotas say. The guard writes them, on refusals, too.
#[derive(Clone, Debug)]
struct Limited((String, String));

async fn enter<'a>(
    gate: &'a Gate,
    mut request: Request,
    submitter: &mut Option<Submitter>,
) -> Result<(Request, Option<SemaphorePermit<'a>>), Refusal> {
    let caller = request.extensions().get::<Caller>().cloned().unwrap_or_default();
    if caller.0.as_ref().is_some_and(|key| !key.may(gate.scope)) {
        let detail = format!("this key may not do this; the scope {} is needed", gate.scope.name());
        return Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden", detail));
    }
    let named = namespace(gate, &request)?;
    let name = caller.namespace().or(named.as_deref()).unwrap_or(DEFAULT_NAME);
    let name = Text::from(name);
    let tenant = tenant(gate, &caller, named).await?;
    request.extensions_mut().insert(tenant);
    if gate.submits {
        let one = submitter.insert(Submitter { tenant, name, caller });
        request.extensions_mut().insert(one.clone());
        // Before the body is read. A request that makes many jobs pays for the first one here, and
        // for the others one by one (`batch`).
        one.take(&gate.api, 1, length(request.headers()))?;
    }
    let (head, body) = request.into_parts();
    let (body, room) = body::read(&gate.api.bodies, &head.headers, body, BODY_TIMEOUT).await?;
    Ok((Request::from_parts(head, body), room))
}

/// What the head says of the body. One that comes in pieces of unknown length is bounded in size, and
/// its submissions are counted.
fn length(headers: &HeaderMap) -> u64 {
    let text = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The key decides; without one, or with an admin's of all namespaces, the request.
async fn tenant(gate: &Gate, caller: &Caller, named: Option<String>) -> Result<Tenant, Refusal> {
    let namespaces = &gate.api.namespaces;
    if let Some(own) = caller.namespace() {
        if named.is_some_and(|named| named != own) {
            return Err(Refusal::not_found("namespace"));
        }
        return Ok(Tenant(namespaces.find_or_make(own).await?));
    }
    let Some(named) = named else { return Ok(Tenant(DEFAULT)) };
    if !node::namespaces::is_name(&named) {
        let detail = "a namespace has 1 to 63 lower-case letters, digits, - and _";
        return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail));
    }
    // Who writes makes it; who reads what nobody wrote finds nothing.
    match gate.submits {
        true => Ok(Tenant(namespaces.find_or_make(&named).await?)),
        false => match namespaces.find(&named).await? {
            Some(found) => Ok(Tenant(found)),
            None => Err(Refusal::not_found("namespace")),
        },
    }
}

/// The namespace that a request names. Refuses parameters that the route does not know.
fn namespace(gate: &Gate, request: &Request) -> Result<Option<String>, Refusal> {
    let mut namespace = None;
    if gate.scope != Scope::Open {
        namespace = request.headers().get("x-namespace").map(|name| name.to_str().unwrap_or("?"));
    }
    let query = request.uri().query().unwrap_or_default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "namespace" if gate.scope != Scope::Open => namespace = Some(value),
            name if gate.query.contains(&name) => {}
            _ => return Err(unknown_parameter(&gate.query)),
        }
    }
    Ok(namespace.map(str::to_string))
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
        413 => Some(body::too_large()),
        400..=599 => Some(Refusal::new(status, "refused", "the request could not be read")),
        _ => None,
    }
}

fn write(refusal: &Refusal, id: &str) -> Response {
    let body = serde_json::to_vec(&refusal.problem(id)).unwrap_or_default();
    let length = body.len();
    let mut response = (refusal.status, body).into_response();
    let headers = response.headers_mut();
    // The router says it for its routes, but not where there is none.
    headers.insert(CONTENT_LENGTH, length.into());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if matches!(refusal.status.as_u16(), 429 | 503) {
        headers.insert(RETRY_AFTER, refusal.retry_after.unwrap_or(1).into());
    }
    if refusal.status == StatusCode::UNAUTHORIZED {
        headers.insert("www-authenticate", HeaderValue::from_static("Bearer"));
    }
    response
}
