//! One node, without its I/O: the shards it owns, its ownership, its view of the store's clock, and
//! the way of a command to the shard that decides it. `node` (the real one) and `sim` drive the
//! same code: they only carry store calls, messages and time.

use crate::batch::{Event, Output};
use crate::clock::StoreClock;
use crate::command::{Answer, Command, CommandId, Refused};
use crate::limits::{HEARD_MAX, NODE_TTL, ROUTE_AGAIN, ROUTE_WAIT, Sizes};
use crate::ownership::Ownership;
use crate::pipeline::CommitEnd;
use crate::planted::Planted;
use crate::rows::ReadId;
use crate::shard::{Caller, Shard};
use model::cluster::{Cluster, Give, Renew, Take, Taken};
use model::read::{Page, Read};
use model::row::Commit;
use model::{Epoch, NodeId, ShardId, Span, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// What the store is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreCall {
    Commit(Vec<Commit>),
    Read(Vec<(ShardId, Read)>),
    Renew(Renew),
    Take(Vec<Take>),
    Give(Vec<Give>),
}

/// What it answered; `None` where no answer came and it may or may not have been done.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreAnswer {
    Commit {
        now: Time,
        ends: Vec<CommitEnd>,
    },
    Read(Vec<Page>),
    Renew(Cluster),
    Take(Vec<Option<Taken>>),
    Give(Vec<bool>),
    /// Nothing was done, and the store said so.
    Refused(Refusal),
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Room,
    NotNow,
}

/// Between nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A command for a shard that the receiver owns.
    Forward { id: CommandId, shard: ShardId, command: Command, wait: Span, try_no: u32 },
    /// The answer to one try; an earlier try's answer that the network repeats is void.
    Answer { id: CommandId, answer: Answer, try_no: u32 },
    /// The caller of a forwarded command hung up.
    Gone { id: CommandId },
    /// "This shard should be mine."
    Ask { shard: ShardId },
    /// "It is yours now."
    Gave { shard: ShardId },
}

#[derive(Clone, Debug, PartialEq)]
pub enum HostOutput {
    Call(CallId, StoreCall),
    Send(NodeId, Message),
    Shard(ShardId, Output),
}

#[derive(Debug)]
pub struct Host {
    node: NodeId,
    planted: Planted,
    sizes: Sizes,
    clock: StoreClock,
    ownership: Ownership,
    shards: BTreeMap<ShardId, Shard>,
    calls: BTreeMap<CallId, (Time, Under)>,
    last_call: u64,
    /// One ownership call at a time, so that answers cannot overtake each other.
    owning: bool,
    committing: bool,
    pending_takes: Vec<Take>,
    giving: BTreeMap<ShardId, NodeId>,
    /// When the node's lease ends, by the store's clock.
    expires: Time,
    outputs: VecDeque<HostOutput>,
    routes: BTreeMap<CommandId, Route>,
    /// Commands that came from other nodes: who asked, and how they call it.
    guests: BTreeMap<CommandId, (NodeId, CommandId, u32)>,
    last_command: u64,
    /// Forwards that were heard, oldest first: one that the network repeats is done once.
    heard: BTreeSet<(NodeId, CommandId, u32)>,
    heard_order: VecDeque<(NodeId, CommandId, u32)>,
}

/// A call under way.
#[derive(Debug)]
enum Under {
    Commit(Vec<(ShardId, u64, Epoch)>),
    Read(Vec<(ShardId, ReadId, Epoch)>),
    Renew,
    Take(Vec<Take>),
    Give(Vec<Give>),
}

/// A command of a local caller on its way to an owner.
#[derive(Debug)]
struct Route {
    shard: ShardId,
    command: Command,
    deadline: Time,
    /// Local time until which an owner is looked for.
    patience: Time,
    sent_to: Option<NodeId>,
    tries: u32,
    /// Not to be tried before this: an owner that has just refused refuses again.
    again_at: Time,
}

impl Route {
    fn look_again(&mut self, local: Time) {
        self.sent_to = None;
        self.again_at = local.plus(ROUTE_AGAIN);
    }
}

