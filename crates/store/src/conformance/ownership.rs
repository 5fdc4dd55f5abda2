//! Who may take a shard, and what a new owner learns.

use super::TestStore;
use super::desk::{Desk, NODE, OTHER, insert_lease, insert_run, take};
use super::sample::{lease, one_off, run};
use crate::Outcome;
use model::cluster::{Cluster, Give, Renew, ShardRow, Take};
use model::id::{NodeId, SHARDS, ShardId};
use model::row::{Commit, Key, LeaseRow, Starts};
use model::{Epoch, RunState, Span, Time, Token};

const TTL: Span = Span::from_secs(30);
const HALF: Span = Span::from_secs(15);
const LONG: Span = Span::from_secs(60);
const SHARD: ShardId = ShardId(3);

fn renew(store: &dyn TestStore, node: NodeId) -> Cluster {
    store.renew(Renew { node, ttl: TTL }).expect("the store answers")
}

fn shard_row(store: &dyn TestStore, shard: ShardId) -> ShardRow {
    renew(store, NODE).shards[usize::from(shard.0)]
}

fn give(store: &dyn TestStore, node: NodeId, epoch: Epoch, to: NodeId) -> bool {
    store.give(&[Give { shard: SHARD, node, epoch, to }]).expect("the store answers")[0]
}

pub fn unowned_is_taken(store: &dyn TestStore) {
    let before = shard_row(store, SHARD);
    assert_eq!(before, ShardRow { shard: SHARD, owner: None, epoch: Epoch(0), seq: 0 });
    let taken = take(store, SHARD, NODE, Epoch(0), 1).expect("it is nobody's");
    assert_eq!((taken.shard, taken.epoch, taken.seq), (SHARD, Epoch(1), 0));
    assert_eq!(taken.floor, Time::MIN);
    let after = shard_row(store, SHARD);
    assert_eq!((after.owner, after.epoch), (Some(NODE), Epoch(1)));
}

pub fn wrong_epoch_is_not_taken(store: &dyn TestStore) {
    assert_eq!(take(store, SHARD, NODE, Epoch(1), 1), None);
    take(store, SHARD, NODE, Epoch(0), 5).expect("it is nobody's");
    for epoch in [0, 4, 6] {
        assert_eq!(take(store, SHARD, NODE, Epoch(epoch), 1), None);
    }
    assert_eq!(shard_row(store, SHARD).epoch, Epoch(5));
}

pub fn own_is_taken_again(store: &dyn TestStore) {
    renew(store, NODE);
    take(store, SHARD, NODE, Epoch(0), 1).expect("it is nobody's");
    let taken = take(store, SHARD, NODE, Epoch(1), 1).expect("it is one's own");
    assert_eq!(taken.epoch, Epoch(2));
    // Another life of the same machine is another node.
    let reborn = NodeId { boot: NODE.boot + 1, ..NODE };
    assert_eq!(take(store, SHARD, reborn, Epoch(2), 1), None);
}

pub fn a_live_owner_keeps(store: &dyn TestStore) {
    renew(store, NODE);
    take(store, SHARD, NODE, Epoch(0), 1).expect("it is nobody's");
    for _ in 0..5 {
        store.advance(HALF);
        assert_eq!(take(store, SHARD, OTHER, Epoch(1), 1), None);
        renew(store, NODE);
    }
    assert_eq!(shard_row(store, SHARD).owner, Some(NODE));
}

pub fn an_expired_owner_loses(store: &dyn TestStore) {
    renew(store, NODE);
    let mut desk = Desk::open(store, SHARD.0);
    store.advance(LONG);
    let taken = take(store, SHARD, OTHER, Epoch(1), 1).expect("its lease has expired");
    assert_eq!(taken.epoch, Epoch(2));
    let row = run(one_off(SHARD, 1), RunState::Ready, desk.now());
    assert_eq!(desk.try_commit(vec![insert_run(&row)]), Outcome::Fenced);
    // Renewing brings nothing back.
    renew(store, NODE);
    assert_eq!(desk.try_commit(vec![insert_run(&row)]), Outcome::Fenced);
    assert_eq!(desk.row(Key::Run(row.id)), None);
}

pub fn an_owner_without_lease_loses(store: &dyn TestStore) {
    take(store, SHARD, NODE, Epoch(0), 1).expect("it is nobody's");
    assert!(take(store, SHARD, OTHER, Epoch(1), 1).is_some());
    // However long ago: the row may be gone by then.
    renew(store, OTHER);
    store.advance(Span::from_secs(90 * 86_400));
    renew(store, NODE);
    assert!(take(store, SHARD, NODE, Epoch(2), 1).is_some());
}

