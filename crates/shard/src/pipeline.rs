//! Commits: a few under way, one being built, and what follows from how the first one ends.
//!
//! Each commit has a number, and the store takes it only after the one before it: whatever happens to
//! one of them, those behind it cannot be applied without it, and of all that were sent a prefix is in
//! the store. A host whose store makes several durable at once sends the next before the answer to the
//! last (`set_commits_at_once`); elsewhere it is one.
//!
//! - **Durable**: its answers leave.
//! - **Refused** for room or time: nothing was applied. Sent again after a pause. If it adds work and
//!   there is no room, what ends work must not wait behind that: memory is loaded again, commands
//!   that add work are refused and nothing fires for a while, which doubles; the rest is decided
//!   again. One try after each pause tells whether there is room again.
//! - **Refused for a row**: memory and store disagree, or a command cannot be stored. Everything
//!   built on it is dropped, a new epoch is taken, and the commands are decided again in halves
//!   until the bad one stands alone.
//! - **Unknown**: dropped likewise. Taking the new epoch is a write, so the number of the last
//!   commit that comes back with it is the truth: a batch that landed releases its answers, one
//!   that did not is decided again.
//! - **Fenced**: another node owns the shard; the host closes it.
//! - **A gap** behind one that is on its way or waits to be sent again is no gap: it is sent again, too.

mod reload;

use crate::batch::{Batch, Event, Output};
use crate::command::CommandId;
use crate::limits::{FLOOR_EVERY, FULL_FIRST, FULL_MAX, RESEND_FIRST, RESEND_MAX};
use crate::planted::Bug;
use crate::rows::ReadId;
use crate::shard::{Parked, Shard, Work};
use model::row::{Commit, Starts};
use model::{Epoch, Span, Time};
use std::collections::{BTreeSet, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitEnd {
    Durable,
    Fenced,
    Gap {
        last: u64,
    },
    Row {
        index: usize,
    },
    /// The store's clock has not reached the instant of the decisions: ours ran wild.
    Early,
    NoRoom,
    NotNow,
    Unknown,
}

#[derive(Debug)]
pub(crate) struct Pipeline {
    pub building: Batch,
    /// In the order of their numbers.
    sent: VecDeque<Sent>,
    durable: u64,
    /// While a bad command is being looked for: decisions per batch.
    limit: Option<usize>,
    broken: Option<Broken>,
    /// The batch whose end broke it: what was sent before it may have landed, what was sent after it
    /// has not. `None` where it was no batch.
    broken_at: Option<u64>,
    /// Callers that were told "unknown" at their deadline; their true answer is dropped.
    answered: BTreeSet<CommandId>,
    /// The store had no room: nothing that adds work is decided before this.
    pub full_until: Time,
    full_pause: Span,
    pub draining: bool,
}

#[derive(Debug)]
struct Sent {
    batch: Batch,
    /// Holds only together with this batch: what it decides is off the wheel.
    floor: Option<Time>,
    starts: Starts,
    /// When it was sent.
    at: Time,
    /// Set while it waits to be sent again.
    resend: Option<Time>,
    pause: Span,
    /// The last number that was known to be durable when it was sent: a store that has less has
    /// lost something.
    rests_on: u64,
    /// It is durable; one before it has not been answered yet.
    done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Unknown,
    Row,
    Room,
    Fenced,
    /// The store said that numbers are missing: nothing was applied.
    Gap,
    /// A renewal showed that the store lost a tail; what is on its way may still land.
    LostTail,
    Early,
}

/// Why a shard asks for a new epoch, and how far it must go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochWish {
    pub epoch: Epoch,
    pub by: u32,
    /// The store has lost what it had acknowledged.
    pub lost_tail: bool,
}

/// A limit this large is no limit.
const LIMIT_OFF: usize = 4_096;

