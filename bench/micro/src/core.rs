//! What a run's life costs in the core: submit, claim and settle through one shard over the store
//! in memory, on one thread.
//!
//! `core` prints lifecycles per second with 10,000 and with 1,000,000 registered jobs (or as many
//! as the second word says) and their ratio; `core dispatch` what a claim costs per run while 1,000,000 wait in 100,000 groups;
//! `core run N` does N rounds of 256 lifecycles and
//! nothing else, for `scripts/check-instructions.sh`. It asserts nothing.

use model::cluster::Take;
use model::row::{Change, Commit, Expect, Holder, JobRow, JobState, Key, Row};
use model::{
    CatchUp, JobId, Namespace, NodeId, Overlap, Policy, QueueRow, ScheduleSpec, ShardId, Slot,
    Span, Spec, Target, Time, When,
};
use shard::command::{Answer, Claim, Command, CommandId, End, Leased, NewJob, Settle};
use shard::{Caller, CommitEnd, Output, Planted, Shard};
use std::sync::Arc;
use std::time::Instant;
use store::{MemoryStore, Outcome, Store, StoreError};

const NODE: NodeId = NodeId { node: 1, boot: 1 };
const SHARD: ShardId = ShardId(0);
const START: Time = Time::from_secs(1_800_000_000);
/// Runs in one command; workers and clients work in batches.
const BATCH: usize = 256;
const ROUNDS: u64 = 400;
const RUNS: usize = 5;

struct World {
    store: MemoryStore,
    shard: Shard,
    now: Time,
    spec: Arc<Spec>,
    ids: u64,
    commands: u64,
    answers: Vec<Answer>,
    done: u64,
}

fn spec(when: When) -> Spec {
    Spec {
        namespace: Namespace(1),
        name: None,
        owner: None,
        tags: Vec::new(),
        schedule: ScheduleSpec::new(when),
        target: Target::Worker { kind: "send".into() },
        payload: Arc::from(&b"{\"to\":\"somebody\"}"[..]),
        content_type: "application/json".into(),
        queue: "mail".into(),
        group: None,
        priority: 5,
        policy: Policy::default(),
        overlap: Overlap::default(),
        catch_up: CatchUp::default(),
        permanent: None,
        within: model::Within::default(),
        request_id: None,
        api_key: None,
        origin: model::Origin::default(),
    }
}

