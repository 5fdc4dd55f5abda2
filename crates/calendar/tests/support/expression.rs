//! Random cron expressions that know, from the definition, what they match.

use super::rng::Rng;
use jiff::civil::{Date, DateTime};

#[derive(Clone, Debug)]
pub enum Item {
    Star,
    StarStep(i64),
    One(i64),
    From(i64, i64),
    Range(i64, i64),
    RangeStep(i64, i64, i64),
    Any,
    LastDay(i64),
    LastWeekday(i64),
    Nearest(i64),
    Nth(i64, i64),
    LastOf(i64),
}

#[derive(Clone, Debug)]
pub struct Field {
    pub items: Vec<Item>,
    low: i64,
    high: i64,
}

#[derive(Clone, Debug)]
pub struct Expression {
    pub second: Option<Field>,
    pub minute: Field,
    pub hour: Field,
    pub day: Field,
    pub month: Field,
    pub weekday: Field,
}

impl Item {
    fn text(&self) -> String {
        match self {
            Item::Star => "*".into(),
            Item::StarStep(s) => format!("*/{s}"),
            Item::One(n) => n.to_string(),
            Item::From(n, s) => format!("{n}/{s}"),
            Item::Range(a, b) => format!("{a}-{b}"),
            Item::RangeStep(a, b, s) => format!("{a}-{b}/{s}"),
            Item::Any => "?".into(),
            Item::LastDay(0) => "L".into(),
            Item::LastDay(n) => format!("L-{n}"),
            Item::LastWeekday(0) => "LW".into(),
            Item::LastWeekday(n) => format!("L-{n}W"),
            Item::Nearest(n) => format!("{n}W"),
            Item::Nth(d, k) => format!("{d}#{k}"),
            Item::LastOf(d) => format!("{d}L"),
        }
    }

    fn number(&self, n: i64, low: i64, high: i64) -> bool {
        match *self {
            Item::Star | Item::Any => true,
            Item::StarStep(s) => (n - low) % s == 0,
            Item::One(x) => n == x,
            Item::From(a, s) => n >= a && n <= high && (n - a) % s == 0,
            Item::Range(a, b) => a <= n && n <= b,
            Item::RangeStep(a, b, s) => a <= n && n <= b && (n - a) % s == 0,
            _ => false,
        }
    }

    fn day(&self, date: Date) -> bool {
        let (day, len) = (i64::from(date.day()), i64::from(date.days_in_month()));
        match *self {
            Item::LastDay(n) => day + n == len,
            Item::LastWeekday(n) => is_nearest(date, len - n),
            Item::Nearest(n) => is_nearest(date, n),
            _ => self.number(day, 1, 31),
        }
    }

    fn weekday(&self, date: Date) -> bool {
        let (day, len) = (i64::from(date.day()), i64::from(date.days_in_month()));
        let weekday = i64::from(date.weekday().to_sunday_zero_offset());
        match *self {
            Item::Nth(d, k) => d % 7 == weekday && (day - 1) / 7 + 1 == k,
            Item::LastOf(d) => d % 7 == weekday && day + 7 > len,
            // Sunday is 0 and 7, each written.
            _ => self.number(weekday, 0, 7) || (weekday == 0 && self.number(7, 0, 7)),
        }
    }
}

/// Is this the Monday to Friday of its month that is nearest to day `n`?
fn is_nearest(date: Date, n: i64) -> bool {
    let len = i64::from(date.days_in_month());
    if !(1..=len).contains(&n) {
        return false;
    }
    let working = |d: i64| {
        let day = Date::new(date.year(), date.month(), d as i8).unwrap();
        !matches!(day.weekday().to_sunday_zero_offset(), 0 | 6)
    };
    let best = (1..=len).filter(|d| working(*d)).min_by_key(|d| (d - n).abs());
    best == Some(i64::from(date.day()))
}

impl Field {
    fn text(&self) -> String {
        self.items.iter().map(Item::text).collect::<Vec<_>>().join(",")
    }