impl Pipeline {
    pub fn new(durable: u64) -> Pipeline {
        Pipeline {
            building: Batch::new(durable + 1, 0),
            sent: VecDeque::new(),
            durable,
            limit: None,
            broken: None,
            broken_at: None,
            answered: BTreeSet::new(),
            full_until: Time::MIN,
            full_pause: Span::ZERO,
            draining: false,
        }
    }

    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    pub fn sent(&self) -> impl Iterator<Item = &Batch> {
        self.sent.iter().map(|sent| &sent.batch)
    }

    fn has_nothing_on_its_way(&self) -> bool {
        self.sent.is_empty() && self.building.changes.is_empty()
    }

    /// Did the store say a moment ago that it has no room?
    pub fn is_full(&self, now: Time) -> bool {
        // Further away than a pause can be: the clock ran wild and came back.
        now < self.full_until && self.full_until.since(now) <= FULL_MAX
    }

    pub fn has_room_for_commands(&self) -> bool {
        let decided = self.building.commands.len() + self.building.own.len();
        self.limit.is_none_or(|limit| decided < limit)
    }

    /// Is a bad command being looked for?
    pub fn is_searching(&self) -> bool {
        self.limit.is_some()
    }

    /// A claim that was answered waits again: nobody hears that answer.
    pub fn take_out(&mut self, caller: CommandId) {
        let sent = self.sent.iter_mut().map(|sent| &mut sent.batch);
        for batch in sent.chain([&mut self.building]) {
            batch.outputs.retain(|o| !matches!(o, Output::Reply(id, _) if *id == caller));
            batch.commands.retain(|(other, _)| other.id != caller);
        }
    }

    /// Everything decided so far is durable when this batch number is.
    pub fn gate(&self) -> u64 {
        if self.building.changes.is_empty() { self.building.seq - 1 } else { self.building.seq }
    }

    pub fn durable(&self) -> u64 {
        self.durable
    }

    pub fn next_send(&self) -> Option<Time> {
        self.sent.iter().find_map(|sent| sent.resend)
    }

    /// Callers whose deadline passed while their command was on its way to the store.
    pub fn expired(&mut self, now: Time) -> Vec<CommandId> {
        let batches = self.sent.iter().map(|sent| &sent.batch).chain([&self.building]);
        let late: Vec<CommandId> = batches
            .flat_map(|batch| batch.commands.iter())
            .filter(|(caller, _)| caller.deadline <= now && !self.answered.contains(&caller.id))
            .map(|(caller, _)| caller.id)
            .collect();
        self.answered.extend(late.iter().copied());
        late
    }

    /// Nobody hears the answer that waits for a batch to be durable.
    pub fn withdraw(&mut self, caller: CommandId) {
        let mut batches = self.sent.iter().map(|sent| &sent.batch).chain([&self.building]);
        if batches.any(|batch| batch.commands.iter().any(|(other, _)| other.id == caller)) {
            self.answered.insert(caller);
        }
    }
}

impl Shard {
    /// The next commit to send. Ask again after every input.
    pub fn poll_commit(&mut self, now: Time) -> Option<Commit> {
        if self.pipeline.broken.is_some() {
            return None;
        }
        // Further away than a pause can be: the clock ran wild and came back.
        let waits = |at: Time| at > now && at.since(now) <= RESEND_MAX;
        let at = match self.pipeline.sent.iter().position(|sent| sent.resend.is_some()) {
            // In order: nothing overtakes what waits to be sent again.
            Some(at) if self.pipeline.sent[at].resend.is_some_and(waits) => return None,
            Some(at) => {
                self.pipeline.sent[at].resend = None;
                at
            }
            None if self.pipeline.building.changes.is_empty() => {
                // Without a commit nothing proves that the shard is still ours: such answers wait
                // for the node's lease to be certain. And answers that changed nothing rest on what
                // was decided before them: that must be durable.
                if now < self.trusted_until && self.pipeline.sent.is_empty() {
                    let outputs = std::mem::take(&mut self.pipeline.building.outputs);
                    self.pipeline.building.commands.clear();
                    self.pipeline.building.own.clear();
                    self.release(outputs);
                }
                return None;
            }
            None if self.pipeline.sent.len() >= self.commits_at_once => return None,
            None => {
                let building = &mut self.pipeline.building;
                let next = Batch::new(building.seq + 1, building.changes.len());
                let batch = std::mem::replace(building, next);
                let (floor, rests_on) = (self.floor(now), self.pipeline.durable);
                let starts = self.starts(now, &batch.changes);
                let (at, resend, pause, done) = (now, None, RESEND_FIRST, false);
                let sent = Sent { batch, floor, starts, at, resend, pause, rests_on, done };
                self.pipeline.sent.push_back(sent);
                self.pipeline.sent.len() - 1
            }
        };
        let sent = self.pipeline.sent.get_mut(at)?;
        sent.rests_on = self.pipeline.durable;
        Some(Commit {
            shard: self.id,
            epoch: self.epoch,
            seq: sent.batch.seq,
            decided: sent.batch.decided,
            changes: sent.batch.changes.clone(),
            floor: sent.floor,
            starts: sent.starts,
        })
    }

