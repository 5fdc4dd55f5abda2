//! Making runs: the one place where a run row is inserted.

use crate::entry::Entry;
use crate::shard::Shard;
use crate::timer::Timed;
use model::row::{Expect, Key, Row};
use model::{FlowKey, Lane, RunId, RunState, Spec, Time};
use std::sync::Arc;

pub(crate) struct NewRun<'a> {
    pub id: RunId,
    pub spec: &'a Spec,
    pub version: u32,
    pub nominal: Time,
    pub due: Time,
    pub lane: Lane,
    /// Scheduled, Ready or Blocked.
    pub state: RunState,
    /// Counts for the overlap policy.
    pub fresh: bool,
    pub body: Option<Arc<Spec>>,
}

impl Shard {
    pub(crate) fn make_run(&mut self, new: NewRun<'_>) -> Entry {
        let key = FlowKey {
            namespace: new.spec.namespace,
            queue: new.spec.queue.clone(),
            kind: new.spec.target.kind(),
            priority: new.spec.priority.min(9),
            lane: new.lane,
            group: new.spec.group.clone(),
        };
        let entry = Entry {
            id: new.id,
            due: new.due,
            nominal: new.nominal,
            flow: self.flows.id(&key),
            policy: self.policies.id(&new.spec.policy),
            version: new.version,
            rev: 1,
            checkpoint: 0,
            attempts: 0,
            retries: 0,
            lost: 0,
            replays: 0,
            state: new.state,
            fresh: new.fresh,
            start_by: new.spec.within.start.map_or(Time::MAX, |span| new.due.plus(span)),
            finish_by: new.spec.within.finish.map_or(Time::MAX, |span| new.due.plus(span)),
        };
        let mut row = self.row_of(&entry);
        row.body = new.body;
        self.change(Key::Run(entry.id), Expect::Absent, Some(Row::Run(row)));
        match entry.state {
            RunState::Ready => {
                self.flows.push(entry);
            }
            RunState::Scheduled => self.wait_for(entry.due, Timed::Run(entry)),
            _ => {}
        }
        entry
    }
}
