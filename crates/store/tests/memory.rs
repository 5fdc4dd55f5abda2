//! The memory store passes the suite; and what only it can do.

use model::id::SHARDS;
use model::{Epoch, RunState, Time};
use store::conformance::desk::{Desk, insert_run};
use store::conformance::sample::{one_off, run};
use store::memory::Incarnation;
use store::{MemoryStore, Outcome, Store};

fn make() -> MemoryStore {
    let store = MemoryStore::new(SHARDS);
    store.set_now(Time::from_secs(1_790_000_123));
    store
}

store::store_conformance!(make);

#[test]
fn a_lost_tail_takes_commits_and_epochs_back() {
    let store = make();
    let mut desk = Desk::open(&store, 3);
    let kept = run(one_off(desk.shard, 1), RunState::Ready, desk.now());
    desk.commit(vec![insert_run(&kept)]);
    store.mark_replicated();
    let replicated = store.dump();
    let lost = run(one_off(desk.shard, 2), RunState::Ready, desk.now());
    desk.commit(vec![insert_run(&lost)]);
    let mut other = Desk::open(&store, 4);
    other.commit(vec![]);
    assert_eq!(store.lose_tail(Incarnation::Same), 2);
    assert_eq!(store.dump(), replicated);
    // Who goes on as if nothing had happened is told the number.
    assert_eq!(desk.try_commit(vec![]), Outcome::Gap { last: 1 });
    assert_eq!(other.try_commit(vec![]), Outcome::Fenced, "its epoch was never given out");
    assert_eq!(store.lose_tail(Incarnation::Next), 0);
    assert_eq!(store.incarnation(), replicated.incarnation + 1);
}

#[test]
fn without_a_mark_everything_is_lost() {
    let store = make();
    let empty = store.dump();
    let mut desk = Desk::open(&store, 3);
    desk.commit(vec![]);
    store.lose_tail(Incarnation::Same);
    assert_eq!(store.dump(), empty);
}

#[test]
fn a_snapshot_restores_every_row_and_order() {
    let store = make();
    let mut desk = Desk::open(&store, 3);
    let now = desk.now();
    let ready = run(one_off(desk.shard, 1), RunState::Ready, now);
    let waiting = run(one_off(desk.shard, 2), RunState::Scheduled, now);
    desk.commit(vec![insert_run(&ready), insert_run(&waiting)]);
    let (snapshot, before) = (store.snapshot(), store.dump());
    desk.commit(vec![insert_run(&run(one_off(desk.shard, 3), RunState::Ready, now))]);
    store.restore(snapshot);
    assert_eq!(store.dump(), before);
    assert_eq!(desk.flow(&ready.flow, None, 9).len(), 1);
    assert_eq!(desk.due_all().len(), 1);
}

#[test]
fn the_dump_shows_bodies_owners_and_history() {
    let store = make();
    let mut desk = Desk::open(&store, 3);
    let mut row = run(one_off(desk.shard, 1), RunState::Ready, desk.now());
    row.body = Some(store::conformance::sample::spec(b"x"));
    desk.commit(vec![insert_run(&row)]);
    let dump = store.dump();
    let shard = &dump.shards[3];
    assert_eq!((shard.row.epoch, shard.row.seq), (Epoch(1), 1));
    let key = model::row::Key::Run(row.id);
    assert_eq!(shard.rows.get(&key), Some(&model::row::Row::Run(row)));
    assert!(shard.history.is_empty());
}

#[test]
fn a_shard_that_does_not_exist_is_nobodys() {
    let store = MemoryStore::new(2);
    let desk = Desk::open(&store, 1);
    let mut commit = desk.build(vec![]);
    commit.shard = model::ShardId(2);
    let committed = store.commit(&[commit]).expect("the store answers");
    assert_eq!(committed.outcomes, [Outcome::Fenced]);
    assert_eq!(
        desk.read_of(model::ShardId(2), model::read::Read::Holds),
        model::read::Page::Holds(vec![])
    );
}
