//! What the recurring jobs of a namespace may do in a time, as the node was told. One for all shards of a
//! node, because a namespace's jobs lie in many of them.
//!
//! A fire that is too much is put off, never dropped. Fires stand in line: each that is refused is promised
//! the next instant that the rate leaves free, and one that comes for the first time does not pass those
//! that wait. Promises are not kept over a restart and need not be: whoever comes back asks again, and the
//! bucket decides.
//!
//! What it does not do: say which job that is, or remember it (`verbs/put_off.rs`).

use crate::flows::Bucket;
use crate::limits::{PUT_OFF_LEAST, PUT_OFF_MAX, QUOTAS_ASKED_MAX};
use model::{Namespace, Rate, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a namespace may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Fires of its recurring jobs, on this node; none: any number.
    pub fires: Option<Rate>,
    /// So many of its runs wait that no more are to be made for now.
    pub crowded: bool,
}

/// Why a fire is put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PutOff {
    /// More would fire than the namespace may.
    Fires,
    /// More runs of the namespace wait than may.
    Waiting,
    /// Its queue's service level is broken, and its priority is low.
    Level,
}

impl PutOff {
    /// One word, as it is stored.
    pub const fn word(self) -> &'static str {
        match self {
            PutOff::Fires => "fires_quota",
            PutOff::Waiting => "waiting_quota",
            PutOff::Level => "service_level",
        }
    }
}

#[derive(Debug, Default)]
struct Line {
    allowed: Allowed,
    bucket: Option<Bucket>,
    /// The last instant that somebody was promised.
    promised: Option<Time>,
}

#[derive(Debug, Default)]
struct Known {
    lines: BTreeMap<Namespace, Line>,
    /// Of namespaces that nothing was told of.
    others: Allowed,
    /// Whose fires were asked for, for those who count what waits.
    asked: BTreeSet<Namespace>,
}

/// Shared by the shards of a node; nobody holds it for longer than a question takes.
#[derive(Clone, Debug, Default)]
pub struct Quotas(Arc<Mutex<Known>>);

impl Quotas {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What namespaces may do from now on, and what all others may.
    pub fn set(&self, told: &[(Namespace, Allowed)], others: Allowed) {
        let mut known = self.known();
        known.others = others;
        for (namespace, allowed) in told {
            known.lines.entry(*namespace).or_default().allowed = *allowed;
        }
    }

    /// Whose fires were asked for since this was last called.
    pub fn take_asked(&self) -> BTreeSet<Namespace> {
        std::mem::take(&mut self.known().asked)
    }

    /// May a recurring job of this namespace fire now? If not, why, and when to ask again. `late` is how
    /// long the fire has waited, if it was put off before.
    pub(crate) fn ask(
        &self,
        namespace: Namespace,
        now: Time,
        late: Option<Span>,
    ) -> Result<(), (PutOff, Time)> {
        let mut known = self.known();
        if known.asked.len() < QUOTAS_ASKED_MAX {
            known.asked.insert(namespace);
        }
        let others = known.others;
        let Some(line) = known.lines.get_mut(&namespace) else {
            if others == Allowed::default() {
                return Ok(());
            }
            let line = Line { allowed: others, ..Line::default() };
            return known.lines.entry(namespace).or_insert(line).ask(now, late);
        };
        line.ask(now, late)
    }
}

/// When to look again at something that may end at any time: often at first, then less and less.
pub(crate) fn again(now: Time, late: Span) -> Time {
    let quarter = Span::from_micros(late.micros() / 4);
    now.plus(quarter.max(PUT_OFF_LEAST).min(PUT_OFF_MAX))
}

