//! Values of flags: sizes, durations within bounds, paths of programs. What is refused is told with
//! what is expected.

use crate::limits::{BREAKER_MAX, BREAKER_MIN, GRACE_MAX};
use model::Span;
use std::time::Duration;

/// A number with a unit: `KB`, `MB`, `GB`, `TB`, a thousand of each other.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size; write one like 500MB or 10GB");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(unit).ok_or_else(wrong)
}

/// A duration of at least a second.
pub fn kept(text: &str) -> Result<Span, String> {
    let micros = wire::duration::parse(text).map_err(|error| error.to_string())?;
    if micros < 1_000_000 { Err("at least 1s".to_string()) } else { Ok(Span::from_micros(micros)) }
}

/// A whole path of a file that is there: a slip of the pen is told at once, not when a job is due.
pub fn program(text: &str) -> Result<String, String> {
    match text.starts_with('/') && std::path::Path::new(text).is_file() {
        true => Ok(text.to_string()),
        false => Err("the whole path of a program is expected, such as /usr/local/bin/tidy".into()),
    }
}

/// None, or at most an hour.
pub fn grace(text: &str) -> Result<Duration, String> {
    let micros = wire::duration::parse(text).map_err(|error| error.to_string())?;
    match micros <= GRACE_MAX.micros() {
        true => Ok(Duration::from_micros(micros.unsigned_abs())),
        false => Err("at most 1h".to_string()),
    }
}

/// A window or a pause of a breaker: shorter ones would say nothing, longer ones keep a run waiting
/// for a destination that works.
pub fn breaker(text: &str) -> Result<Span, String> {
    let micros = wire::duration::parse(text).map_err(|error| error.to_string())?;
    match (BREAKER_MIN.micros()..=BREAKER_MAX.micros()).contains(&micros) {
        true => Ok(Span::from_micros(micros)),
        false => Err("from 100ms to 1h".to_string()),
    }
}
