//! Hand-made logs and dumps. A `World` begins as a run that kept every promise; a test breaks one.

use super::{CheckSettings, Violation, check};
use crate::log::{Log, Op, SettleSeen, Start};
use model::cluster::ShardRow;
use model::row::{HistoryRow, Holder, JobRow, JobState, Key, LeaseRow, Made, Row, RunRow, Starts};
use model::{
    Cause, Epoch, FlowKey, JobId, Lane, Namespace, NodeId, Overlap, Policy, RunId, RunState,
    ScheduleSpec, ShardId, Slot, Span, Spec, Status, Target, Time, Token, When,
};
use shard::command::{Answer, Command, CommandId, End, NewJob, SettleAnswer, Submitted};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::memory::{Dump, ShardDump};

pub fn at(secs: i64) -> Time {
    Time::from_secs(secs)
}

pub fn token(number: u32) -> Token {
    Token::new(Epoch(5), number)
}

pub fn job_id(number: u64) -> JobId {
    JobId::mint(at(100), Slot::from_bits(0), number << 2)
}

pub fn new_job(number: u64, spec: Spec) -> NewJob {
    NewJob { id: job_id(number), spec: Arc::new(spec), key: None, paused: false }
}

pub fn one_off(queue: &str) -> Spec {
    Spec {
        namespace: Namespace(1),
        name: None,
        owner: None,
        tags: Vec::new(),
        schedule: ScheduleSpec::new(When::Now),
        target: Target::Worker { kind: "k".into() },
        payload: b"work".as_slice().into(),
        content_type: "text/plain".into(),
        queue: queue.into(),
        group: None,
        priority: 5,
        policy: Policy::default(),
        overlap: Overlap::QueueOne,
        catch_up: Default::default(),
        permanent: None,
        within: model::Within::default(),
        request_id: None,
        api_key: None,
        origin: model::Origin::default(),
    }
}

pub fn every(secs: i64) -> Spec {
    let schedule = ScheduleSpec::new(When::Every(Span::from_secs(secs)));
    Spec { schedule, ..one_off("q") }
}

fn flow() -> FlowKey {
    FlowKey {
        namespace: Namespace(1),
        queue: "q".into(),
        kind: "worker:k".into(),
        priority: 5,
        lane: Lane::Fresh,
        group: None,
    }
}

fn nominal(run: RunId) -> Time {
    match run.cause() {
        Cause::Occurrence(at) => at,
        _ => at(100),
    }
}

pub fn run_row(run: RunId) -> RunRow {
    RunRow {
        id: run,
        rev: 1,
        state: RunState::Ready,
        due: nominal(run),
        nominal: nominal(run),
        flow: flow(),
        version: 1,
        attempts: 0,
        retries: 0,
        lost: 0,
        replays: 0,
        policy: Policy::default(),
        checkpoint: 0,
        fresh: false,
        start_by: None,
        finish_by: None,
        body: (run.cause() == Cause::OneOff).then(|| Arc::new(one_off("q"))),
    }
}

pub fn succeeded() -> End {
    End::Succeeded { output: None }
}

/// Makes the row of an attempt one that failed and is tried again.
pub fn failed(row: &mut HistoryRow, next: Time) {
    (row.status, row.after, row.next) = (Status::Failed, RunState::Retrying, Some(next));
}

#[derive(Debug)]
pub struct World {
    pub log: Log,
    pub dump: Dump,
    pub settings: CheckSettings,
    /// When the next command is sent, and answered.
    pub now: Time,
}

impl World {
    pub fn new() -> World {
        let owner = Some(NodeId { node: 1, boot: 1 });
        let row = ShardRow { shard: ShardId(0), owner, epoch: Epoch(5), seq: 1 };
        let (floor, starts) = (Time::MIN, Starts::default());
        let shard = ShardDump { row, floor, starts, rows: BTreeMap::new(), history: Vec::new() };
        World {
            log: Log::default(),
            dump: Dump { now: at(1_000), incarnation: 1, nodes: Vec::new(), shards: vec![shard] },
            settings: CheckSettings::default(),
            now: at(100),
        }
    }

    pub fn check(&self) -> Vec<Violation> {
        check(&self.log, &self.dump, &self.settings)
    }

    /// Is this invariant broken?
    pub fn broken(&self, invariant: &str) -> bool {
        assert!(super::invariants().any(|name| name == invariant), "{invariant} is not checked");
        self.check().iter().any(|violation| violation.invariant == invariant)
    }

    pub fn shard(&mut self) -> &mut ShardDump {
        &mut self.dump.shards[0]
    }

    pub fn put(&mut self, key: Key, row: Row) {
        self.shard().rows.insert(key, row);
    }

    pub fn remove(&mut self, key: &Key) {
        self.shard().rows.remove(key);
    }

    /// A command whose answer never came.
    pub fn send(&mut self, command: Command) {
        let id = CommandId(self.log.ops.len() as u64);
        self.log.ops.push(Op { id, command, sent: self.now, heard: None });
    }

