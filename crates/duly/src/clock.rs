//! The only place in this binary that reads a clock. Everything else is given its time.

use std::time::{SystemTime, UNIX_EPOCH};

use model::Time;

pub fn now() -> Time {
    let micros = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        // A clock before 1970 is a clock that was never set.
        Err(_) => 0,
    };
    Time::from_micros(micros)
}
