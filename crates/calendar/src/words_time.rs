//! English for the time of day: "At 02:30 and 14:30", "Every 15 minutes from 09:00 to 17:59".
//!
//! The words come from the sets, not from how they were written, so that `0,30` and `*/30` read the
//! same and `H` is shown as what it became.

use crate::clock::Clock;
use crate::words_set::{Shape, elements, join, list, shape};

/// So many times of day are named one by one.
const TIMES_MAX: i64 = 6;

pub(crate) fn clock_words(clock: &Clock) -> String {
    match shape(clock.seconds, 60) {
        Shape::One(second) => minutes(clock, second),
        _ => seconds(clock),
    }
}

/// Several seconds of a minute.
fn seconds(clock: &Clock) -> String {
    let text = match shape(clock.seconds, 60) {
        Shape::All => "Every second".to_owned(),
        Shape::Even { from: 0, step } => format!("Every {step} seconds"),
        _ => format!("At seconds {}", list(clock.seconds, |n| n.to_string())),
    };
    let minutes = match (shape(clock.minutes, 60), shape(clock.hours, 24)) {
        (Shape::All, _) => String::new(),
        (Shape::One(n), Shape::One(h)) => return format!("{text} of the minute {h:02}:{n:02}"),
        (Shape::One(n), _) => format!(" of minute {n}"),
        _ => format!(" of minutes {}", list(clock.minutes, |n| n.to_string())),
    };
    format!("{text}{minutes}{}", hours(clock.hours))
}

/// One second of a minute, most often 0.
fn minutes(clock: &Clock, second: u32) -> String {
    let tail = if second == 0 { String::new() } else { format!(" at second {second}") };
    let each_hour = shape(clock.hours, 24);
    match (shape(clock.minutes, 60), each_hour) {
        (Shape::One(0), Shape::All) => format!("Every hour{tail}"),
        (Shape::One(n), Shape::All) => format!("Every hour at minute {n}{tail}"),
        (Shape::One(n), Shape::Even { from, step }) if step < 12 => {
            let start =
                if from == 0 && n == 0 { String::new() } else { format!(" from {from:02}:{n:02}") };
            format!("Every {step} hours{start}{tail}")
        }
        (Shape::One(n), Shape::Run { from, to }) => {
            format!("Every hour from {from:02}:{n:02} to {to:02}:{n:02}{tail}")
        }
        _ if clock.per_day() <= TIMES_MAX => format!("At {}", times(clock)),
        (Shape::All, _) => format!("Every minute{tail}{}", hours(clock.hours)),
        (Shape::Even { from, step }, _) => {
            let start = if from == 0 { String::new() } else { format!(" from minute {from}") };
            format!("Every {step} minutes{start}{tail}{}", hours(clock.hours))
        }
        (Shape::One(n), _) => format!("At minute {n}{tail}{}", hours_of(clock.hours)),
        _ => {
            let minutes = list(clock.minutes, |n| n.to_string());
            format!("At minutes {minutes}{tail}{}", hours_of(clock.hours))
        }
    }
}

fn times(clock: &Clock) -> String {
    let mut words = Vec::new();
    for hour in elements(clock.hours) {
        for minute in elements(clock.minutes) {
            for second in elements(clock.seconds) {
                let text = format!("{hour:02}:{minute:02}");
                words.push(if second == 0 { text } else { format!("{text}:{second:02}") });
            }
        }
    }
    join(&words, "and")
}

/// The hours after "every so many minutes": one in a row is "from 09:00 to 17:59".
fn hours(set: u64) -> String {
    match shape(set, 24) {
        Shape::All => String::new(),
        Shape::One(n) => format!(" from {n:02}:00 to {n:02}:59"),
        Shape::Run { from, to } => format!(" from {from:02}:00 to {to:02}:59"),
        _ => format!(" in the hours {}", list(set, |n| format!("{n:02}"))),
    }
}

/// The hours after "at minutes …".
fn hours_of(set: u64) -> String {
    match shape(set, 24) {
        Shape::All => " of every hour".to_owned(),
        Shape::One(n) => format!(" of hour {n:02}"),
        _ => format!(" of the hours {}", list(set, |n| format!("{n:02}"))),
    }
}
