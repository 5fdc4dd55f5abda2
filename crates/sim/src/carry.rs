//! Carries out what nodes ask for: calls to the store, messages between nodes, answers to callers.
//! Here things are lost, late and repeated.

use crate::checker::Violation;
use crate::event::{Asker, Happens};
use crate::world::{CALL_TIMEOUT, World};
use model::{NodeId, Span};
use shard::command::{Answer, CommandId};
use shard::{CallId, CommitEnd, HostOutput, Message, Output, StoreAnswer, StoreCall};

impl World {
    pub(crate) fn carry_out(&mut self, node: usize, output: HostOutput) {
        let boot = self.nodes[node].boot;
        match output {
            HostOutput::Call(id, call) => {
                self.note(id.0);
                let answer = StoreAnswer::Unknown;
                self.after(CALL_TIMEOUT, Happens::CallReturns { node, boot, id, answer });
                if self.now >= self.nodes[node].cut_store {
                    let latency = self.latency();
                    self.after(latency, Happens::CallArrives { node, boot, id, call });
                }
            }
            HostOutput::Send(to, message) => {
                if matches!(message, Message::Ask { .. }) {
                    // Shards are on their way to where they belong.
                    self.disturb();
                }
                let dropped = !self.healed && self.rng.per_mille(self.options.drop);
                if self.now < self.nodes[node].cut_peers || dropped {
                    return;
                }
                let from = NodeId { node: node as u32 + 1, boot };
                let repeated = self.rng.per_mille(self.options.repeat) && !self.healed;
                for _ in 0..=u8::from(repeated) {
                    let latency = self.latency();
                    let message = message.clone();
                    self.after(latency, Happens::MessageArrives { to, from, message, repeated });
                }
            }
            HostOutput::Shard(_, Output::Reply(id, answer)) => {
                self.note(id.0 ^ answer_mark(&answer));
                self.look_at_shed(id, &answer);
                if self.nodes[node].cut_callers > self.now && !self.is_executor(id) {
                    return;
                }
                if self.rng.per_mille(self.options.drop) && !self.is_executor(id) && !self.healed {
                    return;
                }
                let latency = self.latency();
                self.after(latency, Happens::AnswerArrives { id, answer });
            }
            HostOutput::Shard(_, Output::Stop(run, token)) => {
                for node in &mut self.nodes {
                    if let Some((held, stop)) = node.webhooks.get_mut(&run)
                        && *held == token
                    {
                        *stop = true;
                    }
                }
            }
            HostOutput::Shard(_, Output::Level(_) | Output::Withdraw(_)) => {}
            HostOutput::Shard(_, Output::Event(event)) => self.log.count(event),
        }
    }

    fn is_executor(&self, id: CommandId) -> bool {
        matches!(self.askers.get(&id), Some(Asker::Executor { .. }))
    }

    pub fn latency(&mut self) -> Span {
        if self.rng.per_mille(self.options.slow) && !self.healed {
            return Span::from_millis(self.rng.range(50, 3_000));
        }
        Span::from_micros(self.rng.range(100, 3_000))
    }

    // ---- the store ------------------------------------------------------------------------------

    pub(crate) fn call_arrives(&mut self, node: usize, boot: u64, id: CallId, call: StoreCall) {
        if self.now < self.stalled_until {
            let wait = self.stalled_until.since(self.now).plus(Span::from_micros(50));
            self.after(wait, Happens::CallArrives { node, boot, id, call });
            return;
        }
        self.maybe_fail(&call);
        let answer = crate::calls::carry(&self.store, &call);
        self.watch_limits(&call, &answer);
        self.watch_starts(&call);
        self.note(answer_hash(&answer));
        if self.verbose {
            self.explain(&call, &answer);
        }
        let lost = self.now < self.nodes[node].cut_store
            || (self.rng.per_mille(self.options.drop / 4) && !self.healed);
        if !lost {
            let latency = self.latency();
            self.after(latency, Happens::CallReturns { node, boot, id, answer });
        }
    }

    /// After every commit: does it say the truth about where ready runs and leases begin? What is wrong
    /// may be set right by a later commit, before anybody who takes over could miss it.
    fn watch_starts(&mut self, call: &StoreCall) {
        let StoreCall::Commit(commits) = call else { return };
        for commit in commits {
            if let Some(run) = self.store.inner().hidden(commit.shard) {
                let detail = format!("{run} after commit {} of {:?}", commit.seq, commit.shard);
                self.found.push(Violation { invariant: "nothing_lies_before_the_starts", detail });
            }
        }
    }

    /// Says which change a store refused, and what it found instead.
    fn explain(&self, call: &StoreCall, answer: &StoreAnswer) {
        let (StoreCall::Commit(commits), StoreAnswer::Commit { ends, .. }) = (call, answer) else {
            return;
        };
        for (commit, end) in commits.iter().zip(ends) {
            if let CommitEnd::Row { index } = end {
                let change = &commit.changes[*index];
                let dump = self.store.inner().dump();
                let found = dump.shards[usize::from(commit.shard.0)].rows.get(&change.key).cloned();
                println!(
                    "REFUSED {:?} seq {} {change:?}\n   FOUND {found:?}",
                    commit.shard, commit.seq
                );
            }
        }
    }
}

fn answer_mark(answer: &Answer) -> u64 {
    match answer {
        Answer::Submitted(items) => 0x100 + items.len() as u64,
        Answer::Claimed(runs) => runs.iter().fold(0x200, |sum, run| sum ^ run.token.0),
        Answer::Beats(beats) => 0x300 + beats.len() as u64,
        Answer::Settled(runs) => 0x400 + runs.len() as u64,
        Answer::Run(run, state) => 0x500 ^ run.part.bits() ^ *state as u64,
        Answer::Job(_, version) => 0x600 + u64::from(*version),
        Answer::Made(_) => 0x700,
        Answer::Stopping(_) => 0x800,
        Answer::Done => 0x900,
        Answer::Refused(_) => 0xa00,
    }
}

fn answer_hash(answer: &StoreAnswer) -> u64 {
    match answer {
        StoreAnswer::Commit { ends, .. } => 1 + ends.len() as u64,
        StoreAnswer::Read(pages) => 0x1000 + pages.len() as u64,
        StoreAnswer::Renew(view) => 0x2000 + view.nodes.len() as u64,
        StoreAnswer::Take(taken) => {
            taken.iter().flatten().fold(0x3000, |sum, taken| sum + u64::from(taken.epoch.0))
        }
        StoreAnswer::Give(given) => 0x4000 + given.len() as u64,
        StoreAnswer::Refused(_) => 0x5000,
        StoreAnswer::Unknown => 0x6000,
    }
}
