//! A server that comes back with less than it acknowledged: an asynchronous replica that is promoted,
//! a backup that is recovered, a dump that is loaded elsewhere.
#![allow(clippy::expect_used, clippy::panic)] // all of this is tests

mod common;

use common::{Server, free_port, postgres_sh, server};
use model::cluster::{Renew, Take};
use model::read::{Page, Read};
use model::row::{Commit, Key};
use model::{Epoch, RunState, ShardId, Span, Time};
use std::process::Command;
use store::conformance::desk::{Desk, NODE, insert_run};
use store::conformance::sample::{one_off, run};
use store::{Outcome, Refusal, Store, StoreError};
use store_postgres::PostgresStore;

fn open(address: &str) -> PostgresStore {
    PostgresStore::open(address).expect("it opens")
}

fn submit(desk: &Desk<'_>, n: u64) -> Commit {
    let row = run(one_off(desk.shard, n), RunState::Ready, Time::from_secs(1_800_000_000));
    desk.build(vec![insert_run(&row)])
}

fn caught_up(primary: &Server, replica: &Server) {
    let at = primary.ask("postgres", "pg_current_wal_lsn()");
    let replayed = format!("pg_last_wal_replay_lsn() >= '{at}'");
    let waited = (0..10_000).find(|_| replica.ask("postgres", &replayed) == "true");
    waited.expect("the replica follows");
}

/// A forwarder whose other end can be changed: an address that fails over, as a pooler or a name does.
fn address_of(server: &Server, pooler: u16) -> String {
    postgres_sh(&["pooler", server.path(), &pooler.to_string()]);
    format!("postgres://postgres@127.0.0.1:{pooler}/postgres")
}

#[test]
fn a_promoted_replica_that_lacks_the_tail_is_noticed_before_anything_is_dispatched() {
    let primary = Server::start();
    let pooler = free_port();
    let store = open(&address_of(&primary, pooler));
    let replica = primary.replica();
    let mut desk = Desk::open(&store, 3);
    let renew = Renew { node: NODE, ttl: Span::from_secs(3) };
    for n in 0..5 {
        assert_eq!(desk.send(submit(&desk, n)), Outcome::Durable);
    }
    let whole = Desk::open(&store, 4);
    store.renew(renew).expect("renewed");
    caught_up(&primary, &replica);
    // From here on nothing reaches the replica, and all of it is acknowledged.
    postgres_sh(&["stop", replica.path()]);
    for n in 5..9 {
        assert_eq!(desk.send(submit(&desk, n)), Outcome::Durable);
    }
    let lost = store.take(&[Take { shard: ShardId(3), node: NODE, epoch: desk.epoch, by: 1 }]);
    let lost = lost.expect("answers")[0].expect("one's own").epoch;
    assert_eq!(store.alerts(), Vec::<String>::new());

    postgres_sh(&["stop", primary.path()]);
    postgres_sh(&["start", replica.path(), &replica.port.to_string()]);
    postgres_sh(&["promote", replica.path()]);
    address_of(&replica, pooler);

    // Nothing passes with the epochs of before, not even for a shard that lost nothing.
    desk.epoch = lost;
    let after = |store: &PostgresStore, commit: &Commit| {
        let outcome = (0..100).find_map(|_| match store.commit(std::slice::from_ref(commit)) {
            Ok(committed) => Some(committed.outcomes[0]),
            // The connection, or the server that is looked at first.
            Err(StoreError::Unknown | StoreError::Refused(Refusal::Time)) => None,
            Err(error) => panic!("{error:?}"),
        });
        outcome.expect("it comes back")
    };
    assert_eq!(after(&store, &submit(&desk, 9)), Outcome::Fenced);
    assert_eq!(after(&store, &submit(&whole, 1)), Outcome::Fenced);
    let alerts = store.alerts();
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    assert!(alerts[0].contains("ALERT") && alerts[0].contains("timeline 2 now"), "{alerts:?}");

    // What was acknowledged and is lost is seen by the number, and taking jumps over lost epochs.
    let cluster = store.renew(renew).expect("renewed");
    assert_eq!((cluster.incarnation, cluster.shards[3].seq), (2, 5));
    assert!(cluster.shards[3].epoch < lost, "the take is lost, too");
    for shard in [3, 4] {
        let epoch = cluster.shards[usize::from(shard)].epoch;
        let take = Take { shard: ShardId(shard), node: NODE, epoch, by: 1 };
        let taken = store.take(&[take]).expect("answers")[0].expect("one's own");
        assert!(taken.epoch.0 >= lost.0 + Epoch::JUMP, "{:?} after {lost:?}", taken.epoch);
        let mut desk =
            Desk { store: &store, shard: ShardId(shard), epoch: taken.epoch, seq: taken.seq };
        assert_eq!(desk.send(submit(&desk, 20)), Outcome::Durable);
    }
    assert!(store.is_restored().is_ok_and(|held| !held), "a failover goes on by itself");
    // A node that starts now finds it done.
    let second = open(&replica.address("postgres"));
    assert_eq!((second.alerts(), second.incarnation()), (vec![], Ok(2)));
}

