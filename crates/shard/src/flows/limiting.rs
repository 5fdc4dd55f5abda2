//! Where the flows ask and tell what their queues allow (`limited.rs`).

use super::level::LevelChange;
use super::limited::Limited;
use super::{FlowId, Flows};
use crate::flows::Flow;
use crate::planted::Bug;
use model::{Namespace, QueueRow, Text, Time};
use std::collections::BTreeSet;

impl Flows {
    /// Time has come to this. Queues and groups that wait for it may start runs again.
    pub fn pass(&mut self, now: Time) {
        self.now = now;
        let mut shown = Vec::new();
        for (queue, limited) in &mut self.limited {
            if limited.next().is_none_or(|at| at > now) {
                continue;
            }
            let (asked, flows) = limited.pass(now);
            if asked || !flows.is_empty() {
                self.woken.insert(queue.clone());
            }
            shown.extend(flows);
        }
        self.show(&shown);
        self.judge_levels();
    }

    /// When `pass` changes something.
    pub fn next_pass(&self) -> Option<Time> {
        let opens = self.limited.values().filter_map(Limited::next).min();
        [opens, self.next_level()].into_iter().flatten().min()
    }

    /// A run of this flow has a lease since now.
    pub fn start(&mut self, flow: FlowId) {
        if self.limited.is_empty() {
            return;
        }
        let (queue, group) = self.place_of(flow);
        let Some(limited) = self.limited.get_mut(&queue) else { return };
        let changed = match self.planted.is(Bug::RateNotSpent) {
            true => limited.start_free(group.as_ref(), self.now),
            false => limited.start(group.as_ref(), self.now),
        };
        self.show(&changed);
    }

    /// A lease of a run of this flow is over.
    pub fn end(&mut self, flow: FlowId) {
        if self.limited.is_empty() {
            return;
        }
        let (queue, group) = self.place_of(flow);
        let Some(limited) = self.limited.get_mut(&queue) else { return };
        if self.planted.is(Bug::EndNotCounted) {
            return;
        }
        let (was_full, changed) = limited.end(group.as_ref(), self.now);
        if self.planted.is(Bug::EndCountedTwice) {
            limited.end(group.as_ref(), self.now);
        }
        if was_full || !changed.is_empty() {
            self.woken.insert(queue);
        }
        self.show(&changed);
    }

    fn place_of(&self, flow: FlowId) -> ((Namespace, Text), Option<Text>) {
        let key = self.key(flow);
        ((key.namespace, key.queue.clone()), key.group.clone())
    }

    /// May the queue start something now? If only time is missing, it is asked again then.
    pub(super) fn is_open(&mut self, queue: &(Namespace, Text)) -> bool {
        if self.limited.is_empty() {
            return true;
        }
        let now = self.now;
        let Some(limited) = self.limited.get_mut(queue) else { return true };
        let open = limited.is_open(now);
        if !open {
            limited.refused(now);
        }
        open
    }

    /// Sets what queues allow, none: everything. `leased` are the flows of all runs that have a lease.
    pub fn limit(
        &mut self,
        rows: Vec<((Namespace, Text), Option<QueueRow>)>,
        leased: impl Iterator<Item = FlowId>,
    ) {
        let mut queues = BTreeSet::new();
        for (queue, row) in rows {
            let before = self.limited.remove(&queue);
            if let Some(row) = row {
                let begin = match self.planted.is(Bug::RateFullAtLoad) {
                    true => Time::MIN,
                    false => self.now,
                };
                let mut limited = Limited::new(row, begin);
                if let Some(before) = before {
                    limited.succeeds(before);
                }
                self.limited.insert(queue.clone(), limited);
            } else if before.is_some_and(|before| before.late) {
                // Nobody asks for a level any more.
                let (namespace, name) = queue.clone();
                let change = LevelChange { namespace, queue: name, broken: false };
                self.level_changes.push(change);
            }
            queues.insert(queue);
        }
        for flow in leased {
            let (queue, group) = self.place_of(flow);
            if queues.contains(&queue)
                && let Some(limited) = self.limited.get_mut(&queue)
            {
                limited.count(group.as_ref());
            }
        }
        self.limit_flows(queues);
    }

    /// Counts what runs, once, after limits were set without it.
    pub fn count_running(&mut self, leased: impl Iterator<Item = FlowId>) {
        if self.limited.is_empty() {
            return;
        }
        for flow in leased {
            let (queue, group) = self.place_of(flow);
            if let Some(limited) = self.limited.get_mut(&queue) {
                limited.count(group.as_ref());
            }
        }
        self.limit_flows(self.limited.keys().cloned().collect());
    }

    /// Tells the flows of these queues what their queues say.
    fn limit_flows(&mut self, queues: BTreeSet<(Namespace, Text)>) {
        let of = |flow: &Flow| queues.contains(&(flow.key.namespace, flow.key.queue.clone()));
        let flows: Vec<FlowId> = (0u32..)
            .zip(&self.flows)
            .filter(|(_, flow)| flow.as_ref().is_some_and(of))
            .map(|(at, _)| FlowId(at))
            .collect();
        for id in flows {
            self.limit_flow(id);
        }
        self.woken.extend(queues);
    }

    /// Tells a flow what its queue says of its group.
    pub(super) fn limit_flow(&mut self, id: FlowId) {
        let (queue, group) = self.place_of(id);
        let (mut weight, mut shut) = (1, false);
        let mut changed = Vec::new();
        if let Some(limited) = self.limited.get_mut(&queue) {
            limited.add_flow(group.as_ref(), id);
            if let Some(group) = &group {
                changed = limited.judge(group, self.now);
            }
            weight = limited.weight(group.as_ref());
            shut = limited.is_shut(group.as_ref()) && !self.planted.is(Bug::GroupNotShut);
        }
        let flow = self.flow_mut(id);
        flow.weight = weight;
        flow.shut = shut;
        self.refresh(id);
        self.show(&changed);
    }

    /// Groups opened or shut: what those who pick can see of their flows.
    fn show(&mut self, flows: &[FlowId]) {
        for id in flows {
            let (queue, group) = self.place_of(*id);
            let shut = self.limited.get(&queue).is_some_and(|l| l.is_shut(group.as_ref()));
            if self.planted.is(if shut { Bug::GroupNotShut } else { Bug::GroupNotOpened }) {
                continue;
            }
            self.flow_mut(*id).shut = shut;
            self.refresh(*id);
        }
    }

    /// How many queues have limits.
    pub fn limited(&self) -> usize {
        self.limited.len()
    }

    pub fn limits_of(&self, queue: &(Namespace, Text)) -> Option<&QueueRow> {
        self.limited.get(queue).map(Limited::row)
    }
}
