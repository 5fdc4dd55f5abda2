//! Fence, order, and all or nothing.

use super::TestStore;
use super::desk::{Desk, NODE, insert, insert_lease, insert_run, remove, take, update, update_run};
use super::sample::{self, one_off, run};
use crate::Outcome;
use model::id::ShardId;
use model::row::{Change, Commit, Expect, Key, Row};
use model::{Epoch, RunState, Span, Status};

pub fn stale_epoch_changes_nothing(store: &dyn TestStore) {
    let mut old = Desk::open(store, 3);
    let kept = run(one_off(old.shard, 1), RunState::Ready, old.now());
    old.commit(vec![insert_run(&kept)]);
    let taken = take(store, old.shard, NODE, old.epoch, 1).expect("one's own");
    let late = run(one_off(old.shard, 2), RunState::Ready, old.now());
    assert_eq!(
        old.try_commit(vec![insert_run(&late), remove(Key::Run(kept.id), 1)]),
        Outcome::Fenced
    );
    assert_eq!(old.row(Key::Run(late.id)), None);
    assert_eq!(old.row(Key::Run(kept.id)), Some(Row::Run(kept)));
    // The number was not used up either.
    let mut new = Desk { store, shard: old.shard, epoch: taken.epoch, seq: taken.seq };
    new.commit(vec![insert_run(&late)]);
}

pub fn future_epoch_changes_nothing(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    desk.epoch = Epoch(desk.epoch.0 + 1);
    let row = run(one_off(desk.shard, 1), RunState::Ready, desk.now());
    assert_eq!(desk.try_commit(vec![insert_run(&row)]), Outcome::Fenced);
    assert_eq!(desk.row(Key::Run(row.id)), None);
}

pub fn a_gap_or_a_repeat_in_seq_is_refused(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let row = run(one_off(desk.shard, 1), RunState::Ready, desk.now());
    desk.commit(vec![]);
    desk.commit(vec![]);
    for seq in [0, 1, 2, 4, 1 << 40] {
        let commit = Commit { seq, ..desk.build(vec![insert_run(&row)]) };
        assert_eq!(desk.send(commit), Outcome::Gap { last: 2 }, "seq {seq}");
        assert_eq!(desk.row(Key::Run(row.id)), None);
    }
    desk.commit(vec![insert_run(&row)]);
}

pub fn fence_is_reported_before_gap_and_row(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let bad = vec![remove(Key::Run(one_off(desk.shard, 1)), 1)];
    let commit = Commit { seq: 9, epoch: Epoch(77), ..desk.build(bad.clone()) };
    assert_eq!(desk.send(commit), Outcome::Fenced);
    let commit = Commit { seq: 9, ..desk.build(bad.clone()) };
    assert_eq!(desk.send(commit), Outcome::Gap { last: 0 });
    assert_eq!(desk.try_commit(bad), Outcome::Row { index: 0 });
}

pub fn decisions_of_the_future_are_refused(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let row = run(one_off(desk.shard, 1), RunState::Ready, desk.now());
    let decided = desk.now().plus(Span::from_secs(60));
    let commit = Commit { decided, ..desk.build(vec![insert_run(&row)]) };
    assert_eq!(desk.send(commit.clone()), Outcome::Early);
    assert_eq!(desk.row(Key::Run(row.id)), None);
    // The number was not used up, and when the time has come the same commit is good.
    store.advance(Span::from_secs(61));
    assert_eq!(desk.send(commit), Outcome::Durable);
    assert_eq!(desk.row(Key::Run(row.id)), Some(Row::Run(row)));
}

pub fn mismatch_leaves_nothing_half_written(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let now = desk.now();
    let first = run(one_off(desk.shard, 1), RunState::Ready, now);
    desk.commit(vec![insert_run(&first)]);
    let ids: Vec<_> = (2..6).map(|n| one_off(desk.shard, n)).collect();
    let good: Vec<Change> =
        ids.iter().map(|id| insert_run(&run(*id, RunState::Ready, now))).collect();
    let bad = [
        insert_run(&first),
        update_run(&first, 2),
        remove(Key::Run(first.id), 0),
        remove(Key::Run(one_off(desk.shard, 99)), 1),
        update_run(&run(one_off(desk.shard, 99), RunState::Ready, now), 1),
        Change { key: Key::Run(first.id), expect: Expect::Absent, row: None },
    ];
    for bad in bad {
        for index in 0..=good.len() {
            let mut changes = good.clone();
            changes.insert(index, bad.clone());
            assert_eq!(desk.try_commit(changes), Outcome::Row { index });
            assert_eq!(desk.flow(&first.flow, None, 9), [first.clone()], "bad change at {index}");
            assert!(ids.iter().all(|id| desk.row(Key::Run(*id)).is_none()));
        }
    }
    desk.commit(good);
}

