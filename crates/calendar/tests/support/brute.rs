//! What an expression should do in a zone: a walk over local minutes, straight from the definition.

use super::expression::Expression;
use calendar::DstEffect;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use model::{Dst, Gap, Repeat};
use std::collections::{BTreeMap, BTreeSet};

/// A matching local time and the instants a wall clock shows it.
#[derive(Clone, Copy, Debug)]
pub enum Seen {
    Once(i64),
    /// Never: the clocks were put forward over it, at this instant.
    Gap(i64),
    Twice(i64, i64),
}

/// The changes of offset near some local times, asked of jiff by instant only. Its answers for local
/// times are no oracle: jiff 0.2.39 sees a repeat in America/Godthab on 2023-10-28 where the offset
/// did not change.
struct Offsets<'a> {
    tz: &'a TimeZone,
    /// Instant, offset before, offset from then on.
    changes: Vec<(i64, i64, i64)>,
    offsets: BTreeSet<i64>,
}

impl Offsets<'_> {
    fn new(tz: &TimeZone, from: i64, to: i64) -> Offsets<'_> {
        let begin = from - 2 * 86_400;
        let mut all = Offsets { tz, changes: Vec::new(), offsets: BTreeSet::new() };
        all.offsets.insert(all.at(begin));
        for transition in tz.following(Timestamp::from_second(begin).unwrap()) {
            let at = transition.timestamp().as_second();
            if at > to + 2 * 86_400 {
                break;
            }
            all.changes.push((at, all.at(at - 1), all.at(at)));
            all.offsets.insert(all.at(at));
        }
        all
    }

    fn at(&self, second: i64) -> i64 {
        i64::from(self.tz.to_offset(Timestamp::from_second(second).unwrap()).seconds())
    }

    /// When does a wall clock show this local time?
    fn look(&self, local: i64) -> Seen {
        let mut shown: Vec<i64> =
            self.offsets.iter().map(|o| local - o).filter(|t| t + self.at(*t) == local).collect();
        shown.sort_unstable();
        match shown[..] {
            [once] => Seen::Once(once),
            [first, second] => Seen::Twice(first, second),
            [] => {
                let over = |(at, a, b): &&(i64, i64, i64)| at + a <= local && local < at + b;
                Seen::Gap(self.changes.iter().find(over).expect("a gap has a transition").0)
            }
            _ => panic!("local time {local} three times: the definition does not cover it"),
        }
    }
}

/// All matching local times between two local times.
pub fn walk(expression: &Expression, tz: &TimeZone, from: DateTime, to: DateTime) -> Vec<Seen> {
    let secs = |local: DateTime| Offset::UTC.to_timestamp(local).unwrap().as_second();
    let offsets = Offsets::new(tz, secs(from), secs(to));
    let mut seen = Vec::new();
    let mut date = from.date();
    while date <= to.date() {
        if expression.date(date) {
            let midnight = secs(date.at(0, 0, 0, 0));
            for hour in (0..24).filter(|h| expression.hour.number(*h)) {
                for minute in (0..60).filter(|m| expression.minute.number(*m)) {
                    for second in (0..60).filter(|s| expression.second(*s)) {
                        seen.push(offsets.look(midnight + hour * 3_600 + minute * 60 + second));
                    }
                }
            }
        }
        date = date.tomorrow().unwrap();
    }
    seen
}

/// The instants these local times become, and what DST did to each.
pub fn instants(seen: &[Seen], wildcard: bool, dst: Dst) -> BTreeMap<i64, Option<DstEffect>> {
    let mut all = BTreeMap::new();
    // Ordinary times first: one that coincides with a moved one counts as moved.
    for seen in seen {
        match *seen {
            Seen::Once(t) => drop(all.insert(t, None)),
            Seen::Gap(_) => {}
            Seen::Twice(first, second) => {
                if wildcard || dst.repeat != Repeat::Second {
                    all.insert(first, Some(DstEffect::Repeat));
                }
                if wildcard || dst.repeat != Repeat::First {
                    all.insert(second, Some(DstEffect::Repeat));
                }
            }
        }
    }
    for seen in seen {
        if let (Seen::Gap(t), false, Gap::Run) = (*seen, wildcard, dst.gap) {
            all.insert(t, Some(DstEffect::Gap));
        }
    }
    all
}

pub const POLICIES: [Dst; 6] = [
    Dst { gap: Gap::Run, repeat: Repeat::First },
    Dst { gap: Gap::Run, repeat: Repeat::Second },
    Dst { gap: Gap::Run, repeat: Repeat::Both },
    Dst { gap: Gap::Skip, repeat: Repeat::First },
    Dst { gap: Gap::Skip, repeat: Repeat::Second },
    Dst { gap: Gap::Skip, repeat: Repeat::Both },
];
