//! Randomness from a seed, the same on every machine and in every release.

use model::hash::mix;

#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(mix(seed ^ 0x5eed_0fd0_1e00))
    }

    /// A stream of its own, so that what one part draws does not change what another draws.
    pub fn fork(&mut self, name: u64) -> Rng {
        Rng(mix(self.draw() ^ mix(name)))
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// 0 to n − 1.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { ((u128::from(self.draw()) * u128::from(n)) >> 64) as u64 }
    }

    /// low to high, both included.
    pub fn range(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1).max(1) as u64) as i64
    }

    /// True in so many of a thousand draws.
    pub fn per_mille(&mut self, chance: u64) -> bool {
        self.below(1_000) < chance
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len() as u64) as usize)
    }
}
