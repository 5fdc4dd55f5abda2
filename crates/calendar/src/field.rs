//! One field of a cron expression: lists, ranges, steps, names, `H`, and the day forms of Quartz.
//!
//! A field becomes a set of numbers and a few rules that depend on the month. Whether it *starts
//! with* `*` is kept, because Debian's cron decides by that, not by what the field means: `*/1`
//! starts with it, `0-59` does not.
//!
//! Kept from Debian: ranges that run backwards are refused, 7 is Sunday, a step may be longer than
//! the range. Allowed beyond it: `5/15` (from 5 to the end), `FRI-SUN`, everything of Quartz.

use crate::cursor::Cursor;
use crate::days::DayRule;
use crate::error::ScheduleError;
use crate::hash::{below, hash};
use crate::limits::{YEAR_MAX, YEAR_MIN};
use crate::suggest::nearest;
use model::Dialect;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Second,
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
    Year,
}

/// What a field said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    /// The numbers of the set, as Debian counts them, except years.
    pub set: u64,
    pub years: Vec<u32>,
    pub rules: Vec<DayRule>,
    /// Starts with `*`, or is `?`.
    pub star: bool,
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Part {
    pub fn name(self) -> &'static str {
        match self {
            Part::Second => "second",
            Part::Minute => "minute",
            Part::Hour => "hour",
            Part::DayOfMonth => "day-of-month",
            Part::Month => "month",
            Part::DayOfWeek => "day-of-week",
            Part::Year => "year",
        }
    }

    /// The smallest and the largest number that may be written.
    fn range(self, dialect: Dialect) -> (u32, u32) {
        match (self, dialect) {
            (Part::Second | Part::Minute, _) => (0, 59),
            (Part::Hour, _) => (0, 23),
            (Part::DayOfMonth, _) => (1, 31),
            (Part::Month, _) => (1, 12),
            (Part::DayOfWeek, Dialect::Cron) => (0, 7),
            (Part::DayOfWeek, Dialect::Quartz) => (1, 7),
            (Part::Year, _) => (YEAR_MIN as u32, YEAR_MAX as u32),
        }
    }

    /// The range of a bare `H`: every month has a 28th, and Sunday must not count twice.
    fn hash_range(self, dialect: Dialect) -> (u32, u32) {
        match (self, self.range(dialect)) {
            (Part::DayOfMonth, (low, _)) => (low, 28),
            (Part::DayOfWeek, (low, _)) => (low, low + 6),
            (_, range) => range,
        }
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Part::Month => &MONTHS,
            Part::DayOfWeek => &WEEKDAYS,
            _ => &[],
        }
    }

    /// The number that stands for the first name.
    fn first_name(self, dialect: Dialect) -> u32 {
        if self == Part::DayOfWeek && dialect == Dialect::Cron { 0 } else { 1 }
    }

    fn allowed(self, dialect: Dialect) -> String {
        let (low, high) = self.range(dialect);
        match self {
            Part::Month => format!("{low}-{high} or JAN-DEC"),
            Part::DayOfWeek => format!("{low}-{high} or SUN-SAT"),
            _ => format!("{low}-{high}"),
        }
    }
}

/// Reads one field; see the module's documentation.
pub(crate) struct FieldReader<'a> {
    pub part: Part,
    pub dialect: Dialect,
    pub seed: &'a [u8],
    pub cursor: Cursor<'a>,
}

