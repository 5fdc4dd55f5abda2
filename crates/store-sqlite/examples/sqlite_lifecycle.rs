//! How fast is the SQLite store? One shard, durable. Each commit carries a batch of submissions,
//! the claims of an earlier batch and the settles of a still earlier one, as a group-committing
//! owner does. A lifecycle is three steps of one job, in three commits.
//!
//!     cargo run --release -p store-sqlite --example sqlite_lifecycle -- [batch] [seconds] [folder]
//!
//! With `spread` instead of a batch: how late is the store alone? Each millisecond one lease is due; its
//! commit also settles the one before the last. Late by the time from the instant until it is durable:
//! what `duly bench spread` does cannot be less.
//!
//!     cargo run --release -p store-sqlite --example sqlite_lifecycle -- spread [leases] [folder]
#![allow(clippy::expect_used)] // a bench: whatever goes wrong ends it

use model::cluster::Take;
use model::row::{Change, Commit, Expect, HistoryRow, Holder, Key, LeaseRow, Row, RunRow};
use model::{
    Cause, Epoch, FlowKey, JobId, Lane, Namespace, NodeId, Policy, RunId, RunState, ScheduleSpec,
    ShardId, Slot, Span, Spec, Status, Target, Time, Token, When,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store::{Outcome, Store};
use store_sqlite::SqliteStore;

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Time::from_micros(since.as_micros() as i64)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "spread") {
        return spread(&args[1..]);
    }
    let number = |at: usize, default: u64| {
        args.get(at).map_or(default, |arg| arg.parse().expect("a number"))
    };
    let (batch, seconds) = (number(0, 256), number(1, 5));
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = args.get(2).map_or(scratch.path(), std::path::Path::new);
    let store = SqliteStore::open(folder, now).expect("it opens");
    let node = NodeId { node: 1, boot: 1 };
    let take = Take { shard: ShardId(0), node, epoch: Epoch(0), by: 1 };
    let taken = store.take(&[take]).expect("it answers")[0].expect("a fresh folder");
    let (spec, flow) = (spec(), flow());
    let (mut submitted, mut claimed) = (VecDeque::new(), VecDeque::new());
    let (mut seq, mut minted, mut done, mut inside) = (taken.seq, 0, 0u32, Duration::ZERO);
    let began = Instant::now();
    while began.elapsed().as_secs() < seconds {
        let at = now();
        let mut changes = Vec::new();
        let mut ids = Vec::new();
        for _ in 0..batch {
            minted += 1;
            let run = run(minted, at, &flow, &spec);
            ids.push(run.id);
            changes.push(insert(Key::Run(run.id), Row::Run(run)));
        }
        submitted.push_back(ids);
        if submitted.len() > 4 {
            let ids: Vec<RunId> = submitted.pop_front().unwrap_or_default();
            changes
                .extend(ids.iter().map(|id| insert(Key::Lease(*id), Row::Lease(lease(*id, at)))));
            claimed.push_back(ids);
        }
        if claimed.len() > 4 {
            for id in claimed.pop_front().unwrap_or_default() {
                changes.push(Change { key: Key::Lease(id), expect: Expect::Rev(1), row: None });
                changes.push(Change { key: Key::Run(id), expect: Expect::Rev(1), row: None });
                let row = history(id, at, &flow);
                changes.push(insert(Key::History(id, row.token), Row::History(Box::new(row))));
                done += 1;
            }
        }
        seq += 1;
        let commit = Commit {
            shard: ShardId(0),
            epoch: taken.epoch,
            seq,
            decided: at,
            changes: changes.into(),
            floor: None,
            starts: model::row::Starts::default(),
        };
        let sent = Instant::now();
        let committed = store.commit(&[commit]).expect("it answers");
        inside += sent.elapsed();
        assert_eq!(committed.outcomes, [Outcome::Durable]);
    }
    let took = began.elapsed();
    println!(
        "batch {batch}: {:.0} lifecycles/s durable, {seq} commits, {:.2} ms per commit, {:.1} µs \
         per lifecycle",
        f64::from(done) / took.as_secs_f64(),
        inside.as_secs_f64() * 1e3 / seq as f64,
        inside.as_secs_f64() * 1e6 / f64::from(done.max(1)),
    );
}

