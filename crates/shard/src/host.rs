//! One node, without its I/O: the shards it owns, its ownership, its view of the store's clock, and
//! the way of a command to the shard that decides it. `node` (the real one) and `sim` drive the
//! same code: they only carry store calls, messages and time.

mod calls;
mod kept;
mod routing;
mod stir;

use crate::batch::Output;
use crate::clock::StoreClock;
use crate::command::{Answer, Command, CommandId};
use crate::limits::{NODE_RENEW, RENEWALS_BESIDE, ROUTE_AGAIN, ROUTE_WAIT, Sizes};
use crate::ownership::Ownership;
use crate::pipeline::CommitEnd;
use crate::planted::Planted;
use crate::quotas::Quotas;
use crate::rows::ReadId;
use crate::shard::Shard;
use kept::Kept;
use model::cluster::{Cluster, Give, Renew, Take, Taken};
use model::read::{Page, Read};
use model::row::Commit;
use model::{Epoch, NodeId, ShardId, Span, Time};
use routing::Route;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stir::Stirred;

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
    /// "It is yours now", in this epoch: it can be taken at once. Nodes of an older version do not
    /// say the epoch, and a renewal finds out.
    Gave { shard: ShardId, epoch: Option<Epoch> },
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
    quotas: Quotas,
    clock: StoreClock,
    ownership: Ownership,
    shards: BTreeMap<ShardId, Shard>,
    calls: BTreeMap<CallId, (Time, Under)>,
    last_call: u64,
    /// One ownership call at a time, so that answers cannot overtake each other.
    owning: bool,
    /// Renewals beside it, because it takes long: slow calls and lost answers must not cost the lease.
    renewing_beside: usize,
    /// The latest renewal whose answer set `expires`.
    renewed_by: CallId,
    /// Commits on their way, and how many there may be.
    committing: usize,
    commits_at_once: usize,
    /// No commit before this (local time): more callers are about to ask.
    commit_after: Time,
    /// What follows from inputs waits until all that are there were heard.
    gathering: bool,
    stirred: Stirred,
    pending_takes: Vec<Take>,
    giving: BTreeMap<ShardId, NodeId>,
    /// Shards that their former owners say are ours, and in which epoch: taken next.
    gifts: BTreeMap<ShardId, Epoch>,
    /// When the node's lease ends, by the store's clock.
    expires: Time,
    /// Shards that a renewal showed in another node's hands: the lease vouches for them no more.
    doubted: BTreeSet<ShardId>,
    outputs: VecDeque<HostOutput>,
    routes: BTreeMap<CommandId, Route>,
    /// Those of them that no owner was found for yet, and when each ends.
    unsent: BTreeSet<CommandId>,
    route_ends: BTreeSet<(Time, CommandId)>,
    /// Commands that came from other nodes: who asked, and how they call it.
    guests: BTreeMap<CommandId, (NodeId, CommandId, u32)>,
    last_command: u64,
    /// Forwards that were heard, oldest first: one that the network repeats is done once.
    heard: BTreeSet<(NodeId, CommandId, u32)>,
    heard_order: VecDeque<(NodeId, CommandId, u32)>,
    /// A jump of the store's clock is that clock's, not ours.
    follows_steps: bool,
    /// Guests whose claims were answered, oldest first: their callers may hang up before they hear.
    parting: VecDeque<(NodeId, CommandId, CommandId)>,
    /// Answers whose time has not come.
    kept: Kept,
    /// Nodes that were seen alive and not yet found dead.
    met: BTreeSet<NodeId>,
    /// When it last looked where shards are (local time).
    looked: Time,
}

/// A call under way.
#[derive(Debug)]
enum Under {
    Commit(Vec<(ShardId, u64, Epoch)>),
    Read(Vec<(ShardId, ReadId, Epoch)>),
    Renew,
    /// Sent while another ownership call was under way. It keeps the lease; the cluster it shows may
    /// be older than what that other call changed, so it is not looked at.
    RenewBeside,
    /// A renewal to see where shards are now.
    Look,
    /// And those among them that were gifts.
    Take(Vec<Take>, BTreeSet<ShardId>),
    Give(Vec<Give>),
}

