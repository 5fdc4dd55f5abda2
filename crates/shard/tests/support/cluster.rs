//! A few hosts over one store in memory. Nothing moves by itself: a test says which calls reach the
//! store, which messages arrive, how often, and what each node's clock shows.

use model::cluster::Cluster;
use model::{JobId, NodeId, ShardId, Slot, Span, Spec, Time};
use shard::command::{Answer, Command, CommandId, NewJob};
use shard::host::{Host, HostOutput, Message, Refusal, StoreAnswer, StoreCall};
use shard::{CallId, CommitEnd, Event, Output, Planted};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use store::{MemoryStore, Outcome, Store, StoreError};

#[derive(Debug)]
pub struct Node {
    pub host: Host,
    /// What is added to the true time by this node's clock.
    pub off: Span,
    /// Store calls that have not reached the store yet.
    pub calls: VecDeque<(CallId, StoreCall)>,
    /// They wait in `calls` until the test lets them go.
    pub hold_calls: bool,
    pub answers: BTreeMap<CommandId, Answer>,
    pub events: Vec<Event>,
}

#[derive(Debug)]
pub struct Nodes {
    pub store: MemoryStore,
    pub now: Time,
    pub nodes: Vec<Node>,
    /// Messages under way: from, to, what.
    pub messages: VecDeque<(NodeId, NodeId, Message)>,
    pub hold_messages: bool,
    next_command: u64,
    next_job: u64,
}

pub const SEC: Span = Span::from_secs(1);

impl Nodes {
    pub fn new(nodes: u32, shards: u16) -> Nodes {
        let store = MemoryStore::new(shards);
        store.set_now(super::START);
        let mut all = Nodes {
            store,
            now: super::START,
            nodes: Vec::new(),
            messages: VecDeque::new(),
            hold_messages: false,
            next_command: 0,
            next_job: 0,
        };
        (0..nodes).for_each(|_| all.add_node());
        all
    }

    pub fn add_node(&mut self) {
        let id = NodeId { node: self.nodes.len() as u32 + 1, boot: 1 };
        let host = Host::new(id, Planted::default());
        self.nodes.push(Node {
            host,
            off: Span::ZERO,
            calls: VecDeque::new(),
            hold_calls: false,
            answers: BTreeMap::new(),
            events: Vec::new(),
        });
    }

    pub fn local(&self, node: usize) -> Time {
        self.now.plus(self.nodes[node].off)
    }

    /// Lets one node do something and takes what it says.
    pub fn with(&mut self, node: usize, act: impl FnOnce(&mut Host, Time)) {
        let local = self.local(node);
        act(&mut self.nodes[node].host, local);
        self.drain(node);
    }

    fn drain(&mut self, node: usize) {
        let from = self.nodes[node].host.node();
        while let Some(output) = self.nodes[node].host.poll_output() {
            let all = &mut self.nodes[node];
            match output {
                HostOutput::Call(id, call) => all.calls.push_back((id, call)),
                HostOutput::Send(to, message) => self.messages.push_back((from, to, message)),
                HostOutput::Shard(_, Output::Reply(id, answer)) => {
                    assert!(all.answers.insert(id, answer).is_none(), "{id:?} answered twice");
                }
                HostOutput::Shard(_, Output::Event(event)) => all.events.push(event),
                HostOutput::Shard(_, Output::Stop(..) | Output::Level(_) | Output::Withdraw(_)) => {
                }
            }
        }
    }

    /// The oldest call of a node that `wanted` accepts reaches the store; this is its answer.
    pub fn execute(
        &mut self,
        node: usize,
        wanted: impl Fn(&StoreCall) -> bool,
    ) -> Option<(CallId, StoreAnswer)> {
        let at = self.nodes[node].calls.iter().position(|(_, call)| wanted(call))?;
        let (id, call) = self.nodes[node].calls.remove(at)?;
        Some((id, carry(&self.store, &call)))
    }

    pub fn answer(&mut self, node: usize, (id, answer): (CallId, StoreAnswer)) {
        // As a node does: it hears, and acts a moment later.
        self.with(node, |host, local| {
            host.gather();
            host.handle_store(local, id, answer);
        });
        self.now = self.now.plus(Span::from_micros(1));
        self.store.set_now(self.now);
        self.with(node, |host, local| host.act(local));
    }

    pub fn deliver(&mut self, (from, to, message): (NodeId, NodeId, Message)) {
        self.with(to.node as usize - 1, |host, local| host.handle_message(local, from, message));
    }

