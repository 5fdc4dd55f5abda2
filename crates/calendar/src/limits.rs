//! Every bound of this crate, named, each with its reason.

use model::{Span, Time};

/// A cron expression is a line a person writes; what is longer is an attack or a mistake. It also
/// bounds what the parser allocates.
pub const EXPRESSION_CHARS_MAX: usize = 1_024;

/// Names longer than the longest zone name (32) are not compared with the database: edit distance
/// costs their product.
pub const ZONE_NAME_CHARS_MAX: usize = 64;

/// The shortest interval, as the API promises it: a schedule is not a busy loop.
pub const INTERVAL_MIN: Span = Span::from_secs(1);

/// The first and last second at which a cron schedule may fire.
pub(crate) const SECS_MIN: i64 = Time::MIN.secs();
pub(crate) const SECS_MAX: i64 = Time::MAX.secs();

/// A zone's offset and every change of it stay below this (the database's format says 26 hours), so
/// a local time is at most this far from the same number read as UTC.
pub(crate) const OFFSET_SECS_MAX: i64 = 26 * 3_600;

/// The first and last year that Quartz's year field may name.
pub(crate) const YEAR_MIN: i64 = 1970;
pub(crate) const YEAR_MAX: i64 = 2099;
