//! One maker of cases per peer, each inside the grammar and the zones where the peer and we claim
//! to mean the same.

use serde::Serialize;

use crate::field::{Bounds, DAY, HOUR, MINUTE, MONTH, SECOND, WEEKDAY, WEEKDAY_QUARTZ};
use crate::rng::Rng;
use crate::zones::{self, Change, Zone};

#[derive(Debug, Serialize)]
pub struct Case {
    pub id: u64,
    pub cron: String,
    /// The same in the peer's own language, where that is not cron.
    pub peer: Option<String>,
    pub quartz: bool,
    pub zone: String,
    /// Seconds since 1970.
    pub after: i64,
    /// How many instants are compared.
    pub count: u64,
}

type Maker = Box<dyn FnMut(u64, &mut Rng) -> Case>;

pub fn maker(peer: &str) -> Option<Maker> {
    match peer {
        "cronsim" => {
            let zones = zones::all();
            Some(Box::new(move |id, rng| cronsim(id, rng, &zones)))
        }
        "croner" => Some(Box::new(croner)),
        "systemd" => {
            let mut place = None;
            Some(Box::new(move |id, rng| systemd(id, rng, &mut place)))
        }
        _ => None,
    }
}

/// 2020-01-01 and 2037-01-01: years in which today's rules hold.
const MODERN: (i64, i64) = (1_577_836_800, 2_114_380_800);
const DAY_SECONDS: i64 = 86_400;

/// Zones without a change of the clocks in the years in question.
const STEADY: [&str; 8] = [
    "UTC",
    "Asia/Tokyo",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "America/Phoenix",
    "Pacific/Kiritimati",
    "Pacific/Pago_Pago",
    "Africa/Lagos",
];

/// Debian's cron: every zone, mostly right at a change of its clocks.
fn cronsim(id: u64, rng: &mut Rng, zones: &[Zone]) -> Case {
    let near_change = rng.chance(80);
    let zone = rng.pick(zones);
    let changes: &[Change] = if rng.chance(50) {
        let modern = zone.changes.partition_point(|change| change.at < MODERN.0);
        &zone.changes[modern..]
    } else {
        &zone.changes
    };
    if !near_change || changes.is_empty() {
        let seconds = rng.chance(20);
        // With six fields cronsim leaves Debian's rules for clock changes, so those stay in UTC.
        let zone = if seconds { "UTC".to_string() } else { zone.name.clone() };
        let cron = if seconds {
            format!("{} {}", SECOND.any(rng, 20), five(rng, None))
        } else {
            five(rng, None)
        };
        let after = rng.within(0, MODERN.1);
        return Case { id, cron, peer: None, quartz: false, zone, after, count: 3 };
    }
    let change = *rng.pick(changes);
    Case {
        id,
        cron: five(rng, Some(change)),
        peer: None,
        quartz: false,
        zone: zone.name.clone(),
        // Sometimes inside the repeated hour itself.
        after: change.at - rng.within(-3_600, DAY_SECONDS * 3 / 2),
        count: rng.within(3, 8) as u64,
    }
}

/// Five fields; near a change of the clocks the hour is mostly one that the change touches.
fn five(rng: &mut Rng, change: Option<Change>) -> String {
    let hour = match change {
        Some(change) if rng.chance(70) => touched_hour(rng, change),
        _ => HOUR.any(rng, 30),
    };
    // A sparse day hides the change, so it stays the exception near one.
    let narrow = if change.is_some() { 15 } else { 50 };
    let (day, weekday) = match rng.chance(narrow) {
        false => ("*".to_string(), "*".to_string()),
        true => (vixie_day(rng), vixie_weekday(rng)),
    };
    let month = if rng.chance(narrow) { MONTH.any(rng, 30) } else { "*".to_string() };
    format!("{} {hour} {day} {month} {weekday}", MINUTE.any(rng, 25))
}

