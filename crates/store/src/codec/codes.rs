//! Enums as small integers. The numbers are part of every store: never change one, only add. The
//! comments in `schema` repeat them for people.

use model::row::{JobState, Only};
use model::{Lane, RunState, Status};

/// An enum that has a number in a store.
pub trait Code: Copy + PartialEq + Sized + 'static {
    /// In the order of their numbers.
    const ALL: &'static [Self];

    fn code(self) -> i64 {
        // Every variant is in the list (a test says so); the number of one that is not would be
        // refused when it is read.
        Self::ALL.iter().position(|each| *each == self).map_or(-1, |at| at as i64)
    }

    fn from_code(code: i64) -> Option<Self> {
        usize::try_from(code).ok().and_then(|at| Self::ALL.get(at)).copied()
    }
}

impl Code for RunState {
    const ALL: &'static [RunState] = &[
        RunState::Scheduled,
        RunState::Blocked,
        RunState::Ready,
        RunState::Running,
        RunState::Retrying,
        RunState::Dead,
        RunState::Succeeded,
        RunState::Failed,
        RunState::Cancelled,
        RunState::Expired,
    ];
}

impl Code for Status {
    const ALL: &'static [Status] = &[
        Status::Succeeded,
        Status::Failed,
        Status::TimedOut,
        Status::Lost,
        Status::Cancelled,
        Status::Released,
        Status::Snoozed,
        Status::Discarded,
        Status::SkippedOverlap,
        Status::SkippedPaused,
        Status::Coalesced,
        Status::Missed,
    ];

    /// A note that a run came late is written as what code that does not know it takes for an attempt that
    /// was put off; its token tells (`rows::history`).
    fn code(self) -> i64 {
        let written = if self == Status::Delayed { Status::Snoozed } else { self };
        Self::ALL.iter().position(|each| *each == written).map_or(-1, |at| at as i64)
    }
}

impl Code for Lane {
    const ALL: &'static [Lane] = &[Lane::Fresh, Lane::Retry, Lane::Backfill];
}

impl Code for JobState {
    const ALL: &'static [JobState] =
        &[JobState::Active, JobState::Paused, JobState::Ended, JobState::Cancelled];
}

impl Code for Only {
    const ALL: &'static [Only] = &[Only::Missing, Only::Failed, Only::All];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_pinned() {
        assert_eq!(RunState::Ready.code(), 2, "an index and queries say 2");
        assert_eq!(RunState::ALL.map(Code::code), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!((Status::Succeeded.code(), Status::Missed.code()), (0, 11));
        assert_eq!((Status::Delayed.code(), Status::Snoozed.code()), (6, 6));
        assert_eq!(Lane::ALL.map(Code::code), [0, 1, 2]);
        assert_eq!((JobState::Cancelled.code(), Only::All.code()), (3, 2));
    }

    #[test]
    fn unknown_numbers_are_refused() {
        assert_eq!(RunState::from_code(10), None);
        assert_eq!(Status::from_code(-1), None);
    }
}
