//! The service level of a queue: its oldest ready run has waited no longer than `start_within`. When one has,
//! the level is broken, until the oldest that waits has waited no more than half of it: so it does not
//! flap. What gives way meanwhile is decided elsewhere (`verbs/submit.rs`, `verbs/put_off.rs`).
//!
//! Runs of a group that is at its own limit are not looked at: they wait for themselves.

use super::Flows;
use super::limited::Limited;
use super::turns::Queue;
use crate::planted::Bug;
use model::{Namespace, Text, Time};

/// What became of a queue's level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelChange {
    pub namespace: Namespace,
    pub queue: Text,
    pub broken: bool,
}

impl Flows {
    /// Is the queue's service level broken?
    pub fn is_late(&self, queue: &(Namespace, Text)) -> bool {
        self.limited.get(queue).is_some_and(|limited| limited.late)
    }

    /// Queues that have a service level, and whether it is broken.
    pub fn levels(&self) -> impl Iterator<Item = (&(Namespace, Text), bool)> {
        let with = self.limited.iter().filter(|(_, limited)| limited.row().start_within.is_some());
        with.map(|(queue, limited)| (queue, limited.late))
    }

    /// Levels that were broken or kept again since this was last asked.
    pub fn take_levels(&mut self) -> Vec<LevelChange> {
        std::mem::take(&mut self.level_changes)
    }

    pub(super) fn judge_levels(&mut self) {
        for (queue, limited) in &mut self.limited {
            if limited.row().start_within.is_none() && !limited.late {
                continue;
            }
            let oldest = self.queues.get(queue).and_then(Queue::oldest);
            let stays = limited.late && self.planted.is(Bug::LevelStaysBroken);
            let late = limited.is_late_by(oldest, self.now) || stays;
            if late != limited.late {
                limited.late = late;
                let (namespace, name) = queue.clone();
                let change = LevelChange { namespace, queue: name, broken: late };
                self.level_changes.push(change);
            }
        }
    }

    /// When a level is broken by time alone; at once if one is to be judged again.
    pub(super) fn next_level(&self) -> Option<Time> {
        let next = |(queue, limited): (&(Namespace, Text), &Limited)| {
            let within = limited.row().start_within?;
            let oldest = self.queues.get(queue).and_then(Queue::oldest);
            match limited.late {
                true => (!limited.is_late_by(oldest, self.now)).then_some(self.now),
                // One tick later than it may be.
                false => oldest.map(|due| due.plus(within).plus(super::TICK)),
            }
        };
        self.limited.iter().filter_map(next).min()
    }
}

impl Queue {
    /// Since when the oldest run waits that could be picked.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.lines.values().filter_map(|line| line.heads.first().map(|head| head.0)).min()
    }
}

impl Limited {
    /// Would the level be broken with this as the oldest run?
    fn is_late_by(&self, oldest: Option<Time>, now: Time) -> bool {
        let (Some(within), Some(oldest)) = (self.row().start_within, oldest) else { return false };
        let waited = now.since(oldest).micros();
        match self.late {
            true => waited > within.micros() / 2,
            false => waited > within.micros(),
        }
    }
}
