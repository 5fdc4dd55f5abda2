//! How fast is the PostgreSQL store? One shard, durable. Each commit carries a batch of submissions,
//! the claims of an earlier batch and the settles of a still earlier one, as a group-committing
//! owner does. A lifecycle is three steps of one job, in three commits. Beside it the same batches as
//! bare SQL (`bare`), in turns, so that whatever else the machine does hits both.
//!
//!     cargo run --release -p store-postgres --example postgres_lifecycle -- ADDRESS [batch] [seconds] [turns] [lanes]
//!
//! `seconds` is the length of one turn of one of the two; `lanes` commit beside each other, each with a
//! shard of its own.
#![allow(clippy::expect_used, clippy::panic)] // a bench: whatever goes wrong ends it

mod bare;

use bare::Bare;
use model::cluster::{Renew, Take};
use model::row::{Change, Commit, Expect, HistoryRow, Holder, Key, LeaseRow, Row, RunRow, Starts};
use model::{
    Cause, Epoch, FlowKey, JobId, Lane, Namespace, NodeId, Policy, RunId, RunState, ScheduleSpec,
    ShardId, Slot, Span, Spec, Status, Target, Time, Token, When,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use store::{Outcome, Store};
use store_postgres::PostgresStore;

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Time::from_micros(since.as_micros() as i64)
}

/// What one commit carries.
#[derive(Default)]
struct Batch {
    runs: Vec<RunRow>,
    leases: Vec<LeaseRow>,
    ends: Vec<HistoryRow>,
    starts: Starts,
}

/// Makes batches: a job is claimed four batches after it is made, and settled four later.
struct Source {
    shard: u16,
    size: u64,
    minted: u64,
    spec: Arc<Spec>,
    flow: FlowKey,
    /// With when they were made; those that were claimed with their token.
    submitted: VecDeque<(Vec<RunId>, Time)>,
    claimed: VecDeque<(Vec<RunId>, Token, Time)>,
    /// The last one that was given.
    token: Token,
}

impl Source {
    fn new(shard: u16, epoch: Epoch, size: u64, first: u64) -> Source {
        let (submitted, claimed) = (VecDeque::new(), VecDeque::new());
        let (spec, flow, token) = (spec(), flow(), Token::new(epoch, 0));
        Source { shard, size, minted: first, spec, flow, submitted, claimed, token }
    }

    fn next(&mut self, at: Time) -> Batch {
        let mut batch = Batch::default();
        for _ in 0..self.size {
            self.minted += 1;
            batch.runs.push(run(self.shard, self.minted, at, &self.flow, &self.spec));
        }
        self.submitted.push_back((batch.runs.iter().map(|run| run.id).collect(), at));
        if self.submitted.len() > 4 {
            let (ids, made): (Vec<RunId>, Time) =
                self.submitted.pop_front().unwrap_or_else(|| (Vec::new(), at));
            self.token = Token(self.token.0 + 1);
            batch.leases = ids.iter().map(|id| lease(*id, at, self.token)).collect();
            self.claimed.push_back((ids, self.token, made));
        }
        if self.claimed.len() > 4 {
            let (ids, token, _) =
                self.claimed.pop_front().unwrap_or_else(|| (Vec::new(), Token::NONE, at));
            batch.ends = ids.iter().map(|id| history(*id, at, token, &self.flow)).collect();
        }
        // As an owner knows it: what was made first and is not settled, and what was claimed first.
        let claimed = self.claimed.iter().map(|(.., made)| *made);
        let made = claimed.chain(self.submitted.iter().map(|(_, made)| *made));
        batch.starts =
            Starts { ready: made.min(), leases: self.claimed.front().map(|(_, token, _)| *token) };
        batch
    }
}

fn changes(batch: Batch) -> Vec<Change> {
    let mut changes = Vec::new();
    changes.extend(batch.runs.into_iter().map(|run| insert(Key::Run(run.id), Row::Run(run))));
    changes
        .extend(batch.leases.into_iter().map(|row| insert(Key::Lease(row.run), Row::Lease(row))));
    for row in batch.ends {
        changes.push(Change { key: Key::Lease(row.run), expect: Expect::Rev(1), row: None });
        changes.push(Change { key: Key::Run(row.run), expect: Expect::Rev(1), row: None });
        changes.push(insert(Key::History(row.run, row.token), Row::History(Box::new(row))));
    }
    changes
}

/// Lifecycles per second, and milliseconds per commit.
fn store_turn(
    store: &PostgresStore,
    shard: u16,
    size: u64,
    seconds: f64,
    first: u64,
) -> (f64, f64) {
    let node = NodeId { node: 1, boot: 1 };
    let epoch = store.renew(Renew { node, ttl: Span::from_secs(60) }).expect("answers").shards;
    let epoch = epoch[usize::from(shard)].epoch;
    let take = Take { shard: ShardId(shard), node, epoch, by: 1 };
    let taken = store.take(&[take]).expect("it answers")[0].expect("one's own");
    let (mut source, mut seq, mut done, mut commits) =
        (Source::new(shard, taken.epoch, size, first), taken.seq, 0, 0u32);
    let began = Instant::now();
    while began.elapsed().as_secs_f64() < seconds {
        let at = now();
        let batch = source.next(at);
        done += batch.ends.len();
        seq += 1;
        let starts = batch.starts;
        let commit = Commit {
            shard: ShardId(shard),
            epoch: taken.epoch,
            seq,
            decided: at,
            changes: changes(batch).into(),
            floor: None,
            starts,
        };
        let committed = store.commit(&[commit]).expect("it answers");
        assert_eq!(committed.outcomes, [Outcome::Durable]);
        commits += 1;
    }
    let took = began.elapsed().as_secs_f64();
    (done as f64 / took, took * 1e3 / f64::from(commits))
}