pub fn expired_is_not_lost(store: &dyn TestStore) {
    renew(store, NODE);
    let mut desk = Desk::open(store, SHARD.0);
    store.advance(LONG);
    // Nobody took it: the owner may commit, and after a renewal it is safe again.
    desk.commit(vec![]);
    let cluster = renew(store, NODE);
    assert_eq!(cluster.shards[usize::from(SHARD.0)].epoch, desk.epoch);
    assert_eq!(take(store, SHARD, OTHER, desk.epoch, 1), None);
    desk.commit(vec![]);
}

pub fn epochs_only_grow(store: &dyn TestStore) {
    assert_eq!(take(store, SHARD, NODE, Epoch(0), 0), None, "it would fence nobody");
    let taken = take(store, SHARD, NODE, Epoch(0), 1).expect("it is nobody's");
    let jumped = take(store, SHARD, NODE, taken.epoch, Epoch::JUMP).expect("one's own");
    assert_eq!(jumped.epoch, Epoch(1 + Epoch::JUMP));
    assert_eq!(take(store, SHARD, NODE, jumped.epoch, u32::MAX), None);
    assert_eq!(take(store, SHARD, NODE, jumped.epoch, Epoch::MAX.0), None);
    let last = take(store, SHARD, NODE, jumped.epoch, Epoch::MAX.0 - jumped.epoch.0);
    assert_eq!(last.map(|taken| taken.epoch), Some(Epoch::MAX));
    assert!(!give(store, NODE, Epoch::MAX, OTHER));
}

pub fn take_returns_seq_and_floor(store: &dyn TestStore) {
    let mut desk = Desk::open(store, SHARD.0);
    let floor = desk.now().plus(Span::from_secs(5));
    let commit = Commit { floor: Some(floor), ..desk.build(vec![]) };
    assert_eq!(desk.send(commit), Outcome::Durable);
    desk.commit(vec![]);
    desk.commit(vec![]);
    // A commit that is refused moves neither.
    let high = Some(floor.plus(TTL));
    let gap = Commit { floor: high, seq: 9, ..desk.build(vec![]) };
    assert_eq!(desk.send(gap), Outcome::Gap { last: 3 });
    let absent = super::desk::remove(Key::Run(one_off(SHARD, 1)), 1);
    let row = Commit { floor: high, ..desk.build(vec![absent]) };
    assert_eq!(desk.send(row), Outcome::Row { index: 0 });
    let stale = Commit { floor: high, epoch: Epoch(9), ..desk.build(vec![]) };
    assert_eq!(desk.send(stale), Outcome::Fenced);
    let taken = take(store, SHARD, NODE, desk.epoch, 1).expect("one's own");
    assert_eq!((taken.seq, taken.floor), (3, floor));
    assert_eq!(shard_row(store, SHARD).seq, 3);
    // It may also go back.
    let mut desk = Desk { store, shard: SHARD, epoch: taken.epoch, seq: taken.seq };
    let commit = Commit { floor: Some(Time::MIN), ..desk.build(vec![]) };
    assert_eq!(desk.send(commit), Outcome::Durable);
    let taken = take(store, SHARD, NODE, desk.epoch, 1).expect("one's own");
    assert_eq!(taken.floor, Time::MIN);
}

/// A store may pass over what lies before the marks of the last commit, never over what lies at them.
pub fn what_begins_at_a_mark_is_found(store: &dyn TestStore) {
    let mut desk = Desk::open(store, SHARD.0);
    let due = Time::from_secs(200);
    let runs = [1, 2].map(|n| run(one_off(SHARD, n), RunState::Ready, due));
    let leased = [1, 2].map(|n| {
        let token = Token::new(desk.epoch, n);
        LeaseRow { token, ..lease(runs[n as usize - 1].id, n, due) }
    });
    let rows = runs.iter().map(insert_run).chain(leased.iter().map(insert_lease));
    let starts = Starts { ready: Some(due), leases: Some(leased[0].token) };
    let commit = Commit { starts, ..desk.build(rows.collect()) };
    assert_eq!(desk.send(commit), Outcome::Durable);
    let found = |desk: &Desk<'_>| {
        let flows = desk.flows(None, 10);
        let ready = flows.iter().flat_map(|flow| desk.flow(flow, None, 10)).map(|run| run.id);
        let first = desk.leases(None, 1);
        let next = desk.leases(first.last().map(|(lease, _)| lease.run), 10);
        let leased = first.into_iter().chain(next).map(|(lease, _)| lease.run);
        (ready.collect::<Vec<_>>(), leased.collect::<Vec<_>>())
    };
    let both = vec![runs[0].id, runs[1].id];
    assert_eq!(found(&desk), (both.clone(), both.clone()));
    let taken = take(store, SHARD, NODE, desk.epoch, 1).expect("one's own");
    assert!([starts, Starts::default()].contains(&taken.starts), "{:?}", taken.starts);
    // Of ready runs nothing is known any more; tokens never go back.
    let mut desk = Desk { store, shard: SHARD, epoch: taken.epoch, seq: taken.seq };
    let early = run(one_off(SHARD, 3), RunState::Ready, Time::from_secs(100));
    desk.commit(vec![insert_run(&early)]);
    assert_eq!(found(&desk), ([vec![early.id], both.clone()].concat(), both));
    let taken = take(store, SHARD, NODE, desk.epoch, 1).expect("one's own");
    assert_eq!(taken.starts.ready, None);
}

