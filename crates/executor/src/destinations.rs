//! What this process knows of where it sends: a breaker for each destination, what is under way to it,
//! and which runs were kept back because of it.
//!
//! A destination is a host and port as one namespace uses it. Breakers are not shared between
//! namespaces: what one tenant breaks, with wrong addresses or timeouts that are too short, says nothing
//! about the runs of another, and nobody sees where others send to.
//!
//! A run that is kept back waits in the store like one that failed, until the next probe; it holds no
//! slot meanwhile. The first one comes again in the moment of the probe and is it; the others are
//! spread behind it.
//!
//! Everything here is a note of this process and lost with it: after a restart a failing destination
//! is found out again.

use crate::breaker::{Breaker, Pass, Permit, Settings, Sign, State, Turn};
use crate::limits::{DESTINATIONS_MAX, KEPT_BACK_MAX, KEPT_BACK_PER_S, KEPT_BACK_SPREAD};
use crate::place::Place;
use model::{Namespace, RunId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::answer::Destination;
use wire::timestamp;

#[derive(Debug)]
pub struct Destinations {
    settings: Settings,
    known: Mutex<All>,
}

type Key = (Namespace, Place);

#[derive(Debug, Default)]
struct All {
    each: BTreeMap<Key, Known>,
    /// Runs kept back, of all destinations.
    kept: usize,
    /// Grows with every use: who was used least lately is forgotten first.
    uses: u64,
}

#[derive(Debug)]
struct Known {
    breaker: Breaker,
    in_flight: u64,
    /// Runs that were kept back and have not come again.
    kept: BTreeSet<RunId>,
    /// When the next one that is kept back shall come again.
    next: Time,
    used: u64,
}

/// An attempt under way. Dropped without a sign, it says nothing about its destination.
#[derive(Debug)]
pub struct Under {
    all: Arc<Destinations>,
    key: Key,
    permit: Option<Permit>,
}

impl All {
    fn of(&mut self, key: &Key) -> &mut Known {
        self.uses += 1;
        let used = self.uses;
        if !self.each.contains_key(key) && self.each.len() >= DESTINATIONS_MAX {
            let idle = self.each.iter().filter(|(_, one)| one.in_flight == 0);
            // One that works first: it has nothing to remember.
            let first =
                idle.min_by_key(|(_, one)| (one.breaker.state() != State::Closed, one.used));
            if let Some(first) = first.map(|(key, _)| key.clone())
                && let Some(gone) = self.each.remove(&first)
            {
                self.kept -= gone.kept.len();
            }
        }
        let known = self.each.entry(key.clone()).or_insert_with(|| Known {
            breaker: Breaker::default(),
            in_flight: 0,
            kept: BTreeSet::new(),
            next: Time::MIN,
            used,
        });
        known.used = used;
        known
    }

    /// When a run that may not begin before `until` shall come again.
    fn keep_back(&mut self, key: &Key, run: RunId, until: Time) -> Time {
        let room = self.kept < KEPT_BACK_MAX;
        let known = self.of(key);
        let new = room && known.kept.insert(run);
        let at = known.next.max(until);
        let pace = Span::from_micros(1_000_000 / KEPT_BACK_PER_S);
        known.next = at.plus(pace).min(until.plus(KEPT_BACK_SPREAD));
        self.kept += usize::from(new);
        at
    }

    fn comes(&mut self, key: &Key, run: RunId) {
        let was = self.of(key).kept.remove(&run);
        self.kept -= usize::from(was);
    }
}

impl Destinations {
    pub fn new(settings: Settings) -> Destinations {
        Destinations { settings, known: Mutex::default() }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is a run of this destination kept back now, and until when? Asked before it takes a slot.
    pub fn look(&self, namespace: Namespace, place: &Place, run: RunId, now: Time) -> Option<Time> {
        let key = (namespace, place.clone());
        let mut all = self.all();
        let until = all.each.get(&key)?.breaker.look(now)?;
        Some(all.keep_back(&key, run, until))
    }

    /// May an attempt begin? If not, when shall its run come again?
    pub fn ask(
        self: &Arc<Destinations>,
        namespace: Namespace,
        place: &Place,
        run: RunId,
        now: Time,
    ) -> Result<Under, Time> {
        let key = (namespace, place.clone());
        let mut all = self.all();
        match all.of(&key).breaker.ask(now) {
            Pass::Wait(until) => Err(all.keep_back(&key, run, until)),
            Pass::Go(permit) => {
                all.comes(&key, run);
                all.of(&key).in_flight += 1;
                drop(all);
                Ok(Under { all: self.clone(), key, permit: Some(permit) })
            }
        }
    }

    fn ended(
        &self,
        key: &Key,
        permit: Permit,
        sign: Option<Sign>,
        now: Time,
        random: u64,
    ) -> Option<Turn> {
        let mut all = self.all();
        // It is never forgotten while something is under way.
        let known = all.each.get_mut(key)?;
        known.in_flight = known.in_flight.saturating_sub(1);
        let turn = known.breaker.ended(&self.settings, permit, sign, now, random);
        if let Some(Turn::Opened { until }) = turn {
            known.next = until;
        }
        turn
    }

    /// Destinations that are not closed.
    pub fn open(&self) -> usize {
        self.all().each.values().filter(|one| one.breaker.state() != State::Closed).count()
    }

    /// Those of a namespace, by name.
    pub fn of(&self, namespace: Namespace, now: Time) -> Vec<Destination> {
        let all = self.all();
        let mine = all.each.iter().filter(|((other, _), _)| *other == namespace);
        mine.map(|((_, place), known)| self.shown(place, known, now)).collect()
    }

    fn shown(&self, place: &Place, known: &Known, now: Time) -> Destination {
        let (attempts, failures) = known.breaker.seen(&self.settings, now);
        let time = |at: Time| Some(timestamp::format(at.micros()));
        let (state, opened_at, next_probe_at) = match known.breaker.state() {
            State::Closed => ("closed", None, None),
            State::Open { since, until } => ("open", time(since), time(until)),
            State::HalfOpen { since, .. } => ("half_open", time(since), None),
        };
        let mut shown = Destination {
            host: place.to_string(),
            state: state.to_string(),
            in_flight: known.in_flight,
            waiting: known.kept.len() as u64,
            attempts: u64::from(attempts),
            failures: u64::from(failures),
            failure_rate: 0.0,
            opened_at,
            next_probe_at,
        };
        shown.rate();
        shown
    }
}

impl Under {
    pub fn ended(mut self, sign: Option<Sign>, now: Time, random: u64) -> Option<Turn> {
        let permit = self.permit.take()?;
        self.all.ended(&self.key, permit, sign, now, random)
    }
}

impl Drop for Under {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            // Without a sign neither the time nor chance matters.
            self.all.ended(&self.key, permit, None, Time::MIN, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Cause, JobId, Slot};
    use wire::host::Host;

    const NS: Namespace = Namespace(3);

    fn place(n: usize) -> Place {
        Place { tls: false, host: Host::Name(format!("h{n}.example")), port: 80 }
    }

    fn run(n: u64) -> RunId {
        RunId::new(JobId::mint(Time::from_secs(1), Slot::from_bits(1), n << 2), Cause::OneOff)
    }

    fn open(all: &Arc<Destinations>, place: &Place, now: Time) -> Time {
        for n in 0..1_000 {
            let under = all.ask(NS, place, run(n), now).expect("closed");
            if let Some(Turn::Opened { until }) = under.ended(Some(Sign::Bad), now, 0) {
                return until;
            }
        }
        panic!("it does not open");
    }

    #[test]
    fn runs_kept_back_come_again_behind_the_probe_at_a_bounded_pace() {
        let all = Arc::new(Destinations::new(Settings::default()));
        let now = Time::from_secs(1_000);
        let until = open(&all, &place(1), now);
        let back: Vec<Time> =
            (0..400_000).filter_map(|n| all.look(NS, &place(1), run(n), now)).collect();
        assert_eq!(back.len(), 400_000);
        assert_eq!(back[0], until, "the first one is the probe");
        assert!(back.windows(2).all(|pair| pair[0] <= pair[1]));
        let second = until.plus(Span::from_secs(1));
        assert_eq!(back.iter().filter(|at| **at < second).count(), KEPT_BACK_PER_S as usize);
        assert!(back[399_999] <= until.plus(KEPT_BACK_SPREAD));
        assert_eq!(all.of(NS, now)[0].waiting, KEPT_BACK_MAX as u64, "counted with a bound");
        // Another destination, and the same one of another namespace, go on.
        assert!(all.ask(NS, &place(2), run(1), now).is_ok());
        assert!(all.ask(Namespace(4), &place(1), run(1), now).is_ok());
        assert!(all.of(Namespace(5), now).is_empty(), "nobody sees where others send to");
    }

    #[test]
    fn the_probe_that_goes_well_lets_all_go_and_they_are_counted_out() {
        let all = Arc::new(Destinations::new(Settings::default()));
        let now = Time::from_secs(1_000);
        let until = open(&all, &place(1), now);
        for n in 0..5 {
            assert!(all.ask(NS, &place(1), run(n), now).is_err());
        }
        let probe = all.ask(NS, &place(1), run(0), until).expect("the probe");
        assert!(all.ask(NS, &place(1), run(1), until).is_err(), "one at a time");
        // Its run is cancelled: another may be the probe.
        drop(probe);
        let probe = all.ask(NS, &place(1), run(1), until).expect("the next probe");
        assert_eq!(probe.ended(Some(Sign::Good), until, 0), Some(Turn::Closed));
        let under: Vec<Under> =
            (2..5).map(|n| all.ask(NS, &place(1), run(n), until).expect("closed")).collect();
        let shown = all.of(NS, until).remove(0);
        assert_eq!((shown.state.as_str(), shown.in_flight, shown.waiting), ("closed", 3, 0));
        drop(under);
        assert_eq!(all.of(NS, until)[0].in_flight, 0);
        assert_eq!(all.all().kept, 0);
    }

    #[test]
    fn what_is_known_is_bounded_and_what_works_is_forgotten_first() {
        let all = Arc::new(Destinations::new(Settings::default()));
        let now = Time::from_secs(1_000);
        open(&all, &place(0), now);
        assert!(all.look(NS, &place(0), run(1), now).is_some());
        let busy = all.ask(NS, &place(1), run(1), now).expect("closed");
        for n in 2..DESTINATIONS_MAX + 10 {
            drop(all.ask(NS, &place(n), run(1), now));
        }
        let names: BTreeSet<String> = all.of(NS, now).into_iter().map(|one| one.host).collect();
        assert_eq!(names.len(), DESTINATIONS_MAX);
        assert!(names.contains("h0.example:80"), "open");
        assert!(names.contains("h1.example:80"), "something is under way");
        assert!(!names.contains("h2.example:80"), "used least lately");
        assert_eq!(all.open(), 1);
        drop(busy);
    }
}
