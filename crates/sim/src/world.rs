//! The world: one queue of things that will happen, one source of chance, one true time. A run is
//! a function of its seed: the same seed gives the same trace, byte for byte.
//!
//! Safety phase (faults), then everything heals, then liveness (everything due gets done), then
//! the checker reads what was seen and what the store holds.

use crate::checker::Violation;
use crate::clock::LocalClock;
use crate::event::{Asker, Happens};
use crate::fires::Fires;
use crate::levels::Levels;
use crate::limited::Watch;
use crate::log::Log;
use crate::options::Options;
use crate::rng::Rng;
use crate::stall::Stall;
use crate::worker::Worker;
use crate::workload::Workload;
use model::hash::Hasher;
use model::row::Row;
use model::{NodeId, RunId, RunState, ShardId, Span, Time};
use shard::command::{Answer, Command, CommandId};
use shard::{Bug, Event, Host, Planted};
use std::collections::{BTreeMap, BTreeSet};
use store::faulty::FaultyStore;
use store::memory::MemoryStore;

/// When the simulated story begins: an instant in 2027, away from every round number.
pub const BEGIN: Time = Time::from_micros(1_806_100_123_456_789);
/// A store call without an answer for this long is given up by the node.
pub const CALL_TIMEOUT: Span = Span::from_secs(5);
/// A caller waits this long.
pub const CALLER_WAIT: Span = Span::from_secs(8);

#[derive(Debug)]
pub struct SimNode {
    pub host: Option<Host>,
    pub boot: u64,
    pub clock: LocalClock,
    pub frozen_until: Time,
    /// Cut off until then: from the store, from the other nodes, from callers.
    pub cut_store: Time,
    pub cut_peers: Time,
    pub cut_callers: Time,
    /// The tick that counts: when it comes, and its number. Others that are under way are void.
    tick: Option<(Time, u64)>,
    /// Webhooks under way: run and token, and whether a stop was asked for.
    pub webhooks: BTreeMap<model::RunId, (model::Token, bool)>,
}

#[derive(Debug)]
pub struct World {
    pub seed: u64,
    pub options: Options,
    pub rng: Rng,
    pub now: Time,
    pub steps: u64,
    pub healed: bool,
    queue: BTreeMap<(Time, u64), Happens>,
    order: u64,
    pub store: FaultyStore<MemoryStore>,
    pub stalled_until: Time,
    pub nodes: Vec<SimNode>,
    pub workers: Vec<Worker>,
    pub workload: Workload,
    pub askers: BTreeMap<CommandId, Asker>,
    pub last_command: u64,
    pub log: Log,
    trace: Hasher,
    planted: Planted,
    pub verbose: bool,
    /// Runs whose holder heard that they are finished.
    pub(crate) finished: BTreeSet<RunId>,
    pub(crate) stall: Option<Stall>,
    /// Broken promises that are seen on the way and not at the end.
    pub(crate) found: Vec<Violation>,
    pub(crate) watch: Watch,
    /// Quotas of recurring jobs, in worlds that have them.
    pub(crate) fires: Option<Fires>,
    /// Service levels of queues.
    pub(crate) levels: Levels,
}

impl World {
    pub fn new(seed: u64, steps: u64, bug: Option<Bug>) -> World {
        let mut rng = Rng::new(seed);
        let options = Options::draw(&mut rng.fork(1), steps);
        let store = FaultyStore::new(MemoryStore::new(options.shards));
        store.inner().set_now(BEGIN);
        if options.poison {
            store.poison(crate::workload::is_poison);
        }
        let mut world = World {
            seed,
            rng: rng.fork(2),
            now: BEGIN,
            steps: 0,
            healed: false,
            queue: BTreeMap::new(),
            order: 0,
            store,
            stalled_until: BEGIN,
            nodes: Vec::new(),
            workers: Vec::new(),
            workload: Workload::new(rng.fork(3)),
            askers: BTreeMap::new(),
            last_command: 0,
            log: Log::default(),
            trace: Hasher::new(seed),
            planted: Planted(bug),
            verbose: false,
            finished: BTreeSet::new(),
            stall: None,
            found: Vec::new(),
            watch: Watch::default(),
            fires: Fires::new(seed, options.nodes),
            levels: Levels::new(seed),
            options,
        };
        world.populate();
        world
    }

    fn populate(&mut self) {
        for node in 0..self.options.nodes as usize {
            let drift = if self.options.drift_ppm == 0 { 0 } else { self.rng.range(-900, 900) };
            let starts_at = Time::from_secs(self.rng.range(0, 1_000_000));
            self.nodes.push(SimNode {
                host: None,
                boot: 0,
                clock: LocalClock::new(self.now, starts_at, drift),
                frozen_until: self.now,
                cut_store: self.now,
                cut_peers: self.now,
                cut_callers: self.now,
                tick: None,
                webhooks: BTreeMap::new(),
            });
            let at = Span::from_millis(self.rng.range(0, 300));
            self.after(at, Happens::NodeStarts { node });
        }
        for worker in 0..self.options.workers {
            self.workers.push(Worker::new(worker, &mut self.rng));
            let at = Span::from_millis(self.rng.range(100, 2_000));
            self.after(at, Happens::Claim { worker });
        }
        self.after(Span::from_secs(3), Happens::Client);
        self.after(Span::from_secs(4), Happens::Fault);
    }

