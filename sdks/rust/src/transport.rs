//! Requests over kept connections, retried with backoff.
//!
//! A connection that was kept may have been closed by the other side, and an answer may be lost. Both are
//! retried, because every request of this crate may be sent twice: it reads, says the same state again, or
//! carries a key or a request id.

use crate::clock;
use crate::connection::{Connections, Place, Sender};
use crate::error::{ApiError, Error};
use crate::limits::ANSWER_BYTES_MAX;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Write;
use std::time::Duration;

/// How transport errors and refusals that may pass are retried: each wait is drawn between half and whole.
#[derive(Clone, Debug)]
pub struct Backoff {
    /// After the first try.
    pub retries: u32,
    /// Before the first retry.
    pub initial: Duration,
    /// Each wait is so much longer than the one before.
    pub factor: f64,
    /// The longest wait.
    pub cap: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        let (initial, cap) = (Duration::from_millis(100), Duration::from_secs(5));
        Backoff { retries: 6, initial, factor: 2.0, cap }
    }
}

impl Backoff {
    fn delay(&self, attempt: u32) -> Duration {
        let power = self.factor.max(1.0).powi(i32::try_from(attempt.min(32)).unwrap_or(32));
        let whole = (self.initial.as_secs_f64() * power).min(self.cap.as_secs_f64());
        Duration::try_from_secs_f64(whole * clock::jitter()).unwrap_or(self.cap)
    }

    /// How long to wait before the next try: what the server asks for, within the cap, or the backoff.
    pub(crate) fn pause(&self, error: &Error, attempt: u32) -> Duration {
        let asked = error.api().and_then(|api| api.retry_after);
        self.delay(attempt).max(asked.unwrap_or_default().min(self.cap))
    }
}

/// One request.
#[derive(Debug)]
pub(crate) struct Call {
    method: Method,
    path: String,
    body: Option<Bytes>,
    headers: Vec<(HeaderName, String)>,
    timeout: Option<Duration>,
}

impl Call {
    pub fn new(method: Method, path: impl Into<String>) -> Call {
        Call { method, path: path.into(), body: None, headers: Vec::new(), timeout: None }
    }

    pub fn get(path: impl Into<String>) -> Call {
        Call::new(Method::GET, path)
    }

    pub fn post(path: impl Into<String>) -> Call {
        Call::new(Method::POST, path)
    }

    pub fn body(mut self, body: &impl Serialize) -> Result<Call, Error> {
        let text = serde_json::to_vec(body);
        let text = text.map_err(|error| Error::Invalid(format!("this is no JSON: {error}")))?;
        self.body = Some(Bytes::from(text));
        Ok(self)
    }

    pub fn raw(mut self, body: impl Into<Bytes>) -> Call {
        self.body = Some(body.into());
        self
    }

    pub fn header(mut self, name: HeaderName, value: impl Into<String>) -> Call {
        self.headers.push((name, value.into()));
        self
    }

    /// The header of an idempotency key: the caller's, or one of this call's own.
    pub fn key(self, key: Option<&str>) -> Call {
        let key = key.map_or_else(clock::new_id, ToString::to_string);
        self.header(HeaderName::from_static("idempotency-key"), key)
    }

