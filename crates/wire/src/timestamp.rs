//! Instants as text: RFC 3339 in, with an offset; UTC with milliseconds out.
//!
//! Written by hand, because the date library behind the zones accepts more than RFC 3339 (what is
//! accepted once must be accepted for ever) and ends a day before the last instant duly allows.
//!
//! A time without an offset is refused. `02:30` means another instant in every zone, and the
//! machine that reads it is not in the zone of the person who wrote it.

use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;

use crate::text::TextError;

const FORMS: &str = "write 2027-03-28T01:00:00Z or 2027-03-28T03:00:00+02:00";

/// The shape before the offset: `d` is a digit, everything else stands for itself.
const SHAPE: &[u8] = b"dddd-dd-ddTdd:dd:dd";

const SECOND: i64 = 1_000_000;
const DAY_SECONDS: i64 = 86_400;

/// Microseconds since 1970-01-01T00:00:00Z. A finer fraction is rounded up: late by less than a
/// microsecond, never early.
pub fn parse(text: &str) -> Result<i64, TextError> {
    let (fraction, offset) = check_shape(text)?;
    // Everything up to the fraction is ASCII of a known shape.
    let number = |from: usize, length: usize| digits(&text.as_bytes()[from..from + length]);
    let (year, month, day) = (number(0, 4), number(5, 2), number(8, 2));
    let (hour, minute, second) = (number(11, 2), number(14, 2), number(17, 2));
    if !(1..=12).contains(&month) {
        return Err(TextError::new(6, format!("{month} is not a month; {FORMS}")));
    }
    if day < 1 || day > days_in_month(year, month) {
        return Err(TextError::new(9, format!("this month has no day {day}; {FORMS}")));
    }
    if hour > 23 || minute > 59 || second > 59 {
        return Err(TextError::new(12, format!("there is no such time of day; {FORMS}")));
    }
    let seconds =
        days_since_1970(year, month, day) * DAY_SECONDS + hour * 3_600 + minute * 60 + second
            - offset;
    // Four digits of a year stay far inside 64 bits of microseconds.
    Ok(seconds * SECOND + fraction)
}

/// `2027-03-28T01:00:00.000Z`. A fraction below a millisecond is rounded up.
pub fn format(micros: i64) -> String {
    let millis = micros.div_euclid(1_000) + i64::from(micros.rem_euclid(1_000) != 0);
    let seconds = millis.div_euclid(1_000);
    let (year, month, day) = date(seconds.div_euclid(DAY_SECONDS));
    if !(0..=9999).contains(&year) {
        // No user can reach this, and a number is more honest than a made-up date.
        return format!("{micros}us");
    }
    let of_day = seconds.rem_euclid(DAY_SECONDS);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let milli = millis.rem_euclid(1_000);
    // By hand: a claim of a thousand runs writes four thousand of these.
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let parts = [
        (0..4, year),
        (5..7, month),
        (8..10, day),
        (11..13, hour),
        (14..16, minute),
        (17..19, second),
        (20..23, milli),
    ];
    for (place, number) in parts {
        // At most four digits, by the checks above; small numbers divide faster.
        let mut rest = number as u32;
        for digit in text[place].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// For people: without the fraction when there is none.
pub fn format_short(micros: i64) -> String {
    let text = format(micros);
    match text.strip_suffix(".000Z") {
        Some(whole) => format!("{whole}Z"),
        None => text,
    }
}

/// For people: weekday, local time and offset in a zone, `Sun 2027-03-28 03:00:00 +02:00`. None
/// if the bundled database has no such zone.
pub fn format_local(micros: i64, zone: &str) -> Option<String> {
    let zone = TimeZoneDatabase::bundled().get(zone).ok()?;
    let local = Timestamp::from_microsecond(micros).ok()?.to_zoned(zone);
    let fraction = if micros.rem_euclid(1_000_000) == 0 { "" } else { "%.f" };
    Some(local.strftime(&format!("%a %Y-%m-%d %H:%M:%S{fraction} %:z")).to_string())
}

/// The zone's name as the bundled database spells it: `europe/berlin` is `Europe/Berlin`.
pub fn zone_name(zone: &str) -> Option<String> {
    let zone = TimeZoneDatabase::bundled().get(zone).ok()?;
    zone.iana_name().map(str::to_string)
}

/// The fraction in microseconds, rounded up, and the offset in seconds.
fn check_shape(text: &str) -> Result<(i64, i64), TextError> {
    let bytes = text.as_bytes();
    for (index, want) in SHAPE.iter().enumerate() {
        let good = match (want, bytes.get(index)) {
            (b'd', Some(byte)) => byte.is_ascii_digit(),
            (b'T', Some(byte)) => matches!(byte, b'T' | b't' | b' '),
            (_, Some(byte)) => byte == want,
            (_, None) => false,
        };
        if !good {
            return Err(TextError::new(index + 1, format!("this is not a full time; {FORMS}")));
        }
    }
    let mut at = SHAPE.len();
    let mut fraction = 0;
    if bytes.get(at) == Some(&b'.') {
        let length = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length == 0 || length > 9 {
            return Err(TextError::new(at + 1, "a fraction has 1 to 9 digits"));
        }
        let nanos = digits(&bytes[at + 1..at + 1 + length]) * 10_i64.pow(9 - length as u32);
        fraction = nanos / 1_000 + i64::from(nanos % 1_000 != 0);
        at += 1 + length;
    }
    match &bytes[at..] {
        [b'Z' | b'z'] => Ok((fraction, 0)),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2]
            if [h1, h2, m1, m2].iter().all(|byte| byte.is_ascii_digit()) =>
        {
            let (hours, minutes) = (digits(&[*h1, *h2]), digits(&[*m1, *m2]));
            if hours > 23 || minutes > 59 {
                return Err(TextError::new(at + 1, format!("there is no such offset; {FORMS}")));
            }
            let offset = hours * 3_600 + minutes * 60;
            Ok((fraction, if *sign == b'-' { -offset } else { offset }))
        }
        [] => Err(TextError::new(at + 1, format!("the offset from UTC is missing; {FORMS}"))),
        _ => Err(TextError::new(
            at + 1,
            format!("the offset from UTC must stand here, Z or +02:00; {FORMS}"),
        )),
    }
}

fn digits(text: &[u8]) -> i64 {
    text.iter().fold(0, |sum, byte| sum * 10 + i64::from(byte - b'0'))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days of 400 years, after which the Gregorian calendar repeats.
const ERA_DAYS: i64 = 146_097;
/// From 1 March of the year 0 to 1 January 1970. Years that begin in March end with the leap day,
/// which keeps it out of the arithmetic.
const EPOCH_DAYS: i64 = 719_468;

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * ERA_DAYS + year * 365 + year / 4 - year / 100 + day_of_year - EPOCH_DAYS
}

/// The inverse: year, month, day.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS;
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}
