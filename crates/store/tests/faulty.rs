//! A faulty store without faults passes the suite; each fault does what it says.

use model::cluster::{Give, Renew, Take};
use model::id::SHARDS;
use model::read::Read;
use model::row::Key;
use model::{Epoch, RunState, ShardId, Span, Time};
use store::conformance::desk::{
    Desk, NODE, OTHER, insert, insert_lease, insert_run, remove, take, update_run,
};
use store::conformance::sample::{self, one_off, run};
use store::faulty::{Call, Fault};
use store::{FaultyStore, MemoryStore, Outcome, Refusal, Store, StoreError};

fn make() -> FaultyStore<MemoryStore> {
    let store = MemoryStore::new(SHARDS);
    store.set_now(Time::from_secs(1_790_000_123));
    FaultyStore::new(store)
}

store::store_conformance!(make);

#[test]
fn a_refused_commit_is_not_there_and_the_next_one_is() {
    let store = make();
    let mut desk = Desk::open(&store, 3);
    let row = run(one_off(desk.shard, 1), RunState::Ready, desk.now());
    let commit = desk.build(vec![insert_run(&row)]);
    for refusal in [Refusal::Room, Refusal::Time, Refusal::ReadOnly] {
        store.inject(Call::Commit, Fault::Refuse(refusal));
        let answer = store.commit(std::slice::from_ref(&commit));
        assert_eq!(answer, Err(StoreError::Refused(refusal)));
        assert_eq!(desk.row(Key::Run(row.id)), None);
    }
    assert_eq!(store.pending(Call::Commit), 0);
    assert_eq!(desk.send(commit), Outcome::Durable);
}

#[test]
fn unknown_landed_or_not_and_seq_tells_which() {
    let store = make();
    let mut desk = Desk::open(&store, 3);
    for (fault, landed) in [(Fault::UnknownBefore, 0), (Fault::UnknownAfter, 1)] {
        let row = run(one_off(desk.shard, 1), RunState::Ready, desk.now());
        let commit = desk.build(vec![insert_run(&row)]);
        store.inject(Call::Commit, fault);
        assert_eq!(store.commit(&[commit]), Err(StoreError::Unknown));
        let taken = take(&store, desk.shard, NODE, desk.epoch, 1).expect("one's own");
        assert_eq!(taken.seq, landed);
        assert_eq!(desk.row(Key::Run(row.id)).is_some(), landed == 1);
        desk.epoch = taken.epoch;
    }
}

#[test]
fn every_kind_of_call_can_fail_by_itself() {
    let store = make();
    let calls = [Call::Read, Call::Specs, Call::Renew, Call::Take, Call::Give, Call::Rotate];
    for call in calls {
        store.inject(call, Fault::UnknownAfter);
        store.inject(call, Fault::UnknownBefore);
    }
    let shard = ShardId(3);
    let take = [Take { shard, node: NODE, epoch: Epoch(0), by: 1 }];
    let give = [Give { shard, node: NODE, epoch: Epoch(1), to: OTHER }];
    let renew = Renew { node: NODE, ttl: Span::from_secs(3) };
    for _ in 0..2 {
        assert!(store.commit(&[]).is_ok(), "no fault was meant for it");
        assert_eq!(store.read(&[(shard, Read::Holds)]), Err(StoreError::Unknown));
        assert_eq!(store.specs(&[]), Err(StoreError::Unknown));
        assert_eq!(store.renew(renew), Err(StoreError::Unknown));
        assert_eq!(store.take(&take), Err(StoreError::Unknown));
        assert_eq!(store.give(&give), Err(StoreError::Unknown));
        assert_eq!(store.rotate(), Err(StoreError::Unknown));
    }
    // The first of each was applied, the second not.
    let cluster = store.renew(renew).expect("healed");
    assert_eq!(cluster.shards[3].owner, Some(OTHER));
    assert_eq!(cluster.shards[3].epoch, Epoch(2));
    assert_eq!(cluster.nodes.len(), 1);
}

