//! The zones of the bundled database and the instants at which their clocks change.

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// One change of the clocks.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Seconds since 1970.
    pub at: i64,
    pub offset_before: i64,
    pub offset_after: i64,
}

#[derive(Debug)]
pub struct Zone {
    pub name: String,
    /// From 1970 to the end of 2037, in order.
    pub changes: Vec<Change>,
}

/// 2038-01-01T00:00:00Z.
const UNTIL: i64 = 2_145_916_800;

pub fn all() -> Vec<Zone> {
    let database = TimeZoneDatabase::bundled();
    let mut names: Vec<String> = database.available().map(|name| name.to_string()).collect();
    names.sort();
    names
        .into_iter()
        .filter_map(|name| {
            let zone = database.get(&name).ok()?;
            Some(Zone { changes: changes(&zone), name })
        })
        .collect()
}

fn changes(zone: &TimeZone) -> Vec<Change> {
    let mut before = i64::from(zone.to_offset(Timestamp::UNIX_EPOCH).seconds());
    let mut found = Vec::new();
    for transition in zone.following(Timestamp::UNIX_EPOCH) {
        let at = transition.timestamp().as_second();
        if at >= UNTIL {
            break;
        }
        let after = i64::from(transition.offset().seconds());
        // A change of the name or of the DST flag alone moves no clock.
        if after != before {
            found.push(Change { at, offset_before: before, offset_after: after });
        }
        before = after;
    }
    found
}