    /// Decisions in the batch that was sent last.
    pub(crate) fn decided_in_commit(&self) -> usize {
        let last = self.pipeline.sent.back().map(|sent| &sent.batch);
        last.map_or(0, |batch| batch.commands.len() + batch.own.len())
    }

    /// Nothing on the wheel is due before this when the batch that is sent now is durable; written
    /// now and then, and only when nothing overdue is left to decide: the next owner would not
    /// look for it.
    fn floor(&mut self, now: Time) -> Option<Time> {
        if let Some(floor) = self.floor_ahead.take() {
            // What this commit adds may be due before it, and the next owner would never find it.
            // It is never raised here: what is overdue may not have been decided.
            self.floor_written = now;
            return Some(floor.min(now.minus(crate::limits::HORIZON)));
        }
        if now.since(self.floor_written) < FLOOR_EVERY || !self.loader.is_caught_up(now) {
            return None;
        }
        let due = |parked: &Parked| matches!(parked.work, Work::Due(_));
        let waits = self.parked.values().flat_map(|(_, works)| works).chain(&self.again).any(due);
        let undecided = self.timer.has_due()
            || waits
            || !self.outcome_reads.is_empty()
            || !self.sweeps.is_empty()
            || self.timer.has_postponed()
            || !self.quarantine.is_empty();
        if undecided {
            return None;
        }
        self.floor_written = now;
        let leased = self.leases.iter().map(|lease| lease.entry.due).min();
        let oldest = [leased, self.timer.next(), Some(now)].into_iter().flatten().min();
        // Timers round up, and buckets are read whole: a horizon behind that nothing can lie.
        oldest.map(|oldest| oldest.minus(crate::limits::HORIZON))
    }

    pub fn handle_commit(&mut self, now: Time, seq: u64, end: CommitEnd) {
        if self.pipeline.broken.is_some() {
            return;
        }
        let Some(at) = self.pipeline.sent.iter().position(|sent| sent.batch.seq == seq) else {
            return;
        };
        let sent = &mut self.pipeline.sent[at];
        let end = if self.planted.is(Bug::IgnoreFence) && end == CommitEnd::Fenced {
            CommitEnd::Durable
        } else {
            end
        };
        let broken = match end {
            CommitEnd::Durable => {
                sent.done = true;
                self.reserved.committed(now.since(sent.at));
                while self.pipeline.sent.front().is_some_and(|first| first.done) {
                    self.durable();
                }
                self.work(now);
                return;
            }
            // One before it was refused, or is behind it on its way. Nothing was applied.
            CommitEnd::Gap { last } if (sent.rests_on..seq - 1).contains(&last) => {
                sent.resend = Some(now.plus(sent.pause));
                return;
            }
            CommitEnd::NoRoom if sent.batch.grows => {
                let pause = self.pipeline.full_pause.times(2).max(FULL_FIRST).min(FULL_MAX);
                self.pipeline.full_pause = pause;
                self.pipeline.full_until = now.plus(pause);
                self.event(Event::RoomShort);
                Broken::Room
            }
            CommitEnd::NoRoom | CommitEnd::NotNow => {
                sent.resend = Some(now.plus(sent.pause));
                sent.pause = sent.pause.times(2).min(RESEND_MAX);
                return;
            }
            CommitEnd::Unknown => Broken::Unknown,
            CommitEnd::Row { .. } => {
                if !self.pipeline.building.commands.is_empty() {
                    self.event(Event::PoisonUnderBuiltBatch);
                }
                Broken::Row
            }
            CommitEnd::Fenced => Broken::Fenced,
            CommitEnd::Gap { .. } => Broken::Gap,
            CommitEnd::Early => {
                self.event(Event::ClockRanWild);
                Broken::Early
            }
        };
        self.pipeline.broken = Some(broken);
        self.pipeline.broken_at = Some(seq);
    }