impl Line {
    fn ask(&mut self, now: Time, late: Option<Span>) -> Result<(), (PutOff, Time)> {
        if self.allowed.crowded {
            return Err((PutOff::Waiting, again(now, late.unwrap_or(Span::ZERO))));
        }
        let Some(rate) = self.allowed.fires else { return Ok(()) };
        let bucket = match &mut self.bucket {
            Some(bucket) if bucket.rate() == rate => bucket,
            // What fired before is not known, and it is no limit that somebody else relies on.
            other => other.insert(Bucket::full(rate, now)),
        };
        let next = bucket.next(now);
        // Further away than anybody is promised: the clock ran wild and came back.
        let promised = self.promised.filter(|at| at.since(now) <= PUT_OFF_MAX);
        let behind = late.is_none() && promised.is_some_and(|at| at > now);
        if next <= now && !behind {
            bucket.spend(now);
            return Ok(());
        }
        let cost = Span::from_micros(rate.per.micros() / i64::from(rate.starts.max(1)));
        let after = promised.map_or(next, |at| at.plus(cost).max(next));
        let at = after.max(now.plus(PUT_OFF_STEP)).min(now.plus(PUT_OFF_MAX));
        self.promised = Some(at);
        Err((PutOff::Fires, at))
    }
}

/// The least that a fire is put off: timers count in it.
const PUT_OFF_STEP: Span = Span::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Namespace = Namespace(1);

    fn at(millis: i64) -> Time {
        Time::from_micros(millis * 1_000)
    }

    fn quotas(starts: u32, burst: u32) -> Quotas {
        let quotas = Quotas::default();
        let fires = Some(Rate { starts, per: Span::from_secs(60), burst });
        quotas.set(&[(OURS, Allowed { fires, crowded: false })], Allowed::default());
        quotas
    }

    #[test]
    fn those_beyond_the_rate_stand_in_line_and_newcomers_behind_them() {
        let quotas = quotas(60, 2);
        let ask = |millis, late: Option<i64>| {
            quotas.ask(OURS, at(millis), late.map(Span::from_millis)).map_err(|(_, at)| at)
        };
        assert_eq!((ask(0, None), ask(0, None)), (Ok(()), Ok(())), "the burst");
        assert_eq!(ask(0, None), Err(at(1_000)));
        assert_eq!(ask(0, None), Err(at(2_000)));
        assert_eq!(ask(1_500, None), Err(at(3_000)), "there is one, and somebody waits for it");
        assert_eq!(ask(1_500, Some(1_500)), Ok(()));
        assert_eq!(ask(2_000, Some(2_000)), Ok(()));
        assert_eq!(ask(3_000, Some(1_500)), Ok(()));
        assert_eq!(ask(9_000, None), Ok(()), "nobody waits any more");
    }

    #[test]
    fn nobody_is_promised_anything_far_away_and_others_are_not_held_up() {
        let quotas = quotas(1, 1);
        assert_eq!(quotas.ask(OURS, at(0), None), Ok(()));
        for _ in 0..5 {
            let (why, when) = quotas.ask(OURS, at(0), None).expect_err("too much");
            assert!(why == PutOff::Fires && when <= at(0).plus(PUT_OFF_MAX), "{when:?}");
        }
        assert_eq!(quotas.ask(Namespace(2), at(0), None), Ok(()));
        assert_eq!(quotas.take_asked(), [OURS, Namespace(2)].into());
        assert_eq!(quotas.take_asked(), [].into());
    }

    #[test]
    fn while_too_many_wait_one_looks_less_and_less_often() {
        let quotas = Quotas::default();
        quotas.set(&[], Allowed { fires: None, crowded: true });
        let late = |secs| {
            let asked = quotas.ask(OURS, at(0), Some(Span::from_secs(secs)));
            asked.map_err(|(why, at)| (why, at.micros() / 1_000_000))
        };
        assert_eq!(late(0), Err((PutOff::Waiting, 1)));
        assert_eq!(late(40), Err((PutOff::Waiting, 10)));
        assert_eq!(late(86_400), Err((PutOff::Waiting, PUT_OFF_MAX.micros() / 1_000_000)));
        quotas.set(&[(OURS, Allowed::default())], Allowed::default());
        assert_eq!(late(40), Ok(()));
    }
}
