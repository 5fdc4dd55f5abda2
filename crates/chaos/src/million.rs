//! How long a start takes when much is stored: a store is filled through its own interface, then the
//! binary is started several times, killed in between, and the time to "ready" is printed.

use crate::book::now;
use crate::limits::READY_PATIENCE;
use crate::server::{Process, Setting};
use model::cluster::{Renew, Take};
use model::id::SHARDS;
use model::row::{Change, Commit, Expect, JobRow, JobState, Key, Row, RunRow};
use model::{
    Bytes, CatchUp, Cause, Epoch, FlowKey, JobId, Lane, Namespace, NodeId, Overlap, Policy, RunId,
    RunState, ScheduleSpec, ShardId, Slot, Span, Spec, Target, Text, Time, When,
};
use sim::rng::Rng;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Outcome, Store};
use store_sqlite::SqliteStore;

/// Starts that are measured.
const STARTS: usize = 5;
/// Jobs in one commit.
const BATCH: usize = 2_000;
const QUEUES: u64 = 1_000;
/// One job in so many recurs.
const RECURRING: u64 = 4;
/// Due dates lie within this, and not so soon that the start would have to fire them.
const AHEAD: Span = Span::from_secs(30 * 86_400);
const SOON: Span = Span::from_secs(600);
const NODE: NodeId = NodeId { node: 1, boot: 1 };

pub fn run(binary: &Path, jobs: u64) -> Result<(), String> {
    let folder = tempfile::Builder::new().prefix("duly-million-").tempdir();
    let folder = folder.map_err(|error| format!("no folder: {error}"))?;
    let (data, errors) = (folder.path().join("data"), folder.path().join("errors"));
    let begun = Instant::now();
    fill(&data, jobs)?;
    let bytes = std::fs::metadata(data.join("duly.db")).map(|file| file.len()).unwrap_or_default();
    println!(
        "start: {jobs} jobs stored in {:.1} s, {} MB",
        begun.elapsed().as_secs_f64(),
        bytes / 1_000_000
    );
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..STARTS {
        let mut process = Process::start(binary, &data, &errors, &Setting::default())?;
        process.ready(READY_PATIENCE).ok_or("it did not become ready")?;
        times.push(process.age());
        process.kill();
    }
    let said = std::fs::read_to_string(&errors).unwrap_or_default();
    let all: Vec<String> = times.iter().map(|time| format!("{}", time.as_millis())).collect();
    times.sort();
    println!(
        "start: ready after {} ms (median of {STARTS}: {} ms)",
        all.join(", "),
        times[STARTS / 2].as_millis()
    );
    if said.is_empty() { Ok(()) } else { Err(said) }
}

fn fill(data: &Path, jobs: u64) -> Result<(), String> {
    let store = SqliteStore::open(data, now).map_err(|error| error.to_string())?;
    let failed = |error| format!("{error:?}");
    let lease = Span::from_secs(3_600);
    store.renew(Renew { node: NODE, ttl: lease }).map_err(failed)?;
    let takes: Vec<Take> = (0..SHARDS)
        .map(|shard| Take { shard: ShardId(shard), node: NODE, epoch: Epoch(0), by: 1 })
        .collect();
    store.take(&takes).map_err(failed)?;
    let mut rng = Rng::new(1);
    let mut pending: Vec<Vec<Change>> = vec![Vec::new(); usize::from(SHARDS)];
    let mut seqs = vec![0_u64; usize::from(SHARDS)];
    for number in 0..jobs {
        let (shard, changes) = job(&mut rng, number);
        pending[usize::from(shard.0)].extend(changes);
        if (number + 1) % BATCH as u64 == 0 || number + 1 == jobs {
            let mut commits = Vec::new();
            for (at, changes) in pending.iter_mut().enumerate().filter(|(_, c)| !c.is_empty()) {
                seqs[at] += 1;
                commits.push(Commit {
                    shard: ShardId(at as u16),
                    epoch: Epoch(1),
                    seq: seqs[at],
                    decided: Time::MIN,
                    changes: Arc::new(std::mem::take(changes)),
                    floor: None,
                    starts: model::row::Starts::default(),
                });
            }
            let done = store.commit(&commits).map_err(failed)?;
            if let Some(bad) = done.outcomes.iter().find(|outcome| **outcome != Outcome::Durable) {
                return Err(format!("a commit was refused: {bad:?}"));
            }
        }
    }
    store.renew(Renew { node: NODE, ttl: Span::ZERO }).map_err(failed)?;
    store.checkpoint().map_err(failed)?;
    Ok(())
}

/// A one-off at a random time, or a job that recurs.
fn job(rng: &mut Rng, number: u64) -> (ShardId, Vec<Change>) {
    let queue = Text::from(format!("q{}", number % QUEUES));
    let slot = Slot::of(Namespace(0), &queue, 0);
    let made = now();
    let id = JobId::mint(made, slot, rng.draw());
    let due = made.plus(SOON).plus(Span::from_micros(rng.below(AHEAD.micros() as u64) as i64));
    let recurs = number.is_multiple_of(RECURRING);
    let when = match recurs {
        true => When::Every(Span::from_secs(86_400)),
        false => When::At(due),
    };
    let url = Text::from("http://127.0.0.1:9/nowhere");
    let spec = Spec {
        namespace: Namespace(0),
        name: None,
        owner: None,
        tags: Vec::new(),
        schedule: ScheduleSpec::new(when),
        target: Target::Http { url, method: Text::from("POST"), headers: Vec::new() },
        payload: Bytes::from(vec![b'x'; 200]),
        content_type: Text::from("application/json"),
        queue: queue.clone(),
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
    };
    let add = |key: Key, row: Row| Change { key, expect: Expect::Absent, row: Some(row) };
    if recurs {
        let row = JobRow {
            id,
            rev: 1,
            namespace: Namespace(0),
            state: JobState::Active,
            version: 1,
            created: made,
            versioned: made,
            mark: made,
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
        let spec = add(Key::Spec(id, 1), Row::Spec(Arc::new(spec)));
        return (slot.shard(), vec![add(Key::Job(id), Row::Job(row)), spec]);
    }
    let run = RunId::new(id, Cause::OneOff);
    let flow = FlowKey {
        namespace: Namespace(0),
        queue,
        kind: Text::from("http"),
        priority: 5,
        lane: Lane::Fresh,
        group: None,
    };
    let row = RunRow {
        id: run,
        rev: 1,
        state: RunState::Scheduled,
        due,
        nominal: due,
        flow,
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
        body: Some(Arc::new(spec)),
    };
    (slot.shard(), vec![add(Key::Run(run), Row::Run(row))])
}