fn spread(args: &[String]) {
    let leases = args.first().map_or(10_000, |arg| arg.parse().expect("a number"));
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = args.get(1).map_or(scratch.path(), std::path::Path::new);
    let store = SqliteStore::open(folder, now).expect("it opens");
    let node = NodeId { node: 1, boot: 1 };
    let take = Take { shard: ShardId(0), node, epoch: Epoch(0), by: 1 };
    let taken = store.take(&[take]).expect("it answers")[0].expect("a fresh folder");
    let (spec, flow, mut seq) = (spec(), flow(), taken.seq);
    let mut commit = |changes: Vec<Change>| {
        seq += 1;
        let (shard, epoch, decided) = (ShardId(0), taken.epoch, now());
        let (floor, starts) = (None, model::row::Starts::default());
        let changes = changes.into();
        let commit = Commit { shard, epoch, seq, decided, changes, floor, starts };
        let committed = store.commit(&[commit]).expect("it answers");
        assert_eq!(committed.outcomes, [Outcome::Durable]);
    };
    let runs: Vec<RunRow> = (1..=leases).map(|n| run(n, now(), &flow, &spec)).collect();
    for some in runs.chunks(500) {
        let rows = some.iter().map(|run| insert(Key::Run(run.id), Row::Run(run.clone())));
        commit(rows.collect());
    }
    let began = Instant::now();
    let mut late: Vec<Duration> = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        let due = Duration::from_millis(100 + number as u64);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        let mut changes = vec![insert(Key::Lease(run.id), Row::Lease(lease(run.id, now())))];
        if let Some(done) = number.checked_sub(2).and_then(|number| runs.get(number)) {
            let id = done.id;
            let row = history(id, now(), &flow);
            changes.push(Change { key: Key::Lease(id), expect: Expect::Rev(1), row: None });
            changes.push(Change { key: Key::Run(id), expect: Expect::Rev(1), row: None });
            changes.push(insert(Key::History(id, row.token), Row::History(Box::new(row))));
        }
        commit(changes);
        late.push(began.elapsed().saturating_sub(due));
    }
    late.sort_unstable();
    let of = |part: f64| late[((late.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    let (p50, p99, most) = (of(0.5), of(0.99), of(1.0));
    println!(
        "{leases} leases, one each millisecond: durable after p50 {p50:.2}, p99 {p99:.2}, max {most:.2} ms"
    );
}

fn insert(key: Key, row: Row) -> Change {
    Change { key, expect: Expect::Absent, row: Some(row) }
}

fn flow() -> FlowKey {
    FlowKey {
        namespace: Namespace(1),
        queue: "default".into(),
        kind: "worker:mail".into(),
        priority: 5,
        lane: Lane::Fresh,
        group: None,
    }
}

fn spec() -> Arc<Spec> {
    Arc::new(Spec {
        namespace: Namespace(1),
        name: None,
        owner: None,
        tags: Vec::new(),
        schedule: ScheduleSpec::new(When::Now),
        target: Target::Worker { kind: "mail".into() },
        payload: vec![b'x'; 200].into(),
        content_type: "application/json".into(),
        queue: "default".into(),
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
    })
}

fn run(n: u64, at: Time, flow: &FlowKey, spec: &Arc<Spec>) -> RunRow {
    let job = JobId::mint(at, Slot::from_bits(3), model::hash::mix(n));
    RunRow {
        id: RunId::new(job, Cause::OneOff),
        rev: 1,
        state: RunState::Ready,
        due: at,
        nominal: at,
        flow: flow.clone(),
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
        body: Some(spec.clone()),
    }
}

fn lease(run: RunId, at: Time) -> LeaseRow {
    LeaseRow {
        run,
        rev: 1,
        attempt: 1,
        token: Token::new(Epoch(1), 1),
        holder: Holder::Worker("w1".into()),
        length: Span::from_secs(30),
        started: at,
        deadline: at.plus(Span::from_secs(30)),
        request: 1,
        cancel: false,
    }
}

fn history(run: RunId, at: Time, flow: &FlowKey) -> HistoryRow {
    HistoryRow {
        run,
        token: Token::new(Epoch(1), 1),
        attempt: 1,
        flow: Some(flow.clone()),
        namespace: Namespace(1),
        nominal: at,
        due: at,
        started: Some(at),
        finished: at,
        version: 1,
        status: Status::Succeeded,
        worker: Some("w1".into()),
        code: None,
        error: None,
        output: Some(vec![b'o'; 100].into()),
        after: RunState::Succeeded,
        next: None,
        until: None,
        count: 1,
    }
}
