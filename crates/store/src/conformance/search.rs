//! Lists for people. Most rules compare a store with the memory store over a random world: what is
//! found, in which order, in pages of any size.

use super::TestStore;
use super::desk::{Desk, insert, insert_lease, insert_run, update_run};
use super::sample::{self, history, job_id, lease, run};
use crate::MemoryStore;
use crate::search::{
    CauseKind, FindJobs, FindRuns, Found, JobFound, Prune, QueueCounts, QuotaCounts, RunFound,
    States,
};
use model::id::{SHARDS, Slot};
use model::row::{Change, HistoryRow, JobRow, JobState, Key, Row, RunRow};
use model::{
    Cause, JobId, KeyId, Namespace, RunId, RunState, ShardId, Span, Spec, Status, Text, Time, When,
};
use std::sync::Arc;

const OURS: Namespace = Namespace(7);

fn at(secs: i64) -> Time {
    Time::from_secs(1_700_000_000 + secs)
}

/// The end of a run.
fn end(id: RunId, counter: u32, secs: i64, status: Status, after: RunState) -> HistoryRow {
    let mut row = history(id, counter, at(secs), status);
    row.after = after;
    row
}

fn add(row: HistoryRow) -> Change {
    insert(Key::History(row.run, row.token), Row::History(Box::new(row)))
}

fn recurring(id: JobId, namespace: Namespace, state: JobState, name: &str) -> Vec<Change> {
    let spec = Spec { namespace, name: Some(name.into()), ..(*sample::spec(b"x")).clone() };
    let row = JobRow { namespace, state, ..sample::job(id, None) };
    vec![
        insert(Key::Spec(id, row.version), Row::Spec(Arc::new(spec))),
        insert(Key::Job(id), Row::Job(row)),
    ]
}

/// A number below `below` from a seed and a place.
fn pick(seed: u64, place: u64, below: u64) -> u64 {
    model::hash::mix(seed ^ model::hash::mix(place)) % below
}

const LIVE: [RunState; 5] =
    [RunState::Scheduled, RunState::Blocked, RunState::Ready, RunState::Retrying, RunState::Dead];
const ENDS: [(Status, RunState); 4] = [
    (Status::Succeeded, RunState::Succeeded),
    (Status::Failed, RunState::Failed),
    (Status::Cancelled, RunState::Cancelled),
    (Status::TimedOut, RunState::Retrying),
];

/// One job with its rows, of a kind that the seed decides.
fn job(seed: u64, shard: ShardId, n: u64) -> Vec<Change> {
    let p = |place: u64, below: u64| pick(seed, n * 100 + place, below);
    let id = job_id(shard, n);
    let namespace = Namespace(7 + u32::from(p(0, 4) == 0));
    let queue: Text = ["default", "mail"][p(1, 2) as usize].into();
    let mut changes = Vec::new();
    let live_run = |cause: Cause, place: u64, changes: &mut Vec<Change>| {
        let state = LIVE[p(place, 5) as usize];
        let mut row = run(RunId::new(id, cause), state, at(p(place + 1, 500) as i64));
        (row.flow.namespace, row.flow.queue) = (namespace, queue.clone());
        if cause == Cause::OneOff {
            let mut spec = (*sample::spec(b"y")).clone();
            (spec.namespace, spec.queue) = (namespace, queue.clone());
            spec.schedule.when = When::Now;
            spec.name = (p(place + 2, 2) == 0).then(|| Text::from(format!("one-{n}")));
            spec.tags = vec![("team".into(), ["red", "blue"][p(place + 3, 2) as usize].into())];
            row.body = Some(Arc::new(spec));
        }
        changes.push(insert_run(&row));
        if p(place + 4, 3) == 0 && state != RunState::Dead {
            changes.push(insert_lease(&lease(row.id, n as u32 + 1, at(3))));
        }
        if p(place + 5, 3) == 0 {
            let mut last = end(row.id, n as u32 + 5, 7, Status::Failed, RunState::Retrying);
            last.finished = at(i64::from(shard.0) * 1_000 + n as i64 * 10);
            (last.namespace, last.error) = (namespace, Some(format!("error {n}").into()));
            changes.push(add(last));
        }
    };
    let ended = |cause: Cause, place: u64, changes: &mut Vec<Change>| {
        let (status, after) = ENDS[p(place, 4) as usize];
        let secs = p(place + 1, 400) as i64;
        let mut row = end(RunId::new(id, cause), place as u32 + 1, secs, status, after);
        // Ends are stored in their order.
        row.finished = at(i64::from(shard.0) * 1_000 + n as i64 * 10 + place as i64 / 10);
        row.namespace = namespace;
        row.worker = Some(Text::from(format!("worker-{}", p(place + 2, 3))));
        if let Some(flow) = &mut row.flow {
            (flow.namespace, flow.queue) = (namespace, queue.clone());
        }
        changes.push(add(row));
    };
    match p(2, 3) {
        0 => live_run(Cause::OneOff, 10, &mut changes),
        1 => ended(Cause::OneOff, 10, &mut changes),
        _ => {
            let state = [JobState::Active, JobState::Paused][p(3, 2) as usize];
            changes.extend(recurring(id, namespace, state, &format!("job-{n}")));
            for k in 0..p(4, 4) {
                live_run(Cause::Occurrence(at(1_000 + k as i64)), 20 + 6 * k, &mut changes);
            }
            for k in 0..p(5, 6) {
                let second = at(k as i64).secs();
                let cause = match p(60 + k, 4) {
                    0 => Cause::Trigger(k),
                    1 => Cause::Backfill { operation: 1, second },
                    2 => Cause::Rerun(k as u32),
                    _ => Cause::Occurrence(at(k as i64)),
                };
                ended(cause, 70 + 3 * k, &mut changes);
            }
        }
    }
    changes
}

