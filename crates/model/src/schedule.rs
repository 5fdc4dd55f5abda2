//! What a user wrote about *when*. The calendar turns it into instants; the store keeps it as it
//! was written, so that a new time zone database changes the future and never the past.

use crate::time::{Span, Time};

/// A schedule as the user gave it. `calendar::Schedule::new` checks it and makes it usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleSpec {
    pub when: When,
    /// IANA name; UTC when absent. Only cron is read in a zone.
    pub timezone: Option<String>,
    pub dst: Dst,
    /// Nothing before this instant (inclusive).
    pub start_at: Option<Time>,
    /// Nothing after this instant (inclusive).
    pub end_at: Option<Time>,
    /// At most so many occurrences, counted from `start_at` (or from creation).
    pub max_runs: Option<u64>,
    /// The window of the fixed offset that spreads a herd.
    pub jitter: Option<Span>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum When {
    /// Straight to the ready queue.
    Now,
    At(Time),
    /// Counted from creation.
    Delay(Span),
    /// Instants anchor + k × interval; the anchor is `start_at`, else creation.
    Every(Span),
    Cron {
        expression: String,
        dialect: Dialect,
    },
}

/// How weekdays are counted in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Debian's cron: 0 and 7 are Sunday.
    #[default]
    Cron,
    /// Quartz: 1 is Sunday, 7 is Saturday.
    Quartz,
}

/// What happens to local times that a change of the clocks removes or repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dst {
    pub gap: Gap,
    pub repeat: Repeat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Gap {
    /// Once, at the instant the clocks change.
    #[default]
    Run,
    Skip,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Repeat {
    #[default]
    First,
    Second,
    Both,
}

impl ScheduleSpec {
    pub fn new(when: When) -> ScheduleSpec {
        ScheduleSpec {
            when,
            timezone: None,
            dst: Dst::default(),
            start_at: None,
            end_at: None,
            max_runs: None,
            jitter: None,
        }
    }

    /// Does this schedule have more than one occurrence by its nature?
    pub fn is_recurring(&self) -> bool {
        matches!(self.when, When::Every(_) | When::Cron { .. })
    }
}