    // ---- the queue ------------------------------------------------------------------------------

    pub fn after(&mut self, span: Span, happens: Happens) {
        let span = Span::from_micros(span.micros().max(1));
        self.order += 1;
        self.queue.insert((self.now.plus(span), self.order), happens);
    }

    /// The next thing happens. False when nothing will.
    pub fn step(&mut self) -> bool {
        let Some(((at, order), happens)) = self.queue.pop_first() else { return false };
        self.now = self.now.max(at);
        self.store.inner().set_now(self.now);
        self.steps += 1;
        if self.verbose {
            println!("{:?} {happens:?}", self.now);
        }
        self.note(at.micros() as u64 ^ order);
        self.happen(happens);
        true
    }

    /// Adds to the trace that two runs of one seed must share.
    pub fn note(&mut self, what: u64) {
        self.trace.write(&what.to_le_bytes());
    }

    pub fn trace(&self) -> u64 {
        self.trace.finish()
    }

    pub fn next_at(&self) -> Option<Time> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    fn happen(&mut self, happens: Happens) {
        if let Some(until) = self.frozen(&happens) {
            // Whatever is meant for a frozen process waits for it.
            self.order += 1;
            self.queue.insert((until, self.order), happens);
            return;
        }
        match happens {
            Happens::Tick { node, number } => {
                if self.nodes[node].tick.is_some_and(|(_, counts)| counts == number) {
                    self.nodes[node].tick = None;
                    self.with_host(node, |host, local| host.handle_tick(local));
                }
            }
            Happens::CallArrives { node, boot, id, call } => {
                self.call_arrives(node, boot, id, call)
            }
            Happens::CallReturns { node, boot, id, answer } => {
                if self.nodes[node].boot != boot {
                    return;
                }
                let later = self.options.acts_later;
                self.with_host(node, |host, local| {
                    if later {
                        host.gather();
                    }
                    host.handle_store(local, id, answer);
                });
                if later {
                    self.after(Span::from_micros(1), Happens::Act { node, boot });
                }
            }
            Happens::Act { node, boot } => {
                if self.nodes[node].boot == boot {
                    self.with_host(node, |host, local| host.act(local));
                }
            }
            Happens::MessageArrives { to, from, message, repeated } => {
                let node = (to.node - 1) as usize;
                let sim = &self.nodes[node];
                if self.now < sim.cut_peers {
                    return;
                }
                if sim.boot == to.boot && sim.host.is_some() {
                    self.with_host(node, |host, local| host.handle_message(local, from, message));
                } else if !repeated {
                    // Nobody listens there any more, and the sender is told.
                    let back = (from.node - 1) as usize;
                    if self.nodes[back].boot == from.boot {
                        self.with_host(back, |host, local| host.handle_bounce(local, &message));
                    }
                }
            }
            Happens::CommandArrives { node, id, shard, command } => {
                if self.now >= self.nodes[node].cut_callers {
                    self.with_host(node, |host, local| {
                        host.handle_command(local, id, ShardId(shard), command, CALLER_WAIT);
                    });
                }
            }
            Happens::AnswerArrives { id, answer } => self.answer_arrives(id, answer),
            Happens::GiveUp { id } => self.give_up(id),
            Happens::HangUp { node, id } => {
                if self.askers.contains_key(&id) && self.now >= self.nodes[node].cut_callers {
                    self.with_host(node, |host, local| host.handle_gone(local, id));
                }
                self.give_up(id);
            }
            Happens::Client => self.client_step(),
            Happens::Fault => self.fault_step(),
            Happens::NodeStarts { node } => self.start_node(node),
            Happens::MayGo { node, boot, by } => self.may_go(node, boot, by),
            Happens::Claim { worker } => self.worker_claims(worker),
            Happens::Beat { worker, life } => self.worker_beats(worker, life),
            Happens::WorkEnds { worker, life, run, token } => {
                self.work_ends(worker, life, run, token);
            }
            Happens::SettleAgain { worker, life, run, token, end, tries } => {
                self.worker_settles(worker, life, run, token, end, tries);
            }
            Happens::Execute { node, boot, shard } => self.execute(node, boot, shard),
            Happens::WebhookArrives { node, boot, leased, request } => {
                self.webhook_arrives(node, boot, leased, request);
            }
            Happens::WebhookEnds { node, boot, run, token, end, tries } => {
                self.webhook_ends(node, boot, run, token, end, tries);
            }
        }
    }

