//! One shard. Inputs are `handle_*`, outputs are `poll_*`; time is an argument.
//!
//! A command waits in the inbox, is **decided** when the rows it needs are known (if not, they are
//! read first), and its changes join the batch being built. A batch is sent when the one before it
//! is durable. Only then do its answers leave: persist, then act. If a commit's outcome is unknown
//! or contradicts memory, memory is thrown away, a new epoch is taken, and what the store holds is
//! loaded again (`pipeline.rs`, `load.rs`).
//!
//! The verbs are in `verbs/`, one file each. They follow one rule that makes them repeatable: a
//! verb asks for every row it needs (`?` on `Need`) before it changes anything.

use crate::batch::{Event, Output, Own};
use crate::command::{Answer, Command, CommandId, End, Refused, Settle};
use crate::entry::{Entry, Policies};
use crate::flows::{FlowId, Flows};
use crate::inbox::Inbox;
use crate::leases::Leases;
use crate::limits::{FULL_FIRST, RESCUE_AGAIN, SLICES_WAITING, Sizes};
use crate::load::Loader;
use crate::pipeline::Pipeline;
use crate::planted::{Bug, Planted};
use crate::quotas::Quotas;
use crate::recent::Recent;
use crate::rows::{ReadId, Rows};
use crate::starts::Began;
use crate::timer::{Timed, Timer};
use crate::touched::Touched;
use crate::verbs::{Reserved, Sweep};
use crate::waiters::Waiters;
use calendar::Schedule;
use model::read::{Outcome, Page, Read, WheelKey};
use model::row::{BacklogId, HoldRow, Key, Scope};
use model::{Epoch, JobId, Namespace, NodeId, RunId, ShardId, Span, Spec, Text, Time, Token};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Who asked, and until when the answer is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    pub id: CommandId,
    pub deadline: Time,
}

impl Caller {
    /// Of commands that the core gives itself; nobody waits for the answer.
    pub(crate) const NOBODY: Caller = Caller { id: CommandId(0), deadline: Time::MAX };
}

/// Something to be decided.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Command(Caller, Command),
    Due(Timed),
    /// Of this attempt, not of one that began while the rescue waited for rows.
    Rescue(RunId, Token),
    Expire(Entry),
}

/// Work that waits for rows, with all the rows it has asked for so far: what was read for an
/// earlier try is forgotten, so each try asks for everything again.
#[derive(Clone, Debug)]
pub(crate) struct Parked {
    pub keys: Vec<Key>,
    pub work: Work,
}

/// Rows that must be read before a decision.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Need(pub Vec<Key>);

pub(crate) type Decision<T> = Result<T, Need>;

#[derive(Debug)]
pub struct Shard {
    pub(crate) id: ShardId,
    pub(crate) node: NodeId,
    pub(crate) epoch: Epoch,
    pub(crate) planted: Planted,
    pub(crate) sizes: Sizes,
    /// Commits that may be on their way.
    pub(crate) commits_at_once: usize,
    pub(crate) counter: u32,

    pub(crate) flows: Flows,
    pub(crate) timer: Timer,
    pub(crate) leases: Leases,
    pub(crate) policies: Policies,
    pub(crate) rows: Rows,
    pub(crate) recent: Recent,
    pub(crate) holds: BTreeMap<Scope, HoldRow>,
    pub(crate) waiters: Waiters,
    pub(crate) reserved: Reserved,
    pub(crate) quotas: Quotas,
    pub(crate) schedules: BTreeMap<(JobId, u32), Schedule>,
    /// Runs pushed to a flow in this pass whose row does not say "ready" yet.
    pub(crate) unpatched: Vec<(FlowId, (Time, RunId))>,
    /// Own decisions that the store refused for a row: left alone until a person looks.
    pub(crate) quarantine: BTreeSet<Own>,
    /// Submissions that the store refused: is their id taken, or are they poison?
    pub(crate) doubted: BTreeSet<JobId>,

