//! What came of the jobs: each must be seen once. The number of a job travels in its payload, so
//! that a million of them are counted in a million bytes, and its due time follows from its number.

use crate::limits::LATENESS_MAX_MICROS;
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Wall time in microseconds.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// When job number `i` is due: the first at `first`, each next one `step` microseconds later.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    pub first: i64,
    pub step: i64,
}

impl Due {
    pub fn of(self, number: u64) -> i64 {
        self.first.saturating_add(self.step.saturating_mul(number as i64))
    }
}

#[derive(Debug)]
pub struct Seen {
    counts: Vec<AtomicU8>,
    distinct: AtomicU64,
    repeated: AtomicU64,
    early: AtomicU64,
    strange: AtomicU64,
    due: Option<Due>,
    lateness: Mutex<Histogram<u64>>,
}

impl Seen {
    pub fn new(jobs: u64, due: Option<Due>) -> Result<Seen, String> {
        let jobs = usize::try_from(jobs).map_err(|error| error.to_string())?;
        let mut counts = Vec::with_capacity(jobs);
        counts.resize_with(jobs, AtomicU8::default);
        Ok(Seen {
            counts,
            distinct: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            early: AtomicU64::new(0),
            strange: AtomicU64::new(0),
            due,
            lateness: Mutex::new(histogram()?),
        })
    }

    /// Job number `i` arrived at `at`.
    pub fn see(&self, number: u64, at: i64) {
        let count = usize::try_from(number).ok().and_then(|number| self.counts.get(number));
        let Some(count) = count else {
            self.strange.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if count.fetch_add(1, Ordering::Relaxed) > 0 {
            self.repeated.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.distinct.fetch_add(1, Ordering::Relaxed);
        if let Some(due) = self.due {
            let late = at - due.of(number);
            if late < 0 {
                self.early.fetch_add(1, Ordering::Relaxed);
            }
            let late = u64::try_from(late).unwrap_or(0);
            self.lateness.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(late);
        }
    }

    pub fn strange(&self) {
        self.strange.fetch_add(1, Ordering::Relaxed);
    }

    pub fn distinct(&self) -> u64 {
        self.distinct.load(Ordering::Relaxed)
    }

    pub fn tally(&self) -> Tally {
        Tally {
            missing: self.counts.len() as u64 - self.distinct(),
            repeated: self.repeated.load(Ordering::Relaxed),
            early: self.early.load(Ordering::Relaxed),
            strange: self.strange.load(Ordering::Relaxed),
        }
    }

    pub fn lateness(&self) -> Histogram<u64> {
        self.lateness.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What should not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    pub missing: u64,
    pub repeated: u64,
    pub early: u64,
    /// Not of this work at all.
    pub strange: u64,
}

pub fn histogram() -> Result<Histogram<u64>, String> {
    Histogram::new_with_bounds(1, LATENESS_MAX_MICROS, 3).map_err(|error| error.to_string())
}