fn touched_hour(rng: &mut Rng, change: Change) -> String {
    let before = (change.at + change.offset_before).rem_euclid(DAY_SECONDS) / 3_600;
    let after = (change.at + change.offset_after).rem_euclid(DAY_SECONDS) / 3_600;
    let hour = (*rng.pick(&[before, after]) + rng.within(-1, 1)).rem_euclid(24);
    match rng.within(1, 4) {
        1 | 2 => hour.to_string(),
        3 => format!("{hour},{}", HOUR.value(rng)),
        _ => format!("{}-{}", (hour - 1).max(0), (hour + 2).min(23)),
    }
}

fn vixie_day(rng: &mut Rng) -> String {
    match rng.within(1, 10) {
        1 => "L".to_string(),
        2 => "LW".to_string(),
        3..=5 => DAY.star(rng),
        _ => DAY.list(rng),
    }
}

fn vixie_weekday(rng: &mut Rng) -> String {
    match rng.within(1, 10) {
        1 => format!("{}L", rng.within(0, 7)),
        2 => format!("{}#{}", WEEKDAY.value(rng), rng.within(1, 5)),
        3..=6 => WEEKDAY.star(rng),
        _ => WEEKDAY.list(rng),
    }
}

/// `W`, `#`, `L` and weekdays counted as Quartz does, in zones whose clocks stand still.
fn croner(id: u64, rng: &mut Rng) -> Case {
    let quartz = rng.chance(50);
    let weekdays = if quartz { WEEKDAY_QUARTZ } else { WEEKDAY };
    let star = if rng.chance(50) { "?" } else { "*" };
    // Croner reads `*/n` beside a weekday as a restriction; Debian reads it as a star. Where both
    // day fields speak, neither begins with a star here, and both sides mean OR.
    let (day, weekday) = match rng.within(1, 10) {
        1..=4 => (croner_day(rng), star.to_string()),
        5..=8 => (star.to_string(), croner_weekday(rng, weekdays)),
        _ => (croner_day(rng), croner_weekday(rng, weekdays)),
    };
    let month = if rng.chance(40) { MONTH.list(rng) } else { "*".to_string() };
    let time = format!("{} {}", MINUTE.list(rng), HOUR.list(rng));
    let seconds = if rng.chance(30) { format!("{} ", SECOND.list(rng)) } else { String::new() };
    Case {
        id,
        cron: format!("{seconds}{time} {day} {month} {weekday}"),
        peer: None,
        quartz,
        zone: (*rng.pick(&STEADY)).to_string(),
        after: rng.within(MODERN.0, MODERN.1),
        count: 4,
    }
}

fn croner_day(rng: &mut Rng) -> String {
    match rng.within(1, 8) {
        1 => "L".to_string(),
        2 => "LW".to_string(),
        3 | 4 => format!("{}W", rng.within(1, 31)),
        5 => format!("{}W,{}", rng.within(1, 31), DAY.value(rng)),
        6 => format!("{},L", DAY.value(rng)),
        _ => DAY.list(rng),
    }
}

fn croner_weekday(rng: &mut Rng, weekdays: Bounds) -> String {
    match rng.within(1, 6) {
        1 => format!("{}L", weekdays.value(rng)),
        2 | 3 => format!("{}#{}", weekdays.value(rng), rng.within(1, 5)),
        4 => format!("{}#{},{}", weekdays.value(rng), rng.within(1, 5), weekdays.value(rng)),
        _ => weekdays.list(rng),
    }
}

/// One call of `systemd-analyze` answers many expressions, all from one base time in one zone.
const SYSTEMD_BATCH: u64 = 100;

/// Zones with and without clock changes. Hours are kept away from the night, so that no change
/// falls on an occurrence: systemd has rules of its own there.
const SYSTEMD_ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "Pacific/Chatham",
    "America/Santiago",
];

