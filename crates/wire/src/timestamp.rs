//! Instants as text: RFC 3339 in, with an offset; UTC with milliseconds out.
//!
//! A time without an offset is refused. `02:30` means another instant in every zone, and the
//! machine that reads it is not in the zone of the person who wrote it.

use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;

use crate::text::TextError;

const FORMS: &str = "write 2027-03-28T01:00:00Z or 2027-03-28T03:00:00+02:00";

/// The shape before the offset: `d` is a digit, everything else stands for itself.
const SHAPE: &[u8] = b"dddd-dd-ddTdd:dd:dd";

/// Microseconds since 1970-01-01T00:00:00Z. A finer fraction is rounded up: late by less than a
/// microsecond, never early.
pub fn parse(text: &str) -> Result<i64, TextError> {
    check_shape(text)?;
    let timestamp: Timestamp = text.parse().map_err(|_| {
        TextError::new(1, format!("there is no such date, time of day or offset; {FORMS}"))
    })?;
    let nanos = timestamp.as_nanosecond();
    let micros = nanos.div_euclid(1_000) + i128::from(nanos.rem_euclid(1_000) != 0);
    i64::try_from(micros).map_err(|_| TextError::new(1, "this time is out of range"))
}

/// `2027-03-28T01:00:00.000Z`. A fraction below a millisecond is rounded up.
pub fn format(micros: i64) -> String {
    let millis = micros.div_euclid(1_000) + i64::from(micros.rem_euclid(1_000) != 0);
    match Timestamp::from_millisecond(millis) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        // Outside the years that have four digits and a sign: no user can reach this, and a
        // number is more honest than a made-up date.
        Err(_) => format!("{micros}us"),
    }
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

/// The parser behind this accepts more than RFC 3339 (bracketed zones, missing parts, other
/// separators). What is accepted once must be accepted for ever, so the shape is checked here.
fn check_shape(text: &str) -> Result<(), TextError> {
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
    if bytes.get(at) == Some(&b'.') {
        let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || digits > 9 {
            return Err(TextError::new(at + 1, "a fraction has 1 to 9 digits"));
        }
        at += 1 + digits;
    }
    match &bytes[at..] {
        [b'Z' | b'z'] => Ok(()),
        [b'+' | b'-', h1, h2, b':', m1, m2]
            if [h1, h2, m1, m2].iter().all(|byte| byte.is_ascii_digit()) =>
        {
            Ok(())
        }
        [] => Err(TextError::new(at + 1, format!("the offset from UTC is missing; {FORMS}"))),
        _ => Err(TextError::new(
            at + 1,
            format!("the offset from UTC must stand here, Z or +02:00; {FORMS}"),
        )),
    }
}