impl FieldReader<'_> {
    pub fn read(mut self) -> Result<Field, ScheduleError> {
        let mut field =
            Field { star: matches!(self.cursor.peek(), Some(b'*' | b'?')), ..Field::default() };
        loop {
            self.item(&mut field)?;
            if !self.cursor.take(b',') {
                break;
            }
        }
        if self.cursor.peek().is_some() {
            return Err(self.unexpected("',', '-' or '/' or the end of the field"));
        }
        self.normalize(&mut field);
        Ok(field)
    }

    /// Weekdays become 0 (Sunday) to 6 whatever the dialect.
    fn normalize(&self, field: &mut Field) {
        if self.part == Part::DayOfWeek {
            field.set = match self.dialect {
                Dialect::Cron => (field.set | field.set >> 7) & 0x7f,
                Dialect::Quartz => field.set >> 1,
            };
        }
    }

    fn item(&mut self, field: &mut Field) -> Result<(), ScheduleError> {
        let start = self.cursor.at;
        if self.cursor.take(b'?') {
            return self.any(field, start);
        }
        // Quartz: a bare L in day-of-week is 7, Saturday.
        if self.part == Part::DayOfWeek
            && self.dialect == Dialect::Quartz
            && self.cursor.letters() == "L"
        {
            self.cursor.at += 1;
            self.insert(field, 7, 7, 1);
            return Ok(());
        }
        if let Some(rule) = self.rule()? {
            field.rules.push(rule);
            return Ok(());
        }
        let (low, high) = self.part.range(self.dialect);
        if self.cursor.take(b'*') {
            let step = self.step()?.unwrap_or(1);
            self.insert(field, low, high, step);
        } else if self.cursor.peek() == Some(b'H') {
            self.cursor.at += 1;
            self.hashed(field)?;
        } else {
            self.numbers(field, start)?;
        }
        Ok(())
    }

    fn any(&mut self, field: &mut Field, start: usize) -> Result<(), ScheduleError> {
        if !matches!(self.part, Part::DayOfMonth | Part::DayOfWeek) {
            let message = "'?' is allowed in day-of-month and day-of-week only; write '*'";
            return Err(ScheduleError::cron(start, format!("{}: {message}", self.part.name())));
        }
        let (low, high) = self.part.range(self.dialect);
        self.insert(field, low, high, 1);
        Ok(())
    }

    /// `n`, `n-m`, `n/s`, `n-m/s`, and after a single number the forms `n#k`, `nL`, `nW`.
    fn numbers(&mut self, field: &mut Field, start: usize) -> Result<(), ScheduleError> {
        let (_, high) = self.part.range(self.dialect);
        let first = self.value()?;
        if let Some(rule) = self.suffix(first, start)? {
            field.rules.push(rule);
            return Ok(());
        }
        let mut last = first;
        let mut ranged = false;
        if self.cursor.take(b'-') {
            last = self.value()?;
            ranged = true;
            if last < first {
                last = self.backwards(first, last, start)?;
            }
        }
        match self.step()? {
            Some(step) => self.insert(field, first, if ranged { last } else { high }, step),
            None => self.insert(field, first, last, 1),
        }
        Ok(())
    }

    /// A range that runs backwards: `FRI-SUN` ends on 7, Quartz wraps round, Debian refuses.
    fn backwards(&self, first: u32, last: u32, start: usize) -> Result<u32, ScheduleError> {
        let (low, high) = self.part.range(self.dialect);
        if self.dialect == Dialect::Cron && self.part == Part::DayOfWeek && last == 0 {
            return Ok(7);
        }
        if self.dialect == Dialect::Quartz && self.part != Part::Year {
            return Ok(last + (high - low + 1));
        }
        let instead = match (self.part, first) {
            // Both names of Sunday: from 7 the week begins anew at 0.
            (Part::DayOfWeek, 7) => format!("write it with Sunday as 0: 0-{last}"),
            (Part::DayOfWeek, _) => format!("write it as a list of two ranges, {first}-6,0-{last}"),
            _ => format!("write it as a list of two ranges, {first}-{high},{low}-{last}"),
        };
        let name = self.part.name();
        let message = format!("{name}: the range {first}-{last} runs backwards; {instead}");
        Err(ScheduleError::cron(start, message))
    }

    /// Puts `first, first + step, …` up to `last` into the set; past the end it wraps round.
    fn insert(&self, field: &mut Field, first: u32, last: u32, step: u32) {
        let (low, high) = self.part.range(self.dialect);
        let size = high - low + 1;
        let mut at = first;
        while at <= last {
            if self.part == Part::Year {
                field.years.push(at);
            } else {
                field.set |= 1 << (low + (at - low) % size);
            }
            at = at.saturating_add(step);
        }
    }

    fn step(&mut self) -> Result<Option<u32>, ScheduleError> {
        if !self.cursor.take(b'/') {
            return Ok(None);
        }
        let at = self.cursor.at;
        match self.cursor.number() {
            Some(0) => {
                let message =
                    format!("{}: a step of 0 is not allowed, 1 or more is", self.part.name());
                Err(ScheduleError::cron(at, message))
            }
            Some(step) => Ok(Some(step)),
            None => Err(self.unexpected("a step, a number from 1 on")),
        }
    }

    /// `H`, `H(a-b)`, `H/n`, `H(a-b)/n`: a number, or a start, that the seed decides.
    fn hashed(&mut self, field: &mut Field) -> Result<(), ScheduleError> {
        let (mut low, mut high) = self.part.hash_range(self.dialect);
        if self.cursor.take(b'(') {
            let start = self.cursor.at;
            low = self.value()?;
            if !self.cursor.take(b'-') {
                return Err(self.unexpected("'-', as in H(0-29)"));
            }
            high = self.value()?;
            if high < low {
                let message = format!("{}: H({low}-{high}) runs backwards", self.part.name());
                return Err(ScheduleError::cron(start, message));
            }
            if !self.cursor.take(b')') {
                return Err(self.unexpected("')'"));
            }
        }
        let hash = hash(self.part.name(), self.seed);
        let size = high - low + 1;
        match self.step()? {
            None => {
                let value = low + below(hash, u64::from(size)) as u32;
                self.insert(field, value, value, 1);
            }
            Some(step) => {
                let first = low + below(hash, u64::from(size.min(step))) as u32;
                self.insert(field, first, high, step);
            }
        }
        Ok(())
    }

    /// A number or a name, inside the field's range.
    fn value(&mut self) -> Result<u32, ScheduleError> {
        let at = self.cursor.at;
        if let Some(number) = self.cursor.number() {
            let (low, high) = self.part.range(self.dialect);
            if (low..=high).contains(&number) {
                return Ok(number);
            }
            let name = self.part.name();
            let message = format!(
                "{name}: {number} is out of range, allowed {}",
                self.part.allowed(self.dialect)
            );
            return Err(ScheduleError::cron(at, message));
        }
        let word = self.cursor.letters();
        if word.is_empty() {
            return Err(self.unexpected(&self.part.allowed(self.dialect)));
        }
        let names = self.part.names();
        // `FRIL` is the last Friday: the name ends after three letters.
        let known = names.iter().position(|name| {
            word == *name || (word.len() == 4 && word.ends_with('L') && word.starts_with(name))
        });
        if let Some(index) = known {
            self.cursor.at += 3;
            return Ok(self.part.first_name(self.dialect) + index as u32);
        }
        let name = self.part.name();
        let message =
            format!("{name}: {word} is not known, allowed {}", self.part.allowed(self.dialect));
        let hint = nearest(&word, names.iter().map(|name| (*name, *name)));
        Err(ScheduleError::cron(at, message).suggest(hint.map(|(_, name)| name.to_owned())))
    }

    /// Forms that begin with `L`.
    fn rule(&mut self) -> Result<Option<DayRule>, ScheduleError> {
        let start = self.cursor.at;
        if self.cursor.letters() != "L" && self.cursor.letters() != "LW" {
            return Ok(None);
        }
        self.cursor.at += 1;
        match self.part {
            Part::DayOfMonth => {}
            Part::DayOfWeek => {
                let message =
                    "day-of-week: L needs a weekday in front, such as 5L for the last Friday";
                return Err(ScheduleError::cron(start, message));
            }
            _ => {
                let name = self.part.name();
                let message = format!("{name}: L is allowed in day-of-month and day-of-week only");
                return Err(ScheduleError::cron(start, message));
            }
        }
        let mut before = 0;
        if self.cursor.take(b'-') {
            let at = self.cursor.at;
            before = match self.cursor.number() {
                Some(n @ 0..=30) => n,
                _ => return Err(ScheduleError::cron(at, "day-of-month: after L- 0-30 is allowed")),
            };
        }
        let rule = if self.cursor.take(b'W') {
            DayRule::LastWeekday { before }
        } else {
            DayRule::Last { before }
        };
        Ok(Some(rule))
    }

    /// Forms that follow a number: `15W`, `5#2`, `5L`.
    fn suffix(&mut self, value: u32, start: usize) -> Result<Option<DayRule>, ScheduleError> {
        let Some(letter @ (b'W' | b'#' | b'L')) = self.cursor.peek() else { return Ok(None) };
        let at = self.cursor.at;
        self.cursor.at += 1;
        let weekday = match self.dialect {
            Dialect::Cron => value % 7,
            Dialect::Quartz => value.saturating_sub(1),
        };
        match (letter, self.part) {
            (b'W', Part::DayOfMonth) => Ok(Some(DayRule::NearestWeekday { day: value })),
            (b'L', Part::DayOfWeek) => Ok(Some(DayRule::LastOf { weekday })),
            (b'#', Part::DayOfWeek) => {
                let at = self.cursor.at;
                match self.cursor.number() {
                    Some(nth @ 1..=5) => Ok(Some(DayRule::Nth { weekday, nth })),
                    _ => Err(ScheduleError::cron(at, "day-of-week: after # 1-5 is allowed")),
                }
            }
            _ => {
                let (form, place) = match letter {
                    b'W' => ("W", "day-of-month, as in 15W"),
                    b'L' => ("L after a number", "day-of-week, as in 5L"),
                    _ => ("#", "day-of-week, as in 5#2"),
                };
                let message = format!("{}: {form} is allowed in {place} only", self.part.name());
                Err(ScheduleError::cron(at.max(start), message))
            }
        }
    }

    fn unexpected(&self, wanted: &str) -> ScheduleError {
        let name = self.part.name();
        let found = match self.cursor.peek() {
            Some(byte) => format!("'{}'", char::from(byte)),
            None => "the end of the field".to_owned(),
        };
        self.cursor.error(format!("{name}: found {found}, expected {wanted}"))
    }
}