    pub(crate) inbox: Inbox,
    /// Work whose rows have come.
    pub(crate) again: VecDeque<Parked>,
    pub(crate) parked: BTreeMap<ReadId, (Vec<Key>, Vec<Parked>)>,
    pub(crate) wanted: Vec<Parked>,

    pub(crate) loader: Loader,
    pub(crate) touched: Touched,
    pub(crate) pipeline: Pipeline,
    pub(crate) reads: VecDeque<(ReadId, Read)>,
    pub(crate) outstanding: BTreeMap<ReadId, Read>,
    pub(crate) retry_reads: Vec<(Time, ReadId)>,
    /// Backlogs that wait to learn what became of their instants.
    pub(crate) outcome_reads: BTreeMap<ReadId, (BacklogId, usize)>,
    pub(crate) outcomes: BTreeMap<BacklogId, (Time, Vec<Outcome>)>,
    /// Commands that wait for what is no row: a rerun for its history, a replay for its spec.
    pub(crate) asides: BTreeMap<ReadId, (Caller, Command)>,
    /// What they learned: did the instant run, and when was it; what does the run do?
    pub(crate) reran: BTreeMap<RunId, Option<Time>>,
    pub(crate) specs: BTreeMap<RunId, Option<Arc<Spec>>>,
    pub(crate) sweeps: BTreeMap<JobId, Sweep>,
    /// Keys read for the decisions of this pass.
    pub(crate) read_once: Vec<Key>,
    pub(crate) last_read: u64,
    pub(crate) outputs: VecDeque<Output>,
    /// Until when this node's own lease can be trusted.
    pub(crate) trusted_until: Time,
    pub(crate) floor_written: Time,
    pub(crate) began: Began,
    /// Until then what the timer postponed is left alone.
    pub(crate) postponed_until: Time,
    /// The floor, if it was written by a clock that has been set back since; or that runs wild now.
    pub(crate) floor_ahead: Option<Time>,
}

impl Shard {
    /// A shard that this node has just taken. It reads what it needs and then lives.
    pub fn new(
        id: ShardId,
        node: NodeId,
        taken: model::cluster::Taken,
        alive: &[NodeId],
        now: Time,
        planted: Planted,
    ) -> Shard {
        let mut shard = Shard {
            id,
            node,
            epoch: taken.epoch,
            planted,
            sizes: Sizes::default(),
            commits_at_once: 1,
            counter: 0,
            flows: Flows::default(),
            timer: Timer::default(),
            leases: Leases::default(),
            policies: Policies::default(),
            rows: Rows::new(planted),
            recent: Recent::default(),
            holds: BTreeMap::new(),
            waiters: Waiters::default(),
            reserved: Reserved::default(),
            quotas: Quotas::default(),
            schedules: BTreeMap::new(),
            unpatched: Vec::new(),
            quarantine: BTreeSet::new(),
            doubted: BTreeSet::new(),
            inbox: Inbox::default(),
            again: VecDeque::new(),
            parked: BTreeMap::new(),
            wanted: Vec::new(),
            loader: Loader::default(),
            touched: Touched::default(),
            pipeline: Pipeline::new(taken.seq),
            reads: VecDeque::new(),
            outstanding: BTreeMap::new(),
            retry_reads: Vec::new(),
            outcome_reads: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            asides: BTreeMap::new(),
            reran: BTreeMap::new(),
            specs: BTreeMap::new(),
            sweeps: BTreeMap::new(),
            read_once: Vec::new(),
            last_read: 0,
            outputs: VecDeque::new(),
            trusted_until: now,
            floor_written: now,
            began: Began::default(),
            postponed_until: Time::MIN,
            floor_ahead: None,
        };
        shard.flows.set_planted(planted);
        shard.begin_load(taken, alive, now);
        shard
    }