    /// The first of those that were sent is durable.
    fn durable(&mut self) {
        let Some(sent) = self.pipeline.sent.pop_front() else { return };
        if sent.batch.grows {
            (self.pipeline.full_until, self.pipeline.full_pause) = (Time::MIN, Span::ZERO);
        }
        self.pipeline.durable = sent.batch.seq;
        self.pipeline.limit =
            self.pipeline.limit.map(|limit| limit * 2).filter(|limit| *limit < LIMIT_OFF);
        let mut batch = sent.batch;
        let outputs = std::mem::take(&mut batch.outputs);
        for (caller, _) in std::mem::take(&mut batch.commands) {
            if !outputs.iter().any(|o| matches!(o, Output::Reply(id, _) if *id == caller.id)) {
                self.pipeline.answered.remove(&caller.id);
            }
        }
        self.release(outputs);
        self.rows.acknowledge(batch, ReadId(self.last_read));
        self.retire();
    }

    pub(crate) fn retire(&mut self) {
        let oldest = self.parked.keys().next().copied();
        if oldest.is_some() && self.rows.waiting_batches() > 0 {
            self.event(Event::ReadOlderThanAck);
        }
        self.rows.retire(oldest);
    }

    fn release(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            if let Output::Reply(caller, _) = &output
                && self.pipeline.answered.remove(caller)
            {
                continue;
            }
            self.outputs.push_back(output);
        }
    }

    /// Memory can no longer be trusted, or the tokens of this epoch are running out: a new epoch is
    /// needed before anything else happens.
    pub fn wants_epoch(&self) -> Option<EpochWish> {
        let Some(broken) = self.pipeline.broken else {
            let idle = self.pipeline.has_nothing_on_its_way();
            let fresh = EpochWish { epoch: self.epoch, by: 1, lost_tail: false };
            return (self.counter > self.sizes.tokens && idle).then_some(fresh);
        };
        if broken == Broken::Fenced {
            return None;
        }
        let lost_tail = matches!(broken, Broken::Gap | Broken::LostTail);
        let by = if lost_tail { Epoch::JUMP } else { 1 };
        Some(EpochWish { epoch: self.epoch, by, lost_tail })
    }

    /// The store is another one than before, or lost what it had acknowledged.
    pub fn handle_lost_tail(&mut self) {
        self.pipeline.broken = Some(Broken::LostTail);
        self.pipeline.broken_at = None;
    }

    /// The store's clock was set: what memory keeps by instants (leases, claims that wait) was kept by
    /// another time, so it is loaded again, as after a commit without an answer.
    pub fn handle_clock_step(&mut self) {
        if self.pipeline.broken.is_none() {
            self.pipeline.broken = Some(Broken::Unknown);
            self.pipeline.broken_at = None;
        }
    }

    /// Stops deciding; what is on its way is finished. Then the shard can be given away.
    pub fn drain(&mut self, now: Time) {
        // Its next owner fires what has not begun.
        self.unreserve(now);
        self.pipeline.draining = true;
    }

    pub fn is_drained(&self) -> bool {
        self.pipeline.draining
            && self.pipeline.has_nothing_on_its_way()
            && self.pipeline.broken.is_none()
    }

    /// Another node owns the shard.
    pub fn is_fenced(&self) -> bool {
        self.pipeline.broken == Some(Broken::Fenced)
    }
}