    pub fn query(mut self, pairs: &[(&'static str, String)]) -> Call {
        for (index, (name, value)) in pairs.iter().enumerate() {
            self.path.push(if index == 0 { '?' } else { '&' });
            self.path.push_str(name);
            self.path.push('=');
            self.path.push_str(&part(value));
        }
        self
    }

    pub fn timeout(mut self, timeout: Duration) -> Call {
        self.timeout = Some(timeout);
        self
    }
}

#[derive(Debug)]
pub(crate) struct Transport {
    connections: Connections,
    headers: HeaderMap,
    timeout: Duration,
    pub backoff: Backoff,
}

impl Transport {
    pub fn new(place: Place, headers: HeaderMap, timeout: Duration, backoff: Backoff) -> Transport {
        Transport { connections: Connections::new(place), headers, timeout, backoff }
    }

    /// The same server with connections of its own, for another runtime.
    pub fn apart(&self) -> Transport {
        let place = self.connections.place.clone();
        Transport::new(place, self.headers.clone(), self.timeout, self.backoff.clone())
    }

    /// The document of the answer, or a typed error. Transport errors and 429, 503 and the like are retried.
    pub async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        let mut attempt = 0;
        loop {
            match self.once(&call).await {
                Ok(body) => return read(&call.path, &body),
                Err(error) if attempt < self.backoff.retries && error.may_pass() => {
                    tokio::time::sleep(self.backoff.pause(&error, attempt)).await;
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// One try.
    pub async fn once(&self, call: &Call) -> Result<Bytes, Error> {
        let timeout = call.timeout.unwrap_or(self.timeout);
        match tokio::time::timeout(timeout, self.exchange(call)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Transport(format!("{}: no answer in time", call.path))),
        }
    }

    async fn exchange(&self, call: &Call) -> Result<Bytes, Error> {
        if let Some(sender) = self.connections.kept().await {
            match self.send(sender, call).await {
                // It was closed while it lay idle, most likely.
                Err(Error::Transport(_)) => {}
                answered => return answered,
            }
        }
        self.send(self.connections.new_one().await?, call).await
    }

    async fn send(&self, mut sender: Sender, call: &Call) -> Result<Bytes, Error> {
        let broken =
            |error: &dyn std::fmt::Display| Error::Transport(format!("{}: {error}", call.path));
        let sent = sender.send_request(self.request(call)?).await;
        let response = sent.map_err(|error| broken(&error))?;
        let status = response.status().as_u16();
        let after = response.headers().get(header::RETRY_AFTER);
        let after = after.and_then(|value| value.to_str().ok()?.parse().ok());
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| broken(&error))?.to_bytes();
        self.connections.keep(sender);
        if status >= 300 {
            let after = after.map(Duration::from_secs);
            return Err(Error::Api(Box::new(ApiError::read(status, after, &body))));
        }
        Ok(body)
    }

    fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>, Error> {
        let place = &self.connections.place;
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}", place.base, call.path))
            .header(header::HOST, &place.authority)
            .header(header::ACCEPT, "application/json");
        if call.body.is_some() || call.method == Method::POST {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        let mut request = request
            .body(Full::new(call.body.clone().unwrap_or_default()))
            .map_err(|error| Error::Invalid(format!("{}: {error}", call.path)))?;
        for (name, value) in &self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        Ok(request)
    }
}

/// The headers of every request.
pub(crate) fn headers(api_key: Option<&str>, namespace: Option<&str>) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    let agent = concat!("duly-client-rust/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    if let Some(key) = api_key {
        let mut value = HeaderValue::try_from(format!("Bearer {key}"))
            .map_err(|_| Error::Invalid("an API key looks like duly_<id>_<secret>".to_string()))?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    if let Some(name) = namespace {
        let value = HeaderValue::try_from(name)
            .map_err(|_| Error::Invalid(format!("{name:?} is not the name of a namespace")))?;
        headers.insert(HeaderName::from_static("x-namespace"), value);
    }
    Ok(headers)
}

pub(crate) fn read<T: DeserializeOwned>(what: &str, body: &[u8]) -> Result<T, Error> {
    let body = if body.is_empty() { b"null" } else { body };
    serde_json::from_slice(body).map_err(|error| Error::unreadable(what, error))
}

/// A name or an id as one part of a path or a query.
pub(crate) fn part(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            written.push(char::from(byte));
        } else {
            let _ = write!(written, "%{byte:02X}");
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::{Backoff, Call, part};
    use crate::connection::Place;
    use crate::error::{ApiError, Error};
    use std::time::Duration;

    #[test]
    fn names_become_one_part_of_a_path() {
        assert_eq!(part("a/b ü?"), "a%2Fb%20%C3%BC%3F");
        let call = Call::get("/v1/jobs").query(&[("q", "a&b".into()), ("limit", "2".into())]);
        assert_eq!(call.path, "/v1/jobs?q=a%26b&limit=2");
    }

    #[test]
    fn waits_grow_to_the_cap_and_heed_the_server() {
        let backoff = Backoff::default();
        let torn = Error::Transport(String::new());
        for (attempt, whole) in [(0, 100), (1, 200), (5, 3_200), (40, 5_000)] {
            let wait = backoff.pause(&torn, attempt).as_millis();
            assert!((whole / 2 - 1..=whole).contains(&wait), "{attempt}: {wait} ms");
        }
        let asked = |seconds| {
            let api = ApiError::read(429, Some(Duration::from_secs(seconds)), b"{}");
            backoff.pause(&Error::Api(Box::new(api)), 0)
        };
        assert_eq!(asked(3), Duration::from_secs(3));
        assert_eq!(asked(3_600), backoff.cap, "a server cannot ask for an hour of silence");
    }

    #[test]
    fn a_url_says_where_a_server_is_or_what_is_wrong() {
        let place = Place::read("http://[::1]:7070/duly/", None).unwrap();
        assert_eq!(format!("{place:?}"), "[::1]:7070/duly");
        Place::read("https://jobs.example", None).unwrap();
        for bad in ["127.0.0.1:7070", "ftp://x", "http://u:p@x", "http://x?y", ""] {
            let said = Place::read(bad, None).unwrap_err().to_string();
            assert!(said.contains("URL") && said.contains("http://127.0.0.1:7070"), "{said}");
        }
    }
}
