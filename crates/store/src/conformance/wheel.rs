//! What waits for an instant is found when the instant comes near, each row once.

use super::TestStore;
use super::desk::{Desk, insert, insert_run, remove, update, update_run};
use super::sample::{self, job_id, one_off, run};
use model::id::ShardId;
use model::read::{Bucket, FAR};
use model::row::{Key, Row, RunRow};
use model::{RunState, Span, Time};

const HOUR: Span = Span::from_secs(3_600);

/// The whole hour after the store's clock, and a few more: a place to count from.
fn hours_from(now: Time, hours: i64) -> Time {
    Bucket::earliest(now).start.plus(HOUR.times(hours))
}

fn waiting(shard: ShardId, n: u64, due: Time) -> RunRow {
    run(one_off(shard, n), RunState::Scheduled, due)
}

fn key_of(row: &Row) -> Key {
    match row {
        Row::Run(row) => Key::Run(row.id),
        Row::Job(row) => Key::Job(row.id),
        Row::Backlog(row) => Key::Backlog(row.id),
        row => panic!("{row:?} cannot be on the wheel"),
    }
}

fn keys(rows: &[Row]) -> Vec<Key> {
    let mut keys: Vec<Key> = rows.iter().map(key_of).collect();
    keys.sort();
    keys
}

pub fn bounds_are_inclusive_and_exclusive(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    for hours in [1, 2, 3, 50] {
        // In the middle of a bucket, at the begin of a minute's and of an hour's.
        for offset in [0, 60_000_000, 61_234_567] {
            let due = hours_from(desk.now(), hours).plus(Span::from_micros(offset));
            let row = waiting(desk.shard, (hours * 10 + offset) as u64, due);
            desk.commit(vec![insert_run(&row)]);
            let step = Span::from_micros(1);
            let (back, ahead) = (due.minus(step), due.plus(step));
            assert_eq!(desk.due(due, ahead, 9), [Row::Run(row.clone())]);
            assert_eq!(desk.due(back, ahead, 9), [Row::Run(row.clone())]);
            assert_eq!(desk.due(back, due, 9), []);
            assert_eq!(desk.due(ahead, ahead.plus(HOUR), 9), []);
            assert_eq!(desk.due(due, due, 9), []);
            desk.commit(vec![remove(Key::Run(row.id), 1)]);
        }
    }
}

pub fn near_and_far_rows_are_found(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let now = desk.now();
    let micros = |n| Span::from_micros(n);
    let dues = [
        Time::MIN,
        now.minus(HOUR.times(30)),
        now.minus(micros(1)),
        now,
        now.plus(FAR).minus(micros(1)),
        now.plus(FAR),
        now.plus(FAR).plus(micros(1)),
        now.plus(HOUR.times(24 * 365)),
        Time::MAX,
    ];
    for (n, due) in dues.into_iter().enumerate() {
        desk.commit(vec![insert_run(&waiting(desk.shard, n as u64, due))]);
    }
    for (n, from) in dues.into_iter().enumerate() {
        for (m, before) in dues.into_iter().enumerate() {
            let found = keys(&desk.due(from, before, 2));
            let expected: Vec<Key> =
                (n..m.max(n)).map(|i| Key::Run(one_off(desk.shard, i as u64))).collect();
            assert_eq!(found, expected, "from {from:?} before {before:?}");
        }
    }
}