pub fn give_hands_over(store: &dyn TestStore) {
    renew(store, NODE);
    renew(store, OTHER);
    let mut desk = Desk::open(store, SHARD.0);
    desk.commit(vec![]);
    assert!(give(store, NODE, desk.epoch, OTHER));
    let row = shard_row(store, SHARD);
    let expected =
        ShardRow { shard: SHARD, owner: Some(OTHER), epoch: Epoch(desk.epoch.0 + 1), seq: 1 };
    assert_eq!(row, expected);
    assert_eq!(desk.try_commit(vec![]), Outcome::Fenced);
    assert_eq!(take(store, SHARD, NODE, row.epoch, 1), None, "it is the other's now");
    let taken = take(store, SHARD, OTHER, row.epoch, 1).expect("one's own");
    assert_eq!(taken.seq, 1);
}

pub fn give_needs_the_epoch(store: &dyn TestStore) {
    assert!(!give(store, NODE, Epoch(0), OTHER), "nobody has it");
    take(store, SHARD, NODE, Epoch(0), 2).expect("it is nobody's");
    assert!(!give(store, NODE, Epoch(1), OTHER));
    assert!(!give(store, NODE, Epoch(3), OTHER));
    assert!(!give(store, OTHER, Epoch(2), OTHER));
    assert_eq!(shard_row(store, SHARD).owner, Some(NODE));
    assert!(give(store, NODE, Epoch(2), OTHER));
    assert!(!give(store, NODE, Epoch(2), NODE), "a gift cannot be repeated");
}

pub fn takes_are_independent(store: &dyn TestStore) {
    renew(store, OTHER);
    take(store, ShardId(5), OTHER, Epoch(0), 1).expect("it is nobody's");
    let wanted = [4, 5, 6, 255].map(|shard| {
        let epoch = Epoch(u32::from(shard == 5));
        Take { shard: ShardId(shard), node: NODE, epoch, by: 1 }
    });
    let taken = store.take(&wanted).expect("the store answers");
    let got: Vec<bool> = taken.iter().map(Option::is_some).collect();
    assert_eq!(got, [true, false, true, true]);
    let gives = [4, 5, 6].map(|shard| Give {
        shard: ShardId(shard),
        node: NODE,
        epoch: Epoch(1),
        to: OTHER,
    });
    assert_eq!(store.give(&gives), Ok(vec![true, false, true]));
    assert_eq!(store.take(&[]), Ok(vec![]));
}

pub fn renew_shows_the_cluster(store: &dyn TestStore) {
    let first = renew(store, NODE);
    assert_eq!(first.shards.len(), usize::from(SHARDS));
    assert!(first.shards.iter().enumerate().all(|(n, row)| usize::from(row.shard.0) == n));
    store.advance(HALF);
    let second = renew(store, OTHER);
    assert_eq!(second.incarnation, first.incarnation);
    assert!(second.now.since(first.now) >= HALF);
    let mut nodes = second.nodes;
    nodes.sort_by_key(|lease| lease.node);
    assert_eq!(nodes.iter().map(|lease| lease.node).collect::<Vec<_>>(), [NODE, OTHER]);
    assert_eq!(nodes[0], first.nodes[0], "another's renewal leaves it alone");
    assert_eq!(nodes[1].expires, second.now.plus(TTL));
    // A node that leaves renews for no time at all.
    let left = store.renew(Renew { node: OTHER, ttl: Span::ZERO }).expect("the store answers");
    assert!(left.nodes.iter().all(|lease| lease.node != OTHER || lease.expires <= left.now));
}

/// What an owner does that never heard back: it takes a new epoch, which both fences a commit that
/// is still under way and tells whether it landed.
pub fn unknown_is_resolved_by_seq(store: &dyn TestStore) {
    let desk = Desk::open(store, SHARD.0);
    let row = run(one_off(SHARD, 1), RunState::Ready, desk.now());
    let landed = desk.build(vec![insert_run(&row)]);
    store.commit(std::slice::from_ref(&landed)).expect("heard by the store, not by its owner");
    let taken = take(store, SHARD, NODE, desk.epoch, 1).expect("one's own");
    assert_eq!(taken.seq, landed.seq, "it landed");
    // A second one that is still under way when the epoch is taken arrives too late.
    let late = Commit { seq: 2, ..desk.build(vec![]) };
    assert_eq!(store.commit(&[late]).map(|done| done.outcomes), Ok(vec![Outcome::Fenced]));
    let taken = take(store, SHARD, NODE, taken.epoch, 1).expect("one's own");
    assert_eq!(taken.seq, 1, "it did not land");
}