impl Host {
    pub fn new(node: NodeId, planted: Planted) -> Host {
        Host {
            node,
            planted,
            sizes: Sizes::default(),
            quotas: Quotas::default(),
            clock: StoreClock::default(),
            ownership: Ownership::new(node),
            shards: BTreeMap::new(),
            calls: BTreeMap::new(),
            last_call: 0,
            owning: false,
            renewing_beside: 0,
            renewed_by: CallId(0),
            committing: 0,
            commits_at_once: 1,
            commit_after: Time::MIN,
            gathering: false,
            stirred: Stirred::default(),
            pending_takes: Vec::new(),
            giving: BTreeMap::new(),
            gifts: BTreeMap::new(),
            expires: Time::MIN,
            doubted: BTreeSet::new(),
            outputs: VecDeque::new(),
            routes: BTreeMap::new(),
            unsent: BTreeSet::new(),
            route_ends: BTreeSet::new(),
            guests: BTreeMap::new(),
            last_command: 1 << 62,
            heard: BTreeSet::new(),
            heard_order: VecDeque::new(),
            follows_steps: false,
            parting: VecDeque::new(),
            kept: Kept::default(),
            met: BTreeSet::new(),
            looked: Time::MIN,
        }
    }

    pub fn set_sizes(&mut self, sizes: Sizes) {
        self.sizes = sizes;
    }

    /// For a store that takes commits in order and makes several durable at once: so many are on
    /// their way. Before the first shard is taken.
    pub fn set_commits_at_once(&mut self, commits: usize) {
        self.commits_at_once = commits.max(1);
    }

    /// For a store inside this process, whose clock is read on this machine: if it jumps, it was
    /// set, and shards load again. A store elsewhere jumps for us when our own clock ran wild.
    pub fn follow_clock_steps(&mut self) {
        self.follows_steps = true;
    }

    /// What namespaces may do here: told at any time, asked by all shards. Before the first is taken.
    pub fn set_quotas(&mut self, quotas: Quotas) {
        self.quotas = quotas;
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

    /// The store's time, at least and at most.
    pub fn clock_bounds(&self, local: Time) -> Option<(Time, Time)> {
        Some((self.clock.at_least(local)?, self.clock.at_most(local)?))
    }

    /// Takes nothing more, and gives its shards to those who should have them without it (a rolling
    /// restart, a drain). Without others it keeps them.
    pub fn leave(&mut self, local: Time) {
        self.ownership.leave();
        self.pump(local);
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
        self.begin_route(id, Route::new(shard, command, deadline, patience));
        self.route(local, id);
        self.pump(local);
    }

    /// The caller hung up before it heard an answer: what was claimed for it goes back.
    pub fn handle_gone(&mut self, local: Time, id: CommandId) {
        let sent_to = self.forget_route(id).and_then(|route| route.sent_to);
        match sent_to.filter(|owner| *owner != self.node) {
            Some(owner) => self.outputs.push_back(HostOutput::Send(owner, Message::Gone { id })),
            None => self.gone(local, id),
        }
        self.pump(local);
    }

    fn gone(&mut self, local: Time, id: CommandId) {
        self.kept.forget(id);
        if let Some(now) = self.now(local) {
            self.shards.values_mut().for_each(|shard| shard.handle_gone(now, id));
            self.stir_all();
        }
    }

    pub fn handle_tick(&mut self, local: Time) {
        let ended = self.route_ends.iter().take_while(|(end, _)| *end <= local);
        let mut late: BTreeSet<CommandId> = ended.map(|(_, id)| *id).collect();
        late.extend(&self.unsent);
        for id in late {
            self.route(local, id);
        }
        if let Some(now) = self.now(local) {
            self.tick_shards(local, now);
        }
        self.pump(local);
    }

    /// When `handle_tick` should be called next, in local time.
    pub fn next_tick(&self, local: Time) -> Time {
        // With so many under way only their answers let another one go.
        let mut next = match self.owning && self.renewing_beside >= RENEWALS_BESIDE {
            true => local.plus(NODE_RENEW),
            false => self.ownership.next_renew(local),
        };
        if let (Some(now), Some(at)) = (self.now(local), self.stirred.next_tick()) {
            next = next.min(local.plus(at.since(now)));
        }
        if !self.unsent.is_empty() {
            next = next.min(local.plus(ROUTE_AGAIN));
        }
        if let Some((end, _)) = self.route_ends.first() {
            next = next.min(*end);
        }
        next = next.max(local.plus(Span::from_millis(1)));
        // To the point: what is told here is not looked at again.
        if let Some(now) = self.now(local)
            && let Some(at) = self.kept.next(now)
        {
            next = next.min(local.plus(at.since(now)));
        }
        self.next_commit(local).map_or(next, |at| next.min(at))
    }

    /// From here on inputs are heard and nothing leaves, until `act`: what several of them want
    /// goes into one commit.
    pub fn gather(&mut self) {
        self.gathering = true;
    }

    /// Everything that can move moves.
    pub fn act(&mut self, local: Time) {
        self.gathering = false;
        self.pump(local);
    }

    pub fn poll_output(&mut self) -> Option<HostOutput> {
        self.outputs.pop_front()
    }
}
