//! The breaker of one destination, as a pure state machine: time and randomness are arguments.
//!
//! ```text
//!            enough attempts, and too many of them failed;
//!            or too many timeouts in a row
//!   closed ─────────────────────────────────────────────► open ◄────┐
//!     ▲                                                     │       │ the probe failed:
//!     │                                                     │ its time is over   open for longer
//!     │  the probe went well                                ▼       │
//!     └──────────────────────────────────────────────── half open ──┘
//!                                                   one attempt at a time
//! ```
//!
//! - What counts is whether the destination answers like one that works (`Sign`), not whether the run
//!   did well: a 404 is an answer.
//! - Each change of state begins a new period. What was begun in an earlier one does not count any more:
//!   an answer that took a minute says nothing about now, and a probe that was forgotten closes nothing.
//! - A probe that ends without a sign (its run was cancelled) leaves room for another.
//!
//! What it does not do: keep runs, count slots, know which destination it is for (`destinations`).

use crate::limits::{
    BREAKER_GROWTH_MAX, BREAKER_JITTER_PERCENT, BREAKER_SLICES, PROBE_AGAIN_MAX, PROBE_AGAIN_MIN,
};
use model::{Span, Time};

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub enabled: bool,
    /// So many attempts within the window say something.
    pub attempts: u32,
    /// If so many of a hundred of them failed, it opens.
    pub failures_percent: u32,
    /// So many timeouts in a row open it, too: they take too long to wait for a window of them.
    pub timeouts: u32,
    pub window: Span,
    /// Open for so long at first, for twice as long each time the probe fails, up to the most.
    pub open: Span,
    pub open_max: Span,
    /// A run that is kept back spends a retry, like one whose attempt failed.
    pub spend_retries: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            enabled: true,
            attempts: 20,
            failures_percent: 50,
            timeouts: 10,
            window: Span::from_secs(30),
            open: Span::from_secs(10),
            open_max: Span::from_secs(300),
            spend_retries: false,
        }
    }
}

/// What an attempt said about its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It answers, whatever it answered.
    Good,
    /// No connection, 429, or 5xx.
    Bad,
    TimedOut,
}

/// May an attempt begin?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    Go(Permit),
    /// Not before this instant.
    Wait(Time),
}

/// What an attempt was allowed as. It is handed back with the sign, or without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    period: u64,
    probe: bool,
}

/// A change that others should hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Opened { until: Time },
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Closed,
    /// `since`: when it was last closed. `until`: when the next probe may begin.
    Open {
        since: Time,
        until: Time,
    },
    /// `probing`: the one attempt is under way.
    HalfOpen {
        since: Time,
        probing: bool,
    },
}

#[derive(Clone, Debug)]
pub struct Breaker {
    state: State,
    period: u64,
    seen: Window,
    /// Timeouts since the last answer.
    timeouts: u32,
    /// How often it opened without having been closed for long.
    opened: u32,
    /// How long it was open last, and when it closed.
    length: Span,
    closed: Time,
}

impl Default for Breaker {
    fn default() -> Breaker {
        Breaker {
            state: State::Closed,
            period: 0,
            seen: Window::default(),
            timeouts: 0,
            opened: 0,
            length: Span::ZERO,
            closed: Time::MIN,
        }
    }
}

impl Breaker {
    pub fn state(&self) -> State {
        self.state
    }

    /// Attempts within the window, and those of them that failed.
    pub fn seen(&self, settings: &Settings, now: Time) -> (u32, u32) {
        self.seen.counts(settings.window, now)
    }

    /// Until when nothing begins, if that is known now. Changes nothing.
    pub fn look(&self, now: Time) -> Option<Time> {
        match self.state {
            State::Open { until, .. } if now < until => Some(until),
            // A probe may take as long as its run's timeout. Who waits for it comes again the less
            // often the longer this has gone on: coming again costs a claim and a line of history.
            State::HalfOpen { probing: true, .. } => {
                let half = Span::from_micros(self.length.micros() / 2);
                Some(now.plus(half.max(PROBE_AGAIN_MIN).min(PROBE_AGAIN_MAX)))
            }
            _ => None,
        }
    }

