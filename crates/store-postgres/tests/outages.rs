//! Servers that are away, full of strangers, read-only, killed; and what a store says meanwhile.
#![allow(clippy::expect_used, clippy::panic)] // all of this is tests

mod common;

use common::{Server, make, open, postgres_sh, seq_of, server};
use model::cluster::Take;
use model::row::Key;
use model::{Epoch, RunState, ShardId};
use std::sync::atomic::{AtomicBool, Ordering};
use store::conformance::desk::{Desk, NODE, insert_run};
use store::conformance::sample::{one_off, run};
use store::{Outcome, Refusal, Store, StoreError};
use store_postgres::{OpenError, PostgresStore};

const ROWS: u64 = 8;

/// The server is killed with all its processes while commits run, and started again.
#[test]
fn a_killed_server_keeps_its_word() {
    let own = Server::start();
    let store = open(&own.address("postgres"));
    let mut desk = Desk::open(&store, 3);
    for round in 0..2 {
        let (mut acknowledged, killed) = (desk.seq, AtomicBool::new(false));
        let go = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (path, flag, go) = (own.path(), &killed, &go);
            scope.spawn(move || {
                while !go.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                postgres_sh(&["crash", path]);
                flag.store(true, Ordering::SeqCst);
            });
            loop {
                let rows = (0..ROWS).map(|n| {
                    let id = one_off(desk.shard, desk.seq * ROWS + n);
                    insert_run(&run(id, RunState::Ready, model::Time::from_secs(1_800_000_000)))
                });
                let commit = desk.build(rows.collect());
                match store.commit(&[commit]) {
                    Ok(committed) => {
                        assert_eq!(committed.outcomes, [Outcome::Durable], "round {round}");
                        desk.seq += 1;
                        acknowledged = desk.seq;
                        go.store(acknowledged >= 20 * (round + 1), Ordering::SeqCst);
                    }
                    Err(error) => {
                        assert!(
                            [StoreError::Unknown, StoreError::Refused(Refusal::Time)]
                                .contains(&error),
                            "{error:?}"
                        );
                        let fault = store.last_fault().expect("a reason");
                        assert!(!fault.contains("in time"), "its end is noticed: {fault}");
                        break;
                    }
                }
            }
        });
        assert!(killed.load(Ordering::SeqCst));
        // While it is away nothing is sent, and the store says so.
        assert_eq!(store.commit(&[]), Err(StoreError::Refused(Refusal::Time)));
        postgres_sh(&["start", own.path(), &own.port.to_string()]);
        // The same store goes on by itself.
        let seq = seq_of(&store, 3);
        assert!(seq >= acknowledged, "{acknowledged} were acknowledged, {seq} are there");
        assert!(seq <= acknowledged + 1, "one commit was under way");
        let keys = (0..(seq + 2) * ROWS).map(|n| Key::Run(one_off(ShardId(3), n)));
        let there = keys.filter(|key| desk.row(key.clone()).is_some()).count();
        assert_eq!(there as u64, seq * ROWS, "a batch is there in part");
        desk.seq = seq;
    }
    desk.commit(vec![]);
}

#[test]
fn connections_that_were_closed_meanwhile_are_made_anew() {
    let name = server().filled();
    let store = open(&server().address(&name));
    let mut desk = Desk::open(&store, 3);
    for _ in 0..3 {
        desk.commit(vec![]);
        assert!(desk.due_all().is_empty());
        server().sql(
            "postgres",
            &format!(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'"
            ),
        );
    }
    desk.commit(vec![]);
}

#[test]
fn a_server_without_fsync_is_refused() {
    let own = Server::start();
    own.sql("postgres", "ALTER SYSTEM SET fsync = off");
    own.sql("postgres", "SELECT pg_reload_conf()");
    // The server reads its settings when it gets to it.
    let refused = (0..1_000).find_map(|_| PostgresStore::open(&own.address("postgres")).err());
    let refused = refused.expect("it is refused");
    assert!(matches!(refused, OpenError::NoSync), "{refused}");
    assert!(refused.to_string().contains("fsync = on"), "{refused}");
}

