//! When a job runs.

use crate::setters::{plain, texts};
use crate::time::{Length, When};
use serde::{Deserialize, Serialize};

/// What happens where clocks change.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Dst {
    /// `run` (at the change) or `skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<String>,
    /// `first`, `second` or `both`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<String>,
}

impl Dst {
    /// The defaults: run at the change, repeat the first.
    pub fn new() -> Dst {
        Dst::default()
    }

    texts! {
        /// `run` (at the change) or `skip`.
        gap: String,
        /// `first`, `second` or `both`.
        repeat: String,
    }
}

/// When a job runs: one of at, delay, every, cron. A job without a schedule runs now.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Schedule {
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<When>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dst: Option<Dst>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_at: Option<When>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_at: Option<When>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_runs: Option<u64>,
}

impl Schedule {
    /// Once, at this instant.
    pub fn at(at: impl Into<When>) -> Schedule {
        Schedule { at: Some(at.into()), ..Schedule::default() }
    }

    /// Once, after this length.
    pub fn delay(delay: impl Into<Length>) -> Schedule {
        Schedule { delay: Some(delay.into()), ..Schedule::default() }
    }

    /// Again and again, at this distance.
    pub fn every(every: impl Into<Length>) -> Schedule {
        Schedule { every: Some(every.into()), ..Schedule::default() }
    }

    /// By a cron expression, in a time zone such as `Europe/Zurich` or `UTC`.
    pub fn cron(cron: impl Into<String>, timezone: impl Into<String>) -> Schedule {
        let timezone = Some(timezone.into());
        Schedule { cron: Some(cron.into()), timezone, ..Schedule::default() }
    }

    texts! {
        /// What happens where clocks change.
        dst: Dst,
        /// A window in which each job has a fixed place of its own.
        jitter: Length,
        /// Not before.
        start_at: When,
        /// Not after.
        end_at: When,
    }

    plain! {
        /// At most so often.
        max_runs: u64,
    }
}
