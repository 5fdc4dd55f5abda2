//! The dates on which a cron expression fires.
//!
//! A month is decided by its number, its length and the weekday of its first day: 13 × 7 cases
//! (February counts twice). All of them are worked out once, as one bit per day, so that `L`, `W`
//! and `#` cost nothing later and "never" is known before any search. Knows no times and no zones.

use crate::civil::{Date, date_from_days, days_from_date, is_leap, month_len, weekday};
use crate::limits::{YEAR_MAX, YEAR_MIN};

/// A day that depends on the shape of its month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DayRule {
    /// `L`, `L-3`: so many days before the last one.
    Last { before: u32 },
    /// `15W`: the weekday (Monday to Friday) nearest to the day, inside the month.
    NearestWeekday { day: u32 },
    /// `LW`, `L-3W`: the weekday nearest to that day counted from the end.
    LastWeekday { before: u32 },
    /// `5#2`: the second Friday.
    Nth { weekday: u32, nth: u32 },
    /// `5L`: the last Friday.
    LastOf { weekday: u32 },
}

/// What the three date fields (and Quartz's year) said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DayFields {
    /// Bits 1 to 31.
    pub days: u64,
    pub day_rules: Vec<DayRule>,
    /// Bits 1 to 12.
    pub months: u64,
    /// Bits 0 (Sunday) to 6.
    pub weekdays: u64,
    pub weekday_rules: Vec<DayRule>,
    /// One of the two day fields starts with `*` (or is `?`): both must match. Otherwise either.
    pub both: bool,
    pub years: Option<Years>,
}

/// A set of years from [`YEAR_MIN`] to [`YEAR_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Years([u64; 3]);

impl Years {
    pub fn insert(&mut self, year: i64) {
        if (YEAR_MIN..=YEAR_MAX).contains(&year) {
            let at = (year - YEAR_MIN) as usize;
            self.0[at / 64] |= 1 << (at % 64);
        }
    }

