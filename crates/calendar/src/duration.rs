//! Lengths of time in text: `90s`, `1h30m`, `2d`.

use model::Span;

/// Names of units, longest first where one begins another, with their microseconds.
const UNITS: [(&str, i64); 6] = [
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
    ("w", 604_800_000_000),
];

/// Reads a length of time; an error is the 0-based place and a message. Too long a time saturates.
pub fn parse_duration(text: &str) -> Result<Span, (usize, String)> {
    const ALLOWED: &str = "a number and a unit (ms, s, m, h, d, w), such as 90s or 1h30m";
    let mut total = Span::ZERO;
    let mut rest = text;
    loop {
        let at = text.len() - rest.len();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err((at, format!("expected {ALLOWED}")));
        }
        // Only too many digits can fail here, and those saturate like every sum of time.
        let number = rest[..digits].parse::<i64>().unwrap_or(i64::MAX);
        rest = &rest[digits..];
        let at = text.len() - rest.len();
        let Some((unit, micros)) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit)) else {
            return Err((at, format!("a unit is missing; expected {ALLOWED}")));
        };
        rest = &rest[unit.len()..];
        total = total.plus(Span::from_micros(*micros).times(number));
        if rest.is_empty() {
            return Ok(total);
        }
    }
}

/// A length of time in words: "15 minutes", "1 hour 30 minutes".
pub(crate) fn duration_words(span: Span) -> String {
    const NAMES: [(&str, i64); 6] = [
        ("day", 86_400_000_000),
        ("hour", 3_600_000_000),
        ("minute", 60_000_000),
        ("second", 1_000_000),
        ("millisecond", 1_000),
        ("microsecond", 1),
    ];
    let mut rest = span.micros().max(0);
    let mut words = Vec::new();
    for (name, micros) in NAMES {
        let n = rest / micros;
        rest %= micros;
        if n > 0 {
            words.push(format!("{n} {name}{}", if n == 1 { "" } else { "s" }));
        }
    }
    if words.is_empty() { "0 seconds".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        assert_eq!(parse_duration("90s"), Ok(Span::from_secs(90)));
        assert_eq!(parse_duration("1h30m"), Ok(Span::from_secs(5_400)));
        assert_eq!(parse_duration("250ms"), Ok(Span::from_millis(250)));
        assert_eq!(parse_duration("2w1d"), Ok(Span::from_secs(15 * 86_400)));
        assert_eq!(parse_duration("99999999999999999999w").map(Span::micros), Ok(i64::MAX));
        assert_eq!(parse_duration("").unwrap_err().0, 0);
        assert_eq!(parse_duration("90").unwrap_err().0, 2);
        assert_eq!(parse_duration("1hx").unwrap_err().0, 2);
        assert_eq!(parse_duration("-1h").unwrap_err().0, 0);
    }

    #[test]
    fn durations_are_said() {
        assert_eq!(duration_words(Span::from_secs(900)), "15 minutes");
        assert_eq!(duration_words(Span::from_secs(5_400)), "1 hour 30 minutes");
        assert_eq!(duration_words(Span::from_millis(1_500)), "1 second 500 milliseconds");
        assert_eq!(duration_words(Span::ZERO), "0 seconds");
    }
}
