//! A world of one shard over a store in memory. It answers reads and commits at once, unless a test
//! holds them back; it keeps what the shard said. Time moves only when a test moves it.

pub mod cluster;
mod specs;

pub use specs::*;

use model::cluster::{Renew, Take};
use model::read::{Page, Read};
use model::row::{Commit, HistoryRow, JobRow, Key, Made, Row, RunRow};
use model::{JobId, Namespace, NodeId, RunId, ShardId, Slot, Span, Spec, Status, Time};
use shard::command::{
    Answer, Beat, Claim, Command, CommandId, End, KeyOf, Leased, NewJob, Refused, Settle,
    SettleAnswer, Submitted,
};
use shard::{Caller, CommitEnd, Event, Output, Planted, ReadId, Shard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use store::{MemoryStore, Outcome, Store};

pub const NODE: NodeId = NodeId { node: 1, boot: 1 };
pub const SHARD: ShardId = ShardId(0);
/// A whole minute, so that instants of intervals are round numbers.
pub const START: Time = Time::from_secs(1_800_000_000);

/// What the store does with the next commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Apply,
    /// Applied, but the answer is lost.
    Landed,
    /// Not applied, and no answer.
    Lost,
    NoRoom,
    NotNow,
}

#[derive(Debug)]
pub struct World {
    pub store: MemoryStore,
    pub shard: Shard,
    pub now: Time,
    pub answers: BTreeMap<CommandId, Answer>,
    pub events: Vec<Event>,
    pub stops: Vec<RunId>,
    /// Whether service levels were broken, as it was told.
    pub levels: Vec<bool>,
    /// Reads are answered by the store at once but handed over only by `deliver`.
    pub hold_reads: bool,
    pub held_reads: VecDeque<(ReadId, Read, Page)>,
    /// Commits stay here until `commit_held`.
    pub hold_commits: bool,
    pub held_commits: VecDeque<Commit>,
    pub fates: VecDeque<Fate>,
    /// A commit that changes one of these is refused for that row.
    pub poison: Vec<Key>,
    /// The test makes memory and store, or their clocks, disagree on purpose.
    pub may_differ: bool,
    /// The disk is full: a commit that adds runs or specs is refused for room.
    pub full: bool,
    pub rows_read: usize,
    pub commits: usize,
    next_command: u64,
    next_job: u64,
    next_request: u64,
}

impl World {
    pub fn new() -> World {
        World::at(START)
    }

    pub fn at(now: Time) -> World {
        let store = MemoryStore::new(1);
        store.set_now(now);
        let shard = World::take(&store, now);
        let mut world = World {
            store,
            shard,
            now,
            answers: BTreeMap::new(),
            events: Vec::new(),
            stops: Vec::new(),
            levels: Vec::new(),
            hold_reads: false,
            held_reads: VecDeque::new(),
            hold_commits: false,
            held_commits: VecDeque::new(),
            fates: VecDeque::new(),
            poison: Vec::new(),
            may_differ: false,
            full: false,
            rows_read: 0,
            commits: 0,
            next_command: 0,
            next_job: 0,
            next_request: 0,
        };
        world.pump();
        world
    }

    fn take(store: &MemoryStore, now: Time) -> Shard {
        let cluster = store.renew(Renew { node: NODE, ttl: Span::from_secs(3) }).unwrap();
        let take = Take { shard: SHARD, node: NODE, epoch: cluster.shards[0].epoch, by: 1 };
        let taken = store.take(&[take]).unwrap()[0].expect("nobody else is here");
        let mut shard = Shard::new(SHARD, NODE, taken, &[NODE], now, Planted::default());
        shard.handle_trust(Time::MAX);
        shard
    }

    /// The owner dies; the next one knows only what is stored.
    pub fn restart(&mut self) {
        self.shard = World::take(&self.store, self.now);
        self.held_reads.clear();
        self.held_commits.clear();
        self.pump();
    }

    /// The owner dies and comes back only after `span`.
    pub fn down_for(&mut self, span: Span) {
        self.set_now(self.now.plus(span));
        self.restart();
    }

    pub fn set_now(&mut self, now: Time) {
        self.now = now;
        self.store.set_now(now);
    }

    // ---- the loop a node would run ---------------------------------------------------------------

