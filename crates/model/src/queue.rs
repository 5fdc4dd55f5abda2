//! What a queue allows. A queue without a row of its own allows everything.

use crate::job::Text;
use crate::time::Span;
use std::collections::BTreeMap;

/// The limits of a queue and of the groups in it, as a user set them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueRow {
    pub rev: u32,
    /// Attempts that run at the same time.
    pub max_running: Option<u32>,
    /// Attempts that start in a time.
    pub rate: Option<Rate>,
    /// The same for each group of the queue; runs without a group are in none and have no such limit.
    pub group_max_running: Option<u32>,
    pub group_rate: Option<Rate>,
    /// Starts that a group has in its turn; a group that is not named has one.
    pub weights: BTreeMap<Text, u32>,
    /// The service level: a run that is ready starts within this. While it is broken, new work of low
    /// priority gives way.
    pub start_within: Option<Span>,
}

impl QueueRow {
    /// Does it say anything?
    pub fn is_empty(&self) -> bool {
        let QueueRow {
            rev: _,
            max_running,
            rate,
            group_max_running,
            group_rate,
            weights,
            start_within,
        } = self;
        max_running.is_none()
            && rate.is_none()
            && group_max_running.is_none()
            && group_rate.is_none()
            && weights.is_empty()
            && start_within.is_none()
    }
}

/// So many starts in so long a time, and `burst` of them at once after a pause: in any stretch of time
/// at most `burst` starts and those that the rate allows in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate {
    pub starts: u32,
    pub per: Span,
    pub burst: u32,
}
