//! Durations as text: `1h30m`, `250ms`, or ISO 8601 `PT15M`.
//!
//! A bare number is refused, because nobody agrees on its unit. Years and months are refused,
//! because they are not a fixed length. A day is 24 hours and a week is 7 days: a duration never
//! looks at a calendar, cron does.

use crate::text::TextError;

const MILLI: i64 = 1_000;
const SECOND: i64 = 1_000 * MILLI;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;

/// Largest first: that is the order they must be written in.
const SHORT: [(&str, i64); 7] =
    [("w", WEEK), ("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND), ("ms", MILLI), ("us", 1)];
const ISO_DATE: [(&str, i64); 2] = [("W", WEEK), ("D", DAY)];
const ISO_TIME: [(&str, i64); 3] = [("H", HOUR), ("M", MINUTE), ("S", SECOND)];

/// More digits than any duration that fits in 64 bits of microseconds; the rest is hostile.
const DIGITS_MAX: usize = 19;

const FORMS: &str = "write 90s, 15m, 1h30m, 250ms or ISO 8601 such as PT15M";

/// The length in microseconds. Never negative; zero is a length too.
pub fn parse(text: &str) -> Result<i64, TextError> {
    if text.is_empty() {
        return Err(TextError::new(1, format!("a duration is missing; {FORMS}")));
    }
    if let Some(at) = text.find(|c: char| !c.is_ascii_graphic()) {
        let column = text[..at].chars().count() + 1;
        return Err(TextError::new(
            column,
            format!("a duration has no spaces or special signs; {FORMS}"),
        ));
    }
    if text.starts_with('-') {
        return Err(TextError::new(1, "a duration cannot be negative"));
    }
    match text.strip_prefix('P') {
        Some(rest) => parse_iso(rest),
        None => parse_parts(text, 1, &SHORT),
    }
}

/// The shortest exact form, such as `1h30m`. A negative length gets a minus in front; it is for
/// people to read and is not parsed back.
pub fn format(micros: i64) -> String {
    if micros == 0 {
        return "0s".to_string();
    }
    let mut text = String::new();
    if micros < 0 {
        text.push('-');
    }
    let mut rest = micros.unsigned_abs();
    for (unit, size) in SHORT {
        let count = rest / size.unsigned_abs();
        rest %= size.unsigned_abs();
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
        }
    }
    text
}

fn parse_iso(rest: &str) -> Result<i64, TextError> {
    let (date, time) = match rest.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (rest, None),
    };
    if date.is_empty() && time.is_none() {
        return Err(TextError::new(2, format!("nothing follows P; {FORMS}")));
    }
    let mut total = 0;
    if !date.is_empty() {
        total = parse_parts(date, 2, &ISO_DATE)?;
    }
    if let Some(time) = time {
        let column = date.len() + 3;
        if time.is_empty() {
            return Err(TextError::new(column, format!("nothing follows T; {FORMS}")));
        }
        let time = parse_parts(time, column, &ISO_TIME)?;
        total = total.checked_add(time).ok_or_else(|| too_long(column))?;
    }
    Ok(total)
}

/// `text` is ASCII; `column` is where it begins in what the user wrote.
fn parse_parts(text: &str, column: usize, units: &[(&str, i64)]) -> Result<i64, TextError> {
    let mut total: i64 = 0;
    let mut at = 0;
    // Units may only get smaller: `30m1h` is more likely a slip than a wish.
    let mut allowed = units;
    while at < text.len() {
        let here = column + at;
        let number = leading(&text[at..], |c| c.is_ascii_digit() || c == '.');
        let unit_at = at + number.len();
        let unit = leading(&text[unit_at..], |c| !c.is_ascii_digit() && c != '.');
        if number.is_empty() {
            return Err(TextError::new(here, format!("a number must stand here; {FORMS}")));
        }
        if unit.is_empty() {
            return Err(TextError::new(
                column + unit_at,
                format!("the number {} has no unit; {FORMS}", shorten(number)),
            ));
        }
        let Some(index) = allowed.iter().position(|(name, _)| *name == unit) else {
            return Err(TextError::new(column + unit_at, bad_unit(unit, units)));
        };
        let (_, size) = allowed[index];
        allowed = &allowed[index + 1..];
        let length = scaled(number, size, here)?;
        total = total.checked_add(length).ok_or_else(|| too_long(here))?;
        at = unit_at + unit.len();
    }
    Ok(total)
}

fn leading(text: &str, keep: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !keep(c)).unwrap_or(text.len())]
}

fn bad_unit(unit: &str, units: &[(&str, i64)]) -> String {
    if units.iter().any(|(name, _)| *name == unit) {
        return format!("{unit} is out of order; write the largest unit first and each once");
    }
    let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
    let why = match unit {
        "y" | "Y" | "mo" | "M" => ", because a year or a month has no fixed length",
        _ => "",
    };
    format!("{} is not a unit here{why}; allowed are {}", shorten(unit), names.join(", "))
}

/// `number` × `size`, exact to the microsecond.
fn scaled(number: &str, size: i64, column: usize) -> Result<i64, TextError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let not_a_number = || TextError::new(column, format!("{} is not a number", shorten(number)));
    if whole.is_empty() || number.ends_with('.') || fraction.contains('.') {
        return Err(not_a_number());
    }
    if whole.len() > DIGITS_MAX || fraction.len() > DIGITS_MAX {
        return Err(too_long(column));
    }
    let whole: i64 = whole.parse().map_err(|_| too_long(column))?;
    let mut length = whole.checked_mul(size).ok_or_else(|| too_long(column))?;
    if !fraction.is_empty() {
        let digits: i128 = fraction.parse().map_err(|_| not_a_number())?;
        let ten: i128 = 10;
        let scale = ten.pow(fraction.len() as u32);
        let product = digits * i128::from(size);
        if product % scale != 0 {
            return Err(TextError::new(column, "a duration is exact to one microsecond"));
        }
        let part = i64::try_from(product / scale).map_err(|_| too_long(column))?;
        length = length.checked_add(part).ok_or_else(|| too_long(column))?;
    }
    Ok(length)
}

fn too_long(column: usize) -> TextError {
    TextError::new(column, "this duration is too long")
}

/// What a message may repeat of hostile input.
fn shorten(text: &str) -> &str {
    &text[..text.len().min(DIGITS_MAX)]
}