    fn star(&self) -> bool {
        matches!(self.items[0], Item::Star | Item::StarStep(_) | Item::Any)
    }

    pub fn number(&self, n: i64) -> bool {
        self.items.iter().any(|item| item.number(n, self.low, self.high))
    }

    pub fn one(n: i64) -> Field {
        Field { items: vec![Item::One(n)], low: n, high: n }
    }

    /// A random field; `near` is a number worth naming.
    pub fn random(rng: &mut Rng, low: i64, high: i64, near: i64, star: u64) -> Field {
        let mut items = Vec::new();
        if rng.chance(star) {
            items.push(if rng.chance(50) {
                Item::Star
            } else {
                Item::StarStep(rng.range(1, high + 3))
            });
        } else {
            for _ in 0..rng.range(1, 3) {
                let pick = |rng: &mut Rng| {
                    if rng.chance(60) { near.clamp(low, high) } else { rng.range(low, high) }
                };
                let (a, b) = (pick(rng), rng.range(low, high));
                let (a, b) = (a.min(b), a.max(b));
                let step = rng.range(1, (high - low).max(1));
                items.push(match rng.below(6) {
                    0 => Item::Range(a, b),
                    1 => Item::RangeStep(a, b, step),
                    2 => Item::From(a, step),
                    _ => Item::One(pick(rng)),
                });
            }
        }
        Field { items, low, high }
    }
}

impl Expression {
    pub fn text(&self) -> String {
        let second = self.second.as_ref().map_or(String::new(), |f| f.text() + " ");
        let fields = [&self.minute, &self.hour, &self.day, &self.month, &self.weekday];
        second + &fields.map(Field::text).join(" ")
    }

    /// Debian's rule.
    pub fn wildcard(&self) -> bool {
        let starts = |field: &Field| matches!(field.items[0], Item::Star | Item::StarStep(_));
        starts(&self.minute) || starts(&self.hour)
    }

    pub fn date(&self, date: Date) -> bool {
        let day = self.day.items.iter().any(|item| item.day(date));
        let weekday = self.weekday.items.iter().any(|item| item.weekday(date));
        let both = self.day.star() || self.weekday.star();
        let days = if both { day && weekday } else { day || weekday };
        days && self.month.number(i64::from(date.month()))
    }

    pub fn second(&self, second: i64) -> bool {
        self.second.as_ref().map_or(second == 0, |field| field.number(second))
    }

    /// An expression that likes the date and time of `near`.
    pub fn random(rng: &mut Rng, near: DateTime, seconds: bool, sparse: bool) -> Expression {
        let star = if sparse { 30 } else { 75 };
        let date = near.date();
        let weekday = i64::from(date.weekday().to_sunday_zero_offset());
        let mut expression = Expression {
            second: seconds.then(|| Field::random(rng, 0, 59, i64::from(near.second()), 15)),
            minute: Field::random(rng, 0, 59, i64::from(near.minute()), 25),
            hour: Field::random(rng, 0, 23, i64::from(near.hour()), 25),
            day: Field::random(rng, 1, 31, i64::from(date.day()), star),
            month: Field::random(rng, 1, 12, i64::from(date.month()), 85),
            weekday: Field::random(rng, 0, 7, weekday, star),
        };
        if rng.chance(25) {
            let rule = match rng.below(4) {
                0 => Item::LastDay(rng.range(0, 30)),
                1 => Item::LastWeekday(rng.range(0, 3)),
                2 => Item::Nearest(rng.range(1, 31)),
                _ => Item::Any,
            };
            expression.day.items = vec![rule];
        }
        if rng.chance(20) {
            let day = rng.range(0, 7);
            expression.weekday.items = match rng.below(3) {
                0 => vec![Item::LastOf(day)],
                1 => vec![Item::Nth(day, rng.range(1, 5)), Item::Nth(weekday, rng.range(1, 5))],
                _ => vec![Item::Any],
            };
        }
        expression
    }
}
