//! The interface (to be kept; everything behind it is open). No jiff type in public signatures.
use model::{ScheduleSpec, Time};

/// A checked schedule, ready to be asked. Cheap to clone and share.
#[derive(Clone, Debug)]
pub struct Schedule {}

/// One instant of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The instant the schedule names. Run ids are made of it.
    pub nominal: Time,
    /// When it fires: nominal plus the job's fixed offset, never past the next nominal instant.
    pub effective: Time,
    /// Did a change of the clocks move or double it?
    pub dst: Option<DstEffect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DstEffect {
    /// The local time did not exist; runs at the transition.
    Gap,
    /// The local time exists twice.
    Repeat,
}

/// A date on which DST changes what this schedule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DstDate {
    /// Local date, `2027-03-28`.
    pub date: String,
    pub transition: Time,
    pub effect: DstEffect,
    /// A sentence for people.
    pub what: String,
}

/// What is wrong with a schedule: which field, where in it, what is allowed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleError {
    /// The JSON name: `cron`, `timezone`, `every`, `jitter`, …
    pub field: &'static str,
    /// 1-based column inside the expression, where one applies.
    pub column: Option<usize>,
    pub message: String,
    pub did_you_mean: Option<String>,
}

impl Schedule {
    /// `seed` (the job id) decides `H` and jitter; `created` anchors delay and interval.
    pub fn new(
        _spec: &ScheduleSpec,
        _seed: &[u8],
        _created: Time,
    ) -> Result<Schedule, ScheduleError> {
        Ok(Schedule {})
    }
    /// The first nominal instant strictly after `after`.
    pub fn next(&self, _after: Time) -> Option<Time> {
        None
    }
    /// The last nominal instant strictly before `before`.
    pub fn previous(&self, _before: Time) -> Option<Time> {
        None
    }
    /// Nominal instants in `[from, to)` in order.
    pub fn instants(&self, _from: Time, _to: Time) -> impl Iterator<Item = Time> + '_ {
        std::iter::empty()
    }
    /// How many nominal instants lie in `[from, to)`, without enumerating them.
    pub fn count(&self, _from: Time, _to: Time) -> u64 {
        0
    }
    /// The nominal instant with its effective instant and what DST did to it.
    pub fn occurrence(&self, nominal: Time) -> Occurrence {
        Occurrence { nominal, effective: nominal, dst: None }
    }
    /// The schedule in words: "At 03:00 on weekdays, Europe/Zurich".
    pub fn describe(&self) -> String {
        String::new()
    }
    /// Dates in `[from, to)` on which DST changes what happens.
    pub fn dst_dates(&self, _from: Time, _to: Time) -> Vec<DstDate> {
        Vec::new()
    }
}

/// The version of the bundled time zone database, such as `2026e`.
pub fn tzdb_version() -> &'static str {
    ""
}
