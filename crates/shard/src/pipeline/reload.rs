//! Memory can no longer be trusted: what was on its way is settled by the number of the last commit,
//! memory is thrown away, and callers' commands are decided again; or the shard is closed.

use super::{Broken, Pipeline};
use crate::batch::{Batch, Event, Output};
use crate::command::{Answer, Command, Refused};
use crate::limits::DOUBTED_MAX;
use crate::planted::Bug;
use crate::shard::{Caller, Shard, Work};
use model::cluster::Taken;
use model::{NodeId, Time};

impl Shard {
    /// A new epoch was taken: settle what was on its way and load what the store holds.
    pub fn handle_epoch(&mut self, now: Time, taken: Taken, alive: &[NodeId]) {
        let broken = self.pipeline.broken.take();
        let broken_at = self.pipeline.broken_at.take();
        if broken.is_none() {
            self.event(Event::FreshTokens);
        }
        let mut again: Vec<(Caller, Command)> = Vec::new();
        let mut limit = self.pipeline.limit;
        for sent in std::mem::take(&mut self.pipeline.sent) {
            // The outcome is open, too, when a lost tail was found by a renewal, or when the epoch
            // was taken for its tokens, while the commit was on its way; and of what was sent before
            // the one that was refused. Its number tells, because nobody else wrote in our epoch.
            let seq = sent.batch.seq;
            let before = broken_at.is_some_and(|at| seq < at);
            let behind = broken_at.is_some_and(|at| seq > at);
            let open = matches!(broken, None | Some(Broken::Unknown | Broken::LostTail)) || before;
            let mut landed = taken.seq >= seq && open;
            if broken == Some(Broken::Unknown) {
                landed &= !self.planted.is(Bug::UnknownMeansLost);
                landed |= self.planted.is(Bug::UnknownMeansLanded);
            }
            let batch = sent.batch;
            if landed {
                self.event(Event::UnknownLanded);
                if batch.outputs.iter().any(claims) {
                    self.event(Event::UnknownLandedWithClaims);
                }
                self.release(batch.outputs);
            } else if before || behind {
                // Not refused for itself.
                self.event(Event::UnknownLost);
                again.extend(batch.commands);
            } else if broken == Some(Broken::Row) {
                limit = self.isolate(batch, &mut again, limit);
            } else if broken == Some(Broken::Room) {
                for (caller, command) in batch.commands {
                    if command.adds_work() {
                        self.refuse(caller, Refused::Full);
                    } else {
                        again.push((caller, command));
                    }
                }
            } else {
                self.event(Event::UnknownLost);
                again.extend(batch.commands);
            }
        }
        again.append(&mut self.pipeline.building.commands);
        let full = (self.pipeline.full_until, self.pipeline.full_pause);
        let answered = std::mem::take(&mut self.pipeline.answered);
        self.epoch = taken.epoch;
        self.forget_memory(&mut again, taken.seq);
        self.pipeline.limit = limit;
        (self.pipeline.full_until, self.pipeline.full_pause) = full;
        for (caller, command) in again.into_iter().rev() {
            if answered.contains(&caller.id) {
                // It was told "unknown"; deciding it now could do it after the caller gave up.
                continue;
            }
            self.inbox.push_front(caller, command);
        }
        self.begin_load(taken, alive, now);
    }

    /// A row was refused. Halves until one decision stands alone; that one is refused.
    fn isolate(
        &mut self,
        batch: Batch,
        again: &mut Vec<(Caller, Command)>,
        limit: Option<usize>,
    ) -> Option<usize> {
        self.event(Event::Divergence);
        let decided = batch.commands.len() + batch.own.len();
        if self.planted.is(Bug::PoisonDropsAll) {
            for (caller, _) in batch.commands {
                self.refuse(caller, Refused::Poison);
            }
            return None;
        }
        if decided <= 1 {
            for (caller, command) in batch.commands {
                if self.doubt(&command) {
                    // Decided once more, with a look at what is there under its ids.
                    again.push((caller, command));
                    continue;
                }
                self.refuse(caller, Refused::Poison);
                self.event(Event::PoisonIsolated);
            }
            for own in batch.own {
                self.quarantine.insert(own);
                self.event(Event::Quarantined);
            }
            return limit;
        }
        again.extend(batch.commands);
        Some((decided / 2).max(1))
    }