fn seed() -> u64 {
    let given = std::env::var("DULY_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| std::process::id().into());
    println!("DULY_SEED={seed}");
    seed
}

/// The same random world in both.
fn worlds(store: &dyn TestStore) -> MemoryStore {
    let (seed, naive) = (seed(), MemoryStore::new(SHARDS));
    for shard in [3, 77, 200] {
        for store in [store, &naive as &dyn TestStore] {
            let mut desk = Desk::open(store, shard);
            for n in 0..60 {
                desk.commit(job(seed, desk.shard, n));
            }
        }
    }
    naive
}

fn all<T>(ask: impl Fn(Option<Text>) -> Found<T>) -> Vec<T> {
    let (mut items, mut after) = (Vec::new(), None);
    for _ in 0..10_000 {
        let found = ask(after);
        items.extend(found.items);
        after = found.next;
        if after.is_none() {
            return items;
        }
    }
    panic!("the list does not end");
}

fn jobs(store: &dyn TestStore, find: &FindJobs, limit: usize) -> Vec<JobFound> {
    all(|after| {
        let find = FindJobs { after, limit, ..find.clone() };
        let found = store.find_jobs(&find).expect("the store answers");
        assert!(found.items.len() <= limit);
        found
    })
}

fn runs(store: &dyn TestStore, find: &FindRuns, limit: usize) -> Vec<RunFound> {
    all(|after| {
        let find = FindRuns { after, limit, ..find.clone() };
        let found = store.find_runs(&find).expect("the store answers");
        assert!(found.items.len() <= limit);
        found
    })
}

pub fn jobs_are_found_newest_first(store: &dyn TestStore) {
    let naive = worlds(store);
    let every = FindJobs {
        namespace: OURS,
        recurring: Some(Vec::new()),
        one_off: Some(States::default()),
        ..FindJobs::default()
    };
    let of = |states: &[RunState]| Some(States::of(states));
    let finds = [
        every.clone(),
        FindJobs { namespace: Namespace(8), ..every.clone() },
        FindJobs { namespace: Namespace(99), ..every.clone() },
        FindJobs { recurring: None, ..every.clone() },
        FindJobs { one_off: None, ..every.clone() },
        FindJobs { one_off: None, recurring: Some(vec![JobState::Paused]), ..every.clone() },
        FindJobs { recurring: None, one_off: of(&[RunState::Running]), ..every.clone() },
        FindJobs { recurring: None, one_off: of(&[RunState::Succeeded]), ..every.clone() },
        FindJobs { queue: Some("mail".into()), ..every.clone() },
        FindJobs { tag: Some(("team".into(), Some("red".into()))), ..every.clone() },
        FindJobs { tag: Some(("team".into(), None)), ..every.clone() },
        FindJobs { owner: Some("ops".into()), ..every.clone() },
        FindJobs { owner: Some("nobody".into()), ..every.clone() },
        FindJobs { text: Some("JOB-1".into()), ..every.clone() },
    ];
    let mut found = 0;
    for find in finds {
        let expected = jobs(&naive, &find, 1_000);
        assert!(expected.is_sorted_by(|a, b| a.id() > b.id()), "newest first, none twice");
        for limit in [1, 7, 1_000] {
            let got = jobs(store, &find, limit);
            let ids = |jobs: &[JobFound]| jobs.iter().map(JobFound::id).collect::<Vec<_>>();
            assert_eq!(ids(&got), ids(&expected), "{find:?} by {limit}");
            assert!(got == expected, "the same ids with other rows");
        }
        found += expected.len();
    }
    assert!(found > 100, "the random world is too empty to show anything");
}

pub fn runs_of_a_job_are_found_by_instant(store: &dyn TestStore) {
    let naive = worlds(store);
    let mut found = 0;
    for shard in [3, 77, 200] {
        for n in 0..60 {
            let job = Some(job_id(model::ShardId(shard), n));
            for namespace in [OURS, Namespace(8)] {
                for states in [States::default(), States::of(&[RunState::Succeeded])] {
                    let find = FindRuns { namespace, job, states, ..FindRuns::default() };
                    let expected = runs(&naive, &find, 1_000);
                    for limit in [1, 3, 1_000] {
                        let got = runs(store, &find, limit);
                        assert_eq!(ids(&got), ids(&expected), "{find:?} by {limit}");
                        assert!(got == expected, "the same ids with other rows");
                    }
                    found += expected.len();
                }
            }
        }
    }
    assert!(found > 100, "the random world is too empty to show anything");
}

pub fn all_runs_are_found_unfinished_first(store: &dyn TestStore) {
    let naive = worlds(store);
    let every = FindRuns { namespace: OURS, ..FindRuns::default() };
    let of = |states: &[RunState]| FindRuns { states: States::of(states), ..every.clone() };
    let finds = [
        every.clone(),
        FindRuns { namespace: Namespace(8), ..every.clone() },
        of(&[RunState::Dead]),
        of(&[RunState::Failed]),
        of(&[RunState::Running, RunState::Succeeded]),
        of(&[RunState::Retrying]),
        FindRuns { queue: Some("mail".into()), ..every.clone() },
        FindRuns { worker: Some("worker-1".into()), ..every.clone() },
        FindRuns { worker: Some("worker-3".into()), ..every.clone() },
        FindRuns { cause: Some(CauseKind::Trigger), ..every.clone() },
        FindRuns { text: Some("error 1".into()), ..every.clone() },
        FindRuns { since: Some(at(3_200)), until: Some(at(77_400)), ..every.clone() },
        FindRuns { since: Some(at(77_100)), ..every.clone() },
    ];
    let is_live = |run: &RunFound| matches!(run, RunFound::Live { .. });
    let mut found = 0;
    for find in finds {
        let mut expected = runs(&naive, &find, 1_000);
        for limit in [1, 7, 1_000] {
            let mut got = runs(store, &find, limit);
            let live = got.iter().filter(|run| is_live(run)).count();
            assert!(got[..live].iter().all(is_live), "unfinished first");
            let (ids, naive) = (ids(&got), ids(&expected));
            assert_eq!(ids[..live], naive[..live], "{find:?} by {limit}");
            // Ends come in the order in which they were stored, which is not the naive store's.
            got[live..].sort_by_key(RunFound::id);
            expected[live..].sort_by_key(RunFound::id);
            assert!(got == expected, "{find:?} by {limit}: {ids:?}, not {naive:?}");
        }
        found += expected.len();
    }
    assert!(found > 100, "the random world is too empty to show anything");
}

fn ids(runs: &[RunFound]) -> Vec<RunId> {
    runs.iter().map(RunFound::id).collect()
}

pub fn ends_come_last_one_first(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    for n in 0..5 {
        let id = RunId::new(job_id(desk.shard, 10 - n), Cause::OneOff);
        desk.commit(vec![add(end(id, 1, n as i64, Status::Succeeded, RunState::Succeeded))]);
    }
    let find = FindRuns { namespace: OURS, ..FindRuns::default() };
    let ids: Vec<JobId> = runs(store, &find, 2).iter().map(|run| run.id().job).collect();
    let expected: Vec<JobId> = (6..=10).map(|n| job_id(desk.shard, n)).collect();
    assert_eq!(ids, expected);
}

pub fn attempts_of_a_run_are_listed(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let id = RunId::new(job_id(desk.shard, 1), Cause::OneOff);
    let mut discard = end(id, 0, 50, Status::Discarded, RunState::Failed);
    discard.finished = at(90);
    let rows = [
        end(id, 1, 1, Status::Failed, RunState::Retrying),
        end(id, 2, 2, Status::Lost, RunState::Dead),
        discard,
    ];
    let other = end(RunId::new(id.job, Cause::Rerun(1)), 7, 1, Status::Failed, RunState::Dead);
    desk.commit(rows.iter().cloned().chain([other]).map(add).collect());
    assert_eq!(store.attempts(id, 10).as_deref(), Ok(&rows[..]));
    assert_eq!(store.attempts(id, 1).map(|rows| rows.len()), Ok(1));
    let nobody = RunId::new(job_id(desk.shard, 2), Cause::OneOff);
    assert_eq!(store.attempts(nobody, 10), Ok(Vec::new()));
}

pub fn verdicts_of_a_job_are_listed(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let job = job_id(desk.shard, 1);
    let of = |secs: i64| RunId::new(job, Cause::Occurrence(at(secs)));
    let ran = end(of(10), 1, 10, Status::Succeeded, RunState::Succeeded);
    let tried = end(of(20), 2, 20, Status::Failed, RunState::Retrying);
    let skipped = end(of(30), 0, 30, Status::SkippedPaused, RunState::Cancelled);
    let mut missed = end(of(40), 0, 40, Status::Missed, RunState::Cancelled);
    (missed.until, missed.count) = (Some(at(60)), 3);
    let trigger = RunId::new(job, Cause::Trigger(5));
    let triggered = end(trigger, 9, 45, Status::Succeeded, RunState::Succeeded);
    let rows = [ran.clone(), tried, skipped.clone(), missed.clone(), triggered];
    desk.commit(rows.into_iter().map(add).collect());
    let list = |from, until, limit| {
        store.verdicts(job, at(from), at(until), limit).expect("the store answers")
    };
    assert_eq!(list(0, 100, 10), [ran.clone(), skipped.clone(), missed.clone()]);
    assert_eq!(list(0, 100, 1), [ran]);
    assert_eq!(list(30, 30, 10), [skipped]);
    assert_eq!(list(50, 55, 10), [missed.clone()], "a range that reaches in");
    assert_eq!(list(60, 100, 10), [missed]);
    assert_eq!(list(61, 100, 10), []);
}

pub fn queues_are_counted(store: &dyn TestStore) {
    let shard = Slot::of(OURS, "default", 0).shard();
    let mut desk = Desk::open(store, shard.0);
    let now = desk.now();
    let secs = |secs| now.plus(Span::from_secs(secs));
    let mut rows = Vec::new();
    let states = [
        (RunState::Ready, -9),
        (RunState::Ready, -5),
        (RunState::Ready, -20),
        (RunState::Retrying, 60),
        (RunState::Retrying, 600),
        (RunState::Scheduled, 30),
        (RunState::Scheduled, 3_000),
        (RunState::Dead, 50),
        (RunState::Blocked, 10),
    ];
    for (n, (state, due)) in states.into_iter().enumerate() {
        rows.push(run(RunId::new(job_id(shard, n as u64), Cause::OneOff), state, secs(due)));
    }
    let mut other = run(RunId::new(job_id(shard, 50), Cause::OneOff), RunState::Ready, now);
    other.flow.queue = "mail".into();
    rows.push(other);
    let mut changes: Vec<Change> = rows.iter().map(insert_run).collect();
    changes.push(insert_lease(&lease(rows[2].id, 9, now)));
    desk.commit(changes);
    let counts = store.queue_counts(OURS, "default", Span::from_secs(300));
    let expected = QueueCounts {
        ready: 2,
        running: 1,
        retrying: 2,
        dead: 1,
        due_soon: 2,
        oldest_ready: Some(secs(-9)),
    };
    assert_eq!(counts, Ok(expected));
    let none = store.queue_counts(Namespace(8), "default", Span::from_secs(300));
    assert_eq!(none, Ok(QueueCounts::default()));
}

/// Over all queues and shards; what runs and what waits for its time are no part of it.
pub fn namespaces_are_counted(store: &dyn TestStore) {
    let states = [
        RunState::Ready,
        RunState::Ready,
        RunState::Retrying,
        RunState::Scheduled,
        RunState::Dead,
        RunState::Blocked,
    ];
    for shard in [0, 9, SHARDS - 1] {
        let mut desk = Desk::open(store, shard);
        let now = desk.now();
        let mut rows = Vec::new();
        for (n, state) in states.into_iter().enumerate() {
            let id = RunId::new(job_id(desk.shard, n as u64), Cause::OneOff);
            let mut row = run(id, state, now);
            row.flow.queue = format!("q{n}").into();
            rows.push(row);
        }
        let mut other = run(RunId::new(job_id(desk.shard, 50), Cause::OneOff), states[0], now);
        other.flow.namespace = Namespace(8);
        rows.push(other);
        let mut changes: Vec<Change> = rows.iter().map(insert_run).collect();
        changes.push(insert_lease(&lease(rows[1].id, 9, now)));
        for (n, state) in [JobState::Active, JobState::Paused, JobState::Ended, JobState::Cancelled]
            .into_iter()
            .enumerate()
        {
            changes.extend(recurring(job_id(desk.shard, 60 + n as u64), OURS, state, "n"));
        }
        desk.commit(changes);
    }
    let counts = |namespace, limit| store.namespace_counts(namespace, limit);
    assert_eq!(counts(OURS, 100), Ok(QuotaCounts { waiting: 6, jobs: 6 }));
    assert_eq!(counts(OURS, 5), Ok(QuotaCounts { waiting: 5, jobs: 5 }), "up to a bound");
    assert_eq!(counts(Namespace(8), 100), Ok(QuotaCounts { waiting: 3, jobs: 0 }));
    assert_eq!(counts(Namespace(9), 100), Ok(QuotaCounts::default()));
}

/// What specs say that it was made with a key: one-off jobs, recurring ones, and their runs, each once.
pub fn keys_are_counted(store: &dyn TestStore) {
    let (ours, other) = (KeyId::from_bits(0xffff_0000_0001), KeyId::from_bits(7));
    let with = |key| Arc::new(Spec { api_key: key, ..(*sample::spec(b"x")).clone() });
    for shard in [0, 9, SHARDS - 1] {
        let mut desk = Desk::open(store, shard);
        let now = desk.now();
        let mut changes = Vec::new();
        let one_off = |n, state, key| {
            let mut row = run(RunId::new(job_id(ShardId(shard), n), Cause::OneOff), state, now);
            row.body = Some(with(key));
            row
        };
        let claimed = one_off(1, RunState::Ready, Some(ours));
        changes.push(insert_lease(&lease(claimed.id, 9, now)));
        let moved = one_off(2, RunState::Scheduled, Some(ours));
        let one_offs = [
            claimed,
            moved.clone(),
            one_off(3, RunState::Ready, Some(ours)),
            one_off(4, RunState::Dead, Some(ours)),
            one_off(5, RunState::Ready, Some(other)),
            one_off(6, RunState::Ready, None),
        ];
        changes.extend(one_offs.iter().map(insert_run));
        // A job whose second version is in force, and another that has ended.
        for (n, state) in [(20, JobState::Paused), (21, JobState::Ended)] {
            let id = job_id(desk.shard, n);
            let row = JobRow { state, version: 2, ..sample::job(id, None) };
            changes.push(insert(Key::Job(id), Row::Job(row)));
            for version in [1, 2] {
                changes.push(insert(Key::Spec(id, version), Row::Spec(with(Some(ours)))));
            }
            for (at, version) in [(1, 1), (2, 2)] {
                let id = RunId::new(id, Cause::Occurrence(Time::from_secs(at)));
                changes.push(insert_run(&RunRow { version, ..run(id, RunState::Ready, now) }));
            }
            // One with a payload, and so with a spec, of its own.
            let mut own = run(RunId::new(id, Cause::Trigger(5)), RunState::Retrying, now);
            (own.body, own.version) = (Some(with(Some(ours))), 2);
            changes.push(insert_run(&own));
        }
        let id = job_id(desk.shard, 30);
        changes.extend(recurring(id, OURS, JobState::Active, "nobody's"));
        let nobodys = RunId::new(id, Cause::Occurrence(Time::from_secs(1)));
        changes.push(insert_run(&run(nobodys, RunState::Ready, now)));
        desk.commit(changes);
        // A change without a body leaves whose it is.
        let due = RunRow { rev: 2, state: RunState::Ready, body: None, ..moved };
        desk.commit(vec![update_run(&due, 1)]);
    }
    let counts = |key, limit| store.key_counts(key, limit);
    // 2 one-offs, and of each of two jobs one run per version and a trigger; one job is alive.
    assert_eq!(counts(ours, 100), Ok(QuotaCounts { waiting: 24, jobs: 3 }));
    assert_eq!(counts(ours, 2), Ok(QuotaCounts { waiting: 2, jobs: 2 }), "up to a bound");
    assert_eq!(
        counts(ours, 10),
        Ok(QuotaCounts { waiting: 10, jobs: 3 }),
        "in the middle of a job"
    );
    assert_eq!(counts(other, 100), Ok(QuotaCounts { waiting: 3, jobs: 0 }));
    assert_eq!(counts(KeyId::from_bits(8), 100), Ok(QuotaCounts::default()));
}

/// An end a day, and bounds between two days: a store may keep a day until all of it is old.
pub fn old_history_is_removed_in_slices(store: &dyn TestStore) {
    const DAY: i64 = 86_400;
    let midnight = |day: i64| Time::from_secs((19_675 + day) * DAY);
    let mut desk = Desk::open(store, 3);
    let job = job_id(desk.shard, 1);
    for n in 0..20 {
        let id = RunId::new(job, Cause::Occurrence(at(n)));
        let (status, after) = match n % 4 {
            0 => (Status::Failed, RunState::Failed),
            _ => (Status::Succeeded, RunState::Succeeded),
        };
        let mut row = end(id, n as u32 + 1, n, status, after);
        row.finished = midnight(n).plus(Span::from_secs(n * 3_600));
        desk.commit(vec![add(row)]);
    }
    let left = |store: &dyn TestStore| -> Vec<i64> {
        let rows = store.verdicts(job, at(0), at(100), 100).expect("the store answers");
        rows.iter().map(|row| row.nominal.since(at(0)).micros() / 1_000_000).collect()
    };
    let prune = |before: i64, failures: i64| {
        let (mut after, mut removed) = (0, 0);
        for _ in 0..100 {
            let (before, failures_before) = (midnight(before), midnight(failures));
            let prune = Prune { before, failures_before, after, limit: 3 };
            let pruned = store.prune(&prune).expect("the store answers");
            removed += pruned.removed;
            match pruned.next {
                Some(next) => after = next,
                None => return removed,
            }
        }
        panic!("pruning does not end");
    };
    assert_eq!(prune(10, 5), 9, "7 successes, and failures of 0 and 4");
    assert_eq!(left(store), [8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
    assert_eq!(prune(10, 5), 0, "again does nothing");
    assert_eq!(prune(30, 30), 11);
    assert!(left(store).is_empty());
}

pub fn what_is_removed_takes_no_bytes(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let before = store.used_bytes().expect("the store answers");
    let rows = (0..2_000).map(|n| {
        let id = RunId::new(job_id(desk.shard, n), Cause::OneOff);
        add(end(id, 1, n as i64, Status::Succeeded, RunState::Succeeded))
    });
    let rows = rows.collect();
    desk.commit(rows);
    let full = store.used_bytes().expect("the store answers");
    assert!(full > before, "{full} after 2,000 rows, {before} before");
    let prune = Prune { before: at(9_999), failures_before: at(0), after: 0, limit: 5_000 };
    assert_eq!(store.prune(&prune).map(|pruned| pruned.removed), Ok(2_000));
    let after = store.used_bytes().expect("the store answers");
    assert!(after < full, "{after} of {full} are left");
}
