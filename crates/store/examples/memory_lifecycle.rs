//! How fast is the bare memory store? One thread, one shard: `rows` registered one-offs of the
//! next 30 days, then lifecycles of three commits each (submit, claim, settle) in batches.
//!
//!     cargo run --release -p store --example memory_lifecycle -- 10000 10000000
#![allow(clippy::expect_used)] // a bench: whatever goes wrong ends it

use model::cluster::Take;
use model::row::{Change, Commit, Expect, HistoryRow, Holder, Key, LeaseRow, Row, RunRow};
use model::{
    Cause, Epoch, FlowKey, JobId, Lane, Namespace, NodeId, Policy, RunId, RunState, ScheduleSpec,
    ShardId, Slot, Span, Spec, Status, Target, Text, Time, Token, When,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{MemoryStore, Outcome, Store};

const BATCH: usize = 64;
const LIFECYCLES: usize = 1_000_000;
const START: i64 = 1_800_000_000_000_000;

struct Bench {
    store: MemoryStore,
    seq: u64,
    minted: u64,
    spec: Arc<Spec>,
    flow: FlowKey,
    holder: Text,
    /// Time spent in the store; the rest is the bench making rows.
    inside: Duration,
}

fn main() {
    let sizes = std::env::args().skip(1).map(|arg| arg.parse().expect("a number of rows"));
    let sizes: Vec<usize> = sizes.collect();
    for rows in if sizes.is_empty() { vec![10_000, 1_000_000] } else { sizes } {
        let mut bench = Bench::new();
        let began = Instant::now();
        bench.load(rows);
        let loaded = began.elapsed();
        bench.inside = Duration::ZERO;
        let began = Instant::now();
        for _ in 0..LIFECYCLES / BATCH {
            bench.lifecycles();
        }
        let took = began.elapsed();
        println!(
            "{rows} rows loaded in {:.1} s; {:.0} lifecycles/s, {:.0} ns each, {:.0} of them in the store",
            loaded.as_secs_f64(),
            LIFECYCLES as f64 / took.as_secs_f64(),
            took.as_nanos() as f64 / LIFECYCLES as f64,
            bench.inside.as_nanos() as f64 / LIFECYCLES as f64,
        );
    }
}

impl Bench {
    fn new() -> Bench {
        let store = MemoryStore::new(1);
        store.set_now(Time::from_micros(START));
        let node = NodeId { node: 1, boot: 1 };
        let take = Take { shard: ShardId(0), node, epoch: Epoch(0), by: 1 };
        assert!(store.take(&[take]).is_ok_and(|taken| taken[0].is_some()));
        let queue = Text::from("default");
        let flow = FlowKey {
            namespace: Namespace(1),
            queue: queue.clone(),
            kind: "worker:mail".into(),
            priority: 5,
            lane: Lane::Fresh,
            group: None,
        };
        let spec = Spec {
            namespace: Namespace(1),
            name: None,
            owner: None,
            tags: Vec::new(),
            schedule: ScheduleSpec::new(When::Now),
            target: Target::Worker { kind: "mail".into() },
            payload: vec![7; 100].into(),
            content_type: "application/json".into(),
            queue,
            group: None,
            priority: 5,
            policy: Policy::default(),
            overlap: model::Overlap::default(),
            catch_up: model::CatchUp::default(),
            permanent: None,
            within: model::Within::default(),
            request_id: None,
            api_key: None,
            origin: model::Origin::default(),
        };
        Bench {
            store,
            seq: 0,
            minted: 0,
            spec: Arc::new(spec),
            flow,
            holder: "w1".into(),
            inside: Duration::ZERO,
        }
    }

    fn commit(&mut self, changes: Vec<Change>) {
        self.seq += 1;
        let (shard, epoch, seq) = (ShardId(0), Epoch(1), self.seq);
        let commit = Commit {
            shard,
            epoch,
            seq,
            decided: Time::MIN,
            changes: changes.into(),
            floor: None,
            starts: model::row::Starts::default(),
        };
        let began = Instant::now();
        let committed = self.store.commit(&[commit]).expect("a memory store answers");
        self.inside += began.elapsed();
        assert_eq!(committed.outcomes, [Outcome::Durable]);
    }

    fn run(&mut self, state: RunState, due: Time) -> RunRow {
        self.minted += 1;
        let at = Time::from_micros(START + (self.minted * 3) as i64);
        let random = model::hash::mix(self.minted);
        RunRow {
            id: RunId::new(JobId::mint(at, Slot::from_bits(3), random), Cause::OneOff),
            rev: 1,
            state,
            due,
            nominal: due,
            flow: self.flow.clone(),
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
            body: Some(Arc::new(Spec::clone(&self.spec))),
        }
    }

    fn load(&mut self, rows: usize) {
        const MONTH: u64 = 30 * 86_400_000_000;
        for first in (0..rows).step_by(1_000) {
            let mut changes = Vec::new();
            for _ in first..rows.min(first + 1_000) {
                let due = START + (model::hash::mix(self.minted + 1) % MONTH) as i64;
                let run = self.run(RunState::Scheduled, Time::from_micros(due));
                changes.push(insert(Key::Run(run.id), Row::Run(run)));
            }
            self.commit(changes);
        }
    }

    fn lifecycles(&mut self) {
        let runs: Vec<RunRow> = (0..BATCH)
            .map(|_| self.run(RunState::Ready, Time::from_micros(START + self.seq as i64)))
            .collect();
        let ids: Vec<RunId> = runs.iter().map(|run| run.id).collect();
        let nominal = runs[0].nominal;
        let token = |n: usize| Token::new(Epoch(1), n as u32 + 1);
        self.commit(runs.into_iter().map(|run| insert(Key::Run(run.id), Row::Run(run))).collect());
        let leases = ids.iter().enumerate().map(|(n, run)| {
            let row = LeaseRow {
                run: *run,
                rev: 1,
                attempt: 1,
                token: token(n),
                holder: Holder::Worker(self.holder.clone()),
                length: Span::from_secs(30),
                started: nominal,
                deadline: nominal,
                request: 1,
                cancel: false,
            };
            insert(Key::Lease(*run), Row::Lease(row))
        });
        self.commit(leases.collect());
        let mut changes = Vec::with_capacity(3 * BATCH);
        for (n, run) in ids.iter().enumerate() {
            let row = HistoryRow {
                run: *run,
                token: token(n),
                attempt: 1,
                flow: Some(self.flow.clone()),
                namespace: Namespace(1),
                nominal,
                due: nominal,
                started: Some(nominal),
                finished: nominal,
                version: 1,
                status: Status::Succeeded,
                worker: Some(self.holder.clone()),
                code: None,
                error: None,
                output: None,
                after: RunState::Succeeded,
                next: None,
                until: None,
                count: 1,
            };
            changes.push(Change { key: Key::Lease(*run), expect: Expect::Rev(1), row: None });
            changes.push(Change { key: Key::Run(*run), expect: Expect::Rev(1), row: None });
            changes.push(insert(Key::History(*run, token(n)), Row::History(Box::new(row))));
        }
        self.commit(changes);
    }
}

fn insert(key: Key, row: Row) -> Change {
    Change { key, expect: Expect::Absent, row: Some(row) }
}
