//! The clock that leases are counted by, and what is random.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// An instant of the boot-time clock, which also goes on while the machine sleeps or the process is
/// stopped: a lease does too.
pub(crate) type Moment = Duration;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn now() -> Moment {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(at.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(at.tv_nsec).unwrap_or_default())
}

/// Elsewhere the process's own clock has to do.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn now() -> Moment {
    static BEGAN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    BEGAN.get_or_init(std::time::Instant::now).elapsed()
}

fn random_bits() -> u128 {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        // A machine without a source of randomness: the standard library's seeds are better than ending here.
        let part = || RandomState::new().build_hasher().finish().to_le_bytes();
        bytes[..8].copy_from_slice(&part());
        bytes[8..].copy_from_slice(&part());
    }
    u128::from_le_bytes(bytes)
}

/// A name that nobody else has: for idempotency keys and request ids.
pub(crate) fn new_id() -> String {
    format!("{:032x}", random_bits())
}

/// Between a half and one.
pub(crate) fn jitter() -> f64 {
    let bits = u32::try_from(random_bits() & u128::from(u32::MAX)).unwrap_or(u32::MAX);
    0.5 + f64::from(bits) / f64::from(u32::MAX) / 2.0
}

#[cfg(test)]
mod tests {
    #[test]
    fn jitter_stays_between_a_half_and_one_and_ids_differ() {
        let drawn: Vec<f64> = (0..1_000).map(|_| super::jitter()).collect();
        assert!(drawn.iter().all(|one| (0.5..=1.0).contains(one)), "{drawn:?}");
        assert!(drawn.iter().any(|one| *one < 0.6) && drawn.iter().any(|one| *one > 0.9));
        assert_ne!(super::new_id(), super::new_id());
    }
}