fn registered(n: u64, spec: &Arc<Spec>) -> [Change; 2] {
    let id = JobId::mint(Time::from_secs(1_700_000_000), Slot::from_bits(0), n << 2);
    // Their next instants lie days ahead, spread over a year.
    let due = START.plus(Span::from_secs(86_400 * 3 + (n % 365) as i64 * 86_400));
    let row = JobRow {
        id,
        rev: 1,
        namespace: Namespace(1),
        state: JobState::Active,
        version: 1,
        created: START,
        versioned: START,
        mark: START,
        next: Some(due),
        due: Some(due),
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
    let put = |key, row| Change { key, expect: Expect::Absent, row: Some(row) };
    [put(Key::Job(id), Row::Job(row)), put(Key::Spec(id, 1), Row::Spec(spec.clone()))]
}

impl World {
    fn new(jobs: u64) -> Result<World, StoreError> {
        let store = MemoryStore::new(1);
        store.set_now(START);
        let take = |epoch| {
            store.take(&[Take { shard: SHARD, node: NODE, epoch: model::Epoch(epoch), by: 1 }])
        };
        take(0)?;
        let every = Arc::new(spec(When::Every(Span::from_secs(86_400))));
        for (seq, from) in (0..jobs).step_by(10_000).enumerate() {
            let changes: Vec<Change> =
                (from..jobs.min(from + 10_000)).flat_map(|n| registered(n, &every)).collect();
            let commit = Commit {
                shard: SHARD,
                epoch: model::Epoch(1),
                seq: seq as u64 + 1,
                decided: START,
                changes: changes.into(),
                floor: None,
                starts: model::row::Starts::default(),
            };
            store.commit(&[commit])?;
        }
        let taken = take(1)?.pop().flatten().ok_or(StoreError::Unknown)?;
        let mut shard = Shard::new(SHARD, NODE, taken, &[NODE], START, Planted::default());
        shard.handle_trust(Time::MAX);
        let mut world = World {
            store,
            shard,
            now: START,
            spec: Arc::new(spec(When::Now)),
            ids: 0,
            commands: 0,
            answers: Vec::new(),
            done: 0,
        };
        world.pump()?;
        Ok(world)
    }

    fn pump(&mut self) -> Result<(), StoreError> {
        loop {
            let mut moved = false;
            while let Some((id, read)) = self.shard.poll_read() {
                let page = self.store.read(&[(SHARD, read)])?.remove(0);
                self.shard.handle_read(self.now, id, page);
                moved = true;
            }
            if let Some(commit) = self.shard.poll_commit(self.now) {
                let seq = commit.seq;
                let durable = self.store.commit(&[commit])?.outcomes == [Outcome::Durable];
                let end = if durable { CommitEnd::Durable } else { CommitEnd::Unknown };
                self.shard.handle_commit(self.now, seq, end);
                moved = true;
            }
            while let Some(output) = self.shard.poll_output() {
                if let Output::Reply(_, answer) = output {
                    self.answers.push(answer);
                }
            }
            if !moved {
                return Ok(());
            }
        }
    }

    fn call(&mut self, command: Command) -> Result<Answer, StoreError> {
        self.commands += 1;
        let caller =
            Caller { id: CommandId(self.commands), deadline: self.now.plus(Span::from_secs(30)) };
        self.shard.handle_command(self.now, caller, command);
        self.pump()?;
        self.answers.pop().ok_or(StoreError::Unknown)
    }

    /// The life of `BATCH` runs: three commands, three commits.
    fn round(&mut self) -> Result<(), StoreError> {
        self.now = self.now.plus(Span::from_millis(1));
        self.store.set_now(self.now);
        self.shard.handle_tick(self.now);
        let jobs = (0..BATCH)
            .map(|_| {
                self.ids += 1;
                let id = JobId::mint(self.now, Slot::from_bits(0), self.ids << 2);
                NewJob { id, spec: self.spec.clone(), key: None, paused: false }
            })
            .collect();
        self.call(Command::Submit(jobs))?;
        let claim = Claim {
            holder: Holder::Worker("worker".into()),
            namespace: Namespace(1),
            queues: vec!["mail".into()],
            kinds: None,
            max: BATCH,
            lease: Span::from_secs(30),
            request: self.commands,
            wait_until: self.now,
            reserve: false,
        };
        let Answer::Claimed(leases) = self.call(Command::Claim(claim))? else {
            return Err(StoreError::Unknown);
        };
        self.done += leases.len() as u64;
        let end = |lease: Leased| Settle {
            run: lease.run,
            token: lease.token,
            end: End::Succeeded { output: None },
        };
        self.call(Command::Settle(leases.into_iter().map(end).collect()))?;
        Ok(())
    }
}

/// Lifecycles per second: the median of some runs, the slowest and the fastest.
fn measure(jobs: u64) -> Result<(f64, f64, f64), StoreError> {
    let mut world = World::new(jobs)?;
    for _ in 0..ROUNDS / 4 {
        world.round()?;
    }
    let mut rates = Vec::new();
    for _ in 0..RUNS {
        let (before, start) = (world.done, Instant::now());
        for _ in 0..ROUNDS {
            world.round()?;
        }
        rates.push((world.done - before) as f64 / start.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    Ok((rates[RUNS / 2], rates[0], rates[RUNS - 1]))
}

/// What a claim costs per run it gives out, while so many wait in so many groups and the queue has
/// limits that do not stop it: the core's decision alone, median of many claims.
fn dispatch(waiting: usize, groups: usize) -> Result<(), StoreError> {
    let mut world = World::new(0)?;
    let limits = QueueRow {
        max_running: Some(1_000_000),
        group_max_running: Some(1_000_000),
        weights: [("g1".into(), 3)].into(),
        ..QueueRow::default()
    };
    let set = Command::SetQueue { namespace: Namespace(1), queue: "mail".into(), limits };
    world.call(set)?;
    let specs: Vec<Arc<Spec>> = (0..groups)
        .map(|n| Arc::new(Spec { group: Some(format!("g{n}").into()), ..spec(When::Now) }))
        .collect();
    for from in (0..waiting).step_by(1_000) {
        let jobs = (from..waiting.min(from + 1_000))
            .map(|n| {
                world.ids += 1;
                let id = JobId::mint(world.now, Slot::from_bits(0), world.ids << 2);
                NewJob { id, spec: specs[n % groups].clone(), key: None, paused: false }
            })
            .collect();
        world.call(Command::Submit(jobs))?;
    }
    let mut costs = Vec::new();
    for _ in 0..200 {
        world.commands += 1;
        let claim = Claim {
            holder: Holder::Worker("worker".into()),
            namespace: Namespace(1),
            queues: vec!["mail".into()],
            kinds: None,
            max: BATCH,
            lease: Span::from_secs(30),
            request: world.commands,
            wait_until: world.now,
            reserve: false,
        };
        let caller =
            Caller { id: CommandId(world.commands), deadline: world.now.plus(Span::from_secs(30)) };
        let start = Instant::now();
        world.shard.handle_command(world.now, caller, Command::Claim(claim));
        let took = start.elapsed();
        world.pump()?;
        let Some(Answer::Claimed(leases)) = world.answers.pop() else {
            return Err(StoreError::Unknown);
        };
        if leases.is_empty() {
            break;
        }
        costs.push(took.as_nanos() as f64 / leases.len() as f64);
    }
    costs.sort_by(f64::total_cmp);
    println!(
        "dispatch with {waiting} waiting in {groups} groups: {:.0} ns a run (least {:.0}, most {:.0})",
        costs[costs.len() / 2],
        costs[0],
        costs[costs.len() - 1]
    );
    Ok(())
}

fn main() -> Result<(), StoreError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "dispatch") {
        dispatch(100_000, 10)?;
        return dispatch(1_000_000, 100_000);
    }
    if let [run, rounds] = &words[..]
        && run == "run"
    {
        let mut world = World::new(0)?;
        for _ in 0..rounds.parse().unwrap_or(1) {
            world.round()?;
        }
        return Ok(());
    }
    let many = words.first().and_then(|word| word.parse().ok()).unwrap_or(1_000_000);
    println!("size_of Entry: {} bytes", size_of::<shard::Entry>());
    let mut medians = Vec::new();
    for jobs in [10_000, many] {
        let (median, low, high) = measure(jobs)?;
        println!("{jobs:>10} registered jobs: {median:>9.0} lifecycles/s ({low:.0} to {high:.0})");
        medians.push(median);
    }
    println!("cost at {many} is {:.2} times that at 10,000", medians[0] / medians[1]);
    Ok(())
}
