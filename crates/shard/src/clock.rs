//! The store's clock, as a node can know it. The store said `s` between our send `t0` and our
//! receive `t1`, so its time is at least s + (now − t1) and at most s + (now − t0).
//! **Fire by the lower bound, trust leases by the upper one**: clocks may cost lateness, never
//! safety. Local times are of a clock that does not stop in suspend and is never set.
//!
//! A slow answer tells less than a quick one before it, so the better bound is kept: time does not
//! jump back because a call was slow. A bound that a new answer contradicts came from a local clock
//! that ran wild, and is forgotten.

use model::{Span, Time};

/// Local clocks run true within a thousandth; what passed since a bound was set is widened by that.
const DRIFT: i64 = 1_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct StoreClock {
    bounds: Option<Bounds>,
}

/// At the local time, the store's time was at least (most) this.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    least: (Time, Time),
    most: (Time, Time),
}

impl StoreClock {
    pub fn handle_sample(&mut self, sent: Time, received: Time, store: Time) {
        if received < sent {
            // The local clock ran wild at one of the two ends; which one cannot be told.
            return;
        }
        let mut bounds = Bounds { least: (received, store), most: (sent, store) };
        let (Some(least), Some(most)) = (self.at_least(received), self.at_most(received)) else {
            self.bounds = Some(bounds);
            return;
        };
        let new_most = extrapolate(bounds.most, received, 1);
        if let Some(old) = self.bounds
            && least <= new_most
            && most >= store
        {
            if least > store {
                bounds.least = old.least;
            }
            if most < new_most {
                bounds.most = old.most;
            }
        }
        self.bounds = Some(bounds);
    }

    /// Nothing is due later than this.
    pub fn at_least(&self, local: Time) -> Option<Time> {
        self.bounds.map(|bounds| extrapolate(bounds.least, local, -1))
    }

    /// A lease that ends after this still holds.
    pub fn at_most(&self, local: Time) -> Option<Time> {
        self.bounds.map(|bounds| extrapolate(bounds.most, local, 1))
    }
}

fn extrapolate((local_then, store_then): (Time, Time), local: Time, widen: i64) -> Time {
    let passed = local.since(local_then).micros().max(0);
    store_then.plus(Span::from_micros(passed.saturating_add(widen * (passed / DRIFT))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(at: i64) -> Time {
        Time::from_millis(at)
    }

    #[test]
    fn the_true_time_lies_between_the_bounds() {
        let mut clock = StoreClock::default();
        assert_eq!(clock.at_least(Time::from_secs(1)), None);
        // Sent at 10.0, received at 10.4; the store's clock said 100 somewhere in between.
        clock.handle_sample(millis(10_000), millis(10_400), Time::from_secs(100));
        for answered_after in [0, 100, 400] {
            let local = millis(20_000);
            let truth = Time::from_secs(100).plus(Span::from_millis(10_000 - answered_after));
            assert!(clock.at_least(local) <= Some(truth));
            assert!(clock.at_most(local) >= Some(truth));
        }
    }

    #[test]
    fn a_slow_answer_does_not_turn_time_back() {
        let mut clock = StoreClock::default();
        clock.handle_sample(millis(1_000), millis(1_001), millis(50_000));
        let before = clock.at_least(millis(4_000));
        // Took three seconds to come back: all that it says is older than what was known.
        clock.handle_sample(millis(1_000), millis(4_000), millis(50_001));
        assert_eq!(clock.at_least(millis(4_000)), before);
        assert!(clock.at_most(millis(4_000)) <= Some(millis(53_010)));
    }

    #[test]
    fn an_answer_that_came_before_it_was_asked_for_tells_nothing() {
        let mut clock = StoreClock::default();
        clock.handle_sample(millis(1_000), millis(1_001), millis(50_000));
        let before = (clock.at_least(millis(12_000)), clock.at_most(millis(12_000)));
        // Asked while the clock said "in ten years"; the answer waited eleven seconds for a frozen
        // process. Taken at its word it would set the node's time back by those eleven seconds.
        let wild = millis(1_100 + 315_360_000_000);
        clock.handle_sample(wild, millis(12_000), millis(50_101));
        assert_eq!((clock.at_least(millis(12_000)), clock.at_most(millis(12_000))), before);
        let mut fresh = StoreClock::default();
        fresh.handle_sample(wild, millis(12_000), millis(50_101));
        assert_eq!(fresh.at_least(millis(12_000)), None, "the next renewal tells");
    }

    #[test]
    fn a_bound_from_a_wild_clock_is_forgotten() {
        let mut clock = StoreClock::default();
        // The local clock said "in ten years" when this came; then it came to its senses.
        clock.handle_sample(millis(1_000), millis(1_001), millis(50_000));
        let wild = millis(1_000 + 315_360_000_000);
        assert!(clock.at_least(wild) > Some(millis(300_000_000_000)));
        clock.handle_sample(wild, wild.plus(Span::from_millis(1)), millis(51_000));
        assert_eq!(clock.at_least(wild.plus(Span::from_millis(1))), Some(millis(51_000)));
        clock.handle_sample(millis(2_500), millis(2_501), millis(51_500));
        let now = clock.at_least(millis(2_501));
        assert!(now >= Some(millis(51_000)) && now <= Some(millis(51_501)), "{now:?}");
    }
}