pub fn refused_commit_restores_every_order(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let now = desk.now();
    let mut ready = run(one_off(desk.shard, 1), RunState::Ready, now);
    ready.body = Some(sample::spec(b"kept"));
    let waiting = run(one_off(desk.shard, 2), RunState::Scheduled, now.plus(Span::from_secs(90)));
    let lease = sample::lease(ready.id, 1, now);
    let key = Key::Idempotency(sample::key("k"));
    let key_row = Row::Idempotency(sample::key_row(ready.id.job));
    let past = sample::history(ready.id, 1, now, Status::Failed);
    desk.commit(vec![
        insert_run(&ready),
        insert_run(&waiting),
        insert_lease(&lease),
        insert(key.clone(), key_row.clone()),
    ]);
    ready.body = None;
    let mut moved = waiting.clone();
    moved.due = now.plus(Span::from_secs(9_000));
    moved.rev = 2;
    let mut parked = ready.clone();
    parked.state = RunState::Dead;
    parked.rev = 2;
    parked.body = Some(sample::spec(b"other"));
    let outcome = desk.try_commit(vec![
        remove(Key::Lease(ready.id), 1),
        update_run(&moved, 1),
        update_run(&parked, 1),
        remove(Key::Run(moved.id), 2),
        remove(key.clone(), 1),
        insert(Key::History(past.run, past.token), Row::History(Box::new(past.clone()))),
        remove(Key::Run(moved.id), 2),
    ]);
    assert_eq!(outcome, Outcome::Row { index: 6 });
    assert_eq!(desk.due_all(), [Row::Run(waiting)]);
    assert_eq!(desk.flow(&ready.flow, None, 9), [ready.clone()]);
    assert_eq!(desk.flows(None, 9), [ready.flow.clone()]);
    assert_eq!(desk.leases(None, 9), [(lease, ready.clone())]);
    assert_eq!(desk.row(key), Some(key_row));
    assert_eq!(desk.row(Key::History(past.run, past.token)), None);
    let specs = store.specs(&[(ready.id, 3)]).expect("the store answers");
    assert_eq!(specs, [Some(sample::spec(b"kept"))]);
}

pub fn changes_apply_one_after_the_other(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let now = desk.now();
    let one = run(one_off(desk.shard, 1), RunState::Scheduled, now);
    let mut two = one.clone();
    two.rev = 2;
    two.state = RunState::Ready;
    let mut again = one.clone();
    again.rev = 7;
    again.state = RunState::Ready;
    // Insert, change, remove and insert again, all in one.
    desk.commit(vec![
        insert_run(&one),
        update_run(&two, 1),
        remove(Key::Run(one.id), 2),
        insert_run(&again),
    ]);
    assert_eq!(desk.row(Key::Run(one.id)), Some(Row::Run(again.clone())));
    assert_eq!(desk.due_all(), []);
    // And what was true before the commit is no longer true inside it.
    let outcome = desk.try_commit(vec![remove(Key::Run(one.id), 7), remove(Key::Run(one.id), 7)]);
    assert_eq!(outcome, Outcome::Row { index: 1 });
    assert_eq!(desk.flow(&again.flow, None, 9), [again]);
}

pub fn removing_and_guarding(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let row = run(one_off(desk.shard, 1), RunState::Ready, desk.now());
    let absent = Change { key: Key::Run(row.id), expect: Expect::Absent, row: None };
    desk.commit(vec![absent.clone()]);
    desk.commit(vec![insert_run(&row)]);
    assert_eq!(desk.try_commit(vec![absent.clone()]), Outcome::Row { index: 0 });
    desk.commit(vec![remove(Key::Run(row.id), 1), absent]);
    assert_eq!(desk.row(Key::Run(row.id)), None);
    assert_eq!(desk.flows(None, 9), []);
}

pub fn shards_in_one_call_are_independent(store: &dyn TestStore) {
    let mut desks: Vec<Desk<'_>> = [9, 3, 200, 4].map(|shard| Desk::open(store, shard)).into();
    desks[1].epoch = Epoch(50);
    desks[3].seq = 17;
    let now = desks[0].now();
    let rows: Vec<_> =
        desks.iter().map(|desk| run(one_off(desk.shard, 1), RunState::Ready, now)).collect();
    let mut commits: Vec<Commit> =
        desks.iter().zip(&rows).map(|(desk, row)| desk.build(vec![insert_run(row)])).collect();
    std::sync::Arc::make_mut(&mut commits[2].changes)
        .push(remove(Key::Run(one_off(ShardId(200), 2)), 1));
    let outcomes = store.commit(&commits).expect("the store answers").outcomes;
    let expected =
        [Outcome::Durable, Outcome::Fenced, Outcome::Row { index: 1 }, Outcome::Gap { last: 0 }];
    assert_eq!(outcomes, expected);
    let found: Vec<bool> =
        desks.iter().zip(&rows).map(|(desk, row)| desk.row(Key::Run(row.id)).is_some()).collect();
    assert_eq!(found, [true, false, false, false]);
}

