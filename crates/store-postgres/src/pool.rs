//! Connections of one purpose. A call takes one that is free, or waits for the next in turn; one
//! that broke is made anew by the call that finds it broken, with a backoff that grows while the
//! server is away.

use crate::address::Address;
use crate::conn::Conn;
use crate::error::{Fault, Res};
use crate::limits::{ANSWER_WAIT, BACKOFF_FIRST, BACKOFF_LAST};
use crate::origin::Origin;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// Makes connections. Each looks first at which server it came to.
pub(crate) struct Dialer {
    address: Address,
    origin: Arc<Origin>,
    /// Attempts to connect that failed in a row.
    failures: AtomicU32,
}

impl Dialer {
    pub fn new(address: &Address, origin: &Arc<Origin>) -> Dialer {
        let (address, origin, failures) = (address.clone(), origin.clone(), AtomicU32::new(0));
        Dialer { address, origin, failures }
    }

    pub fn connect(&self) -> Res<Conn> {
        let failures = self.failures.load(Ordering::Relaxed);
        if failures > 0 {
            std::thread::sleep(pause(failures, RandomState::new().hash_one(failures)));
        }
        let opened = Conn::open(&self.address, ANSWER_WAIT)
            .and_then(|mut conn| self.origin.look(&mut conn, false).map(|()| conn));
        match opened {
            Ok(conn) => {
                self.failures.store(0, Ordering::Relaxed);
                Ok(conn)
            }
            Err(fault) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                Err(fault)
            }
        }
    }
}

pub(crate) struct Pool {
    dialer: Dialer,
    slots: Vec<Mutex<Option<Conn>>>,
    turn: AtomicUsize,
    /// Transactions so far.
    done: AtomicU64,
}

impl Pool {
    pub fn new(address: &Address, origin: &Arc<Origin>, size: usize) -> Pool {
        Pool {
            dialer: Dialer::new(address, origin),
            slots: (0..size.max(1)).map(|_| Mutex::new(None)).collect(),
            turn: AtomicUsize::new(0),
            done: AtomicU64::new(0),
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Conn>> {
        for slot in &self.slots {
            match slot.try_lock() {
                Ok(slot) => return slot,
                Err(TryLockError::Poisoned(slot)) => return slot.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        let next = self.turn.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        self.slots[next].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub fn with<T>(&self, work: impl FnOnce(&mut Conn) -> Res<T>) -> Res<T> {
        let mut slot = self.slot();
        // Out of the slot while it is used: a thread that panics leaves no open transaction there.
        let mut conn = match slot.take() {
            Some(conn) => conn,
            None => self.dialer.connect()?,
        };
        if !conn.is_alive() {
            conn = self.dialer.connect()?;
        }
        let before = conn.done;
        let mut result = work(&mut conn);
        self.done.fetch_add(conn.done.saturating_sub(before), Ordering::Relaxed);
        // A pooler brought us to another server: looked at before anybody goes on there.
        if result.as_ref().err().is_some_and(Fault::is_other_server)
            && let Err(fault) = self.dialer.origin.look(&mut conn, false)
        {
            result = Err(fault);
        }
        if result.as_ref().err().is_none_or(|fault| fault.keeps_connection()) {
            *slot = Some(conn);
        }
        result
    }
}

/// Doubling from the first to the last, each with up to half of it taken off: nodes that lost the same
/// server do not come back together.
fn pause(failures: u32, random: u64) -> Duration {
    let doubled = BACKOFF_FIRST.saturating_mul(1 << failures.min(16)).min(BACKOFF_LAST);
    let half = doubled / 2;
    half + half.mul_f64((random % 1_024) as f64 / 1_024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ() {
        assert!(pause(1, 0) >= BACKOFF_FIRST && pause(1, 1_023) <= BACKOFF_FIRST * 2);
        for failures in 1..100 {
            assert!(pause(failures, u64::MAX) <= BACKOFF_LAST);
            assert!(pause(failures, 7) < pause(failures, 900), "the same for all nodes");
        }
        assert!(pause(99, 0) >= BACKOFF_LAST / 2);
    }
}