fn bare_turn(bare: &Bare, shard: u16, size: u64, seconds: f64, first: u64) -> (f64, f64) {
    let (mut source, mut done, mut commits) = (Source::new(shard, Epoch(1), size, first), 0, 0u32);
    let began = Instant::now();
    while began.elapsed().as_secs_f64() < seconds {
        let batch = source.next(now());
        done += batch.ends.len();
        bare.commit(&batch.runs, &batch.leases, &batch.ends);
        commits += 1;
    }
    let took = began.elapsed().as_secs_f64();
    (done as f64 / took, took * 1e3 / f64::from(commits))
}

/// Processor time of this process and of the server's sessions of this database, in microseconds.
/// What the clock says depends on what else the machine does; this much less. Sessions are never
/// closed here, so none is missing in the second look.
fn spent(address: &str) -> (f64, f64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let pids: Vec<i32> = runtime.expect("a runtime").block_on(async {
        let connected = tokio_postgres::connect(address, tokio_postgres::NoTls).await;
        let (client, driver) = connected.expect("a connection");
        let driver = tokio::spawn(driver);
        let sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let rows = client.query(sql, &[]).await.expect("an answer");
        drop(client);
        let _ = driver.await;
        rows.iter().map(|row| row.get(0)).collect()
    });
    let of = |pid: String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<f64> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_ascii_whitespace()
            .map(|field| field.parse().unwrap_or(0.0))
            .collect();
        // utime and stime, in hundredths of a second.
        fields.get(11..13).map_or(0.0, |both| both.iter().sum::<f64>() * 1e4)
    };
    (of("self".into()), pids.into_iter().map(|pid| of(pid.to_string())).sum())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| {
        args.get(at).map_or(default, |arg| arg.parse().expect("a number"))
    };
    let (size, seconds, turns, lanes) = (number(1, 256), number(2, 3), number(3, 5), number(4, 1));
    let address = args.first().expect("an address");
    let store = PostgresStore::open(address).expect("it opens");
    println!("{}", store.durability());
    let bares: Vec<Bare> = (0..lanes).map(|_| Bare::open(address)).collect();
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut costs = Vec::new();
    let seconds = seconds as f64;
    for turn in 0..turns {
        // Ids that no other turn has; the time in them differs too.
        let first = |lane: u64, kind: u64| (turn * 100 + lane * 2 + kind) << 32;
        let side = |ours: bool| -> (f64, f64) {
            let all: Vec<(f64, f64)> = std::thread::scope(|scope| {
                let (store, bares) = (&store, &bares);
                let lanes: Vec<_> = (0..lanes)
                    .map(|lane| {
                        let shard = lane as u16;
                        scope.spawn(move || match ours {
                            true => store_turn(store, shard, size, seconds, first(lane, 0)),
                            false => bare_turn(
                                &bares[lane as usize],
                                shard,
                                size,
                                seconds,
                                first(lane, 1),
                            ),
                        })
                    })
                    .collect();
                lanes.into_iter().map(|lane| lane.join().expect("no panic")).collect()
            });
            (all.iter().map(|one| one.0).sum(), all[0].1)
        };
        let before = spent(address);
        let (a, a_ms) = side(true);
        let between = spent(address);
        let (b, b_ms) = side(false);
        let after = spent(address);
        let each = |from: (f64, f64), to: (f64, f64), rate: f64| {
            let done = rate * seconds;
            ((to.0 - from.0) / done, (to.1 - from.1) / done)
        };
        let (cpu, bare_cpu) = (each(before, between, a), each(between, after, b));
        costs.push(100.0 * (bare_cpu.0 + bare_cpu.1) / (cpu.0 + cpu.1));
        println!(
            "        processor per lifecycle, client + server: duly {:.1} + {:.1} µs, bare {:.1} + {:.1} µs",
            cpu.0, cpu.1, bare_cpu.0, bare_cpu.1
        );
        println!(
            "turn {turn}: duly {a:.0}/s ({a_ms:.1} ms per commit), bare {b:.0}/s ({b_ms:.1} ms), {:.0} %",
            100.0 * a / b
        );
        ours.push(a);
        theirs.push(b);
        ratios.push(100.0 * a / b);
    }
    println!(
        "batch {size}, {lanes} lanes, {turns} turns of {seconds} s: median duly {:.0} lifecycles/s, bare {:.0}, ratio {:.0} %, by processor time {:.0} %",
        median(&mut ours),
        median(&mut theirs),
        median(&mut ratios),
        median(&mut costs)
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

fn run(shard: u16, n: u64, at: Time, flow: &FlowKey, spec: &Arc<Spec>) -> RunRow {
    let job = JobId::mint(at, Slot::from_bits(shard * 16 + 3), model::hash::mix(n));
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

fn lease(run: RunId, at: Time, token: Token) -> LeaseRow {
    LeaseRow {
        run,
        rev: 1,
        attempt: 1,
        token,
        holder: Holder::Worker("w1".into()),
        length: Span::from_secs(30),
        started: at,
        deadline: at.plus(Span::from_secs(30)),
        request: 1,
        cancel: false,
    }
}

fn history(run: RunId, at: Time, token: Token, flow: &FlowKey) -> HistoryRow {
    HistoryRow {
        run,
        token,
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