    /// Is this the first time that the store refused this submission?
    fn doubt(&mut self, command: &Command) -> bool {
        let Command::Submit(jobs) = command else { return false };
        if jobs.iter().all(|job| self.doubted.contains(&job.id)) {
            for job in jobs {
                self.doubted.remove(&job.id);
            }
            return false;
        }
        if self.doubted.len() >= DOUBTED_MAX {
            self.doubted.clear();
        }
        self.doubted.extend(jobs.iter().map(|job| job.id));
        true
    }

    fn refuse(&mut self, caller: Caller, refused: Refused) {
        if !self.pipeline.answered.remove(&caller.id) {
            self.outputs.push_back(Output::Reply(caller.id, Answer::Refused(refused)));
        }
    }

    /// Throws away everything that came from the store or from undurable decisions. Callers'
    /// commands are kept; decisions of our own are found again by loading.
    fn forget_memory(&mut self, again: &mut Vec<(Caller, Command)>, seq: u64) {
        let again_works = std::mem::take(&mut self.again);
        let parked = std::mem::take(&mut self.parked).into_values().flat_map(|(_, works)| works);
        let wanted = std::mem::take(&mut self.wanted);
        again.extend(again_works.into_iter().chain(parked).chain(wanted).filter_map(|parked| {
            match parked.work {
                Work::Command(caller, command) => Some((caller, command)),
                _ => None,
            }
        }));
        again.extend(std::mem::take(&mut self.asides).into_values());
        self.reran.clear();
        self.specs.clear();
        again.extend(
            self.waiters.drain().into_iter().map(|(caller, claim)| (caller, Command::Claim(claim))),
        );
        self.reserved.forget(again);
        self.flows = Default::default();
        self.flows.set_sizes(self.sizes);
        self.flows.set_planted(self.planted);
        self.timer = Default::default();
        self.leases.forget();
        self.rows = crate::rows::Rows::new(self.planted);
        self.recent = Default::default();
        // Compiled from rows that may never have been stored.
        self.schedules.clear();
        self.holds.clear();
        self.unpatched.clear();
        self.reads.clear();
        self.outstanding.clear();
        self.retry_reads.clear();
        self.outcome_reads.clear();
        self.outcomes.clear();
        self.sweeps.clear();
        self.touched = Default::default();
        self.read_once.clear();
        self.counter = 0;
        // A shard that was promised to another node still is.
        let draining = self.pipeline.draining;
        self.pipeline = Pipeline { draining, ..Pipeline::new(seq) };
    }

    /// This node does not own the shard any more. Callers whose command was not sent, or was
    /// refused, may ask the new owner; the others cannot be told.
    pub fn close(mut self) -> Vec<Output> {
        let unknown = matches!(self.pipeline.broken, None | Some(Broken::Unknown));
        for sent in std::mem::take(&mut self.pipeline.sent) {
            let before = self.pipeline.broken_at.is_some_and(|at| sent.batch.seq < at);
            for (caller, _) in sent.batch.commands {
                let unknown = unknown || before;
                let refused = if unknown { Refused::Unknown } else { Refused::NotOwner };
                self.refuse(caller, refused);
            }
        }
        let mut again = std::mem::take(&mut self.pipeline.building.commands);
        let answered = std::mem::take(&mut self.pipeline.answered);
        self.forget_memory(&mut again, 0);
        self.pipeline.answered = answered;
        again.extend(self.inbox.drain());
        for (caller, _) in again {
            self.refuse(caller, Refused::NotOwner);
        }
        self.outputs.into_iter().collect()
    }
}

fn claims(output: &Output) -> bool {
    matches!(output, Output::Reply(_, Answer::Claimed(leases)) if !leases.is_empty())
}
