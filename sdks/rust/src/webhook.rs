//! Webhooks as duly signs them (Standard Webhooks): check one before its body is read.

use crate::limits::WEBHOOK_TOLERANCE;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::time::{Duration, SystemTime};

const PREFIX: &str = "whsec_";

/// A webhook that was not signed by one of the secrets, or is too old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookError(String);

impl fmt::Display for WebhookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WebhookError {}

fn refused<T>(why: impl Into<String>) -> Result<T, WebhookError> {
    Err(WebhookError(why.into()))
}

/// The webhook's id, which is the run's id.
///
/// `headers` are pairs of a name, in any case, and a value. `body` must be the bytes that came, not a
/// document that was read and written again. While secrets rotate, give all that may sign: one that
/// fits is enough.
///
/// ```no_run
/// # let (headers, body) = ([("webhook-id", "run_1")], b"");
/// let run_id = duly_client::verify(headers, body, ["whsec_…"])?;
/// # Ok::<(), duly_client::WebhookError>(())
/// ```
pub fn verify<N: AsRef<str>, V: AsRef<str>, S: AsRef<str>>(
    headers: impl IntoIterator<Item = (N, V)>,
    body: &[u8],
    secrets: impl IntoIterator<Item = S>,
) -> Result<String, WebhookError> {
    verify_at(headers, body, secrets, SystemTime::now(), WEBHOOK_TOLERANCE)
}

/// The same by another clock and with another tolerance than five minutes.
pub fn verify_at<N: AsRef<str>, V: AsRef<str>, S: AsRef<str>>(
    headers: impl IntoIterator<Item = (N, V)>,
    body: &[u8],
    secrets: impl IntoIterator<Item = S>,
    now: SystemTime,
    tolerance: Duration,
) -> Result<String, WebhookError> {
    let (mut id, mut stamp, mut signatures) = (None, None, None);
    for (name, value) in headers {
        let place = match name.as_ref().to_ascii_lowercase().as_str() {
            "webhook-id" => &mut id,
            "webhook-timestamp" => &mut stamp,
            "webhook-signature" => &mut signatures,
            _ => continue,
        };
        *place = Some(value.as_ref().to_string());
    }
    let missing = |name: &str| WebhookError(format!("the header {name} is missing"));
    let id = id.ok_or_else(|| missing("webhook-id"))?;
    let stamp = stamp.ok_or_else(|| missing("webhook-timestamp"))?;
    let signatures = signatures.ok_or_else(|| missing("webhook-signature"))?;
    let Some(at) = stamp.parse().ok().filter(|_| !stamp.starts_with('+')) else {
        return refused("webhook-timestamp is not a number of seconds");
    };
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if now.abs_diff(Duration::from_secs(at)) > tolerance {
        return refused("webhook-timestamp is too far from now");
    }
    let given: Vec<Vec<u8>> = signatures
        .split(' ')
        .filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok())
        .collect();
    let mut any = false;
    for secret in secrets {
        any = true;
        let secret = secret.as_ref();
        let Ok(key) = STANDARD.decode(secret.strip_prefix(PREFIX).unwrap_or(secret)) else {
            return refused("a secret looks like whsec_ and base64");
        };
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else {
            return refused("a secret has no such length");
        };
        mac.update(format!("{id}.{stamp}.").as_bytes());
        mac.update(body);
        // In constant time.
        if given.iter().any(|one| mac.clone().verify_slice(one).is_ok()) {
            return Ok(id);
        }
    }
    refused(if any { "no signature fits" } else { "no secret was given" })
}
