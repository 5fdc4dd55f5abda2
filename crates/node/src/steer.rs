//! How the store's clock follows the wall clock while the process runs. Pure: both clocks are
//! arguments.
//!
//! | the wall clock is | what happens |
//! |---|---|
//! | less than half a second away | steered towards it, by at most 1 part in 2,000 |
//! | behind by more | followed at once: it was ahead, and what was fired stays fired |
//! | ahead by more, up to 5 min | followed at once: as if everything had stood still so long |
//! | ahead by more than 5 min | **held**: time goes on as before, so nothing that lies in the step fires; an alert; if it stays there for 60 s the step counts as downtime |
//!
//! A step that is followed is a jump of the store's clock. Nothing fires twice after a step back,
//! because marks never go back; nothing is early, because due is what the store's clock has reached.

use crate::limits::{CLOCK_HELD, CLOCK_NEAR, CLOCK_STEER, CLOCK_STEP_MAX};
use model::{Span, Time};

/// The base is renewed after so long; what was steered until then is kept in it.
const BASE: Span = Span::from_secs(1);

#[derive(Debug)]
pub(crate) struct Steered {
    /// The store's time and the boot clock at some moment.
    store: Time,
    local: Time,
    /// What was said last: between steps time does not go back.
    last: Time,
    /// Since when the wall clock has been far ahead, by the boot clock.
    held: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Held(Span),
    Undone,
    Followed(Span),
    Downtime(Span),
}

impl Steered {
    pub fn new(wall: Time, local: Time) -> Steered {
        Steered { store: wall, local, last: wall, held: None }
    }

    pub fn read(&mut self, wall: Time, local: Time) -> (Time, Option<Told>) {
        let passed = local.since(self.local).max(Span::ZERO);
        let plain = self.store.plus(passed);
        let off = wall.since(plain);
        if off > CLOCK_STEP_MAX {
            return self.hold(plain, wall, local, off);
        }
        let undone = self.held.take().map(|_| Told::Undone);
        if off > CLOCK_NEAR || off.micros() < -CLOCK_NEAR.micros() {
            self.follow(wall, local);
            return (wall, Some(Told::Followed(off)));
        }
        let most = passed.micros() / CLOCK_STEER;
        let steer = Span::from_micros(off.micros().clamp(-most, most));
        let now = plain.plus(steer);
        if passed >= BASE {
            (self.store, self.local) = (now, local);
        }
        self.last = self.last.max(now);
        (self.last, undone)
    }

    fn hold(&mut self, plain: Time, wall: Time, local: Time, off: Span) -> (Time, Option<Told>) {
        let Some(since) = self.held else {
            self.held = Some(local);
            self.last = self.last.max(plain);
            return (self.last, Some(Told::Held(off)));
        };
        if local.since(since) < CLOCK_HELD {
            self.last = self.last.max(plain);
            return (self.last, None);
        }
        self.follow(wall, local);
        (wall, Some(Told::Downtime(off)))
    }

    fn follow(&mut self, wall: Time, local: Time) {
        *self = Steered::new(wall, local);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Span = Span::from_secs(3_600);

    fn at(secs: i64) -> Time {
        Time::from_secs(secs)
    }

    /// The store's clock began at 1,000,000 when the boot clock said 100.
    fn clock() -> Steered {
        Steered::new(at(1_000_000), at(100))
    }

    #[test]
    fn it_goes_with_the_boot_clock() {
        let mut clock = clock();
        assert_eq!(clock.read(at(1_000_010), at(110)), (at(1_000_010), None));
    }

    #[test]
    fn a_small_difference_is_steered_away_slowly_and_time_does_not_go_back() {
        let mut clock = clock();
        let mut last = at(0);
        for second in 1..=600 {
            // The wall clock is 100 ms behind from the first second on.
            let wall = at(1_000_000 + second).minus(Span::from_millis(100));
            let (now, told) = clock.read(wall, at(100 + second));
            assert_eq!(told, None);
            assert!(now > last, "second {second}");
            // 1 part in 2,000 of a second is half a millisecond.
            let off = now.since(wall).micros();
            assert!(off >= 100_000 - second * 500 - 1_000, "second {second}: {off}");
            last = now;
        }
        let wall = at(1_000_600).minus(Span::from_millis(100));
        assert!(last.since(wall) < Span::from_millis(1), "{last:?}");
    }

    #[test]
    fn a_step_back_is_followed() {
        let mut clock = clock();
        let wall = at(1_000_001).minus(HOUR);
        let (now, told) = clock.read(wall, at(101));
        assert_eq!((now, told), (wall, Some(Told::Followed(Span::from_secs(-3_600)))));
        assert_eq!(clock.read(wall.plus(Span::from_secs(1)), at(102)).1, None);
    }

    #[test]
    fn a_small_step_forward_is_followed() {
        let mut clock = clock();
        let minute = Span::from_secs(60);
        assert_eq!(
            clock.read(at(1_000_061), at(101)),
            (at(1_000_061), Some(Told::Followed(minute)))
        );
    }

    #[test]
    fn a_large_step_forward_is_held_for_a_minute() {
        let mut clock = clock();
        let ahead = |secs: i64| at(1_000_000 + secs).plus(HOUR);
        assert_eq!(clock.read(ahead(1), at(101)), (at(1_000_001), Some(Told::Held(HOUR))));
        assert_eq!(clock.read(ahead(60), at(160)), (at(1_000_060), None));
        assert_eq!(clock.read(ahead(61), at(161)), (ahead(61), Some(Told::Downtime(HOUR))));
        assert_eq!(clock.read(ahead(62), at(162)), (ahead(62), None));
    }

    #[test]
    fn a_large_step_that_is_undone_skips_nothing() {
        let mut clock = clock();
        assert_eq!(clock.read(at(1_000_001).plus(HOUR), at(101)).1, Some(Told::Held(HOUR)));
        assert_eq!(clock.read(at(1_000_030), at(130)), (at(1_000_030), Some(Told::Undone)));
        // A new one is held anew.
        assert_eq!(clock.read(at(1_000_070).plus(HOUR), at(170)).1, Some(Told::Held(HOUR)));
    }
}
