//! The store's clock, as a node can know it. The store said `s` between our send `t0` and our
//! receive `t1`, so its time is at least s + (now − t1) and at most s + (now − t0).
//! **Fire by the lower bound, trust leases by the upper one**: clocks may cost lateness, never
//! safety. Local times are of a clock that does not stop in suspend and is never set.

use model::{Span, Time};

/// Local clocks run true within a thousandth; what passed since the sample is widened by that.
const DRIFT: i64 = 1_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct StoreClock {
    sample: Option<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    sent: Time,
    received: Time,
    store: Time,
}

impl StoreClock {
    pub fn handle_sample(&mut self, sent: Time, received: Time, store: Time) {
        self.sample = Some(Sample { sent, received, store });
    }

    /// Nothing is due later than this.
    pub fn at_least(&self, local: Time) -> Option<Time> {
        let sample = self.sample?;
        let passed = local.since(sample.received).micros().max(0);
        Some(sample.store.plus(Span::from_micros(passed - passed / DRIFT)))
    }

    /// A lease that ends after this still holds.
    pub fn at_most(&self, local: Time) -> Option<Time> {
        let sample = self.sample?;
        let passed = local.since(sample.sent).micros().max(0);
        Some(sample.store.plus(Span::from_micros(passed + passed / DRIFT)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_true_time_lies_between_the_bounds() {
        let mut clock = StoreClock::default();
        assert_eq!(clock.at_least(Time::from_secs(1)), None);
        // Sent at 10.0, received at 10.4; the store's clock said 100 somewhere in between.
        clock.handle_sample(
            Time::from_millis(10_000),
            Time::from_millis(10_400),
            Time::from_secs(100),
        );
        for answered_after in [0, 100, 400] {
            let local = Time::from_millis(20_000);
            let truth = Time::from_secs(100).plus(Span::from_millis(10_000 - answered_after));
            assert!(clock.at_least(local) <= Some(truth));
            assert!(clock.at_most(local) >= Some(truth));
        }
    }
}
