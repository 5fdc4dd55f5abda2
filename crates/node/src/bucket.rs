//! A token bucket: so many in a second, and so many at once. Time is an argument.

use model::{Span, Time};

/// What a bucket is filled with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub per_s: f64,
    /// What is there at once when nothing was taken for a while.
    pub burst: f64,
}

impl Rate {
    /// The part of one node of so many. What is divided is never exceeded; but a bucket holds at least
    /// one, or nothing would ever pass.
    pub fn share(self, nodes: usize) -> Rate {
        let nodes = nodes.max(1) as f64;
        Rate { per_s: self.per_s / nodes, burst: (self.burst / nodes).max(1.0) }
    }

    /// How long an empty bucket takes to fill, in whole seconds.
    pub fn window_s(self) -> u64 {
        (self.burst / self.per_s.max(f64::MIN_POSITIVE)).ceil().clamp(1.0, 1e9) as u64
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    left: f64,
    at: Time,
}

impl Bucket {
    pub fn full(rate: Rate, now: Time) -> Bucket {
        Bucket { left: rate.burst, at: now }
    }

    fn fill(&mut self, rate: Rate, now: Time) {
        let passed = now.since(self.at).micros().max(0) as f64 / 1e6;
        self.left = (self.left + passed * rate.per_s).min(rate.burst);
        // A clock that was set back does not give the same second twice.
        self.at = self.at.max(now);
    }

    /// Takes so many. If they are not there, nothing is taken, and the answer is how long to wait. What
    /// is larger than the bucket itself passes when it is full, and leaves it in debt.
    pub fn take(&mut self, rate: Rate, wanted: f64, now: Time) -> Result<(), Span> {
        self.fill(rate, now);
        let needed = wanted.min(rate.burst);
        // Sums of small parts are not quite whole.
        let missing = needed - self.left - 1e-9;
        if missing > 0.0 {
            let seconds = (missing / rate.per_s.max(f64::MIN_POSITIVE)).min(1e9);
            return Err(Span::from_micros((seconds * 1e6).ceil() as i64));
        }
        self.left -= wanted;
        Ok(())
    }

    /// What could be taken now, and how long until it is full.
    pub fn left(&mut self, rate: Rate, now: Time) -> (u64, u64) {
        self.fill(rate, now);
        let full = (rate.burst - self.left) / rate.per_s.max(f64::MIN_POSITIVE);
        ((self.left + 1e-9).max(0.0) as u64, full.ceil().clamp(0.0, 1e9) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_s: 10.0, burst: 20.0 };

    #[test]
    fn never_more_than_the_burst_and_the_rate() {
        let begin = Time::from_secs(1_000);
        let mut bucket = Bucket::full(RATE, begin);
        let mut now = begin;
        let mut taken = 0_u32;
        for step in 0..10_000_i64 {
            // Uneven steps, some of them back.
            now = now.plus(Span::from_millis(step * 7_919 % 100 - 20));
            taken += u32::from(bucket.take(RATE, 1.0, now).is_ok());
            let passed = now.since(begin).micros().max(0) as f64 / 1e6;
            // A step back was counted when the clock stood further ahead.
            assert!(f64::from(taken) <= 20.0 + 10.0 * (passed + 0.1), "{taken} after {passed}");
        }
        assert!(f64::from(taken) > 0.9 * 10.0 * (now.since(begin).micros() as f64 / 1e6));
    }

    #[test]
    fn who_waits_as_long_as_told_is_let_in() {
        let mut bucket = Bucket::full(RATE, Time::from_secs(1));
        let mut now = Time::from_secs(1);
        for n in 0..1_000 {
            if let Err(wait) = bucket.take(RATE, f64::from(n % 25), now) {
                assert!(wait > Span::ZERO);
                let early = now.plus(Span::from_micros(wait.micros() / 2));
                assert!(bucket.take(RATE, f64::from(n % 25), early).is_err());
                now = now.plus(wait);
                assert_eq!(bucket.take(RATE, f64::from(n % 25), now), Ok(()));
            }
        }
    }

    #[test]
    fn what_is_larger_than_the_bucket_passes_once_it_is_full_and_is_paid_for() {
        let now = Time::from_secs(1);
        let mut bucket = Bucket::full(RATE, now);
        assert_eq!(bucket.take(RATE, 120.0, now), Ok(()));
        // A hundred are owed: ten seconds until nothing is, two more until it is full.
        assert_eq!(bucket.left(RATE, now), (0, 12));
        assert!(bucket.take(RATE, 1.0, now.plus(Span::from_secs(10))).is_err());
        assert_eq!(bucket.take(RATE, 1.0, now.plus(Span::from_secs(11))), Ok(()));
    }

    #[test]
    fn nodes_share_it() {
        assert_eq!(RATE.share(4), Rate { per_s: 2.5, burst: 5.0 });
        assert_eq!(RATE.share(100).burst, 1.0);
        assert_eq!((RATE.window_s(), RATE.share(0)), (2, RATE));
    }
}