#[test]
fn a_stranger_that_holds_a_fence_costs_time_and_no_more() {
    let name = server().filled();
    let store = open(&server().address(&name));
    let mut desk = Desk::open(&store, 3);
    let mut other = Desk::open(&store, 4);
    let (held, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let name = &name;
        scope.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let address = server().address(name);
                let connected = tokio_postgres::connect(&address, tokio_postgres::NoTls).await;
                let (client, driver) = connected.expect("a connection");
                let driver = tokio::spawn(driver);
                let lock = "BEGIN; SELECT 1 FROM duly.shards WHERE shard = 3 FOR UPDATE";
                client.batch_execute(lock).await.expect("locked");
                held.send(()).expect("somebody waits");
                // Longer than a commit waits.
                client.batch_execute("SELECT pg_sleep(7); ROLLBACK").await.expect("unlocked");
                drop(client);
                let _ = driver.await;
            });
        });
        told.recv().expect("the row is held");
        let commit = desk.build(vec![]);
        assert_eq!(store.commit(&[commit]), Err(StoreError::Refused(Refusal::Time)));
        assert!(store.last_fault().is_some_and(|words| words.contains("55P03")));
        // Other shards go on meanwhile.
        other.commit(vec![]);
    });
    desk.commit(vec![]);
}

#[test]
fn a_read_only_server_says_so() {
    let name = server().filled();
    let store = open(&server().address(&name));
    let mut desk = Desk::open(&store, 3);
    let set = |value: &str| {
        let alter = format!("ALTER DATABASE {name} SET default_transaction_read_only = {value}");
        server().sql("postgres", &alter);
        let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname =";
        server().sql("postgres", &format!("{end} '{name}'"));
    };
    set("on");
    let commit = desk.build(vec![]);
    assert_eq!(store.commit(&[commit]), Err(StoreError::Refused(Refusal::ReadOnly)));
    assert!(desk.due_all().is_empty(), "reading goes on");
    set("off");
    desk.commit(vec![]);
}

#[test]
fn no_superuser_is_needed() {
    server().sql("postgres", "CREATE ROLE plain LOGIN NOSUPERUSER");
    server().sql("postgres", "CREATE DATABASE plain OWNER plain");
    let store = open(&server().address("plain").replace("postgres@", "plain@"));
    let mut desk = Desk::open(&store, 3);
    let row = run(one_off(desk.shard, 1), RunState::Ready, desk.now());
    desk.commit(vec![insert_run(&row)]);
    let words = store.durability().to_string();
    assert!(words.contains("durable on one server before it answers"), "{words}");
}

#[test]
fn nodes_that_start_together_make_one_schema() {
    let name = server().database();
    let address = server().address(&name);
    std::thread::scope(|scope| {
        let openings: Vec<_> =
            (0..6).map(|_| scope.spawn(|| PostgresStore::open(&address).map(drop))).collect();
        for opening in openings {
            opening.join().expect("no panic").expect("it opens");
        }
    });
    Desk::open(&open(&address), 3).commit(vec![]);
}

#[test]
fn schemas_of_others_are_left_alone() {
    let name = server().filled();
    server().sql(&name, "UPDATE duly.meta SET min_reader = 99");
    let error = PostgresStore::open(&server().address(&name)).expect_err("refused").to_string();
    assert!(error.contains("version 99") && error.contains("newer"), "{error}");
    let name = server().database();
    server().sql(&name, "CREATE SCHEMA duly");
    let error = PostgresStore::open(&server().address(&name)).expect_err("refused");
    assert!(matches!(error, OpenError::Foreign), "{error}");
}

/// An owner that commits as fast as it can, and others that take its shard from it: nothing of an
/// owner is applied after its epoch has passed, and what it was told is true.
#[test]
fn a_taken_shard_is_fenced_whatever_is_under_way() {
    let name = server().filled();
    let address = server().address(&name);
    let (first, second) = (open(&address), open(&address));
    let shard = ShardId(3);
    let mut epoch = Epoch(0);
    for round in 0..12u64 {
        let node = if round % 2 == 0 { &first } else { &second };
        let taken = node.take(&[Take { shard, node: NODE, epoch, by: 1 }]).expect("answers")[0];
        let taken = taken.expect("one's own");
        let mut desk = Desk { store: node, shard, epoch: taken.epoch, seq: taken.seq };
        let taker = if round % 2 == 0 { &second } else { &first };
        let (last, next) = std::thread::scope(|scope| {
            let committing = scope.spawn(move || {
                loop {
                    let id = one_off(shard, desk.seq + 1);
                    let row = run(id, RunState::Ready, model::Time::from_secs(1_800_000_000));
                    match desk.try_commit(vec![insert_run(&row)]) {
                        Outcome::Durable => {}
                        outcome => {
                            assert_eq!(outcome, Outcome::Fenced);
                            return desk.seq;
                        }
                    }
                }
            });
            // Somewhere in the middle of a commit.
            while seq_of(taker, 3) < taken.seq + 3 {}
            let take = Take { shard, node: NODE, epoch: taken.epoch, by: 1 };
            let next = taker.take(&[take]).expect("answers")[0].expect("one's own");
            (committing.join().expect("no panic"), next)
        });
        assert_eq!(next.seq, last, "what was acknowledged is what the next owner finds");
        epoch = next.epoch;
    }
}

