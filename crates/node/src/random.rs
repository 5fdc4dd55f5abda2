//! Randomness from the operating system, for ids that must not meet.

use model::{JobId, Slot, Time};

/// A machine without randomness cannot mint ids that do not meet: it must not go on.
pub fn bits() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

pub fn fill(bytes: &mut [u8]) {
    if let Err(error) = getrandom::fill(bytes) {
        crate::tasks::end(&format!("the operating system gives no random bytes: {error}"));
    }
}

pub fn job_id(at: Time, slot: Slot) -> JobId {
    JobId::mint(at, slot, bits())
}