    /// Other bounds than the defaults; before anything else is asked of it.
    pub fn set_sizes(&mut self, sizes: Sizes) {
        self.sizes = sizes;
        self.flows.set_sizes(sizes);
    }

    /// The store takes the next commit before the last one is durable, and applies them in order.
    pub fn set_commits_at_once(&mut self, commits: usize) {
        self.commits_at_once = commits.max(1);
    }

    /// What namespaces may do, shared with the other shards of the node.
    pub fn set_quotas(&mut self, quotas: Quotas) {
        self.quotas = quotas;
    }

    pub fn id(&self) -> ShardId {
        self.id
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Has everything been loaded that claims and decisions need?
    pub fn is_live(&self) -> bool {
        self.loader.is_live() && !self.pipeline.is_broken()
    }

    pub fn handle_command(&mut self, now: Time, caller: Caller, command: Command) {
        if let Err(refused) = self.inbox.push(caller, command) {
            self.outputs.push_back(Output::Reply(caller.id, Answer::Refused(refused)));
        }
        self.work(now);
    }

    /// The caller hung up before it heard an answer. What waits is not claimed for it; what was
    /// claimed for it goes back at once, even if it is on its way to the store, unless the same
    /// request was asked again since: then somebody else hears of it. Other commands that were
    /// decided stand.
    pub fn handle_gone(&mut self, now: Time, caller: CommandId) {
        self.waiters.remove(caller);
        self.inbox.remove(caller);
        self.reserved.told(caller);
        let leases = self.leases.untell(caller);
        if !leases.is_empty() {
            self.pipeline.withdraw(caller);
            self.event(Event::ClaimUndone);
            let unheard = |(run, token)| Settle { run, token, end: End::Unheard };
            let settles = leases.into_iter().map(unheard).collect();
            self.inbox.push_front(Caller::NOBODY, Command::Settle(settles));
            self.work(now);
        }
    }

    /// Until when the node's lease is known to hold; heartbeats are answered only before that.
    pub fn handle_trust(&mut self, until: Time) {
        self.trusted_until = until;
    }

    /// Time has passed.
    pub fn handle_tick(&mut self, now: Time) {
        self.expire(now);
        self.read_again(now);
        self.work(now);
    }

    /// When `handle_tick` should be called next.
    pub fn next_tick(&self) -> Option<Time> {
        // What is due does not wake a shard that has no room for it: the end of a commit does.
        let decides = self.has_room() && !self.pipeline.draining && !self.pipeline.is_broken();
        [
            self.timer.next().filter(|_| decides && !self.due_waits_for_rows()),
            self.timer.has_postponed().then_some(self.postponed_until).filter(|_| decides),
            self.leases.next_end().filter(|_| decides),
            self.waiters.next_end(),
            self.reserved.next.filter(|_| decides),
            // With so much near, the horizon is raised when some of it has been decided.
            self.loader.next_raise().filter(|_| self.timer.len() <= self.sizes.timer_max / 2),
            self.pipeline.next_send(),
            self.inbox.next_deadline(),
            self.holds.values().filter_map(|hold| hold.until).min(),
            self.flows.next_pass().filter(|_| decides),
            self.flows.next_expiry().filter(|_| decides),
            self.retry_reads.iter().map(|(at, _)| *at).min(),
            self.has_work_left().then_some(Time::MIN),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Runs and other things held in memory: what the limits bound.
    pub fn resident(&self) -> usize {
        self.flows.resident() + self.timer.len() + self.leases.len()
    }

    /// Queues that have a service level, and whether it is broken.
    pub fn levels(&self) -> impl Iterator<Item = (&(Namespace, Text), bool)> {
        self.flows.levels()
    }

    /// What waits for a claimer, flow by flow (`Flows::waiting`): for those who watch.
    pub fn waiting(&self) -> impl Iterator<Item = (&model::FlowKey, usize, bool, Option<Time>)> {
        self.flows.waiting()
    }

    /// Did the last pass stop before everything that could be decided was?
    fn has_work_left(&self) -> bool {
        let waiting = !self.again.is_empty() || !self.inbox.is_empty();
        waiting && self.is_live() && !self.pipeline.draining && self.has_room()
    }

    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub fn poll_read(&mut self) -> Option<(ReadId, Read)> {
        self.reads.pop_front()
    }

    /// Decides as much as fits into the batch being built.
    pub(crate) fn work(&mut self, now: Time) {
        self.reserved.next = None;
        if !self.is_live() {
            self.load_more(now);
            return;
        }
        if self.pipeline.draining || self.counter > self.sizes.tokens / 2 * 3 {
            return;
        }
        self.pipeline.building.decided = self.pipeline.building.decided.max(now);
        self.flows.pass(now);
        for change in self.flows.take_levels() {
            self.outputs.push_back(Output::Level(change));
        }
        let flows = &self.flows;
        self.timer.advance(now, |entry| flows.key(entry.flow).namespace);
        // Further away than the pause: the clock ran wild and came back.
        let pause = self.postponed_until.since(now);
        if pause <= Span::ZERO || pause > FULL_FIRST {
            self.timer.resume(now);
        }
        self.release_holds(now);
        while self.has_room() {
            let Some(Parked { keys, work }) = self.again.pop_front() else { break };
            self.decide(now, keys, work);
        }
        if self.again.is_empty() {
            // What was read for these decisions grows old from here on.
            for key in std::mem::take(&mut self.read_once) {
                self.rows.drop_read(&key);
            }
        }
        // Settles first, because they free what others wait for; submissions last, because only
        // they can be refused.
        for class in 0..Inbox::CLASSES {
            if class == Inbox::SUBMIT {
                self.due_slice(now);
                self.rescues(now);
            }
            let share = Inbox::share(class);
            for _ in 0..share {
                if !self.has_room() {
                    break;
                }
                let Some((caller, command)) = self.inbox.pop(class) else { break };
                self.decide(now, Vec::new(), Work::Command(caller, command));
            }
        }
        self.serve_waiters(now);
        self.patch_ready();
        self.reserve(now);
        self.expire_runs(now);
        self.park();
        self.load_more(now);
        self.collect();
    }

    /// May another decision join the batch being built?
    pub(crate) fn has_room(&self) -> bool {
        self.pipeline.building.changes.len() < self.sizes.batch_changes
            && self.pipeline.has_room_for_commands()
    }

    /// Does so much due work wait for rows that the rest has to wait for it? The answer to a read ends that.
    fn due_waits_for_rows(&self) -> bool {
        let most = self.sizes.slice.saturating_mul(SLICES_WAITING);
        let waiting = self.parked.values().flat_map(|(_, works)| works).chain(&self.again);
        let due = |parked: &&Parked| matches!(parked.work, Work::Due(_));
        waiting.chain(&self.wanted).filter(due).take(most).count() >= most
    }

    fn due_slice(&mut self, now: Time) {
        if self.timer.has_due() && self.due_waits_for_rows() {
            return;
        }
        for _ in 0..self.sizes.slice {
            if !self.has_room() {
                break;
            }
            let Some(timed) = self.timer.pop_due() else { break };
            if matches!(timed, Timed::Row(..)) && self.pipeline.is_full(now) {
                // It would make runs. What has become ready goes on, and makes room.
                self.postponed_until = now.plus(FULL_FIRST);
                self.timer.postpone(timed);
                continue;
            }
            self.decide(now, Vec::new(), Work::Due(timed));
        }
    }

    fn rescues(&mut self, now: Time) {
        for (run, token) in self.leases.ended(now, self.sizes.slice) {
            if !self.has_room() {
                break;
            }
            // It may wait for rows, or be left alone: not to be looked at again in every pass.
            self.leases.look_again(run, now.plus(RESCUE_AGAIN));
            self.decide(now, Vec::new(), Work::Rescue(run, token));
        }
    }

    pub(crate) fn decide(&mut self, now: Time, mut keys: Vec<Key>, work: Work) {
        let own = match &work {
            Work::Command(..) => None,
            Work::Due(timed) => Some(Own::Due(timed.key())),
            Work::Rescue(run, _) => Some(Own::Rescue(*run)),
            Work::Expire(entry) => Some(Own::Due(WheelKey::Run(entry.id))),
        };
        if own.is_some_and(|own| self.quarantine.contains(&own)) {
            return;
        }
        let outcome = match &work {
            Work::Command(caller, command) => self.decide_command(now, *caller, command),
            Work::Due(timed) => self.decide_due(now, *timed).map(|()| None),
            Work::Rescue(run, token) => self.decide_rescue(now, *run, *token).map(|()| None),
            Work::Expire(entry) => self.decide_expire(now, *entry).map(|()| None),
        };
        match (outcome, work) {
            (Err(Need(needs)), work) => {
                keys.extend(needs);
                self.wanted.push(Parked { keys, work });
            }
            (Ok(answer), Work::Command(caller, command)) => {
                // A claim that waits stands with the waiters until it is served.
                if let Some(answer) = answer {
                    self.reply(caller, answer);
                    self.pipeline.building.commands.push((caller, command));
                }
            }
            (Ok(_), _) => self.pipeline.building.own.extend(own),
        }
    }

    /// `None`: the answer comes later (a claim waits for work, others for what they read).
    fn decide_command(
        &mut self,
        now: Time,
        caller: Caller,
        command: &Command,
    ) -> Decision<Option<Answer>> {
        if command.adds_work() && self.pipeline.is_full(now) {
            return Ok(Some(Answer::Refused(Refused::Full)));
        }
        let answer = match command {
            Command::Submit(jobs) => self.decide_submit(now, jobs)?,
            Command::Claim(claim) => return self.decide_claim(now, caller, claim),
            Command::Heartbeat(beats) => self.decide_heartbeat(now, beats),
            Command::Settle(settles) => self.decide_settle(now, settles)?,
            Command::CancelRun(run) => self.decide_cancel_run(now, *run)?,
            Command::CancelJob(job) => self.decide_cancel_job(now, *job)?,
            Command::DeleteJob(job) => self.decide_delete(now, *job)?,
            Command::Pause { job, reason, until } => {
                self.decide_pause(now, *job, reason, *until)?
            }
            Command::Resume(job) => self.decide_resume(now, *job)?,
            Command::Trigger { job, id, payload, key } => {
                self.decide_trigger(now, *job, *id, payload.as_ref(), key.as_ref())?
            }
            Command::Update { job, spec, if_version } => {
                self.decide_update(now, *job, spec, *if_version)?
            }
            Command::Replay { run, payload } => {
                return self.decide_replay(now, caller, *run, payload.as_ref());
            }
            Command::Discard(run) => self.decide_discard(now, caller, *run)?,
            Command::Rerun { run } => return self.decide_rerun(now, caller, *run),
            Command::Backfill { job, from, to, only, per_second, key } => {
                self.decide_backfill(now, *job, (*from, *to), *only, *per_second, key.as_ref())?
            }
            Command::CancelBackfill(id) => self.decide_cancel_backfill(*id)?,
            Command::Hold { scope, reason, until } => self.decide_hold(now, scope, reason, *until),
            Command::Release(scope) => self.decide_release(scope),
            Command::SetQueue { namespace, queue, limits } => {
                self.decide_set_queue(*namespace, queue, limits)
            }
        };
        Ok(Some(answer))
    }

    fn decide_due(&mut self, now: Time, timed: Timed) -> Decision<()> {
        match timed {
            Timed::Run(entry) => {
                self.fire_run(now, entry);
                Ok(())
            }
            Timed::Row(WheelKey::Job(job), _) => self.decide_job_due(now, job),
            Timed::Row(WheelKey::Backlog(id), _) => self.decide_backlog_due(now, id),
            Timed::Row(WheelKey::Run(_), _) => Ok(()),
        }
    }

    /// Reads, in one request, what this pass found missing.
    fn park(&mut self) {
        if self.wanted.is_empty() {
            return;
        }
        let mut keys = BTreeSet::new();
        let works = std::mem::take(&mut self.wanted);
        for parked in &works {
            keys.extend(parked.keys.iter().cloned());
        }
        let keys: Vec<Key> = keys.into_iter().collect();
        let id = self.read(Read::Rows(keys.clone()));
        self.parked.insert(id, (keys, works));
    }

    /// The command waits for this; the answer to it comes later.
    pub(crate) fn read_aside(&mut self, caller: Caller, command: Command, read: Read) {
        let id = self.read(read);
        self.asides.insert(id, (caller, command));
    }

    pub(crate) fn aside_read(&mut self, (caller, command): (Caller, Command), page: Page) {
        match (&command, page) {
            (Command::Rerun { run }, Page::Outcomes(outcomes)) => {
                let ran = outcomes.iter().find(|outcome| outcome.ran || outcome.live);
                self.reran.insert(*run, ran.map(|outcome| outcome.nominal));
            }
            (Command::Replay { run, .. }, Page::Spec(spec)) => drop(self.specs.insert(*run, spec)),
            _ => {}
        }
        self.inbox.push_front(caller, command);
    }

    pub(crate) fn read(&mut self, read: Read) -> ReadId {
        self.last_read += 1;
        let id = ReadId(self.last_read);
        self.outstanding.insert(id, read.clone());
        self.reads.push_back((id, read));
        id
    }

    /// An answer leaves with the batch it was decided in.
    pub(crate) fn reply(&mut self, caller: Caller, answer: Answer) {
        let early = match &answer {
            Answer::Claimed(_) => self.planted.is(Bug::DispatchBeforeCommit),
            _ => self.planted.is(Bug::ReplyBeforeCommit),
        };
        // "Ask somebody else" is true whoever owns the shard: it waits for nothing.
        let early = early || answer == Answer::Refused(Refused::NotOwner);
        let output = Output::Reply(caller.id, answer);
        if early {
            self.outputs.push_back(output);
        } else {
            self.pipeline.building.outputs.push(output);
        }
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    /// Answers callers whose deadline has passed. What was not sent is refused; what was may have
    /// been done, and its true answer is dropped when it comes.
    fn expire(&mut self, now: Time) {
        for caller in self.inbox.expired(now) {
            let refused = Answer::Refused(Refused::TooLate);
            self.outputs.push_back(Output::Reply(caller, refused));
        }
        for caller in self.pipeline.expired(now) {
            let refused = Answer::Refused(Refused::Unknown);
            self.outputs.push_back(Output::Reply(caller, refused));
        }
    }

    /// Drops interned flows and policies that nothing names any more.
    fn collect(&mut self) {
        if !self.flows.wants_collection() && !self.policies.wants_collection() {
            return;
        }
        let entries = || self.timer.entries().chain(self.leases.iter().map(|lease| &lease.entry));
        let flows: BTreeSet<FlowId> = entries().map(|entry| entry.flow).collect();
        let policies = entries().chain(self.flows.entries()).map(|entry| entry.policy).collect();
        // Work that waits for rows holds entries too; it is short-lived, so collection waits.
        let waiting = self.again.iter().chain(self.parked.values().flat_map(|(_, works)| works));
        if waiting.filter(|p| matches!(p.work, Work::Due(Timed::Run(_)) | Work::Expire(_))).count()
            > 0
        {
            return;
        }
        self.flows.collect(&flows);
        self.policies.collect(&policies);
    }
}
