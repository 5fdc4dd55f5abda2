//! Randomness from the operating system, for ids that must not meet.

use model::{JobId, Slot, Time};
use std::cell::RefCell;

/// Bytes that one thread asks for at once: a system call for each id of a batch costs more than the
/// rest of the id. Secrets do not come from here.
const STOCK: usize = 512;

thread_local! {
    static STOCKED: RefCell<([u8; STOCK], usize)> = const { RefCell::new(([0; STOCK], STOCK)) };
}

/// For ids: bits that nobody else has been given.
pub fn bits() -> u64 {
    STOCKED.with_borrow_mut(|(stock, used)| {
        if *used + 8 > STOCK {
            fill(stock);
            *used = 0;
        }
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&stock[*used..*used + 8]);
        *used += 8;
        u64::from_le_bytes(bytes)
    })
}

/// A machine without randomness cannot mint ids that do not meet: it must not go on.
pub fn fill(bytes: &mut [u8]) {
    if let Err(error) = getrandom::fill(bytes) {
        crate::tasks::end(&format!("the operating system gives no random bytes: {error}"));
    }
}

pub fn job_id(at: Time, slot: Slot) -> JobId {
    JobId::mint(at, slot, bits())
}