pub fn pages_return_each_row_once(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let start = hours_from(desk.now(), 1);
    let mut changes = Vec::new();
    for n in 0..60u64 {
        // Two hours in steps that crowd some buckets; ids in another order than dues.
        let due = start.plus(Span::from_secs((n * n * 7 % 7_200) as i64));
        changes.push(insert_run(&waiting(desk.shard, 1_000 - n, due)));
    }
    for n in 0..20u64 {
        let job =
            sample::job(job_id(desk.shard, 2_000 + n), Some(start.plus(Span::from_secs(n as i64))));
        let backlog = sample::backlog(job.id, n as u16, start);
        changes.push(insert(Key::Job(job.id), Row::Job(job)));
        changes.push(insert(Key::Backlog(backlog.id), Row::Backlog(backlog)));
    }
    let mut expected: Vec<Key> = changes.iter().map(|change| change.key.clone()).collect();
    expected.sort();
    desk.commit(changes);
    for limit in [1, 2, 7, 100, 1_000] {
        assert_eq!(keys(&desk.due(start, start.plus(HOUR.times(2)), limit)), expected);
    }
    // A page may also have to pass over much that it does not return.
    let found = desk.due(start.plus(Span::from_secs(59)), start.plus(Span::from_secs(65)), 1);
    let all = desk.due(start, start.plus(HOUR.times(2)), 1_000);
    let window = start.plus(Span::from_secs(59))..start.plus(Span::from_secs(65));
    let due: Vec<Row> =
        all.into_iter().filter(|row| row.due().is_some_and(|due| window.contains(&due))).collect();
    assert_eq!(keys(&found), keys(&due));
}

pub fn pages_come_in_bucket_order(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let now = desk.now();
    let start = hours_from(now, 1);
    for n in 0..8u64 {
        // Later ids in earlier buckets.
        let due = start.plus(Span::from_secs(60 * (8 - n as i64)));
        desk.commit(vec![insert_run(&waiting(desk.shard, n, due))]);
    }
    let dues: Vec<Time> = desk.due(now, start.plus(HOUR), 3).iter().filter_map(Row::due).collect();
    assert!(dues.is_sorted(), "{dues:?}");
    // Inside one bucket: by key.
    for n in 10..18u64 {
        let due = start.plus(Span::from_secs(3_600 + 58 - n as i64));
        desk.commit(vec![insert_run(&waiting(desk.shard, n, due))]);
    }
    let rows = desk.due(start.plus(HOUR), start.plus(HOUR.times(2)), 3);
    let ids: Vec<Key> = rows.iter().map(key_of).collect();
    assert_eq!((ids.len(), ids.is_sorted()), (8, true));
}

pub fn moved_rows_are_found_where_they_are(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let start = hours_from(desk.now(), 1);
    let mut row = waiting(desk.shard, 1, start);
    desk.commit(vec![insert_run(&row)]);
    for secs in [90, 60, 3_600, 90_000, 90_001, 30, 0] {
        row.rev += 1;
        row.due = start.plus(Span::from_secs(secs));
        desk.commit(vec![update_run(&row, row.rev - 1)]);
        assert_eq!(desk.due_all(), [Row::Run(row.clone())], "once, after {secs} s");
        let next = row.due.plus(Span::from_micros(1));
        assert_eq!(desk.due(row.due, next, 1), [Row::Run(row.clone())]);
    }
}

pub fn removed_rows_are_gone(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let start = hours_from(desk.now(), 1);
    let near = waiting(desk.shard, 1, start);
    let far = waiting(desk.shard, 2, start.plus(HOUR.times(40)));
    desk.commit(vec![insert_run(&near), insert_run(&far)]);
    // The clock has gone on: the bucket cannot be computed from it any more.
    store.advance(HOUR.times(39));
    desk.commit(vec![remove(Key::Run(far.id), 1)]);
    assert_eq!(desk.due_all(), [Row::Run(near.clone())]);
    desk.commit(vec![remove(Key::Run(near.id), 1)]);
    assert_eq!(desk.due_all(), []);
}

