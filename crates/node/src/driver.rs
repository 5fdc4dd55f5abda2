//! The driver: one thread that owns the `Host`, hears callers and lanes, and keeps the time.

use crate::clock::BootClock;
use crate::crash;
use crate::events::{Happened, What};
use crate::handle::Shared;
use crate::lanes::{Lane, Which, lane_of};
use crate::limits::{CLAIMS_TOLD, INPUT_SLICE, LOOK_EVERY, TICK_MAX};
use crate::post::{Letter, Post};
use crate::seen::Seen;
use crate::view::View;
use model::id::SHARDS;
use model::{NodeId, RunId, ShardId, Span, Time, Token};
use shard::command::{Answer, Command, CommandId};
use shard::{
    CallId, Counts, Event, Host, HostOutput, LevelChange, Message, Output, StoreAnswer, StoreCall,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use tokio::sync::{oneshot, watch};

#[derive(Debug)]
pub enum Input {
    Call {
        id: CommandId,
        shard: ShardId,
        command: Command,
        wait: Span,
        reply: oneshot::Sender<Answer>,
    },
    /// The caller hung up; `late`: an answer came while it did.
    Gone {
        id: CommandId,
        late: bool,
    },
    Store {
        which: Which,
        id: CallId,
        answer: StoreAnswer,
    },
    /// Letters of another node, in the order they were sent.
    Letters {
        from: NodeId,
        letters: Vec<Letter>,
    },
    /// What was not heard by another node.
    Bounced {
        to: NodeId,
        letters: Vec<Letter>,
    },
    Count(oneshot::Sender<Vec<(ShardId, Counts)>>),
    /// Tell every other node.
    Tell(Letter),
    /// Somebody waits for this run: if it is decided elsewhere, the end shall be told.
    Watch(RunId),
    /// Give all shards away and take none.
    Leave,
    Stop,
}

pub struct Driver {
    pub host: Host,
    pub input: Receiver<Input>,
    pub commit: Lane,
    pub read: Lane,
    pub own: Lane,
    pub renew: Lane,
    pub shared: Arc<Shared>,
    pub seen: Seen,
    pub live: watch::Sender<bool>,
    pub callers: BTreeMap<CommandId, oneshot::Sender<Answer>>,
    /// Nobody else can hold this store, so shards are taken as fast as the store answers.
    pub exclusive: bool,
    /// A renewal or a take was answered: there may be more shards to take.
    pub hurrying: bool,
    /// Shards that were held when it hurried last.
    pub hurried: usize,
    /// When the queues were last counted for the metrics.
    pub looked: Time,
    /// Who carries letters to other nodes; none where there can be no others.
    pub post: Option<Arc<dyn Post>>,
    pub view: watch::Sender<Arc<View>>,
    /// The view may have changed since it was shown.
    pub stale: bool,
    /// Claims that were sent to other nodes: whoever hangs up after the answer was told is told on.
    pub claims: BTreeMap<CommandId, NodeId>,
}

impl Driver {
    pub fn run(mut self) {
        self.host.handle_tick(BootClock.local());
        loop {
            self.carry_out();
            let local = BootClock.local();
            let pause = self.host.next_tick(local).since(local).micros().max(0).unsigned_abs();
            let first = match self.input.recv_timeout(Duration::from_micros(pause).min(TICK_MAX)) {
                Ok(input) => input,
                Err(RecvTimeoutError::Timeout) => {
                    self.tick(BootClock.local());
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            self.host.gather();
            let mut next = Some(first);
            for _ in 0..INPUT_SLICE {
                let Some(input) = next.take() else { break };
                if matches!(input, Input::Stop) {
                    return;
                }
                self.handle(input);
                next = self.input.try_recv().ok();
            }
            if let Some(input) = next {
                self.handle(input);
            }
            self.host.act(BootClock.local());
            // Only now: the takes that follow from a renewal come before the next renewal.
            if std::mem::take(&mut self.hurrying) {
                self.hurry();
            }
            // Under load the timeout above never comes, and time passes all the same.
            let local = BootClock.local();
            if self.host.next_tick(local) <= local.plus(Span::from_millis(1)) {
                self.tick(local);
            }
        }
    }

    fn tick(&mut self, local: Time) {
        self.host.handle_tick(local);
        let metrics = &self.shared.metrics;
        if local.since(self.looked) > LOOK_EVERY {
            self.looked = local;
            metrics.look(&self.host);
        }
        metrics.tick.observe(BootClock.local().since(local));
    }

    fn handle(&mut self, input: Input) {
        let local = BootClock.local();
        match input {
            Input::Call { id, shard, command, wait, reply } => {
                self.callers.insert(id, reply);
                self.host.handle_command(local, id, shard, command, wait);
            }
            Input::Gone { id, late } => {
                if self.callers.remove(&id).is_some() || late {
                    self.gone(id);
                }
            }
            Input::Store { which, id, answer } => {
                if let StoreAnswer::Read(pages) = &answer {
                    self.seen.pages(pages);
                    self.shared.events.pages(pages);
                }
                if which == Which::Commit {
                    for (node, run) in self.shared.events.answered(id, &answer, &self.shared.specs)
                    {
                        self.mail(node, Letter::Ended(run));
                    }
                    self.shared.metrics.answered(id, &answer);
                }
                self.shared.metrics.renewals.add(matches!(answer, StoreAnswer::Renew(_)).into());
                let good = matches!(answer, StoreAnswer::Renew(_) | StoreAnswer::Take(_));
                self.host.handle_store(local, id, answer);
                match which {
                    Which::Commit => self.commit.answered(),
                    Which::Read => self.read.answered(),
                    Which::Own => self.own.answered(),
                    Which::Renew => self.renew.answered(),
                }
                self.stale |= matches!(which, Which::Own | Which::Renew);
                self.hurrying |= good;
            }
            Input::Count(reply) => {
                let counts = self.host.shards().map(|shard| (shard.id(), shard.counts()));
                // Who asked may be gone.
                let _ = reply.send(counts.collect());
            }
            Input::Letters { from, letters } => {
                letters.into_iter().for_each(|letter| self.heard(from, letter));
            }
            Input::Bounced { to, letters } => {
                letters.into_iter().for_each(|letter| self.bounced(to, letter));
            }
            Input::Tell(letter) => self.mail_all(&letter),
            Input::Watch(run) => {
                let owner = self.host.ownership().owner(run.job.shard());
                if let Some(owner) = owner.filter(|owner| *owner != self.host.node()) {
                    self.mail(owner, Letter::Watch(run));
                }
            }
            Input::Leave => {
                self.host.leave(local);
                self.stale = true;
            }
            Input::Stop => {}
        }
    }

    fn heard(&mut self, from: NodeId, letter: Letter) {
        match letter {
            Letter::Core(message) => self.host.handle_message(BootClock.local(), from, message),
            Letter::Stop(run, token) => self.shared.stops.stop(run, token),
            Letter::Changed(what) => self.shared.changed(what),
            Letter::Watch(run) => self.shared.events.watch(run, from),
            Letter::Ended(run) => self.shared.events.look_again(run),
        }
    }

    /// To every other node.
    fn mail_all(&mut self, letter: &Letter) {
        let peers: Vec<NodeId> = self.view.borrow().peers().map(|lease| lease.node).collect();
        peers.into_iter().for_each(|peer| self.mail(peer, letter.clone()));
    }

    fn bounced(&mut self, to: NodeId, letter: Letter) {
        let local = BootClock.local();
        match letter {
            // Nobody will hear of these leases.
            Letter::Core(Message::Answer { id, answer: Answer::Claimed(_), .. }) => {
                self.host.handle_message(local, to, Message::Gone { id });
            }
            Letter::Core(message) => self.host.handle_bounce(local, &message),
            _ => {}
        }
    }

    /// To another node, if it is known where it is. What cannot be sent was not heard.
    fn mail(&mut self, to: NodeId, letter: Letter) {
        if let Letter::Core(Message::Forward { id, command: Command::Claim(_), .. }) = &letter {
            self.claims.insert(*id, to);
            if self.claims.len() > CLAIMS_TOLD {
                self.claims.pop_first();
            }
        }
        let view = self.host.ownership().view();
        let lease = view.and_then(|view| view.nodes.iter().find(|lease| lease.node == to));
        let address = lease.and_then(|lease| lease.address.clone());
        let back = match &self.post {
            Some(post) => post.send(to, address.as_ref(), letter),
            None => Some(letter),
        };
        if let Some(letter) = back {
            self.bounced(to, letter);
        }
    }

    /// An attempt of another node's executor ends there.
    fn stop(&mut self, run: RunId, token: Token) {
        self.shared.stops.stop(run, token);
        self.mail_all(&Letter::Stop(run, token));
    }

    fn show(&mut self) {
        let view = View::of(&self.host, BootClock.local());
        if let Some(post) = &self.post {
            let alive: Vec<NodeId> = view.alive().map(|lease| lease.node).collect();
            post.keep(&alive);
        }
        self.view.send_replace(Arc::new(view));
        self.stale = false;
    }

    /// The core takes a few shards per renewal and renews once a second. While a process that is
    /// alone with its store still lacks shards, "somebody gave you one" makes it renew at once. One
    /// that shares its store does so only after it got some: leases of others run out in their time.
    fn hurry(&mut self) {
        let held = self.host.shards().count();
        let got_some = held > std::mem::replace(&mut self.hurried, held);
        if (self.exclusive || got_some) && held < usize::from(SHARDS) {
            let (node, shard) = (self.host.node(), ShardId(0));
            self.host.handle_message(BootClock.local(), node, Message::Gave { shard, epoch: None });
        }
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.host.poll_output() {
            match output {
                HostOutput::Call(id, call) => self.send(id, call),
                HostOutput::Send(to, message) => self.mail(to, Letter::Core(message)),
                HostOutput::Shard(_, Output::Reply(id, answer)) => {
                    crash::point("reply-before");
                    self.note_starts(&answer);
                    if let Some(reply) = self.callers.remove(&id)
                        && reply.send(answer).is_err()
                    {
                        self.gone(id);
                    }
                }
                HostOutput::Shard(_, Output::Stop(run, token)) => self.stop(run, token),
                HostOutput::Shard(_, Output::Level(change)) => self.tell_level(change),
                HostOutput::Shard(_, Output::Withdraw(_)) => {}
                HostOutput::Shard(shard, Output::Event(event)) => {
                    self.shared.metrics.event(&event);
                    if event == Event::TookOver
                        && let Some(now) = self.host.now(BootClock.local())
                    {
                        let last = &self.shared.metrics.last_takeover;
                        last.store(now.micros(), Ordering::Relaxed);
                    }
                    tell(shard, event);
                }
            }
        }
        let local = BootClock.local();
        if let Some(now) = self.host.now(local) {
            self.shared.ahead.store(now.since(local).micros(), Ordering::Relaxed);
        }
        let (live, here) = (self.host.live(), self.host.held());
        self.shared.metrics.shards_live.store(live as u64, Ordering::Relaxed);
        let shown = self.view.borrow().clone();
        if self.stale || (live, here) != (shown.live, shown.here.len()) {
            self.show();
        }
        let all = match self.exclusive {
            true => live == usize::from(SHARDS),
            false => self.view.borrow().is_whole(),
        };
        self.live.send_if_modified(|was| std::mem::replace(was, all) != all);
    }

    /// Whether a queue keeps what was promised of it.
    fn tell_level(&self, LevelChange { namespace, queue, broken }: LevelChange) {
        let Some(at) = self.host.now(BootClock.local()) else { return };
        let what = if broken { What::LevelBroken } else { What::LevelKept };
        let (namespace, queue) = (Some(namespace), Some(queue));
        let told = Happened { seq: 0, at, what, namespace, queue, job: None, run: None };
        self.shared.events.tell(told);
    }

    /// A caller hung up. Its claim may be another node's, also when its answer was told already.
    fn gone(&mut self, id: CommandId) {
        let owner = self.claims.remove(&id);
        self.host.handle_gone(BootClock.local(), id);
        if let Some(owner) = owner {
            self.mail(owner, Letter::Core(Message::Gone { id }));
        }
    }

    /// How late the first attempts are that leave with this answer.
    fn note_starts(&self, answer: &Answer) {
        let Answer::Claimed(leases) = answer else { return };
        let Some(now) = self.host.now(BootClock.local()) else { return };
        for leased in leases.iter().filter(|leased| leased.attempt == 1) {
            self.shared.metrics.fire_skew.observe(now.since(leased.due));
        }
    }

    fn send(&mut self, id: CallId, call: StoreCall) {
        if let StoreCall::Commit(commits) = &call {
            self.seen.commits(commits);
            self.shared.events.sent(id, commits);
            self.shared.metrics.sent(id, commits);
        }
        match lane_of(&call) {
            Which::Commit => self.commit.send(id, call),
            Which::Read => self.read.send(id, call),
            Which::Own => self.own.send(id, call),
            Which::Renew => self.renew.send(id, call),
        }
    }
}

/// What a person who looks at the log must know.
fn tell(shard: ShardId, event: Event) {
    let what = match event {
        Event::Divergence => "memory and store disagreed; loaded again",
        Event::PoisonIsolated => "a command that cannot be stored was refused",
        Event::Quarantined => "work that cannot be stored was set aside",
        Event::LostTail => "the store lost what it had acknowledged",
        Event::RoomShort => "the store has no room",
        Event::ClockRanWild => "the clock ran ahead of the store's; it is not trusted",
        Event::UnknownLost => "a commit without an answer was not applied; decided again",
        Event::TookOver | Event::TookOverRunning => {
            tracing::debug!(shard = shard.0, event = ?event, "taken over");
            return;
        }
        Event::TookGift => {
            tracing::debug!(shard = shard.0, "taken as told");
            return;
        }
        Event::Gave => {
            tracing::debug!(shard = shard.0, "given to another node");
            return;
        }
        _ => return,
    };
    tracing::warn!(shard = shard.0, event = ?event, "{what}");
}
