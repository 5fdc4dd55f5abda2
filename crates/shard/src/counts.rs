//! How much of a shard is in memory: for those who compare it with the store.

use crate::shard::Shard;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ready runs at the fronts of their flows. The store may hold more.
    pub ready: usize,
    /// Runs, jobs and backlogs that wait for an instant before the horizon.
    pub timers: usize,
    /// Claimed runs. The store holds exactly these.
    pub leases: usize,
    /// Claims that wait for work.
    pub waiters: usize,
}

impl Shard {
    pub fn counts(&self) -> Counts {
        Counts {
            ready: self.flows.resident(),
            timers: self.timer.len(),
            leases: self.leases.len(),
            waiters: self.waiters.len(),
        }
    }
}