pub fn only_what_waits_for_time_is_there(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let now = desk.now();
    let mut row = run(one_off(desk.shard, 1), RunState::Scheduled, now);
    desk.commit(vec![insert_run(&row)]);
    let states = [RunState::Ready, RunState::Retrying, RunState::Blocked, RunState::Dead];
    for state in states {
        row.rev += 1;
        row.state = state;
        desk.commit(vec![update_run(&row, row.rev - 1)]);
        let waits = matches!(state, RunState::Retrying | RunState::Dead);
        assert_eq!(desk.due_all().len(), usize::from(waits), "{state:?}");
    }
    let mut job = sample::job(job_id(desk.shard, 2), None);
    desk.commit(vec![insert(Key::Job(job.id), Row::Job(job.clone()))]);
    assert_eq!(desk.due_all().len(), 1);
    job.rev = 2;
    job.due = Some(now);
    desk.commit(vec![update(Key::Job(job.id), 1, Row::Job(job.clone()))]);
    assert_eq!(desk.due_all().len(), 2);
    job.rev = 3;
    job.due = None;
    desk.commit(vec![update(Key::Job(job.id), 2, Row::Job(job))]);
    assert_eq!(desk.due_all().len(), 1);
}

pub fn paging_survives_changes(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let start = hours_from(desk.now(), 1);
    let all = (start, start.plus(HOUR));
    let rows: Vec<RunRow> = (0..9).map(|n| waiting(desk.shard, n * 10, start)).collect();
    desk.commit(rows.iter().map(insert_run).collect());
    let (first, next) = desk.due_page(all, None, 3);
    assert_eq!(keys(&first), [0, 1, 2].map(|n| Key::Run(rows[n].id)));
    // The row of the cursor goes, one before it and one behind it come.
    desk.commit(vec![
        remove(Key::Run(rows[2].id), 1),
        insert_run(&waiting(desk.shard, 5, start)),
        insert_run(&waiting(desk.shard, 35, start)),
    ]);
    let (mut rest, mut after) = (Vec::new(), next);
    while after.is_some() {
        let (page, next) = desk.due_page(all, after, 3);
        rest.extend(page);
        after = next;
    }
    let expected = [30, 35, 40, 50, 60, 70, 80].map(|n| Key::Run(one_off(desk.shard, n)));
    assert_eq!(keys(&rest), expected);
}

pub fn jobs_and_backlogs_turn_too(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let start = hours_from(desk.now(), 1);
    let job = sample::job(job_id(desk.shard, 1), Some(start));
    let mut backlog = sample::backlog(job.id, 1, start.plus(Span::from_secs(1)));
    let row = waiting(desk.shard, 2, start.plus(Span::from_secs(2)));
    desk.commit(vec![
        insert(Key::Job(job.id), Row::Job(job.clone())),
        insert(Key::Backlog(backlog.id), Row::Backlog(backlog.clone())),
        insert_run(&row),
    ]);
    // Whole rows come back, runs first: that is the order of keys.
    let expected = [Row::Run(row.clone()), Row::Job(job.clone()), Row::Backlog(backlog.clone())];
    assert_eq!(desk.due_all(), expected);
    backlog.rev = 2;
    backlog.due = start.plus(HOUR);
    desk.commit(vec![update(Key::Backlog(backlog.id), 1, Row::Backlog(backlog.clone()))]);
    assert_eq!(desk.due(start, start.plus(HOUR), 9), [Row::Run(row), Row::Job(job)]);
    desk.commit(vec![remove(Key::Backlog(backlog.id), 2)]);
    assert_eq!(desk.due(start.plus(HOUR), Time::MAX, 9), []);
}

pub fn far_rows_are_found_when_near(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let target = hours_from(desk.now(), 30);
    let dues = [0, 1, 1_799, 1_800, 3_599].map(|secs| target.plus(Span::from_secs(secs)));
    for (n, due) in dues.into_iter().enumerate() {
        desk.commit(vec![insert_run(&waiting(desk.shard, n as u64, due))]);
    }
    store.advance(target.since(desk.now()));
    // Those that are written now lie in minutes, beside the hour of the others.
    let late = waiting(desk.shard, 9, dues[3]);
    desk.commit(vec![insert_run(&late)]);
    let found = desk.due(dues[3], dues[4], 1);
    assert_eq!(keys(&found), [Key::Run(one_off(desk.shard, 3)), Key::Run(late.id)]);
    assert_eq!(desk.due(target, target.plus(HOUR), 2).len(), 6);
}
