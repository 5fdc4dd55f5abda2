//! The request of a webhook: the user's method, headers and payload, and our words about it, signed.

use crate::secrets::Secrets;
use crate::sign;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, Uri};
use model::{Namespace, Text, Time};
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

/// Headers that duly adds.
const OURS: usize = 15;

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
        let unsigned = || "the webhook could not be signed".to_string();
        let standard = sign::standard(&valid, &self.run, seconds, self.payload);
        let short = sign::short(&valid, seconds, self.payload);
        let host = uri.authority().map(|one| one.as_str().to_string()).unwrap_or_default();
        // An origin server is asked for a path; the whole URL says where to dial.
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let mut builder = Request::builder().method(self.method).uri(path);
        if let Some(headers) = builder.headers_mut() {
            // All of them at once: a map that grows as it is filled is built three times.
            headers.reserve(self.headers.len() + OURS);
        }
        for (name, value) in self.headers {
            builder = builder.header(name.as_ref(), value.as_ref());
        }
        let body = Full::new(Bytes::from_owner(Shared(self.payload.clone())));
        let mut request = builder.body(body).map_err(|error| format!("bad request: {error}"))?;
        let ours: [(&'static str, String); OURS] = [
            ("host", host),
            ("content-type", self.content_type.to_string()),
            ("user-agent", concat!("duly/", env!("CARGO_PKG_VERSION")).to_string()),
            ("x-job-id", self.job.clone()),
            ("x-run-id", self.run.clone()),
            ("x-attempt", self.attempt.to_string()),
            ("x-scheduled-for", wire::timestamp::format(self.scheduled_for.micros())),
            ("x-fencing-token", self.token.to_string()),
            ("x-request-id", self.request_id.clone()),
            ("traceparent", wire::trace::parent(&self.run, self.token)),
            ("idempotency-key", self.run.clone()),
            ("webhook-id", self.run.clone()),
            ("webhook-timestamp", seconds.to_string()),
            ("webhook-signature", standard.ok_or_else(unsigned)?),
            ("x-scheduler-signature", short.ok_or_else(unsigned)?),
        ];
        for (name, value) in ours {
            let value = HeaderValue::try_from(value);
            let value = value.map_err(|_| format!("{name} cannot be sent"))?;
            // Ours replace a user's header of the same name.
            request.headers_mut().insert(HeaderName::from_static(name), value);
        }
        Ok(request)
    }
}