    pub fn has(&self, year: i64) -> bool {
        let at = year - YEAR_MIN;
        (0..=YEAR_MAX - YEAR_MIN).contains(&at) && self.0[at as usize / 64] >> (at % 64) & 1 == 1
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Days {
    /// `[month − 1][weekday of the 1st]`, row 12 for a February of 29 days. Bits 1 to 31.
    masks: [[u32; 7]; 13],
    /// Matching days of a whole year: `[leap][weekday of 1 January]`.
    per_year: [[u32; 7]; 2],
    years: Option<Years>,
    never: bool,
}

impl DayRule {
    /// The bit of the day this rule names in a month, or none.
    fn mask(self, first: u32, len: u32) -> u32 {
        let day = match self {
            DayRule::Last { before } => len.saturating_sub(before),
            DayRule::LastWeekday { before } => {
                nearest_weekday(len.saturating_sub(before), first, len)
            }
            DayRule::NearestWeekday { day } => nearest_weekday(day, first, len),
            DayRule::Nth { weekday, nth } => 1 + (weekday + 7 - first) % 7 + 7 * (nth - 1),
            DayRule::LastOf { weekday } => {
                let last = (first + len - 1) % 7;
                len - (last + 7 - weekday) % 7
            }
        };
        if (1..=len).contains(&day) { 1 << day } else { 0 }
    }
}

/// Quartz's `W`: Saturday moves to Friday, Sunday to Monday, and never into another month. A month
/// without that day has no nearest weekday (0).
fn nearest_weekday(day: u32, first: u32, len: u32) -> u32 {
    if day == 0 || day > len {
        return 0;
    }
    match (first + day - 1) % 7 {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == len => day - 2,
        0 => day + 1,
        _ => day,
    }
}

impl DayFields {
    /// One bit per matching day of a month that starts on weekday `first`.
    pub fn mask(&self, month: u32, first: u32, len: u32) -> u32 {
        if self.months >> month & 1 == 0 {
            return 0;
        }
        let rules = |rules: &[DayRule]| rules.iter().fold(0, |m, r| m | r.mask(first, len));
        let by_day = self.days as u32 | rules(&self.day_rules);
        let by_weekday = (1..=len)
            .filter(|day| self.weekdays >> ((first + day - 1) % 7) & 1 == 1)
            .fold(rules(&self.weekday_rules), |m, day| m | 1 << day);
        let mask = if self.both { by_day & by_weekday } else { by_day | by_weekday };
        // Bits 1 to `len`: the plain day field may name a 31st that this month lacks.
        mask & ((1_u64 << (len + 1)) - 2) as u32
    }
}

impl Days {
    pub fn new(fields: &DayFields) -> Days {
        let mut masks = [[0; 7]; 13];
        for (row, by_first) in masks.iter_mut().enumerate() {
            let (month, leap) = if row == 12 { (2, true) } else { (row as u32 + 1, false) };
            for (first, mask) in by_first.iter_mut().enumerate() {
                *mask = fields.mask(month, first as u32, month_len(leap, month));
            }
        }
        let never = masks.iter().flatten().all(|mask| *mask == 0);
        let mut days = Days { masks, per_year: [[0; 7]; 2], years: fields.years, never };
        for leap in [false, true] {
            for january in 0..7 {
                let mut first = january;
                for month in 1..=12 {
                    let mask = days.masks[Days::row(leap, month)][first as usize];
                    days.per_year[usize::from(leap)][january as usize] += mask.count_ones();
                    first = (first + month_len(leap, month)) % 7;
                }
            }
        }
        days.never = never || days.no_year_matches();
        days
    }

    /// With a year field: does no named year have a matching day?
    fn no_year_matches(&self) -> bool {
        self.years.is_some() && (YEAR_MIN..=YEAR_MAX).all(|year| self.in_year(year) == 0)
    }

    /// True if no date of any year matches, such as 30 February.
    pub fn is_never(&self) -> bool {
        self.never
    }

    /// Dates do not repeat with the calendar if years are named.
    pub fn has_years(&self) -> bool {
        self.years.is_some()
    }

    fn row(leap: bool, month: u32) -> usize {
        if leap && month == 2 { 12 } else { month as usize - 1 }
    }

    fn month_mask(&self, year: i64, month: u32, first_weekday: u32) -> u32 {
        if self.years.is_some_and(|years| !years.has(year)) {
            return 0;
        }
        self.masks[Days::row(is_leap(year), month)][first_weekday as usize]
    }

    /// The mask of the month of `date`, whose day number is `days`.
    fn mask_of(&self, date: Date, days: i64) -> u32 {
        self.month_mask(date.year, date.month, weekday(days - i64::from(date.day) + 1))
    }

    fn in_year(&self, year: i64) -> i64 {
        if self.years.is_some_and(|years| !years.has(year)) {
            return 0;
        }
        let january = weekday(days_from_date(Date { year, month: 1, day: 1 }));
        i64::from(self.per_year[usize::from(is_leap(year))][january as usize])
    }

    pub fn matches(&self, days: i64) -> bool {
        let date = date_from_days(days);
        self.mask_of(date, days) >> date.day & 1 == 1
    }

    /// The first matching day at or after `days`. Without a year field every possible date returns
    /// within 40 years; with one the search ends with the last year that can be named.
    pub fn next(&self, days: i64) -> Option<i64> {
        if self.never {
            return None;
        }
        let Date { mut year, mut month, day } = date_from_days(days);
        let mut first = days - i64::from(day) + 1;
        let mut from = day;
        let last_year = if self.years.is_some() { YEAR_MAX } else { year + 400 };
        while year <= last_year {
            let mask = self.month_mask(year, month, weekday(first)) >> from << from;
            if mask != 0 {
                return Some(first + i64::from(mask.trailing_zeros()) - 1);
            }
            first += i64::from(month_len(is_leap(year), month));
            (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            from = 0;
        }
        None
    }

    /// The last matching day at or before `days`.
    pub fn previous(&self, days: i64) -> Option<i64> {
        if self.never {
            return None;
        }
        let Date { mut year, mut month, day } = date_from_days(days);
        let mut first = days - i64::from(day) + 1;
        let mut keep = ((1_u64 << (day + 1)) - 1) as u32;
        let first_year = if self.years.is_some() { YEAR_MIN } else { year - 400 };
        while year >= first_year {
            let mask = self.month_mask(year, month, weekday(first)) & keep;
            if mask != 0 {
                return Some(first + i64::from(31 - mask.leading_zeros()) - 1);
            }
            (year, month) = if month == 1 { (year - 1, 12) } else { (year, month - 1) };
            first -= i64::from(month_len(is_leap(year), month));
            keep = u32::MAX;
        }
        None
    }

    /// How many matching days lie in `[from, to)`.
    pub fn count(&self, from: i64, to: i64) -> i64 {
        if self.never || from >= to {
            return 0;
        }
        let (a, b) = (date_from_days(from), date_from_days(to));
        if a.year == b.year {
            return self.before_in_year(b, to) - self.before_in_year(a, from);
        }
        let whole: i64 = (a.year..b.year).map(|year| self.in_year(year)).sum();
        whole - self.before_in_year(a, from) + self.before_in_year(b, to)
    }

    /// Matching days of the year of `date` that lie before it.
    fn before_in_year(&self, date: Date, days: i64) -> i64 {
        let mut first = days - i64::from(date.day) + 1;
        let below = (1_u32 << date.day) - 1;
        let mut count = i64::from((self.mask_of(date, days) & below).count_ones());
        for month in (1..date.month).rev() {
            first -= i64::from(month_len(is_leap(date.year), month));
            count += i64::from(self.month_mask(date.year, month, weekday(first)).count_ones());
        }
        count
    }
}
