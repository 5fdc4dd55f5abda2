//! A whole cron expression: nicknames, `@every`, and five, six or seven fields.
//!
//! | fields | meaning |
//! |---|---|
//! | 5 | minute, hour, day of month, month, day of week |
//! | 6 | seconds in front |
//! | 7 | Quartz only: a year (1970-2099) at the end |
//!
//! Quartz itself wants six or seven and a `?` in one of the two day fields; here the dialect also
//! takes five, and `*` in both.

use crate::clock::Clock;
use crate::cursor::Cursor;
use crate::days::{DayFields, Years};
use crate::duration::parse_duration;
use crate::error::ScheduleError;
use crate::field::{Field, FieldReader, Part};
use crate::limits::EXPRESSION_CHARS_MAX;
use model::{Dialect, Span};

/// What an expression means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    Fields(Box<Fields>),
    /// `@every 90s`.
    Every(Span),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    pub clock: Clock,
    pub days: DayFields,
    /// Minute or hour starts with `*`: the job follows real time over a change of the clocks. The
    /// seconds field has no say: `* 30 2 * * *` names its minute of the day, so it is a fixed job.
    pub wildcard: bool,
}

const FIVE: &str = "minute hour day-of-month month day-of-week";
const PARTS: [Part; 7] = [
    Part::Second,
    Part::Minute,
    Part::Hour,
    Part::DayOfMonth,
    Part::Month,
    Part::DayOfWeek,
    Part::Year,
];

pub(crate) fn parse(text: &str, dialect: Dialect, seed: &[u8]) -> Result<Parsed, ScheduleError> {
    if text.len() > EXPRESSION_CHARS_MAX {
        let message = format!("longer than {EXPRESSION_CHARS_MAX} characters");
        return Err(ScheduleError::cron(EXPRESSION_CHARS_MAX, message));
    }
    // Whole characters, so that the column is what an editor shows.
    if let Some((at, odd)) =
        text.chars().enumerate().find(|(_, c)| !c.is_ascii_graphic() && *c != ' ' && *c != '\t')
    {
        return Err(ScheduleError::cron(at, format!("{odd:?} is not allowed in an expression")));
    }
    let words = split(text);
    match words.first() {
        None => Err(ScheduleError::cron(0, format!("empty; expected 5 fields ({FIVE})"))),
        Some((start, _)) if text[*start..].starts_with('@') => {
            nickname(text, &words, dialect, seed)
        }
        Some(_) => fields(text, &words, dialect, seed),
    }
}

/// The places `[start, end)` of words between blanks.
fn split(text: &str) -> Vec<(usize, usize)> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, byte) in text.bytes().chain([b' ']).enumerate() {
        match (start, byte == b' ' || byte == b'\t') {
            (None, false) => start = Some(at),
            (Some(from), true) => {
                words.push((from, at));
                start = None;
            }
            _ => {}
        }
    }
    words
}

fn nickname(
    text: &str,
    words: &[(usize, usize)],
    dialect: Dialect,
    seed: &[u8],
) -> Result<Parsed, ScheduleError> {
    const ALL: &str = "@yearly @annually @monthly @weekly @daily @midnight @hourly or @every 90s";
    let (start, end) = words[0];
    let name = text[start..end].to_ascii_lowercase();
    if name == "@every" {
        let Some((start, end)) = words.get(1) else {
            return Err(ScheduleError::cron(
                end,
                "@every needs a length of time, such as @every 90s",
            ));
        };
        if let Some((extra, _)) = words.get(2) {
            return Err(ScheduleError::cron(*extra, "nothing may follow the length of time"));
        }
        return parse_duration(&text[*start..*end])
            .map(Parsed::Every)
            .map_err(|(at, message)| ScheduleError::cron(start + at, message));
    }
    let sunday = if dialect == Dialect::Quartz { "1" } else { "0" };
    let meaning = match name.as_str() {
        "@yearly" | "@annually" => "0 0 1 1 *".to_owned(),
        "@monthly" => "0 0 1 * *".to_owned(),
        "@weekly" => format!("0 0 * * {sunday}"),
        "@daily" | "@midnight" => "0 0 * * *".to_owned(),
        "@hourly" => "0 * * * *".to_owned(),
        "@reboot" => {
            let message =
                "@reboot is not allowed: a cluster has no moment of start; use a one-off job";
            return Err(ScheduleError::cron(start, message));
        }
        _ => {
            let known =
                ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
            let hint = crate::suggest::nearest(&name, known.into_iter().map(|k| (k, k)));
            let shown: String = name.chars().take(20).collect();
            return Err(ScheduleError::cron(start, format!("{shown} is not known, allowed {ALL}"))
                .suggest(hint.map(|(_, name)| name.to_owned())));
        }
    };
    if let Some((extra, _)) = words.get(1) {
        return Err(ScheduleError::cron(*extra, format!("nothing may follow {name}")));
    }
    fields(&meaning, &split(&meaning), dialect, seed)
}

fn fields(
    text: &str,
    words: &[(usize, usize)],
    dialect: Dialect,
    seed: &[u8],
) -> Result<Parsed, ScheduleError> {
    let parts = match (words.len(), dialect) {
        (5, _) => &PARTS[1..6],
        (6, _) => &PARTS[..6],
        (7, Dialect::Quartz) => &PARTS[..],
        (n, _) => return Err(wrong_number(n, words, dialect)),
    };
    let mut read: [Field; 7] = Default::default();
    // Without a seconds field jobs run at the full minute.
    read[Part::Second as usize].set = 1;
    for (part, (start, end)) in parts.iter().zip(words) {
        let cursor = Cursor::new(text, *start, *end);
        read[*part as usize] = FieldReader { part: *part, dialect, seed, cursor }.read()?;
    }
    let [second, minute, hour, day, month, weekday, year] = read;
    // A year field of `*` names 1970 to 2099, as Quartz says, and nothing after.
    let years = (words.len() == 7).then(|| {
        let mut years = Years::default();
        year.years.iter().for_each(|y| years.insert(i64::from(*y)));
        years
    });
    Ok(Parsed::Fields(Box::new(Fields {
        clock: Clock { seconds: second.set, minutes: minute.set, hours: hour.set },
        days: DayFields {
            days: day.set,
            day_rules: day.rules,
            months: month.set,
            weekdays: weekday.set,
            weekday_rules: weekday.rules,
            both: day.star || weekday.star,
            years,
        },
        wildcard: minute.star || hour.star,
    })))
}

fn wrong_number(n: usize, words: &[(usize, usize)], dialect: Dialect) -> ScheduleError {
    let most = if dialect == Dialect::Quartz { 7 } else { 6 };
    // Points at the first field too many, or to the end where one is missing.
    let at = words.get(most).map_or(words.last().map_or(0, |w| w.1), |w| w.0);
    let more = match dialect {
        Dialect::Cron if n == 7 => {
            ", or 6 with seconds in front; a year field needs dialect quartz"
        }
        Dialect::Cron => ", or 6 with seconds in front",
        Dialect::Quartz => ", 6 with seconds in front, or 7 with a year at the end",
    };
    ScheduleError::cron(at, format!("found {n} fields, expected 5 ({FIVE}){more}"))
}