#[test]
fn read_only_refuses_every_write_until_healed() {
    let store = make();
    let mut desk = Desk::open(&store, 3);
    store.set_read_only(true);
    let refused = Err(StoreError::Refused(Refusal::ReadOnly));
    assert_eq!(store.commit(&[desk.build(vec![])]).map(|_| ()), refused);
    assert_eq!(store.renew(Renew { node: NODE, ttl: Span::from_secs(3) }).map(|_| ()), refused);
    let (shard, epoch) = (desk.shard, desk.epoch);
    assert_eq!(store.take(&[Take { shard, node: NODE, epoch, by: 1 }]).map(|_| ()), refused);
    assert_eq!(store.give(&[Give { shard, node: NODE, epoch, to: OTHER }]).map(|_| ()), refused);
    assert_eq!(store.rotate(), refused);
    assert!(store.read(&[(desk.shard, Read::Holds)]).is_ok());
    store.heal();
    desk.commit(vec![]);
}

#[test]
fn full_refuses_new_work_and_lets_settles_through() {
    let store = make();
    let mut desk = Desk::open(&store, 3);
    let now = desk.now();
    let (one, mut two) = (
        run(one_off(desk.shard, 1), RunState::Ready, now),
        run(one_off(desk.shard, 2), RunState::Ready, now),
    );
    desk.commit(vec![
        insert_run(&one),
        insert_run(&two),
        insert_lease(&sample::lease(one.id, 1, now)),
    ]);
    store.set_full(true);
    let new = run(one_off(desk.shard, 3), RunState::Ready, now);
    let full = Err(StoreError::Refused(Refusal::Room));
    assert_eq!(store.commit(&[desk.build(vec![insert_run(&new)])]), full);
    let spec = insert(Key::Spec(one.id.job, 4), model::row::Row::Spec(sample::spec(b"")));
    assert_eq!(store.commit(&[desk.build(vec![spec])]), full);
    // A settle, a retry, a claim.
    let past = sample::history(one.id, 1, now, model::Status::Succeeded);
    let past = insert(Key::History(past.run, past.token), model::row::Row::History(Box::new(past)));
    two.rev = 2;
    desk.commit(vec![
        remove(Key::Lease(one.id), 1),
        remove(Key::Run(one.id), 1),
        past,
        update_run(&two, 1),
        insert_lease(&sample::lease(two.id, 2, now)),
    ]);
    store.set_full(false);
    desk.commit(vec![insert_run(&new)]);
}

#[test]
fn poison_refuses_its_commit_at_its_row_and_no_other() {
    let store = make();
    let (mut desk, mut other) = (Desk::open(&store, 3), Desk::open(&store, 4));
    let now = desk.now();
    let bad = run(one_off(desk.shard, 2), RunState::Ready, now);
    let key = Key::Run(bad.id);
    store.poison(move |change| change.key == key);
    let good = run(one_off(desk.shard, 1), RunState::Ready, now);
    let fine = run(one_off(other.shard, 1), RunState::Ready, now);
    let poisoned = desk.build(vec![insert_run(&good), insert_run(&bad)]);
    let commits = [poisoned.clone(), other.build(vec![insert_run(&fine)])];
    let outcomes = store.commit(&commits).expect("the store answers").outcomes;
    assert_eq!(outcomes, [Outcome::Row { index: 1 }, Outcome::Durable]);
    other.seq += 1;
    assert_eq!(desk.row(Key::Run(good.id)), None);
    // Halved, the good one lands and the bad one stands alone.
    desk.commit(vec![insert_run(&good)]);
    assert_eq!(desk.try_commit(vec![insert_run(&bad)]), Outcome::Row { index: 0 });
    // A stale owner hears that it is stale, poison or not.
    take(&store, desk.shard, NODE, desk.epoch, 1).expect("one's own");
    assert_eq!(desk.send(poisoned), Outcome::Fenced);
    other.commit(vec![]);
}
