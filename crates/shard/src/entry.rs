//! A resident run: what memory keeps of a run that is near its time, ready or running. Small and
//! Copy, because up to a million of them are held. It has all that is needed to write the run's
//! row again, so that moving a run never reads it first.

use crate::flows::FlowId;
use model::{Policy, RunId, RunState, Time};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: RunId,
    pub due: Time,
    pub nominal: Time,
    pub flow: FlowId,
    pub policy: PolicyId,
    pub version: u32,
    /// Revision of the stored row.
    pub rev: u32,
    pub checkpoint: u32,
    pub attempts: u16,
    pub retries: u16,
    pub lost: u16,
    pub replays: u16,
    pub state: RunState,
    pub fresh: bool,
    /// Not started by then, or not done by then, it expires; `Time::MAX`: never.
    pub start_by: Time,
    pub finish_by: Time,
}

impl Entry {
    /// Its place in its flow.
    pub fn place(&self) -> (Time, RunId) {
        (self.due, self.id)
    }

    /// When it expires if it goes on waiting.
    pub fn expires(&self) -> Time {
        if self.attempts == 0 { self.start_by.min(self.finish_by) } else { self.finish_by }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyId(u32);

/// Policies are shared by most jobs: an entry holds a number. Numbers that nothing uses any more
/// are collected when there are twice as many as after the last collection.
#[derive(Debug, Default)]
pub struct Policies {
    by_id: Vec<Option<Policy>>,
    ids: BTreeMap<Policy, PolicyId>,
    free: Vec<PolicyId>,
    collect_at: usize,
}

const COLLECT_FIRST: usize = 1_024;

impl Policies {
    pub fn id(&mut self, policy: &Policy) -> PolicyId {
        if let Some(id) = self.ids.get(policy) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.by_id.push(None);
            PolicyId(self.by_id.len() as u32 - 1)
        });
        self.by_id[id.0 as usize] = Some(policy.clone());
        self.ids.insert(policy.clone(), id);
        id
    }

    pub fn get(&self, id: PolicyId) -> Policy {
        self.by_id.get(id.0 as usize).cloned().flatten().unwrap_or_default()
    }

    pub fn wants_collection(&self) -> bool {
        self.ids.len() > self.collect_at.max(COLLECT_FIRST)
    }

    /// Keeps what `used` names.
    pub fn collect(&mut self, used: &std::collections::BTreeSet<PolicyId>) {
        for (at, slot) in self.by_id.iter_mut().enumerate() {
            let id = PolicyId(at as u32);
            if !used.contains(&id)
                && let Some(policy) = slot.take()
            {
                self.ids.remove(&policy);
                self.free.push(id);
            }
        }
        self.collect_at = self.ids.len() * 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_stays_small() {
        assert!(size_of::<Entry>() <= 96, "{} bytes", size_of::<Entry>());
    }

    #[test]
    fn unused_policies_are_collected_and_their_numbers_used_again() {
        let mut policies = Policies::default();
        let policy = |n| Policy { max_retries: n, ..Policy::default() };
        let first = policies.id(&policy(1));
        let second = policies.id(&policy(2));
        assert_eq!(policies.id(&policy(1)), first);
        policies.collect(&[second].into());
        assert_eq!(policies.get(second), policy(2));
        assert_eq!(policies.id(&policy(3)), first);
    }
}