    pub fn ask(&mut self, now: Time) -> Pass {
        if let Some(until) = self.look(now) {
            return Pass::Wait(until);
        }
        let probe = match self.state {
            State::Closed => false,
            State::Open { since, .. } => {
                self.turn(State::HalfOpen { since, probing: true });
                true
            }
            State::HalfOpen { since, .. } => {
                self.state = State::HalfOpen { since, probing: true };
                true
            }
        };
        Pass::Go(Permit { period: self.period, probe })
    }

    /// An attempt ended; `sign` is what it said, if it said anything.
    pub fn ended(
        &mut self,
        settings: &Settings,
        permit: Permit,
        sign: Option<Sign>,
        now: Time,
        random: u64,
    ) -> Option<Turn> {
        if permit.period != self.period {
            return None;
        }
        match (self.state, sign) {
            (State::HalfOpen { since, .. }, None) if permit.probe => {
                self.state = State::HalfOpen { since, probing: false };
                None
            }
            (State::HalfOpen { .. }, Some(Sign::Good)) if permit.probe => {
                self.turn(State::Closed);
                (self.seen, self.timeouts, self.closed) = (Window::default(), 0, now);
                Some(Turn::Closed)
            }
            (State::HalfOpen { since, .. }, Some(_)) if permit.probe => {
                Some(self.open(settings, since, now, random))
            }
            (State::Closed, Some(sign)) => {
                self.count(settings, sign, now);
                let opens = settings.enabled && self.is_failing(settings, now);
                opens.then(|| {
                    if now.since(self.closed) > self.length.max(settings.window) {
                        self.opened = 0;
                    }
                    self.open(settings, now, now, random)
                })
            }
            _ => None,
        }
    }

    fn count(&mut self, settings: &Settings, sign: Sign, now: Time) {
        self.timeouts = match sign {
            Sign::TimedOut => self.timeouts.saturating_add(1),
            Sign::Good | Sign::Bad => 0,
        };
        self.seen.add(settings.window, now, sign != Sign::Good);
    }

    fn is_failing(&self, settings: &Settings, now: Time) -> bool {
        let (all, bad) = self.seen.counts(settings.window, now);
        let enough = all >= settings.attempts.max(1);
        let share = u64::from(bad) * 100 >= u64::from(all) * u64::from(settings.failures_percent);
        (enough && bad > 0 && share) || self.timeouts >= settings.timeouts.max(1)
    }

    fn open(&mut self, settings: &Settings, since: Time, now: Time, random: u64) -> Turn {
        self.opened = self.opened.saturating_add(1);
        let doubled = self.opened.saturating_sub(1).min(BREAKER_GROWTH_MAX);
        let longest = settings.open_max.max(settings.open).micros();
        let length = settings.open.micros().max(1).saturating_mul(1 << doubled).min(longest);
        // Shorter, never longer: what is promised as the most stays the most.
        let spread = length / 100 * BREAKER_JITTER_PERCENT;
        let less = if spread > 0 { (random % spread.unsigned_abs()) as i64 } else { 0 };
        self.length = Span::from_micros(length - less);
        let until = now.plus(self.length);
        self.turn(State::Open { since, until });
        Turn::Opened { until }
    }

    fn turn(&mut self, to: State) {
        self.state = to;
        self.period += 1;
    }
}

/// What was seen lately, in slices of the window: the oldest slice falls out as a whole.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    slices: [Slice; BREAKER_SLICES],
}

#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    number: i64,
    all: u32,
    bad: u32,
}

fn number(window: Span, now: Time) -> i64 {
    let length = (window.micros() / BREAKER_SLICES as i64).max(1);
    now.micros().div_euclid(length)
}

impl Window {
    fn add(&mut self, window: Span, now: Time, bad: bool) {
        let number = number(window, now);
        let slice = &mut self.slices[number.rem_euclid(BREAKER_SLICES as i64) as usize];
        if slice.number != number {
            *slice = Slice { number, all: 0, bad: 0 };
        }
        slice.all = slice.all.saturating_add(1);
        slice.bad = slice.bad.saturating_add(u32::from(bad));
    }

    fn counts(&self, window: Span, now: Time) -> (u32, u32) {
        let last = number(window, now);
        let first = last - BREAKER_SLICES as i64 + 1;
        let lately = self.slices.iter().filter(|one| (first..=last).contains(&one.number));
        lately.fold((0, 0), |(all, bad), one| {
            (u32::saturating_add(all, one.all), u32::saturating_add(bad, one.bad))
        })
    }
}

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
