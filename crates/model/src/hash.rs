//! One fixed hash for everything that must come out the same on every node and in every release:
//! slots, placement, jitter of retries. FNV-1a over the bytes, then a finaliser, because FNV's
//! upper bits alone are weak for short input.

#[derive(Clone, Copy, Debug)]
pub struct Hasher(u64);

impl Hasher {
    pub const fn new(seed: u64) -> Hasher {
        Hasher(0xcbf2_9ce4_8422_2325 ^ mix(seed))
    }

    pub fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub const fn finish(self) -> u64 {
        mix(self.0)
    }
}

pub fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mut hasher = Hasher::new(seed);
    hasher.write(bytes);
    hasher.finish()
}

/// Spreads every input bit over all output bits; a bijection, and mix(0) = 0.
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
