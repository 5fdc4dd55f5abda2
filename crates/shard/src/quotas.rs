//! What the recurring jobs of a namespace, and those made with one API key, may do in a time, as the node
//! was told. One for all shards of a node, because such jobs lie in many of them.
//!
//! A fire that is too much is put off, never dropped. Fires stand in line: each that is refused is promised
//! the next instant that the rate leaves free, and one that comes for the first time does not pass those
//! that wait. Promises are not kept over a restart and need not be: whoever comes back asks again, and the
//! bucket decides.
//!
//! What it does not do: say which job that is, or remember it (`verbs/put_off.rs`).

use crate::flows::Bucket;
use crate::limits::{PUT_OFF_LEAST, PUT_OFF_MAX, QUOTAS_ASKED_MAX};
use model::{KeyId, Namespace, Rate, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a namespace may do, or a key.
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
    /// The same for what was made with the job's API key.
    KeyFires,
    KeyWaiting,
    /// Its queue's service level is broken, and its priority is low.
    Level,
}

impl PutOff {
    /// One word, as it is stored.
    pub const fn word(self) -> &'static str {
        match self {
            PutOff::Fires => "fires_quota",
            PutOff::Waiting => "waiting_quota",
            PutOff::KeyFires => "key_fires_quota",
            PutOff::KeyWaiting => "key_waiting_quota",
            PutOff::Level => "service_level",
        }
    }

    /// The same reason, if it is the quota of a key.
    const fn of_key(self) -> PutOff {
        match self {
            PutOff::Fires => PutOff::KeyFires,
            PutOff::Waiting => PutOff::KeyWaiting,
            other => other,
        }
    }
}

/// What is left of the fires that somebody may have on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiresLeft {
    /// So many may fire now.
    pub left: u32,
    /// When one that asks now for the first time may fire.
    pub next: Time,
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
    /// Of API keys that have quotas.
    keys: BTreeMap<KeyId, Line>,
    keys_asked: BTreeSet<KeyId>,
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

    /// What keys may do from now on. One that was not told of may do anything; nobody is forgotten, and
    /// there are no more keys than the server has.
    pub fn set_keys(&self, told: &[(KeyId, Allowed)]) {
        let mut known = self.known();
        for (key, allowed) in told {
            known.keys.entry(*key).or_default().allowed = *allowed;
        }
    }

    /// Whose fires were asked for since this was last called.
    pub fn take_asked(&self) -> BTreeSet<Namespace> {
        std::mem::take(&mut self.known().asked)
    }

    /// The same for keys.
    pub fn take_keys_asked(&self) -> BTreeSet<KeyId> {
        std::mem::take(&mut self.known().keys_asked)
    }

    /// What is left for a namespace; none if its fires are not limited.
    pub fn left(&self, namespace: Namespace, now: Time) -> Option<FiresLeft> {
        let known = self.known();
        match known.lines.get(&namespace) {
            Some(line) => line.left(now),
            None => Line { allowed: known.others, ..Line::default() }.left(now),
        }
    }

    /// What is left for a key that was told of.
    pub fn key_left(&self, key: KeyId, now: Time) -> Option<FiresLeft> {
        self.known().keys.get(&key).and_then(|line| line.left(now))
    }

    /// May a recurring job fire now, for its namespace and for the key that it was made with? If not, why,
    /// and when to ask again. `late` is how long the fire has waited, if it was put off before. Nothing
    /// is spent unless both say yes.
    pub(crate) fn ask(
        &self,
        (namespace, key): (Namespace, Option<KeyId>),
        now: Time,
        late: Option<Span>,
    ) -> Result<(), (PutOff, Time)> {
        let mut known = self.known();
        let known = &mut *known;
        if known.asked.len() < QUOTAS_ASKED_MAX {
            known.asked.insert(namespace);
        }
        if let Some(key) = key
            && known.keys_asked.len() < QUOTAS_ASKED_MAX
        {
            known.keys_asked.insert(key);
        }
        if known.others != Allowed::default() {
            let allowed = known.others;
            known.lines.entry(namespace).or_insert_with(|| Line { allowed, ..Line::default() });
        }
        let mut of_namespace = known.lines.get_mut(&namespace);
        let mut of_key = key.and_then(|key| known.keys.get_mut(&key));
        if let Some(line) = &mut of_namespace {
            line.ask(now, late)?;
        }
        if let Some(line) = &mut of_key {
            line.ask(now, late).map_err(|(why, at)| (why.of_key(), at))?;
        }
        [of_namespace, of_key].into_iter().flatten().for_each(|line| line.spend(now));
        Ok(())
    }
}

/// When to look again at something that may end at any time: often at first, then less and less.
pub(crate) fn again(now: Time, late: Span) -> Time {
    let quarter = Span::from_micros(late.micros() / 4);
    now.plus(quarter.max(PUT_OFF_LEAST).min(PUT_OFF_MAX))
}

impl Line {
    fn bucket(&mut self, rate: Rate, now: Time) -> &mut Bucket {
        match &mut self.bucket {
            Some(bucket) if bucket.rate() == rate => {}
            // What fired before is not known, and it is no limit that somebody else relies on.
            other => *other = Some(Bucket::full(rate, now)),
        }
        self.bucket.get_or_insert_with(|| Bucket::full(rate, now))
    }

    /// Further away than anybody is promised: the clock ran wild and came back.
    fn promised(&self, now: Time) -> Option<Time> {
        self.promised.filter(|at| at.since(now) <= PUT_OFF_MAX)
    }

    fn ask(&mut self, now: Time, late: Option<Span>) -> Result<(), (PutOff, Time)> {
        if self.allowed.crowded {
            return Err((PutOff::Waiting, again(now, late.unwrap_or(Span::ZERO))));
        }
        let Some(rate) = self.allowed.fires else { return Ok(()) };
        let next = self.bucket(rate, now).next(now);
        let promised = self.promised(now);
        let behind = late.is_none() && promised.is_some_and(|at| at > now);
        if next <= now && !behind {
            return Ok(());
        }
        let after = promised.map_or(next, |at| at.plus(cost(rate)).max(next));
        let at = after.max(now.plus(PUT_OFF_STEP)).min(now.plus(PUT_OFF_MAX));
        self.promised = Some(at);
        Err((PutOff::Fires, at))
    }

    /// One fires.
    fn spend(&mut self, now: Time) {
        if let Some(rate) = self.allowed.fires {
            self.bucket(rate, now).spend(now);
        }
    }

    fn left(&self, now: Time) -> Option<FiresLeft> {
        let rate = self.allowed.fires?;
        let bucket = self.bucket.filter(|bucket| bucket.rate() == rate);
        let (left, next) =
            bucket.map_or((rate.burst, now), |bucket| (bucket.left(now), bucket.next(now)));
        let behind = self.promised(now).filter(|at| *at > now).map(|at| at.plus(cost(rate)));
        Some(FiresLeft { left, next: behind.unwrap_or(now).max(next).max(now) })
    }
}

/// The time in which the rate brings one.
fn cost(rate: Rate) -> Span {
    Span::from_micros(rate.per.micros() / i64::from(rate.starts.max(1)))
}

/// The least that a fire is put off: timers count in it.
const PUT_OFF_STEP: Span = Span::from_millis(1);

#[cfg(test)]
#[path = "quotas_tests.rs"]
mod tests;