    pub fn pump(&mut self) {
        loop {
            let mut moved = false;
            while let Some((id, read)) = self.shard.poll_read() {
                moved = true;
                let page = self.store.read(&[(SHARD, read.clone())]).unwrap().remove(0);
                self.rows_read += rows_of(&page);
                if self.hold_reads {
                    self.held_reads.push_back((id, read, page));
                } else {
                    self.shard.handle_read(self.now, id, page);
                }
            }
            if let Some(commit) = self.shard.poll_commit(self.now) {
                moved = true;
                if self.hold_commits {
                    self.held_commits.push_back(commit);
                } else {
                    self.commit(commit);
                }
            }
            if let Some(wish) = self.shard.wants_epoch() {
                moved = true;
                let take = Take { shard: SHARD, node: NODE, epoch: wish.epoch, by: wish.by };
                let taken = self.store.take(&[take]).unwrap()[0].expect("still ours");
                self.shard.handle_epoch(self.now, taken, &[NODE]);
            }
            while let Some(output) = self.shard.poll_output() {
                moved = true;
                match output {
                    Output::Reply(id, answer) => {
                        let twice = self.answers.insert(id, answer);
                        assert!(twice.is_none() || id == CommandId(0), "{id:?} answered twice");
                    }
                    Output::Stop(run, _) => self.stops.push(run),
                    Output::Level(change) => self.levels.push(change.broken),
                    Output::Withdraw(id) => drop(self.answers.remove(&id)),
                    Output::Event(event) => self.events.push(event),
                }
            }
            if !moved {
                break;
            }
        }
    }

    fn commit(&mut self, commit: Commit) {
        self.commits += 1;
        let seq = commit.seq;
        let bad = commit.changes.iter().position(|change| self.poison.contains(&change.key));
        let adds = |change: &model::row::Change| {
            change.expect == model::row::Expect::Absent
                && matches!(change.row, Some(Row::Run(_) | Row::Spec(_)))
        };
        if self.full && commit.changes.iter().any(adds) {
            self.shard.handle_commit(self.now, seq, CommitEnd::NoRoom);
            return;
        }
        let end = match (bad, self.fates.pop_front().unwrap_or(Fate::Apply)) {
            (Some(index), _) => CommitEnd::Row { index },
            (None, Fate::Apply) => self.apply(&commit),
            (None, Fate::Landed) => {
                assert_eq!(self.apply(&commit), CommitEnd::Durable);
                CommitEnd::Unknown
            }
            (None, Fate::Lost) => CommitEnd::Unknown,
            (None, Fate::NoRoom) => CommitEnd::NoRoom,
            (None, Fate::NotNow) => CommitEnd::NotNow,
        };
        self.shard.handle_commit(self.now, seq, end);
    }

    fn apply(&self, commit: &Commit) -> CommitEnd {
        match self.store.commit(std::slice::from_ref(commit)).unwrap().outcomes[0] {
            Outcome::Durable => CommitEnd::Durable,
            Outcome::Row { index } if self.may_differ => CommitEnd::Row { index },
            Outcome::Early if self.may_differ => CommitEnd::Early,
            Outcome::Row { index } => {
                panic!("memory and store disagree: {:?}", commit.changes[index])
            }
            other => panic!("{other:?}"),
        }
    }

    /// Hands over what was read while reads were held, oldest first.
    pub fn deliver(&mut self) {
        self.hold_reads = false;
        while let Some((id, _, page)) = self.held_reads.pop_front() {
            self.shard.handle_read(self.now, id, page);
        }
        self.pump();
    }

    /// One commit that was held ends well; others go on being held.
    pub fn commit_one(&mut self, commit: Commit) {
        self.commit(commit);
        self.pump();
    }

    pub fn commit_held(&mut self) {
        self.hold_commits = false;
        while let Some(commit) = self.held_commits.pop_front() {
            self.commit(commit);
        }
        self.pump();
    }

    /// Lets time pass, waking the shard whenever it asked to be woken.
    pub fn run_to(&mut self, until: Time) {
        let mut quiet = 0;
        while let Some(at) = self.shard.next_tick().filter(|at| *at <= until) {
            // A shard that asks to be woken at once again and again without doing anything spins.
            quiet = if at <= self.now { quiet + 1 } else { 0 };
            assert!(quiet < 10_000, "the shard asks for ticks and does nothing with them");
            self.set_now(self.now.max(at));
            self.shard.handle_tick(self.now);
            self.pump();
        }
        self.set_now(until);
        self.shard.handle_tick(until);
        self.pump();
    }

    pub fn pass(&mut self, span: Span) {
        self.run_to(self.now.plus(span));
    }

    pub fn secs(&mut self, secs: i64) {
        self.pass(Span::from_secs(secs));
    }

    // ---- asking ----------------------------------------------------------------------------------

    pub fn send(&mut self, command: Command) -> CommandId {
        self.send_until(command, self.now.plus(Span::from_secs(30)))
    }

    pub fn send_until(&mut self, command: Command, deadline: Time) -> CommandId {
        self.next_command += 1;
        let id = CommandId(self.next_command);
        self.shard.handle_command(self.now, Caller { id, deadline }, command);
        self.pump();
        id
    }

    pub fn call(&mut self, command: Command) -> Answer {
        let id = self.send(command);
        self.answer(id)
    }

    pub fn answer(&mut self, id: CommandId) -> Answer {
        self.answers.remove(&id).unwrap_or_else(|| panic!("{id:?} has no answer"))
    }

    pub fn job_id(&mut self) -> JobId {
        self.next_job += 1;
        JobId::mint(self.now, Slot::from_bits(0), self.next_job << 2)
    }