impl Host {
    pub fn new(node: NodeId, planted: Planted) -> Host {
        Host {
            node,
            planted,
            sizes: Sizes::default(),
            clock: StoreClock::default(),
            ownership: Ownership::new(node),
            shards: BTreeMap::new(),
            calls: BTreeMap::new(),
            last_call: 0,
            owning: false,
            committing: false,
            pending_takes: Vec::new(),
            giving: BTreeMap::new(),
            expires: Time::MIN,
            outputs: VecDeque::new(),
            routes: BTreeMap::new(),
            guests: BTreeMap::new(),
            last_command: 1 << 62,
            heard: BTreeSet::new(),
            heard_order: VecDeque::new(),
        }
    }

    pub fn set_sizes(&mut self, sizes: Sizes) {
        self.sizes = sizes;
    }

    pub fn node(&self) -> NodeId {
        self.node
    }

    pub fn shard(&self, id: ShardId) -> Option<&Shard> {
        self.shards.get(&id)
    }

    pub fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.shards.values()
    }

    pub fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// The store's time, at least.
    pub fn now(&self, local: Time) -> Option<Time> {
        self.clock.at_least(local)
    }

    /// Takes nothing more, and gives away what it is asked for (a rolling restart).
    pub fn leave(&mut self) {
        self.ownership.leave();
    }

    /// A caller of this node wants something of a shard. `wait` is how long it will wait.
    pub fn handle_command(
        &mut self,
        local: Time,
        id: CommandId,
        shard: ShardId,
        command: Command,
        wait: Span,
    ) {
        let deadline = local.plus(wait);
        let patience = local.plus(ROUTE_WAIT).min(deadline);
        self.routes.insert(
            id,
            Route {
                shard,
                command,
                deadline,
                patience,
                sent_to: None,
                tries: 0,
                again_at: Time::MIN,
            },
        );
        self.route(local, id);
        self.pump(local);
    }

    pub fn handle_gone(&mut self, local: Time, id: CommandId) {
        if let Some(route) = self.routes.remove(&id) {
            match route.sent_to {
                Some(owner) if owner != self.node => {
                    self.outputs.push_back(HostOutput::Send(owner, Message::Gone { id }));
                }
                _ => self.shards.values_mut().for_each(|shard| shard.handle_gone(id)),
            }
        }
        self.pump(local);
    }

    pub fn handle_tick(&mut self, local: Time) {
        let late: Vec<CommandId> = self
            .routes
            .iter()
            .filter(|(_, r)| r.sent_to.is_none() || r.deadline <= local)
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            self.route(local, id);
        }
        if let Some(now) = self.now(local) {
            for shard in self.shards.values_mut() {
                shard.handle_tick(now);
            }
        }
        self.pump(local);
    }

    /// When `handle_tick` should be called next, in local time.
    pub fn next_tick(&self, local: Time) -> Time {
        let mut next = self.ownership.next_renew(local);
        if let Some(now) = self.now(local) {
            for shard in self.shards.values() {
                if let Some(at) = shard.next_tick() {
                    next = next.min(local.plus(at.since(now)));
                }
            }
        }
        for route in self.routes.values() {
            next = next.min(if route.sent_to.is_none() {
                local.plus(ROUTE_AGAIN)
            } else {
                route.deadline
            });
        }
        next.max(local.plus(Span::from_millis(1)))
    }

    pub fn poll_output(&mut self) -> Option<HostOutput> {
        self.outputs.pop_front()
    }

    // ---- routing --------------------------------------------------------------------------------

    /// Sends a command to its owner, or waits for there to be one. Repeats only after a definite
    /// refusal.
    fn route(&mut self, local: Time, id: CommandId) {
        let now = self.now(local);
        let Some(route) = self.routes.get_mut(&id) else { return };
        if route.sent_to.is_some() {
            if route.deadline <= local {
                // No answer came: it may have been done.
                self.answer(id, Answer::Refused(Refused::Unknown));
            }
            return;
        }
        // Further away than a pause can be: the local clock ran wild and came back.
        let pause = route.again_at.since(local);
        if pause > Span::ZERO && pause <= ROUTE_AGAIN {
            return;
        }
        if let (Some(shard), Some(now)) = (self.shards.get_mut(&route.shard), now)
            && !self.giving.contains_key(&route.shard)
        {
            route.sent_to = Some(self.node);
            route.tries += 1;
            let deadline = now.plus(route.deadline.since(local));
            let command = route.command.clone();
            shard.handle_command(now, Caller { id, deadline }, command);
            return;
        }
        if let Some(owner) = self.ownership.owner(route.shard)
            && owner != self.node
        {
            route.sent_to = Some(owner);
            route.tries += 1;
            let message = Message::Forward {
                id,
                shard: route.shard,
                command: route.command.clone(),
                wait: route.deadline.since(local),
                try_no: route.tries,
            };
            self.outputs.push_back(HostOutput::Send(owner, message));
            return;
        }
        if route.patience <= local {
            self.answer(id, Answer::Refused(Refused::NotOwner));
        }
    }

    fn answer(&mut self, id: CommandId, answer: Answer) {
        if let Some((node, theirs, try_no)) = self.guests.remove(&id) {
            let message = Message::Answer { id: theirs, answer, try_no };
            self.outputs.push_back(HostOutput::Send(node, message));
        } else if let Some(route) = self.routes.remove(&id) {
            let output = Output::Reply(id, answer);
            self.outputs.push_back(HostOutput::Shard(route.shard, output));
        }
    }

    pub fn handle_message(&mut self, local: Time, from: NodeId, message: Message) {
        match message {
            Message::Forward { id, try_no, .. } if !self.first_time((from, id, try_no)) => {}
            Message::Forward { id, shard, command, wait, try_no } => {
                self.last_command += 1;
                let mine = CommandId(self.last_command);
                self.guests.insert(mine, (from, id, try_no));
                let now = self.now(local);
                let giving = self.giving.contains_key(&shard);
                match (self.shards.get_mut(&shard), now) {
                    (Some(shard), Some(now)) if !giving => {
                        let caller = Caller { id: mine, deadline: now.plus(wait) };
                        shard.handle_command(now, caller, command);
                    }
                    _ => self.answer(mine, Answer::Refused(Refused::NotOwner)),
                }
            }
            Message::Answer { id, answer, try_no } => {
                let refused = answer == Answer::Refused(Refused::NotOwner);
                match self.routes.get_mut(&id).filter(|route| route.tries == try_no) {
                    // A definite refusal: the shard has moved. Look for its owner again.
                    Some(route) if refused && route.patience > local => route.look_again(local),
                    Some(_) => self.answer(id, answer),
                    None => {}
                }
            }
            Message::Gone { id } => {
                let mine: Vec<CommandId> = self
                    .guests
                    .iter()
                    .filter(|(_, guest)| (guest.0, guest.1) == (from, id))
                    .map(|(mine, _)| *mine)
                    .collect();
                for mine in mine {
                    self.shards.values_mut().for_each(|shard| shard.handle_gone(mine));
                    self.guests.remove(&mine);
                }
            }
            Message::Ask { shard } => {
                if self.ownership.belongs_to(shard, from)
                    && let Some(owned) = self.shards.get_mut(&shard)
                {
                    owned.drain();
                    self.giving.insert(shard, from);
                }
            }
            Message::Gave { .. } => self.renew_soon(local),
        }
        self.pump(local);
    }

    /// A message could not be handed over at all (nobody listens there): it was not heard.
    pub fn handle_bounce(&mut self, local: Time, message: &Message) {
        if let Message::Forward { id, try_no, .. } = message
            && let Some(route) = self.routes.get_mut(id).filter(|route| route.tries == *try_no)
        {
            if route.patience > local {
                route.look_again(local);
            } else {
                self.answer(*id, Answer::Refused(Refused::NotOwner));
            }
        }
        self.pump(local);
    }

    /// A router that asks again after a refusal counts its tries, so only a repetition by the
    /// network has been heard before.
    fn first_time(&mut self, forward: (NodeId, CommandId, u32)) -> bool {
        if self.heard_order.len() >= HEARD_MAX
            && let Some(oldest) = self.heard_order.pop_front()
        {
            self.heard.remove(&oldest);
        }
        self.heard_order.push_back(forward);
        self.heard.insert(forward)
    }

    fn renew_soon(&mut self, local: Time) {
        if !self.owning {
            self.call(
                local,
                Under::Renew,
                StoreCall::Renew(Renew { node: self.node, ttl: NODE_TTL }),
            );
            self.owning = true;
        }
    }

    // ---- the store ------------------------------------------------------------------------------

    fn call(&mut self, local: Time, under: Under, call: StoreCall) {
        self.last_call += 1;
        let id = CallId(self.last_call);
        self.calls.insert(id, (local, under));
        self.outputs.push_back(HostOutput::Call(id, call));
    }

    /// Moves everything on that can move: outputs, reads, commits, epochs, gifts, the lease.
    fn pump(&mut self, local: Time) {
        if !self.owning
            && let Some(renew) = self.ownership.poll_renew(local)
        {
            self.owning = true;
            self.call(local, Under::Renew, StoreCall::Renew(renew));
        }
        self.read(local);
        self.commit(local);
        self.own(local);
        let mut outputs = Vec::new();
        for (id, shard) in &mut self.shards {
            while let Some(output) = shard.poll_output() {
                outputs.push((*id, output));
            }
        }
        for (shard, output) in outputs {
            self.output(local, shard, output);
        }
    }

    fn output(&mut self, local: Time, shard: ShardId, output: Output) {
        match output {
            Output::Reply(id, Answer::Refused(Refused::NotOwner))
                if self.routes.contains_key(&id) =>
            {
                // The shard was closed under it: its new owner is found by the next tick.
                if let Some(route) = self.routes.get_mut(&id) {
                    route.look_again(local);
                }
            }
            Output::Reply(id, answer) => self.answer(id, answer),
            other => self.outputs.push_back(HostOutput::Shard(shard, other)),
        }
    }

    fn read(&mut self, local: Time) {
        let (mut reads, mut under) = (Vec::new(), Vec::new());
        for (id, shard) in &mut self.shards {
            while let Some((read_id, read)) = shard.poll_read() {
                reads.push((*id, read));
                under.push((*id, read_id, shard.epoch()));
            }
        }
        if !reads.is_empty() {
            self.call(local, Under::Read(under), StoreCall::Read(reads));
        }
    }

    /// One commit lane: the batches of all shards in one call.
    fn commit(&mut self, local: Time) {
        let Some(now) = self.now(local) else { return };
        if self.committing {
            return;
        }
        let commits: Vec<Commit> =
            self.shards.values_mut().filter_map(|shard| shard.poll_commit(now)).collect();
        if !commits.is_empty() {
            self.committing = true;
            let under = commits.iter().map(|c| (c.shard, c.seq, c.epoch)).collect();
            self.call(local, Under::Commit(under), StoreCall::Commit(commits));
        }
    }

    /// New epochs for shards that lost track, gifts for nodes that asked.
    fn own(&mut self, local: Time) {
        if self.owning {
            return;
        }
        let fenced: Vec<ShardId> =
            self.shards.values().filter(|s| s.is_fenced()).map(Shard::id).collect();
        fenced.into_iter().for_each(|id| self.close(local, id));
        let mut takes = std::mem::take(&mut self.pending_takes);
        takes.retain(|take| !self.shards.contains_key(&take.shard));
        for (id, shard) in &self.shards {
            if let Some(wish) = shard.wants_epoch() {
                let (shard, epoch) = (*id, wish.epoch);
                takes.push(Take { shard, node: self.node, epoch, by: wish.by });
            }
        }
        if !takes.is_empty() {
            self.owning = true;
            self.call(local, Under::Take(takes.clone()), StoreCall::Take(takes));
            return;
        }
        let gives: Vec<Give> = self
            .giving
            .iter()
            .filter_map(|(id, to)| {
                let shard = self.shards.get(id).filter(|shard| shard.is_drained())?;
                Some(Give { shard: *id, node: self.node, epoch: shard.epoch(), to: *to })
            })
            .collect();
        if !gives.is_empty() {
            self.owning = true;
            self.call(local, Under::Give(gives.clone()), StoreCall::Give(gives));
        }
    }

    fn close(&mut self, local: Time, id: ShardId) {
        self.giving.remove(&id);
        if let Some(shard) = self.shards.remove(&id) {
            for output in shard.close() {
                self.output(local, id, output);
            }
        }
    }

    pub fn handle_store(&mut self, local: Time, id: CallId, answer: StoreAnswer) {
        let Some((sent, under)) = self.calls.remove(&id) else { return };
        match (under, answer) {
            (Under::Commit(under), answer) => self.committed(local, sent, under, answer),
            (Under::Read(under), answer) => self.were_read(local, under, answer),
            (Under::Renew, StoreAnswer::Renew(view)) => self.renewed(local, sent, view),
            (Under::Renew, _) => {
                self.owning = false;
                self.ownership.handle_renew_failed();
            }
            (Under::Take(takes), StoreAnswer::Take(taken)) => self.taken(local, &takes, taken),
            (Under::Give(gives), StoreAnswer::Give(given)) => {
                self.owning = false;
                for (give, given) in gives.into_iter().zip(given) {
                    self.giving.remove(&give.shard);
                    self.close(local, give.shard);
                    if given {
                        let message = Message::Gave { shard: give.shard };
                        self.outputs.push_back(HostOutput::Send(give.to, message));
                        let event = Output::Event(Event::Gave);
                        self.outputs.push_back(HostOutput::Shard(give.shard, event));
                    }
                }
            }
            // A take or a gift without an answer shows in the next renewal.
            (Under::Take(_) | Under::Give(_), _) => {
                self.owning = false;
                self.renew_soon(local);
            }
        }
        self.pump(local);
    }

    fn committed(
        &mut self,
        local: Time,
        sent: Time,
        under: Vec<(ShardId, u64, Epoch)>,
        answer: StoreAnswer,
    ) {
        self.committing = false;
        let ends = match answer {
            StoreAnswer::Commit { now, ends } => {
                self.clock.handle_sample(sent, local, now);
                ends
            }
            StoreAnswer::Refused(Refusal::Room) => vec![CommitEnd::NoRoom; under.len()],
            StoreAnswer::Refused(Refusal::NotNow) => vec![CommitEnd::NotNow; under.len()],
            _ => vec![CommitEnd::Unknown; under.len()],
        };
        let Some(now) = self.now(local) else { return };
        for ((id, seq, epoch), end) in under.into_iter().zip(ends) {
            if let Some(shard) = self.shards.get_mut(&id).filter(|s| s.epoch() == epoch) {
                shard.handle_commit(now, seq, end);
            }
        }
    }

    fn were_read(
        &mut self,
        local: Time,
        under: Vec<(ShardId, ReadId, Epoch)>,
        answer: StoreAnswer,
    ) {
        let Some(now) = self.now(local) else { return };
        let mut pages = match answer {
            StoreAnswer::Read(pages) => pages.into_iter().map(Some).collect(),
            _ => vec![None; under.len()],
        }
        .into_iter();
        for (id, read, epoch) in under {
            let page = pages.next().flatten();
            // Ids of reads begin again with every epoch of a shard.
            let Some(shard) = self.shards.get_mut(&id).filter(|s| s.epoch() == epoch) else {
                continue;
            };
            match page {
                Some(page) => shard.handle_read(now, read, page),
                None => shard.handle_read_failed(now, read),
            }
        }
    }

    fn renewed(&mut self, local: Time, sent: Time, view: Cluster) {
        self.owning = false;
        self.clock.handle_sample(sent, local, view.now);
        self.expires = view.now.plus(NODE_TTL);
        let held = self.shards.iter().map(|(id, shard)| (*id, shard.epoch())).collect();
        let found = self.ownership.handle_renewed(local, view, &held);
        found.fenced.into_iter().for_each(|id| self.close(local, id));
        if found.lost_tail {
            for (id, shard) in &mut self.shards {
                shard.handle_lost_tail();
                let event = Output::Event(Event::LostTail);
                self.outputs.push_back(HostOutput::Shard(*id, event));
            }
        }
        for (owner, shard) in found.ask {
            self.outputs.push_back(HostOutput::Send(owner, Message::Ask { shard }));
        }
        self.pending_takes = found.take;
        self.trust(local);
    }

    /// Heartbeats are answered while the lease holds even by the latest the store's time can be.
    fn trust(&mut self, local: Time) {
        let (Some(least), Some(most)) = (self.clock.at_least(local), self.clock.at_most(local))
        else {
            return;
        };
        let until = self.expires.minus(most.since(least));
        self.shards.values_mut().for_each(|shard| shard.handle_trust(until));
    }

    fn taken(&mut self, local: Time, takes: &[Take], taken: Vec<Option<Taken>>) {
        self.owning = false;
        let Some(now) = self.now(local) else { return };
        let alive = self.ownership.alive();
        for (take, taken) in takes.iter().zip(taken) {
            let id = take.shard;
            match (self.shards.get_mut(&id), taken) {
                (Some(shard), Some(taken)) => shard.handle_epoch(now, taken, &alive),
                (None, Some(taken)) => {
                    let mut shard = Shard::new(id, self.node, taken, &alive, now, self.planted);
                    shard.set_sizes(self.sizes);
                    self.shards.insert(id, shard);
                    let event = Output::Event(Event::TookOver);
                    self.outputs.push_back(HostOutput::Shard(id, event));
                }
                // Somebody else has it.
                (Some(_), None) => self.close(local, id),
                (None, None) => {}
            }
        }
        self.trust(local);
    }
}
