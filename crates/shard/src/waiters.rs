//! Claims that found nothing and wait for work. They are found by queue, so that a run that
//! becomes ready looks only at those who want it.

use crate::command::{Claim, CommandId};
use crate::shard::Caller;
use model::{Namespace, Text, Time};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub struct Waiters {
    /// In order of arrival: command ids grow.
    waiting: BTreeMap<CommandId, (Caller, Claim)>,
    by_queue: BTreeMap<(Namespace, Text), BTreeSet<CommandId>>,
    ends: BTreeSet<(Time, CommandId)>,
    /// How many of them may be promised what falls due soon.
    reserve: usize,
}

impl Waiters {
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn insert(&mut self, caller: Caller, claim: Claim) {
        for queue in &claim.queues {
            let key = (claim.namespace, queue.clone());
            self.by_queue.entry(key).or_default().insert(caller.id);
        }
        self.ends.insert((claim.wait_until, caller.id));
        self.reserve += usize::from(claim.reserve);
        self.waiting.insert(caller.id, (caller, claim));
    }

    pub fn remove(&mut self, id: CommandId) -> Option<(Caller, Claim)> {
        let (caller, claim) = self.waiting.remove(&id)?;
        self.ends.remove(&(claim.wait_until, id));
        self.reserve -= usize::from(claim.reserve);
        for queue in &claim.queues {
            let key = (claim.namespace, queue.clone());
            if let Some(ids) = self.by_queue.get_mut(&key) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.by_queue.remove(&key);
                }
            }
        }
        Some((caller, claim))
    }

    pub fn of_queue(&self, queue: &(Namespace, Text)) -> Vec<CommandId> {
        self.by_queue.get(queue).map(|ids| ids.iter().copied().collect()).unwrap_or_default()
    }

    /// Does anybody wait who may be promised what falls due soon?
    pub fn reserve(&self) -> bool {
        self.reserve > 0
    }

    /// Those of them who wait for this queue.
    pub fn reserve_of(&self, queue: &(Namespace, Text)) -> impl Iterator<Item = CommandId> {
        let ids = self.by_queue.get(queue).into_iter().flatten().copied();
        ids.filter(|id| self.waiting.get(id).is_some_and(|(_, claim)| claim.reserve))
    }

    pub fn next_end(&self) -> Option<Time> {
        self.ends.first().map(|(at, _)| *at)
    }

    pub fn ended(&self, now: Time) -> Vec<CommandId> {
        self.ends.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect()
    }

    pub fn drain(&mut self) -> Vec<(Caller, Claim)> {
        let ids: Vec<CommandId> = self.waiting.keys().copied().collect();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }
}
