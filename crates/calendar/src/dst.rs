//! What changes of the clocks do to a schedule: to one instant, and on which dates.

use crate::civil::{DAY_SECS, clock_text, date_text};
use crate::cron::Cron;
use crate::limits::{SECS_MAX, SECS_MIN};
use model::{Gap, Repeat, Time};

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
    /// Local date, `2027-03-28`: the one that lacks or repeats the times.
    pub date: String,
    pub transition: Time,
    pub effect: DstEffect,
    /// A sentence for people.
    pub what: String,
}

/// A change of the clocks: the instant, and the offsets before and after it.
struct Change {
    at: i64,
    before: i64,
    after: i64,
}

impl Change {
    /// The local times that are missing or doubled, `[from, to)`.
    fn touched(&self) -> (i64, i64) {
        (self.at + self.before.min(self.after), self.at + self.before.max(self.after))
    }

    fn is_gap(&self) -> bool {
        self.after > self.before
    }
}

impl Cron {
    fn change(&self, index: usize) -> Change {
        let at = self.zone.segment(index).start;
        Change {
            at,
            before: self.zone.offset_before(index),
            after: self.zone.segment(index).offset,
        }
    }

    /// What DST did to the instant at this second.
    pub fn effect(&self, second: i64) -> Option<DstEffect> {
        if !(SECS_MIN..=SECS_MAX).contains(&second) {
            return None;
        }
        let index = self.zone.index(second);
        let (start, end) = (self.change(index), self.change(index + 1));
        if second == start.at && self.closes_gap(index, &self.zone.segment(index)) {
            return Some(DstEffect::Gap);
        }
        let second_pass = second - start.at < start.before - start.after;
        let first_pass = end.at - second <= end.before - end.after;
        (first_pass || second_pass).then_some(DstEffect::Repeat)
    }

    /// The dates in `[from, to)` seconds on which DST changes what happens.
    pub fn dst_dates(&self, from: i64, to: i64) -> Vec<DstDate> {
        let (from, to) = (from.max(SECS_MIN), to.min(SECS_MAX + 1));
        if from >= to || self.local.is_never() {
            return Vec::new();
        }
        (self.zone.index(from)..=self.zone.index(to - 1))
            .map(|index| self.change(index))
            .filter(|change| change.at >= from && change.at < to)
            .filter(|change| self.is_touched(change))
            .map(|change| self.dst_date(&change))
            .collect()
    }

    fn is_touched(&self, change: &Change) -> bool {
        let (a, b) = change.touched();
        self.local.any(a, b) && !(self.wildcard && self.runs_on(change))
    }

    /// A wildcard job whose rhythm does not notice the change: `*/15 * * * *` over a shift of an
    /// hour fires at the same instants whichever offset is applied.
    fn runs_on(&self, change: &Change) -> bool {
        let shift = (change.after - change.before).abs();
        let (mut at, end) = (change.at - shift, change.at + shift);
        while at < end {
            let next = |offset: i64| self.local.next(at + offset).map(|local| local - offset);
            let (a, b) = (next(change.before), next(change.after));
            if a.filter(|x| *x < end) != b.filter(|x| *x < end) {
                return false;
            }
            let Some(found) = a else { break };
            at = found + 1;
        }
        true
    }

    fn dst_date(&self, change: &Change) -> DstDate {
        let (from, to) = change.touched();
        let effect = if change.is_gap() { DstEffect::Gap } else { DstEffect::Repeat };
        DstDate {
            date: date_text(from.div_euclid(DAY_SECS)),
            transition: Time::from_secs(change.at),
            effect,
            what: self.sentence(change, from, to),
        }
    }

    fn sentence(&self, change: &Change, from: i64, to: i64) -> String {
        let date = from.div_euclid(DAY_SECS);
        let clock = |local: i64| clock_text(local.rem_euclid(DAY_SECS));
        // The transition may end on another date than the one it changes.
        let moment = |local: i64| match local.div_euclid(DAY_SECS) {
            day if day == date => clock(local),
            day => format!("{} on {}", clock(local), date_text(day)),
        };
        let times = self.times(from, to);
        let (many, first) = (self.local.count(from, to) > 1, date_text(date));
        let verb = |one: &'static str, more: &'static str| if many { more } else { one };
        let zone = &self.zone.name;
        if change.is_gap() {
            let does_not = verb("does not", "do not");
            let why = format!("clocks go from {} to {}", clock(from), moment(to));
            let then = match (self.wildcard, self.dst.gap) {
                (true, _) => "nothing runs in the missing time".to_owned(),
                (false, Gap::Run) => format!("runs once at {} instead", moment(to)),
                (false, Gap::Skip) => format!("{} skipped", verb("is", "are")),
            };
            return format!("{times} {does_not} exist on {first} in {zone} ({why}): {then}.");
        }
        let why = format!("clocks go back from {} to {}", moment(to), clock(from));
        let then = match (self.wildcard, self.dst.repeat) {
            (true, _) | (false, Repeat::Both) => "runs both times",
            (false, Repeat::First) => "runs the first time only",
            (false, Repeat::Second) => "runs the second time only",
        };
        format!("{times} {} twice on {first} in {zone} ({why}): {then}.", verb("comes", "come"))
    }

    /// The matching local times of `[from, to)`: up to three by name.
    fn times(&self, from: i64, to: i64) -> String {
        let mut names = Vec::new();
        let mut at = from;
        while names.len() < 3 {
            let Some(found) = self.local.next(at).filter(|found| *found < to) else { break };
            names.push(clock_text(found.rem_euclid(DAY_SECS)));
            at = found + 1;
        }
        let count = self.local.count(from, to);
        if count > 3 {
            let last = self.local.previous(to - 1).unwrap_or(from);
            return format!(
                "The {count} times from {} to {}",
                names[0],
                clock_text(last.rem_euclid(DAY_SECS))
            );
        }
        crate::words_set::join(&names, "and")
    }
}
