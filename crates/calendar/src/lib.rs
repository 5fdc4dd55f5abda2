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
//! # The rules
//!
//! **Fields** mean what Debian's cron says: lists, ranges, steps, names, 0 and 7 are Sunday. Day of
//! month and day of week are *either*, unless one of them starts with `*` (or is `?`): then *both*.
//! Six fields have seconds in front. From Quartz: `L`, `L-3`, `LW`, `L-3W`, `15W`, `5#2`, `5L`, `?`.
//! `H`, `H(a-b)`, `H/n` and `H(a-b)/n` are numbers that the seed decides. Nicknames are `@yearly` to
//! `@hourly`; `@every 90s` is an interval. With [`model::Dialect::Quartz`] weekdays are 1 (Sunday) to
//! 7, ranges may wrap round (`FRI-MON`), and a seventh field names years from 1970 to 2099.
//!
//! **Changes of the clocks.** A job whose minute or hour starts with `*` is a wildcard job and follows
//! real time: it runs whenever a wall clock would match, not in a gap, in both passes of a repeat,
//! whatever the policy. Every other job is fixed: a local time in a gap runs once at the transition
//! (or is skipped), a repeated one runs in the first pass, the second, or both. A gap is a gap
//! however long: a skipped day too, where Debian and cronsim stop at three hours.
//!
//! **Intervals** begin at `start_at`, else one interval after creation, and never drift. **Bounds**
//! are inclusive; `max_runs` counts from `start_at`, else after creation. **Jitter** is one offset in
//! `[0, window)` per seed, cut so that an effective instant stays before the next nominal one.
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