#[test]
fn old_commits_are_dropped_and_the_last_one_counts() {
    let name = server().filled();
    let store = open(&server().address(&name));
    let mut desk = Desk::open(&store, 3);
    for _ in 0..2_100 {
        desk.commit(vec![]);
    }
    let left =
        "DO $$ BEGIN ASSERT (SELECT count(*) FROM duly.commits WHERE shard = 3) <= 1100; END $$";
    server().sql(&name, left);
    assert_eq!(seq_of(&store, 3), 2_100);
}

/// Readers never see half a commit, nor one that was acknowledged before as not there.
#[test]
fn readers_see_whole_commits_and_the_latest() {
    use model::read::{Page, Read};
    let store = make();
    let shard = ShardId(3);
    let (a, b) = (one_off(shard, 1), one_off(shard, 2));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let key = |id| (shard, Read::Rows(vec![Key::Run(id)]));
                let pages = store.read(&[key(a), key(b)]).expect("answers");
                let there = |page: &Page| matches!(page, Page::Rows(rows) if rows[0].is_some());
                assert_eq!(there(&pages[0]), there(&pages[1]), "half a commit");
            }
        });
        let mut desk = Desk::open(&store, 3);
        for _ in 0..40 {
            let rows = [a, b].map(|id| run(id, RunState::Scheduled, desk.now()));
            desk.commit(rows.iter().map(insert_run).collect());
            assert!(desk.row(Key::Run(a)).is_some() && desk.due_all().len() == 2);
            let gone = [a, b].map(|id| store::conformance::desk::remove(Key::Run(id), 1));
            desk.commit(gone.to_vec());
            assert!(desk.row(Key::Run(a)).is_none() && desk.due_all().is_empty());
        }
        done.store(true, Ordering::SeqCst);
    });
}

/// Stands between a client and the server until the client says `word`; what it says from then on
/// does not arrive, as if it had been frozen there.
fn frozen_after(word: &'static [u8], to: u16) -> u16 {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let far = TcpStream::connect(("127.0.0.1", to)).expect("the server is there");
            let ways = [
                (near.try_clone().expect("a socket"), far.try_clone().expect("a socket"), true),
                (far, near, false),
            ];
            for (mut from, mut to, up) in ways {
                std::thread::spawn(move || {
                    let (mut bytes, mut frozen) = ([0; 16_384], false);
                    while let Ok(length @ 1..) = from.read(&mut bytes) {
                        if !frozen && to.write_all(&bytes[..length]).is_err() {
                            return;
                        }
                        let said = bytes[..length].windows(word.len()).any(|part| part == word);
                        frozen |= up && said;
                    }
                });
            }
        }
    });
    port
}

/// Found by a frozen node of a real cluster: it was in the middle of a transaction, and nobody could
/// take its shards until it woke.
#[test]
fn a_client_that_froze_in_a_transaction_does_not_keep_its_shards() {
    let name = server().filled();
    let port = frozen_after(b"RELEASE shard", server().port);
    let frozen =
        open(&server().address(&name).replace(&server().port.to_string(), &port.to_string()));
    let mut desk = Desk::open(&frozen, 3);
    let mine = Take { shard: desk.shard, node: NODE, epoch: desk.epoch, by: 1 };
    // Two commits of one shard in one call go the slower way, by several statements.
    let first = desk.build(vec![]);
    desk.seq += 1;
    let second = desk.build(vec![]);
    std::thread::scope(|scope| {
        let frozen = scope.spawn(|| frozen.commit(&[first, second]));
        let other = open(&server().address(&name));
        let held = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'";
        let until_held = format!(
            "DO $$ BEGIN WHILE ({held} AND datname = '{name}') = 0 LOOP
               PERFORM pg_sleep(0.005); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$"
        );
        server().sql("postgres", &until_held);
        let taken = other.take(&[mine]).expect("it is answered");
        assert!(taken[0].is_some(), "the shard can be taken");
        assert_eq!(frozen.join().expect("no panic"), Err(StoreError::Unknown));
    });
}
