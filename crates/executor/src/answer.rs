//! What was heard: the head's words that matter to us, and the beginning of the body.

use hyper::HeaderMap;
use hyper::header::LOCATION;
use model::{Span, Time};
use shard::limits::RETRY_AFTER_MAX;
use std::time::UNIX_EPOCH;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    pub code: u16,
    /// `X-Job-Outcome`.
    pub outcome: Option<String>,
    pub retry_after: Option<Span>,
    /// Where a redirect points; nobody goes there.
    pub location: Option<String>,
    /// The first bytes, as they came: a compressed body is not unpacked.
    pub body: Vec<u8>,
}

impl Heard {
    pub fn head(code: u16, headers: &HeaderMap, now: Time) -> Heard {
        Heard {
            code,
            outcome: text(headers, "x-job-outcome").map(|text| text.to_ascii_lowercase()),
            retry_after: text(headers, "retry-after").and_then(|text| retry_after(&text, now)),
            location: text(headers, LOCATION.as_str()),
            body: Vec::new(),
        }
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(|text| text.trim().to_string())
}

/// Seconds or an HTTP date; at most a day. What cannot be read says nothing, and the job's own
/// backoff counts.
fn retry_after(text: &str, now: Time) -> Option<Span> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are more than a day, too.
        let seconds = text.parse::<u32>().unwrap_or(u32::MAX);
        return Some(Span::from_secs(i64::from(seconds)).min(RETRY_AFTER_MAX));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let since = date.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let at = Time::from_micros(i64::try_from(since).ok()?.checked_mul(1_000_000)?);
    Some(at.since(now).max(Span::from_micros(0)).min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_in_both_forms_and_bounded() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let now = Time::from_micros(784_111_777_000_000);
        let read = |text: &str| retry_after(text, now).map(|span| span.micros() / 1_000_000);
        for (text, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            ("86400", Some(86_400)),
            ("86401", Some(86_400)),
            ("99999999999999999999999", Some(86_400)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sunday, 06-Nov-94 08:50:37 GMT", Some(60)),
            ("Sun Nov  6 08:50:37 1994", Some(60)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(0)),
            ("Sat, 06 Nov 1993 08:49:37 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(86_400)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("1e3", None),
            ("soon", None),
            ("+5", None),
            ("٣", None),
            ("Sun, 99 Nov 1994 08:49:37 GMT", None),
        ] {
            assert_eq!(read(text), seconds, "{text}");
        }
    }
}
