//! Schedules: cron, intervals and single instants, right to the second in every time zone.
//!
//! ```
//! use calendar::Schedule;
//! use model::{Dialect, ScheduleSpec, Time, When};
//!
//! let mut spec = ScheduleSpec::new(When::Cron {
//!     expression: "30 2 * * *".to_owned(),
//!     dialect: Dialect::Cron,
//! });
//! spec.timezone = Some("Europe/Berlin".to_owned());
//! let schedule = Schedule::new(&spec, b"job", Time::from_secs(0))?;
//! assert_eq!(schedule.describe(), "At 02:30, Europe/Berlin");
//! // 28 March 2027 has no 02:30 in Berlin: it runs at 03:00, when the clocks change.
//! let next = schedule.next(Time::from_secs(1_806_120_000));
//! assert_eq!(next, Some(Time::from_secs(1_806_195_600)));
//! # Ok::<(), calendar::ScheduleError>(())
//! ```
//!
//! The way through the crate: `parse` and `field` turn text into sets; `clock` and `days` answer for
//! a time of day and a date, `local` for both; `zone` cuts time into stretches of constant offset;
//! `cron` puts local times on them and holds the DST rules; `plan` is any schedule before its bounds,
//! `schedule` after them. `words` and `dst` speak to people.
//!
//! Pure: no clock, no randomness, no files. The time zone database is the one compiled in. It does
//! not know runs, jobs or what was missed: it answers when, and others decide what.

mod civil;
mod clock;
mod cron;
mod cursor;
mod days;
mod dst;
mod duration;
mod error;
mod field;
mod hash;
mod interval;
pub mod limits;
mod local;
mod parse;
mod plan;
mod schedule;
mod spread;
mod suggest;
mod words;
mod words_date;
mod words_set;
mod words_time;
mod zone;

pub use dst::{DstDate, DstEffect};
pub use duration::parse_duration;
pub use error::ScheduleError;
pub use schedule::{Occurrence, Schedule};
pub use zone::{tzdb_version, zone_names};
