//! Service levels in worlds with limits (the half of them whose seeds leave 2 or 3 divided by 4), and the
//! look at what is shed: only while something had waited for longer than half of what the level says.
//! Less is never enough: a level is broken beyond the whole of it, and kept again below the half.
//!
//! The look is made when an answer leaves that says so, and asks the store what waited at any moment
//! since the request was sent: what waits still, what was claimed since, and what ended since. A store that
//! forgot a part of it, and nodes whose clocks run wild, are let off.

use crate::checker::Violation;
use crate::event::Asker;
use crate::limited::LIMITED;
use crate::rng::Rng;
use crate::world::World;
use model::row::{Key, Row};
use model::{FlowKey, Namespace, RunState, Span, Spec, Text, Time};
use shard::command::{Answer, Command, CommandId, Refused};
use std::collections::BTreeSet;

/// Clocks drift, and a level is judged by the owner's.
const CLOCKS_APART: Span = Span::from_millis(200);

/// Their chances come from a source of their own, so that other worlds are what they were.
#[derive(Debug)]
pub struct Levels(Option<Rng>);

impl Levels {
    pub fn new(seed: u64) -> Levels {
        Levels((seed >= LIMITED && seed % 4 >= 2).then(|| Rng::new(seed ^ 0x1e7e1)))
    }

    /// What a queue asks for from now on.
    pub fn draw(&mut self) -> Option<Span> {
        let rng = self.0.as_mut()?;
        rng.per_mille(700).then(|| Span::from_millis(rng.range(2_000, 15_000)))
    }
}

impl World {
    /// An answer leaves; does it say that something was shed, and might it?
    pub(crate) fn look_at_shed(&mut self, id: CommandId, answer: &Answer) {
        let Some(Asker::Client { op }) = self.askers.get(&id) else { return };
        let op = &self.log.ops[*op];
        let shed: Vec<Spec> = match (&op.command, answer) {
            (Command::Submit(jobs), Answer::Submitted(items)) => {
                let both = jobs.iter().zip(items);
                let shed = both.filter(|(_, item)| **item == Err(Refused::Shed));
                shed.map(|(job, _)| (*job.spec).clone()).collect()
            }
            (Command::Trigger { job, .. }, Answer::Refused(Refused::Shed)) => {
                let dump = self.store.inner().dump();
                let rows = dump.shards.iter().flat_map(|shard| &shard.rows);
                let mut spec = rows.filter_map(|(key, row)| match (key, row) {
                    (Key::Spec(of, _), Row::Spec(spec)) if of == job => Some((**spec).clone()),
                    _ => None,
                });
                spec.next_back().into_iter().collect()
            }
            _ => return,
        };
        let let_off = !self.log.tail_lost.is_empty() || self.options.wild_clock > 0;
        let queues: BTreeSet<(Namespace, Text)> =
            shed.into_iter().map(|spec| (spec.namespace, spec.queue)).collect();
        let sent = op.sent;
        for queue in queues.into_iter().filter(|_| !let_off) {
            let detail = match self.level_since(&queue, sent) {
                None => format!("{queue:?} has no level, and {id:?} was shed"),
                Some(within) => {
                    let half = Span::from_micros(within.micros() / 2);
                    let waited = self.longest_wait(&queue, sent);
                    if waited.plus(CLOCKS_APART) > half {
                        continue;
                    }
                    format!("{id:?} was shed by {queue:?}: waited {waited:?} of {within:?}")
                }
            };
            self.found.push(Violation { invariant: "shed_only_while_late", detail });
        }
    }

    /// The smallest level that the queue may have had since then.
    fn level_since(&self, queue: &(Namespace, Text), sent: Time) -> Option<Span> {
        let dump = self.store.inner().dump();
        let key = Key::Queue(queue.0, queue.1.clone());
        let stored = dump.shards.iter().find_map(|shard| match shard.rows.get(&key) {
            Some(Row::Queue(row)) => row.start_within,
            _ => None,
        });
        let set = self.log.ops.iter().filter_map(|op| match &op.command {
            Command::SetQueue { namespace, queue: name, limits }
                if (*namespace, name) == (queue.0, &queue.1) =>
            {
                let heard = op.heard.as_ref().map_or(Time::MAX, |(at, _)| *at);
                Some((op.sent, heard, limits.start_within))
            }
            _ => None,
        });
        let set: Vec<_> = set.collect();
        // The last one that was surely in force before, and all that may have come after it.
        let before = set.iter().filter(|(_, heard, _)| *heard < sent).map(|(at, ..)| *at).max();
        let may = set.iter().filter(|(_, heard, _)| before.is_none_or(|before| *heard >= before));
        let asked = may.filter_map(|(.., within)| *within);
        stored.into_iter().chain(asked).min()
    }

    /// How long a run of the queue had waited at some moment since then.
    fn longest_wait(&self, queue: &(Namespace, Text), sent: Time) -> Span {
        let ours = |flow: &FlowKey| (flow.namespace, &flow.queue) == (queue.0, &queue.1);
        let mut longest = Span::ZERO;
        let mut saw = |due: Time, at: Time| {
            if at >= sent {
                longest = longest.max(at.since(due));
            }
        };
        for shard in self.store.inner().dump().shards {
            for row in shard.rows.values() {
                let Row::Run(run) = row else { continue };
                if !ours(&run.flow) || matches!(run.state, RunState::Blocked | RunState::Dead) {
                    continue;
                }
                match shard.rows.get(&Key::Lease(run.id)) {
                    // Its start is told by its owner's clock, which may lie behind.
                    Some(Row::Lease(lease)) => {
                        saw(run.due, lease.started.plus(CLOCKS_APART));
                    }
                    _ => saw(run.due, self.now),
                }
            }
            let ended = shard.history.iter().filter(|row| row.flow.as_ref().is_some_and(ours));
            for row in ended {
                saw(row.due, row.started.unwrap_or(row.finished).plus(CLOCKS_APART));
            }
        }
        longest
    }
}