pub fn two_commits_of_one_shard_in_one_call(store: &dyn TestStore) {
    let desk = Desk::open(store, 3);
    let row = run(one_off(desk.shard, 1), RunState::Ready, desk.now());
    let first = desk.build(vec![insert_run(&row)]);
    let second = Commit { seq: 2, ..desk.build(vec![remove(Key::Run(row.id), 1)]) };
    let outcomes = store.commit(&[first, second]).expect("the store answers").outcomes;
    assert_eq!(outcomes, [Outcome::Durable, Outcome::Durable]);
    assert_eq!(desk.row(Key::Run(row.id)), None);
}

pub fn row_must_fit_its_key(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let row = run(one_off(desk.shard, 1), RunState::Ready, desk.now());
    let misfits = [
        insert(Key::Run(row.id), Row::Hold(sample::hold("x"))),
        insert(Key::Lease(row.id), Row::Run(row.clone())),
        insert(Key::Run(one_off(desk.shard, 2)), Row::Run(row.clone())),
        insert(Key::Checkpoint(row.id), Row::Spec(sample::spec(b""))),
    ];
    for misfit in misfits {
        let outcome = desk.try_commit(vec![insert_run(&row), misfit.clone()]);
        assert_eq!(outcome, Outcome::Row { index: 1 }, "{misfit:?}");
        assert_eq!(desk.row(Key::Run(row.id)), None);
    }
}

pub fn duplicate_history_is_refused(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let row = sample::history(one_off(desk.shard, 1), 4, desk.now(), Status::Succeeded);
    let key = Key::History(row.run, row.token);
    desk.commit(vec![insert(key.clone(), Row::History(Box::new(row.clone())))]);
    let mut other = row.clone();
    other.status = Status::Failed;
    let again = insert(key.clone(), Row::History(Box::new(other)));
    assert_eq!(desk.try_commit(vec![again]), Outcome::Row { index: 0 });
    assert_eq!(desk.row(key), Some(Row::History(Box::new(row.clone()))));
    // Another attempt of the same run, and a verdict without a token, are other rows.
    let mut next = row.clone();
    next.token.0 += 1;
    let verdict = sample::history(row.run, 0, row.nominal, Status::Cancelled);
    for row in [next, verdict] {
        let key = Key::History(row.run, row.token);
        desk.commit(vec![insert(key, Row::History(Box::new(row)))]);
    }
}

pub fn empty_commits_count(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    desk.commit(vec![]);
    desk.commit(vec![]);
    let taken = take(store, desk.shard, NODE, desk.epoch, 1).expect("one's own");
    assert_eq!(taken.seq, 2);
}

pub fn large_commit(store: &dyn TestStore) {
    const COUNT: u64 = 5_000;
    let mut desk = Desk::open(store, 3);
    let now = desk.now();
    let rows: Vec<_> = (0..COUNT)
        .map(|n| {
            let state = if n % 2 == 0 { RunState::Ready } else { RunState::Scheduled };
            run(one_off(desk.shard, n), state, now.plus(Span::from_secs((n % 40_000) as i64)))
        })
        .collect();
    let mut changes: Vec<Change> = rows.iter().map(insert_run).collect();
    changes.push(remove(Key::Run(one_off(desk.shard, COUNT)), 1));
    assert_eq!(desk.try_commit(changes.clone()), Outcome::Row { index: COUNT as usize });
    assert_eq!((desk.flows(None, 9).len(), desk.due_all().len()), (0, 0));
    changes.pop();
    desk.commit(changes);
    assert_eq!(desk.due_all().len(), COUNT as usize / 2);
    assert_eq!(desk.flow(&rows[0].flow, None, COUNT as usize).len(), COUNT as usize / 2);
    desk.commit(rows.iter().map(|row| remove(Key::Run(row.id), 1)).collect());
    assert_eq!((desk.flows(None, 9).len(), desk.due_all().len()), (0, 0));
}

pub fn the_clock_is_reported(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let before = desk.now();
    store.advance(Span::from_secs(100));
    let after = desk.now();
    assert!(after.since(before) >= Span::from_secs(100));
    let commit = desk.build(vec![]);
    assert!(store.commit(&[commit]).expect("the store answers").now >= after);
    desk.seq += 1;
    let row = sample::job(sample::job_id(desk.shard, 1), None);
    desk.commit(vec![insert(Key::Job(row.id), Row::Job(row.clone()))]);
    let mut next = row;
    next.rev = 2;
    desk.commit(vec![update(Key::Job(next.id), 1, Row::Job(next.clone()))]);
}
