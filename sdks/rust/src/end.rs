//! How an attempt ends other than by success, and what its end says to the server.

use crate::limits::{ERROR_CHARS_MAX, OUTPUT_BYTES_MAX};
use crate::time::{Length, When};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// How an attempt ends other than by success: the error of a handler.
///
/// Any error becomes one by `?`: the attempt has failed, and the job's policy retries.
///
/// ```
/// use duly_client::End;
/// fn parse(text: &str) -> Result<u32, End> {
///     if text.is_empty() {
///         return Err(End::fail("there is no number")); // trying again would not help
///     }
///     Ok(text.parse()?) // retried
/// }
/// # assert!(parse("x").is_err() && parse("").is_err() && parse("1").is_ok());
/// ```
#[derive(Debug)]
pub struct End(pub(crate) Ending);

#[derive(Debug)]
pub(crate) enum Ending {
    Failed { message: String, retryable: bool, code: Option<u16>, after: Option<Length> },
    Snoozed { until: When },
    Released,
}

impl End {
    /// Fails this attempt. The job's policy says when the next one is, unless [`End::after`] does.
    pub fn retry(message: impl Into<String>) -> End {
        let message = message.into();
        End(Ending::Failed { message, retryable: true, code: None, after: None })
    }

    /// Trying again would not help: the run is dead and waits for a person.
    pub fn fail(message: impl Into<String>) -> End {
        let message = message.into();
        End(Ending::Failed { message, retryable: false, code: None, after: None })
    }

    /// Puts the run off. It spends no retry.
    pub fn snooze(delay: Duration) -> End {
        End::snooze_until(SystemTime::now() + delay)
    }

    /// Puts the run off until an instant. It spends no retry.
    pub fn snooze_until(until: impl Into<When>) -> End {
        End(Ending::Snoozed { until: until.into() })
    }

    /// Hands the run back at once, for any worker. It spends no retry.
    pub fn release() -> End {
        End(Ending::Released)
    }

    /// Of a failure: when it is tried again.
    #[must_use]
    pub fn after(mut self, length: impl Into<Length>) -> End {
        if let Ending::Failed { after, .. } = &mut self.0 {
            *after = Some(length.into());
        }
        self
    }

    /// Of a failure: a number that the history keeps.
    #[must_use]
    pub fn code(mut self, number: u16) -> End {
        if let Ending::Failed { code, .. } = &mut self.0 {
            *code = Some(number);
        }
        self
    }
}

/// The words of the error and of its causes.
impl<E: std::error::Error> From<E> for End {
    fn from(error: E) -> End {
        let mut text = error.to_string();
        let mut cause = error.source();
        // Causes may go round in a circle.
        for _ in 0..8 {
            let Some(one) = cause else { break };
            text = format!("{text}: {one}");
            cause = one.source();
        }
        End::retry(text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Succeeded,
    Failed,
    Snoozed,
    Released,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Outcome::Succeeded => "succeeded",
            Outcome::Failed => "failed",
            Outcome::Snoozed => "snoozed",
            Outcome::Released => "released",
        }
    }
}

/// What is said of an end, as JSON without the run's id and token: `,"outcome":"…",…`.
#[derive(Debug)]
pub(crate) struct Said {
    pub outcome: Outcome,
    pub text: String,
}

impl Said {
    fn new(outcome: Outcome, rest: &str) -> Said {
        Said { outcome, text: format!(",\"outcome\":\"{}\"{rest}", outcome.name()) }
    }

    pub fn released() -> Said {
        Said::new(Outcome::Released, "")
    }

    pub fn output(kind: &str, output: &impl Serialize) -> Said {
        match serde_json::to_string(output) {
            Ok(text) if text == "null" => Said::new(Outcome::Succeeded, ""),
            Ok(text) if text.len() <= OUTPUT_BYTES_MAX => {
                Said::new(Outcome::Succeeded, &format!(",\"output\":{text}"))
            }
            Ok(_) => {
                Said::failed(&format!("the output has more than {OUTPUT_BYTES_MAX} bytes"), false)
            }
            Err(error) => {
                Said::failed(&format!("the output of {kind} is not JSON: {error}"), false)
            }
        }
    }

    pub fn failed(message: &str, retryable: bool) -> Said {
        Said::failure(message, retryable, None, None)
    }

    fn failure(message: &str, retryable: bool, code: Option<u16>, after: Option<&Length>) -> Said {
        let message: String = message.chars().take(ERROR_CHARS_MAX).collect();
        let mut error = json!({ "message": message });
        if let Some(code) = code {
            error["code"] = code.into();
        }
        let after = after.map(|after| format!(",\"retry_after\":{}", Value::from(after.as_str())));
        let after = after.unwrap_or_default();
        Said::new(Outcome::Failed, &format!(",\"error\":{error},\"retryable\":{retryable}{after}"))
    }

    pub fn of(end: &End) -> Said {
        match &end.0 {
            Ending::Released => Said::released(),
            Ending::Snoozed { until } => {
                Said::new(Outcome::Snoozed, &format!(",\"until\":{}", Value::from(until.as_str())))
            }
            Ending::Failed { message, retryable, code, after } => {
                Said::failure(message, *retryable, *code, after.as_ref())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{End, Outcome, Said};
    use serde_json::{Value, json};

    fn document(said: &Said) -> Value {
        serde_json::from_str(&format!("{{{}}}", said.text.trim_start_matches(','))).unwrap()
    }

    #[test]
    fn ends_are_said_as_the_server_reads_them() {
        let torn = Said::of(&End::retry("to\"rn").after("5s").code(7));
        let error = json!({"message": "to\"rn", "code": 7});
        let said =
            json!({"outcome": "failed", "error": error, "retryable": true, "retry_after": "5s"});
        assert_eq!(document(&torn), said);
        let done = Said::output("k", &json!({"a": 1}));
        assert_eq!(document(&done), json!({"outcome": "succeeded", "output": {"a": 1}}));
        assert_eq!(document(&Said::output("k", &())), json!({"outcome": "succeeded"}));
        assert_eq!(document(&Said::of(&End::release())), json!({"outcome": "released"}));
    }

    #[test]
    fn an_output_that_is_too_large_or_no_json_fails_for_good() {
        let large = Said::output("k", &"x".repeat(20_000));
        assert_eq!(
            (large.outcome, &document(&large)["retryable"]),
            (Outcome::Failed, &json!(false))
        );
        let bytes = std::collections::BTreeMap::from([(vec![1], 2)]);
        assert_eq!(Said::output("k", &bytes).outcome, Outcome::Failed);
    }

    #[test]
    fn an_error_says_its_causes() {
        let cause = "x".parse::<u32>().unwrap_err();
        let end = End::from(std::io::Error::other(cause));
        assert!(Said::of(&end).text.contains("invalid digit"), "{end:?}");
    }
}
