//! What an answer means for its run.

use crate::answer::Heard;
use crate::breaker::Sign;
use crate::limits::ERROR_CHARS;
use crate::trouble::Trouble;
use model::{Bytes, Span, Text};
use shard::command::End;

/// `permanent`: answers that trying again does not change. Redirects are always among them.
pub fn of(heard: Result<Heard, Trouble>, permanent: &[u16]) -> End {
    let heard = match heard {
        Ok(heard) => heard,
        Err(Trouble::Timeout) => return End::TimedOut,
        Err(Trouble::Refused(why)) => return failed(None, why, false, None),
        Err(Trouble::Failed(why) | Trouble::Silent(why)) => return failed(None, why, true, None),
    };
    let code = heard.code;
    let redirect = (300..400).contains(&code);
    let retryable = match heard.outcome.as_deref() {
        Some("succeed") => return succeeded(heard),
        Some("retry") => true,
        Some("fail") => false,
        _ if (200..300).contains(&code) => return succeeded(heard),
        _ => !redirect && !permanent.contains(&code),
    };
    let body: String = String::from_utf8_lossy(&heard.body).chars().take(ERROR_CHARS).collect();
    let said = if body.is_empty() { String::new() } else { format!(": {body}") };
    let to = match heard.location {
        Some(to) if redirect => {
            let to: String = to.chars().take(ERROR_CHARS).collect();
            format!(" (to {to}; redirects are not followed)")
        }
        _ => String::new(),
    };
    failed(
        Some(code),
        format!("the receiver answered {code}{to}{said}"),
        retryable,
        heard.retry_after,
    )
}

/// What an answer to a webhook, or its absence, says about the destination. A receiver that says
/// what shall become of the run is one that works; so is one that does not like the request.
pub fn sign(heard: &Result<Heard, Trouble>) -> Option<Sign> {
    match heard {
        Err(Trouble::Timeout | Trouble::Silent(_)) => Some(Sign::TimedOut),
        Err(Trouble::Failed(_)) => Some(Sign::Bad),
        // Nothing was sent.
        Err(Trouble::Refused(_)) => None,
        Ok(heard) => {
            let told = matches!(heard.outcome.as_deref(), Some("succeed" | "retry" | "fail"));
            let bad = matches!(heard.code, 429 | 500..=599) && heard.code != 501;
            Some(if bad && !told { Sign::Bad } else { Sign::Good })
        }
    }
}

/// The same of a message to a broker, by how its attempt ended.
pub fn sign_of_message(end: &End) -> Option<Sign> {
    match end {
        End::Succeeded { .. } => Some(Sign::Good),
        End::TimedOut => Some(Sign::TimedOut),
        End::Failed { code: None, retryable: true, .. } => Some(Sign::Bad),
        // It said no to this message.
        End::Failed { code: Some(_), .. } => Some(Sign::Good),
        _ => None,
    }
}

/// The receiver is gone for good, and has not said otherwise: a recurring job is paused.
pub fn is_gone(end: &End) -> bool {
    matches!(end, End::Failed { code: Some(410), retryable: false, .. })
}

fn succeeded(heard: Heard) -> End {
    let output = (!heard.body.is_empty()).then(|| Bytes::from(heard.body));
    End::Succeeded { output }
}

fn failed(code: Option<u16>, error: String, retryable: bool, retry_after: Option<Span>) -> End {
    End::Failed { error: Text::from(error), code, retryable, retry_after }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::from_spec::usual;

    fn end(code: u16, outcome: Option<&str>) -> End {
        let outcome = outcome.map(str::to_string);
        of(Ok(Heard { code, outcome, ..Heard::default() }), usual())
    }

    fn is_retryable(end: &End) -> Option<bool> {
        match end {
            End::Failed { retryable, .. } => Some(*retryable),
            _ => None,
        }
    }

    #[test]
    fn answers_are_classified_as_the_contract_says() {
        for code in 100..1_000 {
            let wanted = match code {
                200..300 => None,
                300..400 | 400 | 405 | 410 | 413 | 414 | 415 | 422 | 501 => Some(false),
                _ => Some(true),
            };
            assert_eq!(is_retryable(&end(code, None)), wanted, "{code}");
            assert_eq!(is_retryable(&end(code, Some("nonsense"))), wanted, "{code}");
            assert_eq!(is_retryable(&end(code, Some("succeed"))), None);
            assert_eq!(is_retryable(&end(code, Some("retry"))), Some(true));
            assert_eq!(is_retryable(&end(code, Some("fail"))), Some(false));
            assert_eq!(is_gone(&end(code, None)), code == 410);
            assert!(!is_gone(&end(code, Some("retry"))));
        }
        assert_eq!(of(Err(Trouble::Timeout), usual()), End::TimedOut);
        assert_eq!(is_retryable(&of(Err(Trouble::Refused("x".into())), usual())), Some(false));
        assert_eq!(is_retryable(&of(Err(Trouble::Failed("x".into())), usual())), Some(true));
        assert_eq!(is_retryable(&of(Err(Trouble::Silent("x".into())), usual())), Some(true));
    }

    #[test]
    fn only_what_says_that_a_destination_does_not_work_counts_against_it() {
        let heard = |code, outcome: Option<&str>| {
            let outcome = outcome.map(str::to_string);
            sign(&Ok(Heard { code, outcome, ..Heard::default() }))
        };
        for code in 100..1_000 {
            let bad = code == 429 || ((500..600).contains(&code) && code != 501);
            let wanted = if bad { Sign::Bad } else { Sign::Good };
            assert_eq!(heard(code, None), Some(wanted), "{code}");
            assert_eq!(heard(code, Some("nonsense")), Some(wanted), "{code}");
            for told in ["succeed", "retry", "fail"] {
                assert_eq!(heard(code, Some(told)), Some(Sign::Good), "{code}");
            }
        }
        assert_eq!(sign(&Err(Trouble::Timeout)), Some(Sign::TimedOut));
        assert_eq!(sign(&Err(Trouble::Silent("x".into()))), Some(Sign::TimedOut));
        assert_eq!(sign(&Err(Trouble::Failed("x".into()))), Some(Sign::Bad));
        assert_eq!(sign(&Err(Trouble::Refused("x".into()))), None);
    }

    #[test]
    fn a_jobs_own_list_replaces_the_usual_one() {
        let with = |code| is_retryable(&of(Ok(Heard { code, ..Heard::default() }), &[404, 503]));
        assert_eq!((with(404), with(503), with(422)), (Some(false), Some(false), Some(true)));
        assert_eq!((with(302), with(200)), (Some(false), None));
    }
}