    pub fn ask(&mut self, command: Command, answer: Answer) {
        self.send(command);
        let now = self.now;
        self.log.ops.last_mut().unwrap().heard = Some((now, answer));
    }

    pub fn submit(&mut self, number: u64, spec: Spec) -> JobId {
        let new = new_job(number, spec);
        let (id, made) = (new.id, Made::Job(new.id));
        let answer = Submitted { made, next: None, replayed: false };
        self.ask(Command::Submit(vec![new]), Answer::Submitted(vec![Ok(answer)]));
        id
    }

    pub fn run(&mut self, row: RunRow) {
        self.put(Key::Run(row.id), Row::Run(row));
    }

    /// A recurring job, made at 100, with nothing decided yet.
    pub fn job(&mut self, number: u64, spec: Spec, change: impl FnOnce(&mut JobRow)) -> JobId {
        let id = job_id(number);
        let mut row = JobRow {
            id,
            rev: 1,
            namespace: spec.namespace,
            state: JobState::Active,
            version: 1,
            created: at(100),
            versioned: at(100),
            mark: at(100),
            next: Some(at(5_000)),
            due: Some(at(5_000)),
            fired: 0,
            live: Vec::new(),
            active: None,
            waiting: None,
            pause: None,
            reruns: 0,
            backfills: 0,
            sweep: false,
            delete: false,
        };
        change(&mut row);
        self.put(Key::Spec(id, 1), Row::Spec(Arc::new(spec)));
        self.put(Key::Job(id), Row::Job(row));
        id
    }

    pub fn change_job(&mut self, job: JobId, change: impl FnOnce(&mut JobRow)) {
        match self.shard().rows.get_mut(&Key::Job(job)) {
            Some(Row::Job(row)) => change(row),
            other => panic!("no job: {other:?}"),
        }
    }

    /// An attempt that ended well, with the token and number `number`.
    pub fn attempt(&mut self, run: RunId, number: u16, change: impl FnOnce(&mut HistoryRow)) {
        let started = nominal(run).plus(Span::from_secs(10 * i64::from(number)));
        let mut row = HistoryRow {
            run,
            token: token(u32::from(number)),
            attempt: number,
            flow: Some(flow()),
            namespace: Namespace(1),
            nominal: nominal(run),
            due: nominal(run),
            started: Some(started),
            finished: started.plus(Span::from_secs(5)),
            version: 1,
            status: Status::Succeeded,
            worker: Some("w".into()),
            code: None,
            error: None,
            output: None,
            after: RunState::Succeeded,
            next: None,
            until: None,
            count: 1,
        };
        change(&mut row);
        self.shard().history.push(row);
    }

    /// A run that ended without an attempt.
    pub fn ended_waiting(&mut self, run: RunId, status: Status) {
        self.attempt(run, 0, |row| {
            (row.token, row.started, row.status) = (Token::NONE, None, status);
            row.after = match status {
                Status::Discarded => RunState::Failed,
                _ => RunState::Cancelled,
            };
        });
    }

    /// One verdict for all instants from that of `first` to `until`.
    pub fn range(&mut self, first: RunId, until: Time, count: u64, status: Status) {
        self.attempt(first, 0, |row| {
            (row.token, row.started, row.status) = (Token::NONE, None, status);
            (row.flow, row.after) = (None, RunState::Expired);
            (row.until, row.count) = (Some(until), count);
        });
    }

    /// An attempt under way, beside its run.
    pub fn lease(&mut self, run: RunId, number: u16, change: impl FnOnce(&mut LeaseRow)) {
        let mut row = LeaseRow {
            run,
            rev: 1,
            attempt: number,
            token: token(u32::from(number)),
            holder: Holder::Worker("w".into()),
            length: Span::from_secs(10),
            started: nominal(run),
            deadline: at(10_000),
            request: 1,
            cancel: false,
        };
        change(&mut row);
        if !self.shard().rows.contains_key(&Key::Run(run)) {
            self.run(run_row(run));
        }
        self.put(Key::Lease(run), Row::Lease(row));
    }

    pub fn start(&mut self, run: RunId, number: u16, change: impl FnOnce(&mut Start)) {
        let mut start = Start {
            at: nominal(run).plus(Span::from_secs(10 * i64::from(number))),
            run,
            token: token(u32::from(number)),
            attempt: number,
            version: 1,
            nominal: nominal(run),
            due: nominal(run),
            holder: Holder::Worker("w".into()),
            request: 1,
        };
        change(&mut start);
        self.log.starts.push(start);
    }

    pub fn settle(&mut self, run: RunId, number: u32, end: End, answer: Option<SettleAnswer>) {
        let (sent, token) = (at(200), token(number));
        let heard = answer.map(|answer| (sent, answer));
        self.log.settles.push(SettleSeen { sent, run, token, end, heard });
    }
}
