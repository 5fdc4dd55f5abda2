//! What an answer means for its run.

use crate::send::{Heard, Trouble};
use model::{Bytes, Span, Text};
use shard::command::End;
use shard::limits::RETRY_AFTER_MAX;

/// Answers that trying again does not change.
const PERMANENT: [u16; 8] = [400, 405, 410, 413, 414, 415, 422, 501];
/// What is kept of an error body for people.
const ERROR_CHARS: usize = 500;

pub fn of(heard: Result<Heard, Trouble>) -> End {
    let heard = match heard {
        Ok(heard) => heard,
        Err(Trouble::Timeout) => return End::TimedOut,
        Err(Trouble::Refused(why)) => return failed(None, why, false, None),
        Err(Trouble::Failed(why)) => return failed(None, why, true, None),
    };
    let code = heard.code;
    let success = match heard.outcome.as_deref() {
        Some("succeed") => true,
        Some("retry" | "fail") => false,
        _ => (200..300).contains(&code),
    };
    if success {
        let output = (!heard.body.is_empty()).then(|| Bytes::from(heard.body));
        return End::Succeeded { output };
    }
    let retryable = match heard.outcome.as_deref() {
        Some("retry") => true,
        Some("fail") => false,
        _ => !PERMANENT.contains(&code) && !(300..400).contains(&code),
    };
    let body: String = String::from_utf8_lossy(&heard.body).chars().take(ERROR_CHARS).collect();
    let said = if body.is_empty() { String::new() } else { format!(": {body}") };
    let error = format!("the receiver answered {code}{said}");
    failed(Some(code), error, retryable, heard.retry_after)
}

fn failed(code: Option<u16>, error: String, retryable: bool, retry_after: Option<Span>) -> End {
    let retry_after = retry_after.map(|span| span.min(RETRY_AFTER_MAX));
    End::Failed { error: Text::from(error), code, retryable, retry_after }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(code: u16, outcome: Option<&str>) -> End {
        let outcome = outcome.map(str::to_string);
        of(Ok(Heard { code, outcome, retry_after: None, body: Vec::new() }))
    }

    fn is_retryable(end: &End) -> Option<bool> {
        match end {
            End::Failed { retryable, .. } => Some(*retryable),
            _ => None,
        }
    }

    #[test]
    fn answers_are_classified_as_the_contract_says() {
        for code in [200, 201, 204, 299] {
            assert_eq!(is_retryable(&end(code, None)), None, "{code}");
        }
        for code in [301, 302, 307, 400, 405, 410, 413, 414, 415, 422, 501] {
            assert_eq!(is_retryable(&end(code, None)), Some(false), "{code}");
        }
        for code in [401, 403, 404, 408, 409, 429, 500, 502, 503, 599] {
            assert_eq!(is_retryable(&end(code, None)), Some(true), "{code}");
        }
        assert_eq!(is_retryable(&end(500, Some("succeed"))), None);
        assert_eq!(is_retryable(&end(200, Some("retry"))), Some(true));
        assert_eq!(is_retryable(&end(200, Some("fail"))), Some(false));
        assert_eq!(of(Err(Trouble::Timeout)), End::TimedOut);
    }
}
