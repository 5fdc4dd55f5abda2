//! Instants and lengths of time: i64 microseconds, UTC, no zone.
//!
//! One unit everywhere means that no conversion can be forgotten. Arithmetic saturates, so that
//! hostile input (`at` in the year 9999 plus a delay) ends at a bound instead of wrapping round
//! to the past and firing now.

use std::fmt;

/// An instant: microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(i64);

/// A length of time in microseconds. May be negative where a difference is meant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(i64);

impl Time {
    /// The epoch, and the earliest instant that duly accepts from a user.
    pub const MIN: Time = Time(0);
    /// 9999-12-31T00:00:00Z, one day before the last day that every date library can print in
    /// every zone.
    pub const MAX: Time = Time(253_402_214_400_000_000);

    pub const fn from_micros(micros: i64) -> Time {
        Time(micros)
    }

    pub const fn from_millis(millis: i64) -> Time {
        Time(millis.saturating_mul(1_000))
    }

    pub const fn from_secs(secs: i64) -> Time {
        Time(secs.saturating_mul(1_000_000))
    }

    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down.
    pub const fn secs(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    pub const fn plus(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }

    pub const fn minus(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }

    /// The time from `earlier` to `self`; negative if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// The last whole millisecond that is not after this instant.
    pub const fn floor_millis(self) -> Time {
        Time(self.0.saturating_sub(self.0.rem_euclid(1_000)))
    }

    /// The first whole millisecond that is not before this instant. Timers round up: a job may be
    /// late by a millisecond, never early.
    pub const fn ceil_millis(self) -> Time {
        let rest = self.0.rem_euclid(1_000);
        if rest == 0 { self } else { Time(self.0.saturating_add(1_000 - rest)) }
    }
}

impl Span {
    pub const ZERO: Span = Span(0);

    pub const fn from_micros(micros: i64) -> Span {
        Span(micros)
    }

    pub const fn from_millis(millis: i64) -> Span {
        Span(millis.saturating_mul(1_000))
    }

    pub const fn from_secs(secs: i64) -> Span {
        Span(secs.saturating_mul(1_000_000))
    }

    pub const fn micros(self) -> i64 {
        self.0
    }

    pub const fn times(self, factor: i64) -> Span {
        Span(self.0.saturating_mul(factor))
    }

    pub const fn plus(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000))
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        let far = Time::from_micros(i64::MAX - 1);
        assert_eq!(far.plus(Span::from_secs(10)).micros(), i64::MAX);
        assert_eq!(Time::from_secs(i64::MAX).micros(), i64::MAX);
    }

    #[test]
    fn millis_round_up_only_when_needed() {
        assert_eq!(Time::from_micros(1_000).ceil_millis(), Time::from_micros(1_000));
        assert_eq!(Time::from_micros(1_001).ceil_millis(), Time::from_micros(2_000));
        assert_eq!(Time::from_micros(-1).ceil_millis(), Time::from_micros(0));
    }
}