    fn frozen(&self, happens: &Happens) -> Option<Time> {
        let until = match happens {
            Happens::Tick { node, .. }
            | Happens::CallReturns { node, .. }
            | Happens::Act { node, .. }
            | Happens::CommandArrives { node, .. }
            | Happens::HangUp { node, .. }
            | Happens::Execute { node, .. }
            | Happens::MayGo { node, .. }
            | Happens::WebhookEnds { node, .. } => self.nodes[*node].frozen_until,
            Happens::MessageArrives { to, .. } => self.nodes[(to.node - 1) as usize].frozen_until,
            Happens::Beat { worker, .. }
            | Happens::WorkEnds { worker, .. }
            | Happens::Claim { worker }
            | Happens::SettleAgain { worker, .. } => self.workers[*worker].frozen_until,
            _ => return None,
        };
        (until > self.now).then_some(until)
    }

    // ---- nodes ----------------------------------------------------------------------------------

    pub fn start_node(&mut self, node: usize) {
        let now = self.now;
        let random = self.rng.draw();
        let sim = &mut self.nodes[node];
        if sim.host.is_some() {
            return;
        }
        sim.boot += 1;
        let id = NodeId { node: node as u32 + 1, boot: sim.boot };
        let mut host = Host::new(id, self.planted);
        host.set_sizes(self.options.sizes);
        if let Some(fires) = &self.fires {
            host.set_quotas(fires.of(node));
        }
        // Some nodes have several commits under way, and the network may turn their order round.
        host.set_commits_at_once(1 + (random % 3) as usize);
        sim.host = Some(host);
        sim.frozen_until = now;
        sim.tick = None;
        sim.webhooks.clear();
        let boot = sim.boot;
        self.note(random);
        self.look_for_herd();
        self.with_host(node, |host, local| host.handle_tick(local));
        for shard in 0..self.options.shards {
            let at = Span::from_millis(self.rng.range(50, 500));
            self.after(at, Happens::Execute { node, boot, shard });
        }
    }

    /// Does a node start while one namespace has more ready than memory holds, and another little?
    fn look_for_herd(&mut self) {
        if self.options.herd == 0 {
            return;
        }
        for shard in self.store.inner().dump().shards {
            let mut ready = BTreeMap::new();
            for row in shard.rows.values() {
                if let Row::Run(run) = row
                    && run.state == RunState::Ready
                {
                    *ready.entry(run.flow.namespace).or_insert(0) += 1;
                }
            }
            let (most, least) = (ready.values().max(), ready.values().min());
            if ready.len() > 1 && most > Some(&(2 * self.options.sizes.page)) && least < Some(&4) {
                self.log.count(Event::RestartedWithHerd);
            }
        }
    }

    pub fn kill_node(&mut self, node: usize) {
        self.disturb();
        self.nodes[node].host = None;
        self.nodes[node].webhooks.clear();
        let down = Span::from_millis(self.rng.range(10, 9_000));
        self.after(down, Happens::NodeStarts { node });
    }

    /// Lets a node do something and carries out what it asks for.
    pub fn with_host(&mut self, node: usize, act: impl FnOnce(&mut Host, Time)) {
        let local = self.nodes[node].clock.local(self.now);
        let Some(host) = self.nodes[node].host.as_mut() else { return };
        act(host, local);
        let mut outputs = Vec::new();
        while let Some(output) = host.poll_output() {
            outputs.push(output);
        }
        let next = host.next_tick(local).since(local);
        for output in outputs {
            self.carry_out(node, output);
        }
        let sim = &mut self.nodes[node];
        let at = self.now.plus(sim.clock.true_span(next));
        if sim.tick.is_none_or(|(scheduled, _)| at < scheduled) {
            let number = self.order + 1;
            sim.tick = Some((at, number));
            let wait = at.since(self.now);
            self.after(wait, Happens::Tick { node, number });
        }
    }

    // ---- commands -------------------------------------------------------------------------------

    /// Sends a command to a node, chosen by chance unless it is given.
    pub fn ask(
        &mut self,
        asker: Asker,
        shard: u16,
        command: Command,
        node: Option<usize>,
    ) -> (usize, CommandId) {
        self.last_command += 1;
        let id = CommandId(self.last_command);
        self.askers.insert(id, asker);
        let node = match node {
            Some(node) => node,
            None => self.rng.below(self.nodes.len() as u64) as usize,
        };
        let latency = self.latency();
        self.after(latency, Happens::CommandArrives { node, id, shard, command });
        self.after(CALLER_WAIT.plus(Span::from_secs(1)), Happens::GiveUp { id });
        (node, id)
    }

    fn answer_arrives(&mut self, id: CommandId, answer: Answer) {
        let Some(asker) = self.askers.remove(&id) else { return };
        match asker {
            Asker::Client { op } => self.client_hears(op, answer),
            Asker::Worker { worker, life, what } => self.worker_hears(worker, life, what, answer),
            Asker::Executor { node, boot, what } => self.executor_hears(node, boot, what, answer),
        }
    }

    fn give_up(&mut self, id: CommandId) {
        let Some(asker) = self.askers.remove(&id) else { return };
        match asker {
            Asker::Client { op } => self.client_gives_up(op),
            Asker::Worker { worker, life, what } => self.worker_gives_up(worker, life, what),
            Asker::Executor { node, boot, what } => self.executor_gives_up(node, boot, what),
        }
    }
}
