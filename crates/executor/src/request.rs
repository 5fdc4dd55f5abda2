//! The request of a webhook: the user's method, headers and payload, and our words about it, signed.

use crate::secrets::Secrets;
use crate::sign::{self, Secret};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue, USER_AGENT};
use hyper::{Request, Uri};
use model::{Namespace, Text, Time};
use std::cell::Cell;
use std::fmt::{Display, Write as _};
use std::ops::Range;
use std::sync::Arc;

/// Everything that is said, as text.
#[derive(Debug)]
pub struct Saying<'a> {
    pub method: &'a str,
    pub headers: &'a [(Text, Text)],
    pub content_type: &'a str,
    pub payload: &'a Arc<[u8]>,
    pub namespace: Namespace,
    pub job: String,
    pub run: String,
    pub attempt: u16,
    pub token: u64,
    pub scheduled_for: Time,
    pub request_id: String,
    pub now: Time,
}

/// Headers that duly adds, but for the constant ones. Ours replace a user's header of the same name.
static OURS: [HeaderName; 14] = [
    HeaderName::from_static("host"),
    HeaderName::from_static("content-type"),
    HeaderName::from_static("x-job-id"),
    HeaderName::from_static("x-run-id"),
    HeaderName::from_static("x-attempt"),
    HeaderName::from_static("x-scheduled-for"),
    HeaderName::from_static("x-fencing-token"),
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("webhook-id"),
    HeaderName::from_static("webhook-timestamp"),
    HeaderName::from_static("webhook-signature"),
    HeaderName::from_static("x-scheduler-signature"),
];
const AGENT: HeaderValue = HeaderValue::from_static(concat!("duly/", env!("CARGO_PKG_VERSION")));
/// What the values of our headers usually need, in bytes.
const VALUES_USUAL: usize = 768;

/// Keeps the payload where it is: the store's copy, shared.
struct Shared(Arc<[u8]>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Saying<'_> {
    pub fn request(
        &self,
        uri: &Uri,
        secrets: &dyn Secrets,
    ) -> Result<Request<Full<Bytes>>, String> {
        let seconds = self.now.secs();
        let valid = secrets.of(self.namespace, self.now)?;
        // An origin server is asked for a path; the whole URL says where to dial.
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let mut builder = Request::builder().method(self.method).uri(path);
        if let Some(headers) = builder.headers_mut() {
            // All of them at once: a map that grows as it is filled is built three times.
            headers.reserve(self.headers.len() + OURS.len() + 1);
        }
        for (name, value) in self.headers {
            builder = builder.header(name.as_ref(), value.as_ref());
        }
        let body = Full::new(Bytes::from_owner(Shared(self.payload.clone())));
        let mut request = builder.body(body).map_err(|error| format!("bad request: {error}"))?;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, AGENT);
        // All values are parts of one text: a memory of its own for each costs more than to write them.
        let (text, parts) = self.values(uri, seconds, &valid)?;
        for (name, part) in OURS.iter().zip(parts) {
            let value = HeaderValue::from_maybe_shared(text.slice(part));
            let value = value.map_err(|_| format!("{name} cannot be sent"))?;
            headers.insert(name.clone(), value);
        }
        Ok(request)
    }

    /// The values of `OURS`: one text, and where in it each of them is.
    fn values(
        &self,
        uri: &Uri,
        seconds: i64,
        valid: &[Secret],
    ) -> Result<(Bytes, [Range<usize>; OURS.len()]), String> {
        let mut text = String::with_capacity(VALUES_USUAL);
        let mut part = |write: &dyn Fn(&mut String)| {
            let from = text.len();
            write(&mut text);
            from..text.len()
        };
        let run = part(&|text| text.push_str(&self.run));
        let signed = Cell::new(false);
        let decimal = |text: &mut String, number: &dyn Display| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{number}");
        };
        let parts = [
            part(&|text| text.push_str(uri.authority().map_or("", |one| one.as_str()))),
            part(&|text| text.push_str(self.content_type)),
            part(&|text| text.push_str(&self.job)),
            run.clone(),
            part(&|text| decimal(text, &self.attempt)),
            part(&|text| text.push_str(&wire::timestamp::format(self.scheduled_for.micros()))),
            part(&|text| decimal(text, &self.token)),
            part(&|text| text.push_str(&self.request_id)),
            part(&|text| text.push_str(&wire::trace::parent(&self.run, self.token))),
            run.clone(),
            run,
            part(&|text| decimal(text, &seconds)),
            part(&|text| {
                let standard =
                    sign::write_standard(text, valid, (&self.run, seconds), self.payload);
                signed.set(standard.is_some());
            }),
            part(&|text| {
                let short = sign::write_short(text, valid, seconds, self.payload);
                signed.set(signed.get() && short.is_some());
            }),
        ];
        if !signed.get() {
            return Err("the webhook could not be signed".to_string());
        }
        Ok((Bytes::from(text), parts))
    }
}