fn systemd(id: u64, rng: &mut Rng, place: &mut Option<(String, i64)>) -> Case {
    if id.is_multiple_of(SYSTEMD_BATCH) {
        let zone = (*rng.pick(&SYSTEMD_ZONES)).to_string();
        *place = Some((zone, rng.within(MODERN.0, MODERN.1)));
    }
    let (zone, after) = place.clone().unwrap_or_else(|| ("UTC".to_string(), MODERN.0));
    let second = Twin::time(rng, 0, 59);
    let minute = Twin::time(rng, 0, 59);
    let hour = Twin::time(rng, 5, 21);
    let month = if rng.chance(40) { Twin::time(rng, 1, 12) } else { Twin::star() };
    let (day, weekday) = Twin::day(rng);
    Case {
        id,
        cron: format!(
            "{} {} {} {} {} {}",
            second.cron, minute.cron, hour.cron, day.cron, month.cron, weekday.cron
        ),
        peer: Some(format!(
            "{}*-{}{} {}:{}:{}",
            weekday.systemd,
            month.systemd,
            day.systemd,
            hour.systemd,
            minute.systemd,
            second.systemd
        )),
        quartz: false,
        zone,
        after,
        count: 4,
    }
}

/// The same set of values in two languages.
struct Twin {
    cron: String,
    systemd: String,
}

impl Twin {
    fn new(cron: impl Into<String>, systemd: impl Into<String>) -> Twin {
        Twin { cron: cron.into(), systemd: systemd.into() }
    }

    fn star() -> Twin {
        Twin::new("*", "*")
    }

    fn time(rng: &mut Rng, low: i64, high: i64) -> Twin {
        let count = *rng.pick(&[1, 1, 2, 3]);
        let terms: Vec<Twin> = (0..count)
            .map(|_| {
                let from = rng.within(low, high);
                let to = rng.within(from, high);
                let step = rng.within(1, 9);
                match rng.within(1, 4) {
                    1 if to > from => Twin::new(format!("{from}-{to}"), format!("{from}..{to}")),
                    2 if to > from => {
                        Twin::new(format!("{from}-{to}/{step}"), format!("{from}..{to}/{step}"))
                    }
                    _ => Twin::new(from.to_string(), from.to_string()),
                }
            })
            .collect();
        let join = |part: fn(&Twin) -> &str| terms.iter().map(part).collect::<Vec<_>>().join(",");
        Twin::new(join(|twin| &twin.cron), join(|twin| &twin.systemd))
    }

    /// Day of month (with systemd's sign in front of it) and weekday. systemd always means AND;
    /// so does cron where one of them begins with a star.
    fn day(rng: &mut Rng) -> (Twin, Twin) {
        let all = || Twin::new("*", "-*");
        let any = || Twin::new("*", "");
        let name = rng.within(0, 6) as usize;
        let (number, word) = (name, ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][name]);
        match rng.within(1, 8) {
            1 => (Twin::new("L", "~1"), any()),
            2 => {
                // It does not go back further than what every month has.
                let back = rng.within(1, 27);
                (Twin::new(format!("L-{back}"), format!("~{}", back + 1)), any())
            }
            3 => (Twin::new("*", "~7/1"), Twin::new(format!("{number}L"), format!("{word} "))),
            4 => {
                let nth = rng.within(1, 5);
                let days = format!("-{}..{}", nth * 7 - 6, (nth * 7).min(31));
                (Twin::new("*", days), Twin::new(format!("{number}#{nth}"), format!("{word} ")))
            }
            5 => {
                let step = rng.within(1, 10);
                let day = Twin::new(format!("*/{step}"), format!("-1/{step}"));
                (day, Twin::new(number.to_string(), format!("{word} ")))
            }
            6 => (all(), Twin::new(number.to_string(), format!("{word} "))),
            7 => (all(), any()),
            _ => {
                let day = Twin::time(rng, 1, 31);
                (Twin::new(day.cron, format!("-{}", day.systemd)), any())
            }
        }
    }
}
