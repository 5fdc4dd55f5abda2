//! The fixed hash behind `H` and jitter.
//!
//! FNV-1a over 64 bits, finished with the mixer of MurmurHash3 because FNV alone leaves the high
//! bits of short inputs poor. It is written out here, with test vectors, because its values are
//! promises: a job must keep its minute and its offset over releases, machines and restarts. std's
//! hasher promises none of that. It is no defence against someone who chooses ids to collide.

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

fn fnv1a(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |h, b| (h ^ u64::from(*b)).wrapping_mul(FNV_PRIME))
}

/// Hashes `seed` for one `purpose`, so that two uses of the same seed are independent.
pub(crate) fn hash(purpose: &str, seed: &[u8]) -> u64 {
    // The zero byte keeps ("ab", "c") and ("a", "bc") apart; no purpose holds one.
    let h = fnv1a(fnv1a(fnv1a(FNV_OFFSET, purpose.as_bytes()), &[0]), seed);
    let h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

/// A number in `0..n`, spread evenly (multiply and shift). Zero when `n` is zero.
pub(crate) fn below(hash: u64, n: u64) -> u64 {
    let wide = u128::from(hash) * u128::from(n);
    // The product is below 2^64 × n, so its high half is below n and fits.
    (wide >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_gives_the_published_vectors() {
        assert_eq!(fnv1a(FNV_OFFSET, b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(FNV_OFFSET, b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(FNV_OFFSET, b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn the_hash_is_for_life() {
        // Worked out with an implementation in Python.
        assert_eq!(hash("", b""), 0xb903_4ad3_7056_f5fb);
        assert_eq!(hash("minute", b"job_1"), 0x2e00_f680_3926_524d);
        assert_eq!(hash("jitter", b"job_1"), 0x6206_ed12_d363_699d);
    }

    #[test]
    fn below_reaches_both_ends_and_no_further() {
        assert_eq!(below(0, 60), 0);
        assert_eq!(below(u64::MAX, 60), 59);
        assert_eq!(below(u64::MAX, 0), 0);
    }
}