    /// Everything that is not held back happens, until nothing is left.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut moved = false;
            for node in 0..self.nodes.len() {
                if !self.nodes[node].hold_calls
                    && let Some(answer) = self.execute(node, |_| true)
                {
                    self.answer(node, answer);
                    moved = true;
                }
            }
            if !self.hold_messages
                && let Some(message) = self.messages.pop_front()
            {
                self.deliver(message);
                moved = true;
            }
            if !moved {
                return;
            }
        }
        panic!("the cluster does not come to rest");
    }

    pub fn tick(&mut self) {
        for node in 0..self.nodes.len() {
            self.with(node, |host, local| host.handle_tick(local));
        }
        self.settle();
    }

    /// Time passes for all, in steps of a tenth of a second.
    pub fn pass(&mut self, span: Span) {
        let until = self.now.plus(span);
        while self.now < until {
            self.now = self.now.plus(Span::from_millis(100)).min(until);
            self.store.set_now(self.now);
            self.tick();
        }
    }

    pub fn owners(&self) -> Vec<Option<NodeId>> {
        self.store.dump().shards.iter().map(|shard| shard.row.owner).collect()
    }

    /// Which node owns the shard, by its place in `nodes`.
    pub fn owner(&self, shard: u16) -> usize {
        self.owners()[usize::from(shard)].expect("somebody owns it").node as usize - 1
    }

    pub fn held(&self, node: usize) -> usize {
        self.nodes[node].host.shards().count()
    }

    pub fn job_id(&mut self, shard: u16) -> JobId {
        self.next_job += 1;
        JobId::mint(self.now, Slot::from_bits(shard * 16), self.next_job << 2)
    }

    pub fn ask(&mut self, node: usize, shard: u16, command: Command) -> CommandId {
        self.next_command += 1;
        let id = CommandId(self.next_command);
        self.with(node, |host, local| {
            host.handle_command(local, id, ShardId(shard), command, Span::from_secs(8));
        });
        self.settle();
        id
    }

    pub fn submit(&mut self, node: usize, shard: u16, spec: Spec) -> (JobId, CommandId) {
        let id = self.job_id(shard);
        let job = NewJob { id, spec: Arc::new(spec), key: None, paused: false };
        (id, self.ask(node, shard, Command::Submit(vec![job])))
    }

    pub fn heard(&mut self, node: usize, id: CommandId) -> Option<Answer> {
        self.nodes[node].answers.remove(&id)
    }

    pub fn saw(&self, node: usize, event: Event) -> bool {
        self.nodes[node].events.contains(&event)
    }

    pub fn rows(&self) -> usize {
        self.store.dump().shards.iter().map(|shard| shard.rows.len()).sum()
    }
}

pub fn is_renew(call: &StoreCall) -> bool {
    matches!(call, StoreCall::Renew(_))
}

pub fn is_commit(call: &StoreCall) -> bool {
    matches!(call, StoreCall::Commit(_))
}

pub fn view(answer: &(CallId, StoreAnswer)) -> &Cluster {
    match &answer.1 {
        StoreAnswer::Renew(view) => view,
        other => panic!("{other:?}"),
    }
}

fn carry(store: &MemoryStore, call: &StoreCall) -> StoreAnswer {
    let answer = match call {
        StoreCall::Commit(commits) => store.commit(commits).map(|committed| StoreAnswer::Commit {
            now: committed.now,
            ends: committed.outcomes.into_iter().map(end).collect(),
        }),
        StoreCall::Read(reads) => store.read(reads).map(StoreAnswer::Read),
        StoreCall::Renew(renew) => store.renew(*renew).map(StoreAnswer::Renew),
        StoreCall::Take(takes) => store.take(takes).map(StoreAnswer::Take),
        StoreCall::Give(gives) => store.give(gives).map(StoreAnswer::Give),
    };
    answer.unwrap_or_else(|error| match error {
        StoreError::Refused(store::Refusal::Room) => StoreAnswer::Refused(Refusal::Room),
        StoreError::Refused(_) => StoreAnswer::Refused(Refusal::NotNow),
        StoreError::Unknown => StoreAnswer::Unknown,
    })
}

fn end(outcome: Outcome) -> CommitEnd {
    match outcome {
        Outcome::Durable => CommitEnd::Durable,
        Outcome::Fenced => CommitEnd::Fenced,
        Outcome::Gap { last } => CommitEnd::Gap { last },
        Outcome::Early => CommitEnd::Early,
        Outcome::Room => CommitEnd::NoRoom,
        Outcome::Row { index } => CommitEnd::Row { index },
    }
}