/// Behind a pooler a connection stays, and another server answers. Here the record changes instead.
#[test]
fn another_server_behind_the_same_connection_is_noticed_by_every_write() {
    let name = server().filled();
    let store = open(&server().address(&name));
    let renew = Renew { node: NODE, ttl: Span::from_secs(3) };
    let mut desk = Desk::open(&store, 3);
    desk.commit(vec![]);
    store.renew(renew).expect("renewed");
    let take = |epoch: Epoch| store.take(&[Take { shard: ShardId(3), node: NODE, epoch, by: 1 }]);
    let mut incarnation = 1;
    for write in 0..3 {
        server().sql(&name, "UPDATE duly.meta SET timeline = timeline + 5");
        let refused = match write {
            0 => store.commit(&[desk.build(vec![])]).map(drop),
            1 => store.renew(renew).map(drop),
            _ => take(desk.epoch).map(drop),
        };
        assert_eq!(refused, Err(StoreError::Refused(Refusal::Time)), "{write}");
        incarnation += 1;
        assert_eq!(store.incarnation(), Ok(incarnation), "{write}");
        assert_eq!(store.alerts().len(), 1, "{write}");
        assert_eq!(desk.try_commit(vec![]), Outcome::Fenced, "{write}");
        let epoch = take(desk.epoch).expect("answers")[0].expect("one's own").epoch;
        assert!(epoch.0 >= desk.epoch.0 + Epoch::JUMP, "{write}");
        desk.epoch = epoch;
        desk.commit(vec![]);
    }
}

fn holds(store: &PostgresStore) -> usize {
    let pages = store.read(&[(ShardId(3), Read::Holds), (ShardId(255), Read::Holds)]);
    let pages = pages.expect("answers");
    pages.iter().map(|page| if let Page::Holds(holds) = page { holds.len() } else { 0 }).sum()
}

#[test]
fn a_recovered_backup_dispatches_nothing_until_it_is_told_to() {
    let primary = Server::start();
    let store = open(&primary.address("postgres"));
    let mut desk = Desk::open(&store, 3);
    assert_eq!(desk.send(submit(&desk, 1)), Outcome::Durable);
    store.renew(Renew { node: NODE, ttl: Span::from_secs(3) }).expect("renewed");
    // Long ago, by the clock of whoever starts on it.
    store.move_clock(Span::from_secs(3_600)).expect("moved");
    let copy = primary.replica();
    postgres_sh(&["promote", copy.path()]);
    let restored = open(&copy.address("postgres"));
    assert_eq!(restored.is_restored(), Ok(true));
    let alerts = restored.alerts();
    assert!(alerts.len() == 1 && alerts[0].contains("--takeover"), "{alerts:?}");
    assert_eq!(holds(&restored), 2, "every shard is held");
    assert!(desk.row(Key::Run(one_off(desk.shard, 1))).is_some());
    drop(restored);
    // Still, after another start.
    let restored = open(&copy.address("postgres"));
    assert_eq!((restored.is_restored(), holds(&restored)), (Ok(true), 2));
    let before = restored.incarnation().expect("answers");
    restored.release_restored().expect("answers");
    assert_eq!((restored.is_restored(), holds(&restored)), (Ok(false), 0));
    let take = Take { shard: ShardId(3), node: NODE, epoch: desk.epoch, by: 1 };
    let taken = restored.take(&[take]).expect("answers")[0].expect("one's own");
    assert!(taken.epoch.0 >= desk.epoch.0 + Epoch::JUMP);
    assert!(restored.incarnation().is_ok_and(|now| now > before));
    // The original notices nothing.
    assert_eq!(desk.send(submit(&desk, 2)), Outcome::Durable);
    assert_eq!(store.is_restored(), Ok(false));
}

#[test]
fn a_dump_that_is_loaded_elsewhere_is_a_restored_copy() {
    let (from, to) = (Server::start(), Server::start());
    let store = open(&from.address("postgres"));
    store.renew(Renew { node: NODE, ttl: Span::from_secs(3) }).expect("renewed");
    let dump =
        format!("pg_dump '{}' | psql -q '{}'", from.address("postgres"), to.address("postgres"));
    let done =
        Command::new("bash").args(["-o", "pipefail", "-c", &dump]).output().expect("bash runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let restored = open(&to.address("postgres"));
    assert_eq!((restored.is_restored(), holds(&restored)), (Ok(true), 2));
    assert_eq!(store.is_restored(), Ok(false));
}
