//! The times of one day at which a cron expression fires: sets of hours, minutes and seconds.
//!
//! Every question is answered by bit operations, so a day with 86,400 firings costs no more than a
//! day with one. Knows no dates and no zones.

/// Sets of hours, minutes and seconds; a second of the day is in if all three parts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    pub seconds: u64,
    pub minutes: u64,
    pub hours: u64,
}

/// The lowest element that is not below `from`.
pub(crate) fn lowest(set: u64, from: u32) -> Option<u32> {
    let rest = if from < 64 { set >> from << from } else { 0 };
    (rest != 0).then(|| rest.trailing_zeros())
}

/// The highest element that is not above `to`.
pub(crate) fn highest(set: u64, to: u32) -> Option<u32> {
    let rest = set & through(to);
    (rest != 0).then(|| 63 - rest.leading_zeros())
}

/// All elements up to and including `to`.
fn through(to: u32) -> u64 {
    if to >= 63 { u64::MAX } else { (1 << (to + 1)) - 1 }
}

fn count_below(set: u64, end: u32) -> i64 {
    if end == 0 { 0 } else { i64::from((set & through(end - 1)).count_ones()) }
}

fn has(set: u64, element: u32) -> bool {
    set >> element & 1 == 1
}

fn split(second_of_day: u32) -> (u32, u32, u32) {
    (second_of_day / 3_600, second_of_day / 60 % 60, second_of_day % 60)
}

impl Clock {
    fn join(hour: u32, minute: u32, second: u32) -> u32 {
        hour * 3_600 + minute * 60 + second
    }

    /// How many firings a matching day has.
    pub fn per_day(&self) -> i64 {
        i64::from(self.hours.count_ones()) * self.per_hour()
    }

    fn per_hour(&self) -> i64 {
        i64::from(self.minutes.count_ones()) * self.per_minute()
    }

    fn per_minute(&self) -> i64 {
        i64::from(self.seconds.count_ones())
    }

    /// The first firing at or after this second of the day.
    pub fn next(&self, second_of_day: u32) -> Option<u32> {
        let (h, m, s) = split(second_of_day);
        let minute = lowest(self.minutes, 0)?;
        let second = lowest(self.seconds, 0)?;
        if has(self.hours, h) {
            if has(self.minutes, m)
                && let Some(s) = lowest(self.seconds, s)
            {
                return Some(Clock::join(h, m, s));
            }
            if let Some(m) = lowest(self.minutes, m + 1) {
                return Some(Clock::join(h, m, second));
            }
        }
        lowest(self.hours, h + 1).map(|h| Clock::join(h, minute, second))
    }

    /// The last firing at or before this second of the day.
    pub fn previous(&self, second_of_day: u32) -> Option<u32> {
        let (h, m, s) = split(second_of_day);
        let minute = highest(self.minutes, 63)?;
        let second = highest(self.seconds, 63)?;
        if has(self.hours, h) {
            if has(self.minutes, m)
                && let Some(s) = highest(self.seconds, s)
            {
                return Some(Clock::join(h, m, s));
            }
            if m > 0
                && let Some(m) = highest(self.minutes, m - 1)
            {
                return Some(Clock::join(h, m, second));
            }
        }
        let h = highest(self.hours, h.checked_sub(1)?)?;
        Some(Clock::join(h, minute, second))
    }

    /// How many firings lie before this second of the day.
    pub fn count_before(&self, second_of_day: u32) -> i64 {
        let (h, m, s) = split(second_of_day);
        let mut count = count_below(self.hours, h) * self.per_hour();
        if has(self.hours, h) {
            count += count_below(self.minutes, m) * self.per_minute();
            if has(self.minutes, m) {
                count += count_below(self.seconds, s);
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_walk_over_the_day() {
        let clock =
            Clock { seconds: 1 | 1 << 59, minutes: 1 << 30 | 1 << 59, hours: 1 << 2 | 1 << 23 };
        let all: Vec<u32> = (0..86_400)
            .filter(|t| has(clock.hours, t / 3_600) && has(clock.minutes, t / 60 % 60))
            .filter(|t| has(clock.seconds, t % 60))
            .collect();
        assert_eq!(clock.per_day(), all.len() as i64);
        for t in 0..86_400 {
            assert_eq!(clock.next(t), all.iter().copied().find(|x| *x >= t), "next {t}");
            assert_eq!(clock.previous(t), all.iter().copied().rfind(|x| *x <= t), "previous {t}");
            assert_eq!(clock.count_before(t), all.iter().filter(|x| **x < t).count() as i64);
        }
    }
}
