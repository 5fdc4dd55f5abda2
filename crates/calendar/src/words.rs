//! A schedule in words: what it is, in which zone, inside which bounds, spread over what.

use crate::civil::{DAY_SECS, clock_text, date_text};
use crate::duration::duration_words;
use crate::parse::Fields;
use crate::words_date::date_words;
use crate::words_time::clock_words;
use model::{ScheduleSpec, Span, Time, When};

/// `2027-03-28T01:00:00Z`, with a fraction only if there is one.
pub(crate) fn instant_words(time: Time) -> String {
    let secs = time.secs();
    let clock = clock_text(secs.rem_euclid(DAY_SECS));
    let seconds = if clock.len() == 5 { ":00" } else { "" };
    let micros = time.micros().rem_euclid(1_000_000);
    let fraction = if micros == 0 { String::new() } else { format!(".{micros:06}") };
    format!("{}T{clock}{seconds}{fraction}Z", date_text(secs.div_euclid(DAY_SECS)))
}

/// "Every minute", "Every 15 minutes".
pub(crate) fn every_words(every: Span) -> String {
    let words = duration_words(every);
    match words.strip_prefix("1 ") {
        Some(unit) if !unit.contains(' ') => format!("Every {unit}"),
        _ => format!("Every {words}"),
    }
}

/// Cron: times, dates, and the zone where one was given or where it decides.
pub(crate) fn cron_words(fields: &Fields, zone: &str, given: bool, never: bool) -> String {
    let dates = date_words(&fields.days);
    let mut words = format!("{}{dates}", clock_words(&fields.clock));
    if given || !dates.is_empty() || fields.clock.hours != 0xff_ffff {
        words = format!("{words}, {zone}");
    }
    if never {
        words.push_str(" (never: there is no such date)");
    }
    words
}

pub(crate) fn once_words(spec: &ScheduleSpec, at: Time) -> String {
    match spec.when {
        When::Now => "Once, immediately".to_owned(),
        When::Delay(delay) => {
            format!("Once, {} after creation, at {}", duration_words(delay), instant_words(at))
        }
        _ => format!("Once at {}", instant_words(at)),
    }
}

/// Bounds and spread, as the user gave them.
pub(crate) fn bounds_words(spec: &ScheduleSpec) -> String {
    let mut words = String::new();
    if let Some(start) = spec.start_at {
        words += &format!(", from {}", instant_words(start));
    }
    if let Some(end) = spec.end_at {
        words += &format!(", until {}", instant_words(end));
    }
    match spec.max_runs {
        Some(1) => words += ", once only",
        Some(n) => words += &format!(", at most {n} times"),
        None => {}
    }
    match spec.jitter {
        Some(window) if window > Span::ZERO && spec.when != When::Now => {
            words += &format!(", spread over {}", duration_words(window));
        }
        _ => {}
    }
    words
}
