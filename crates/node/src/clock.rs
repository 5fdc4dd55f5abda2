//! The machine's clocks. The only code of the product that reads them.
//!
//! - `BootClock`: local time for the core. Counts from the machine's start, goes on in suspend, is
//!   never set. Its zero means nothing; only differences do.
//! - `EmbeddedClock`: the store's clock when the store is inside this process: the wall clock as it
//!   was at start, moved on by the boot clock. So a wall clock that is set while we run neither
//!   fires nor holds anything; the new wall time counts from the next start. (Slow steering, and
//!   the alert on a large step, come with a later slice.)

use model::{Span, Time};
use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl BootClock {
    pub fn local(self) -> Time {
        let at = clock_gettime(ClockId::Boottime);
        let micros = at.tv_sec.saturating_mul(1_000_000).saturating_add(at.tv_nsec / 1_000);
        Time::from_micros(micros)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct EmbeddedClock {
    wall: Time,
    local: Time,
}

impl EmbeddedClock {
    pub fn start() -> EmbeddedClock {
        let wall = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            // A clock before 1970 is a clock that was never set.
            Err(_) => 0,
        };
        EmbeddedClock { wall: Time::from_micros(wall), local: BootClock.local() }
    }

    pub fn now(&self) -> Time {
        self.wall.plus(passed(self.local))
    }
}

fn passed(since: Time) -> Span {
    BootClock.local().since(since)
}
