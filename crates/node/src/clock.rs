//! The machine's clocks. The only code of the product that reads them.
//!
//! - `BootClock`: local time for the core. Counts from the machine's start, goes on in suspend, is
//!   never set. Its zero means nothing; only differences do.
//! - `EmbeddedClock`: the store's clock when the store is inside this process: the wall clock as it
//!   was at start, moved on by the boot clock, and steered towards the wall clock (`steer`).
//!
//! Tests set both from outside: `DULY_TEST_CLOCK` names a file with two numbers, microseconds that
//! are added to the wall clock and to the boot clock. Without the variable it costs one load.

use crate::limits::TEST_CLOCK_EVERY;
use crate::steer::{Steered, Told};
use model::{Span, Time};
use rustix::time::{ClockId, clock_gettime};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a test adds to the clocks.
static WALL_AHEAD: AtomicI64 = AtomicI64::new(0);
static BOOT_AHEAD: AtomicI64 = AtomicI64::new(0);

#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl BootClock {
    pub fn local(self) -> Time {
        let at = clock_gettime(ClockId::Boottime);
        let micros = at.tv_sec.saturating_mul(1_000_000).saturating_add(at.tv_nsec / 1_000);
        Time::from_micros(micros.saturating_add(BOOT_AHEAD.load(Ordering::Relaxed)))
    }
}

fn wall() -> Time {
    let micros = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        // A clock before 1970 is a clock that was never set.
        Err(_) => 0,
    };
    Time::from_micros(micros.saturating_add(WALL_AHEAD.load(Ordering::Relaxed)))
}

#[derive(Clone, Debug)]
pub struct EmbeddedClock {
    steered: Arc<Mutex<Steered>>,
}

impl EmbeddedClock {
    pub fn start() -> EmbeddedClock {
        follow_test_clock();
        // The wall clock first: what passes between the two readings makes us late, never early.
        let wall = wall();
        let steered = Steered::new(wall, BootClock.local());
        EmbeddedClock { steered: Arc::new(Mutex::new(steered)) }
    }

    pub fn now(&self) -> Time {
        let mut steered = self.steered.lock().unwrap_or_else(PoisonError::into_inner);
        let wall = wall();
        let (now, told) = steered.read(wall, BootClock.local());
        drop(steered);
        if let Some(told) = told {
            tell(told);
        }
        now
    }
}

/// Where the store's clock is not ours, too: the clocks of a node may stand anywhere.
pub fn follow_test_clock() {
    if let Some(file) = std::env::var_os("DULY_TEST_CLOCK").map(PathBuf::from) {
        read_test_clock(&file);
        crate::tasks::every("test-clock", TEST_CLOCK_EVERY, move || read_test_clock(&file));
    }
}

/// What a person who looks at the log must know.
fn tell(told: Told) {
    let seconds = |span: Span| span.micros() as f64 / 1e6;
    match told {
        Told::Held(by) => tracing::error!(
            "ALERT: the wall clock stepped forward by {:.1} s; time goes on as before, and if \
             the clock stays there for 60 s the step counts as downtime",
            seconds(by)
        ),
        Told::Undone => tracing::warn!("the wall clock came back; nothing was skipped"),
        Told::Followed(by) => {
            tracing::warn!("the wall clock stepped by {:.1} s, which is followed", seconds(by));
        }
        Told::Downtime(by) => {
            tracing::warn!("the step of {:.1} s counts as downtime from here", seconds(by));
        }
    }
}

/// A file that is being written is read again a moment later.
fn read_test_clock(file: &std::path::Path) {
    let Ok(text) = std::fs::read_to_string(file) else { return };
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<i64>);
    if let (Some(Ok(wall)), Some(Ok(boot))) = (numbers.next(), numbers.next()) {
        WALL_AHEAD.store(wall, Ordering::Relaxed);
        BOOT_AHEAD.store(boot, Ordering::Relaxed);
    }
}
