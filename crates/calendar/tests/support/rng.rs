//! SplitMix64 with a seed that is printed, and set by `DULY_SEED`.

// A test draws a new seed each time and says which; the crate itself may do neither.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::disallowed_macros)]

pub struct Rng(u64);

impl Rng {
    /// The seed of `DULY_SEED`, else a fresh one; printed so that a failure can be repeated.
    pub fn from_env(test: &str) -> Rng {
        let seed = match std::env::var("DULY_SEED") {
            Ok(text) => text.parse().expect("DULY_SEED is a number"),
            Err(_) => {
                std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |t| t.as_nanos() as u64)
            }
        };
        println!("{test}: DULY_SEED={seed}");
        Rng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// In `low..=high`.
    pub fn range(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