    pub fn submit_with(&mut self, spec: Spec, key: Option<KeyOf>) -> Result<Submitted, Refused> {
        let id = self.job_id();
        let job = NewJob { id, spec: Arc::new(spec), key, paused: false };
        match self.call(Command::Submit(vec![job])) {
            Answer::Submitted(mut answers) => answers.remove(0),
            Answer::Refused(refused) => Err(refused),
            other => panic!("{other:?}"),
        }
    }

    /// Submits and returns the job's id.
    pub fn submit(&mut self, spec: Spec) -> JobId {
        match self.submit_with(spec, None).unwrap().made {
            Made::Job(id) => id,
            other => panic!("{other:?}"),
        }
    }

    pub fn submit_many(&mut self, spec: &Spec, count: usize) -> Vec<RunId> {
        let spec = Arc::new(spec.clone());
        let jobs: Vec<NewJob> = (0..count)
            .map(|_| NewJob { id: self.job_id(), spec: spec.clone(), key: None, paused: false })
            .collect();
        let runs = jobs.iter().map(|job| one_off(job.id)).collect();
        for jobs in jobs.chunks(500) {
            self.call(Command::Submit(jobs.to_vec()));
        }
        runs
    }

    pub fn claim_command(&mut self, max: usize, wait: Span) -> Claim {
        self.next_request += 1;
        Claim {
            holder: worker(),
            namespace: Namespace(1),
            queues: vec!["mail".into()],
            kinds: None,
            max,
            lease: Span::from_secs(30),
            request: self.next_request,
            wait_until: self.now.plus(wait),
            reserve: false,
        }
    }

    pub fn claim(&mut self, max: usize) -> Vec<Leased> {
        let claim = self.claim_command(max, Span::ZERO);
        let answer = self.call(Command::Claim(claim));
        leases(answer)
    }

    /// Claims the one run that must be there.
    pub fn claim_one(&mut self) -> Leased {
        let leased = self.claim(10);
        assert_eq!(leased.len(), 1, "{leased:?}");
        leased[0]
    }

    pub fn settle(&mut self, leased: &Leased, end: End) -> SettleAnswer {
        let settle = Settle { run: leased.run, token: leased.token, end };
        match self.call(Command::Settle(vec![settle])) {
            Answer::Settled(answers) => answers[0].1,
            other => panic!("{other:?}"),
        }
    }

    pub fn succeed(&mut self, leased: &Leased) -> SettleAnswer {
        self.settle(leased, End::Succeeded { output: None })
    }

    pub fn fail(&mut self, leased: &Leased) -> SettleAnswer {
        self.settle(leased, failed(true, None))
    }

    pub fn beat(&mut self, leased: &Leased) -> Answer {
        let beat = Beat { run: leased.run, token: leased.token, checkpoint: None };
        self.call(Command::Heartbeat(vec![beat]))
    }

    // ---- looking ---------------------------------------------------------------------------------

    pub fn row(&self, key: Key) -> Option<Row> {
        match self.store.read(&[(SHARD, Read::Rows(vec![key]))]).unwrap().remove(0) {
            Page::Rows(mut rows) => rows.remove(0),
            other => panic!("{other:?}"),
        }
    }

    pub fn run_row(&self, run: RunId) -> Option<RunRow> {
        match self.row(Key::Run(run)) {
            Some(Row::Run(row)) => Some(row),
            _ => None,
        }
    }

    pub fn job_row(&self, job: JobId) -> JobRow {
        match self.row(Key::Job(job)) {
            Some(Row::Job(row)) => row,
            other => panic!("{other:?}"),
        }
    }

    /// Everything stored but the history.
    pub fn hot(&self) -> Vec<Key> {
        self.store.dump().shards[0].rows.keys().cloned().collect()
    }

    pub fn history(&self) -> Vec<HistoryRow> {
        self.store.dump().shards[0].history.clone()
    }

    pub fn statuses(&self, run: RunId) -> Vec<Status> {
        self.history().into_iter().filter(|row| row.run == run).map(|row| row.status).collect()
    }

    /// Verdicts of a job that made no run: (status, first, last, count), oldest first.
    pub fn verdicts(&self, job: JobId) -> Vec<(Status, Time, Time, u64)> {
        let rows = self.history().into_iter().filter(|row| row.run.job == job);
        rows.filter(|row| row.status.is_verdict_only())
            .map(|row| (row.status, row.nominal, row.until.unwrap_or(row.nominal), row.count))
            .collect()
    }

    pub fn saw(&self, event: Event) -> bool {
        self.events.contains(&event)
    }
}

fn rows_of(page: &Page) -> usize {
    match page {
        Page::Rows(rows) => rows.len(),
        Page::Due { rows, .. } => rows.len(),
        Page::Runs(rows) => rows.len(),
        Page::Flows(flows) => flows.len(),
        Page::Leases(leases) => leases.len(),
        Page::Holds(holds) => holds.len(),
        Page::Queues(queues) => queues.len(),
        Page::Spec(spec) => usize::from(spec.is_some()),
        Page::Outcomes(outcomes) => outcomes.len(),
    }
}
