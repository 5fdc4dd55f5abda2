//! Commits that are sent before the one ahead of them is answered.
#![allow(clippy::expect_used, clippy::panic)] // all of this is tests

mod common;

use common::{Held, Server, free_port, make, open, postgres_sh, random_below, seq_of, server};
use model::cluster::Take;
use model::row::{Commit, Key};
use model::{Epoch, RunState, ShardId, Time};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use store::conformance::desk::{Desk, NODE, insert_run};
use store::conformance::sample::{one_off, run};
use store::{Committed, Outcome, Refusal, Store, StoreError};
use store_postgres::PostgresStore;

/// A commit with this number that makes the run with this number.
fn makes(desk: &Desk<'_>, seq: u64, number: u64) -> Commit {
    let row = run(one_off(desk.shard, number), RunState::Ready, Time::from_secs(1_800_000_000));
    Commit { seq, ..desk.build(vec![insert_run(&row)]) }
}

fn outcomes(answer: Result<Committed, StoreError>) -> Vec<Outcome> {
    answer.expect("it answers").outcomes
}

fn is_there(desk: &Desk<'_>, number: u64) -> bool {
    desk.row(Key::Run(one_off(desk.shard, number))).is_some()
}

/// Ends what it is told of, in order, beside whoever begins.
fn both_ends(store: &PostgresStore) {
    let desk = Desk::open(store, 3);
    let commits: Vec<[Commit; 1]> = (1..=20).map(|n| [makes(&desk, n, n)]).collect();
    let (begun, to_end) = sync_channel::<&[Commit; 1]>(2);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for commit in to_end {
                assert_eq!(outcomes(store.end(commit)), [Outcome::Durable]);
            }
        });
        for commit in &commits {
            store.begin(commit);
            begun.send(commit).expect("somebody ends it");
        }
        drop(begun);
    });
    assert_eq!(seq_of(store, 3), 20);
    assert!((1..=20).all(|number| is_there(&desk, number)));
}

#[test]
fn what_was_begun_is_applied_in_order() {
    both_ends(&make());
}

#[test]
fn so_it_is_behind_a_pooler() {
    let name = server().filled();
    let port = free_port();
    postgres_sh(&["pooler", server().path(), &port.to_string()]);
    both_ends(&open(&format!("postgres://postgres@127.0.0.1:{port}/{name}")));
}

#[test]
fn what_builds_on_one_that_was_refused_is_refused() {
    let store = make();
    let (mut desk, other) = (Desk::open(&store, 3), Desk::open(&store, 4));
    desk.commit(vec![]);
    // The same run twice; what comes after it; and what has nothing to do with it.
    let twice = [makes(&desk, 2, 1)];
    let again = [makes(&desk, 3, 1)];
    let (after, beside) = ([makes(&desk, 4, 2)], [makes(&other, 1, 1)]);
    for commit in [&twice, &again, &after, &beside] {
        store.begin(commit);
    }
    assert_eq!(outcomes(store.end(&twice)), [Outcome::Durable]);
    assert_eq!(outcomes(store.end(&again)), [Outcome::Row { index: 0 }]);
    assert_eq!(outcomes(store.end(&after)), [Outcome::Gap { last: 2 }]);
    assert_eq!(outcomes(store.end(&beside)), [Outcome::Durable]);
    assert!(!is_there(&desk, 2) && is_there(&other, 1));
}

/// Two commits of one shard in a call cannot be one statement: they take the slower way, while what
/// builds on them is on its way already.
#[test]
fn what_takes_the_slower_way_is_not_overtaken() {
    let store = make();
    let desk = Desk::open(&store, 3);
    let slow = [makes(&desk, 1, 1), makes(&desk, 2, 2)];
    let after = [makes(&desk, 3, 3)];
    store.begin(&slow);
    store.begin(&after);
    assert_eq!(outcomes(store.end(&slow)), [Outcome::Durable, Outcome::Durable]);
    assert_eq!(outcomes(store.end(&after)), [Outcome::Durable]);
    assert!((1..=3).all(|number| is_there(&desk, number)));
}

/// Whoever takes the slower way has heard of everything that was sent: nothing of ours lies half sent at
/// the server, with its rows locked, while another connection may wait for them.
#[test]
fn the_slower_way_begins_when_the_line_is_quiet() {
    let name = server().filled();
    let store = open(&server().address(&name));
    let (desk, other) = (Desk::open(&store, 3), Desk::open(&store, 4));
    let (slow, beside) = ([makes(&desk, 1, 1), makes(&desk, 2, 2)], [makes(&other, 1, 1)]);
    store.begin(&slow);
    store.begin(&beside);
    assert_eq!(outcomes(store.end(&slow)), [Outcome::Durable, Outcome::Durable]);
    assert_eq!(outcomes(store.end(&beside)), [Outcome::Durable]);
    let at = |shard: u16| {
        let sql = format!("SELECT min(at) FROM duly.commits WHERE shard = {shard} AND seq > 0");
        server().ask(&name, &sql).parse::<i64>().expect("an instant")
    };
    assert!(at(4) < at(3), "{} {}", at(4), at(3));
}

/// Small commits and such as no socket holds at once, without a pause and after one, refused ones and
/// such as take the slower way in between: each gets its answer, and none waits for another.
#[test]
fn whatever_is_mixed_nobody_is_left_without_an_answer() {
    let store = make();
    let mut desk = Desk::open(&store, 3);
    let mut once = Desk::open(&store, 5);
    once.commit(makes(&once, 1, 1).changes.to_vec());
    for seed in 1..=3 {
        println!("seed {seed}");
        let mut random = seed;
        let (mut seq, mut number) = (desk.seq, desk.seq * 1_000_000);
        let mut runs = |most: u64, random: &mut u64| {
            seq += 1;
            let rows = (0..=random_below(random, most)).map(|_| {
                number += 1;
                let id = one_off(desk.shard, number);
                insert_run(&run(id, RunState::Ready, Time::from_secs(1_800_000_000)))
            });
            Commit { seq, ..desk.build(rows.collect()) }
        };
        let (begun, to_end) = sync_channel::<(Vec<Commit>, Outcome)>(1);
        let (ended, last) = sync_channel::<()>(64);
        std::thread::scope(|scope| {
            let store = &store;
            scope.spawn(move || {
                for (commits, outcome) in to_end {
                    let wanted = vec![outcome; commits.len()];
                    assert_eq!(outcomes(store.end(&commits)), wanted, "seed {seed}");
                    ended.send(()).expect("somebody counts");
                }
            });
            let mut under_way = 0;
            for _ in 0..60 {
                let (commits, outcome) = match random_below(&mut random, 8) {
                    0 => (vec![makes(&once, 2, 1)], Outcome::Row { index: 0 }),
                    1 => ((0..2).map(|_| runs(20, &mut random)).collect(), Outcome::Durable),
                    2 | 3 => (vec![runs(8_000, &mut random)], Outcome::Durable),
                    _ => (vec![runs(20, &mut random)], Outcome::Durable),
                };
                store.begin(&commits);
                begun.send((commits, outcome)).expect("somebody ends it");
                under_way += 1;
                // Now and then nothing is under way.
                while under_way > 2 || (under_way > 0 && random_below(&mut random, 4) == 0) {
                    last.recv().expect("it is ended");
                    under_way -= 1;
                }
            }
            drop(begun);
        });
        desk.seq = seq_of(&store, 3);
        assert_eq!(desk.seq, seq, "seed {seed}");
    }
    assert_eq!(store.faults(), Vec::<String>::new());
}

#[test]
fn a_broken_connection_answers_for_all_that_was_sent_over_it() {
    let name = server().filled();
    let address = server().address(&name);
    let store = open(&address);
    let desk = Desk::open(&store, 3);
    let [first, second, third] = [1, 2, 3].map(|n| [makes(&desk, n, n)]);
    store.begin(&first);
    assert_eq!(outcomes(store.end(&first)), [Outcome::Durable]);
    let held = Held::begin(&address, "SELECT 1 FROM duly.shards WHERE shard = 3 FOR UPDATE");
    store.begin(&second);
    // Looks whether the connection lives, and so sends the one before.
    store.begin(&third);
    let waits = format!("datname = '{name}' AND wait_event_type = 'Lock'");
    let count = format!("SELECT count(*) FROM pg_stat_activity WHERE {waits}");
    assert!((0..10_000).any(|_| server().ask("postgres", &count) == "1"), "it waits for the row");
    let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE";
    server().sql("postgres", &format!("{end} {waits}"));
    assert_eq!(store.end(&second), Err(StoreError::Unknown));
    assert_eq!(store.end(&third), Err(StoreError::Unknown));
    let fault = store.last_fault().expect("a reason");
    assert!(!fault.contains("in time"), "nobody waits for a connection that is gone: {fault}");
    held.end();
    // The next one makes a connection.
    assert_eq!(seq_of(&store, 3), 1);
    store.begin(&second);
    store.begin(&third);
    assert_eq!(outcomes(store.end(&second)), [Outcome::Durable]);
    assert_eq!(outcomes(store.end(&third)), [Outcome::Durable]);
}

#[test]
fn a_row_that_a_stranger_holds_costs_time_and_no_more() {
    let name = server().filled();
    let address = server().address(&name);
    let store = open(&address);
    let (desk, other) = (Desk::open(&store, 3), Desk::open(&store, 4));
    let held = Held::begin(&address, "SELECT 1 FROM duly.shards WHERE shard = 3 FOR UPDATE");
    let (first, beside) = ([makes(&desk, 1, 1)], [makes(&other, 1, 1)]);
    store.begin(&first);
    store.begin(&beside);
    assert_eq!(store.end(&first), Err(StoreError::Refused(Refusal::Time)));
    assert_eq!(outcomes(store.end(&beside)), [Outcome::Durable]);
    held.end();
    store.begin(&first);
    assert_eq!(outcomes(store.end(&first)), [Outcome::Durable]);
}

/// An owner that always has two commits on their way, and others that take its shard from it.
#[test]
fn a_taken_shard_is_fenced_whatever_was_sent_ahead() {
    let name = server().filled();
    let address = server().address(&name);
    let (first, second) = (open(&address), open(&address));
    let shard = ShardId(3);
    let mut epoch = Epoch(0);
    for round in 0..12 {
        let (node, taker) = if round % 2 == 0 { (&first, &second) } else { (&second, &first) };
        let taken = node.take(&[Take { shard, node: NODE, epoch, by: 1 }]).expect("answers")[0];
        let taken = taken.expect("one's own");
        let desk = Desk { store: node, shard, epoch: taken.epoch, seq: taken.seq };
        let (last, next) = std::thread::scope(|scope| {
            let committing = scope.spawn(move || {
                let (mut last, mut seq) = (desk.seq, desk.seq + 1);
                let mut ahead = [makes(&desk, seq, seq)];
                node.begin(&ahead);
                loop {
                    seq += 1;
                    let next = [makes(&desk, seq, seq)];
                    node.begin(&next);
                    let ended = outcomes(node.end(&ahead));
                    let oldest = std::mem::replace(&mut ahead, next);
                    if ended != [Outcome::Durable] {
                        assert_eq!(ended, [Outcome::Fenced]);
                        assert_eq!(outcomes(node.end(&ahead)), [Outcome::Fenced]);
                        return last;
                    }
                    last = oldest[0].seq;
                }
            });
            while seq_of(taker, 3) < taken.seq + 3 {}
            let take = Take { shard, node: NODE, epoch: taken.epoch, by: 1 };
            let next = taker.take(&[take]).expect("answers")[0].expect("one's own");
            (committing.join().expect("no panic"), next)
        });
        assert_eq!(next.seq, last, "what was acknowledged is what the next owner finds");
        epoch = next.epoch;
    }
}

/// The server is killed with all its processes while two commits are on their way.
#[test]
fn a_killed_server_keeps_its_word() {
    let own = Server::start();
    let store = open(&own.address("postgres"));
    let mut desk = Desk::open(&store, 3);
    for round in 0..2 {
        let (go, killed) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut acknowledged = desk.seq;
        std::thread::scope(|scope| {
            let (path, go_on, flag) = (own.path(), &go, &killed);
            scope.spawn(move || {
                while !go_on.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                postgres_sh(&["crash", path]);
                flag.store(true, Ordering::SeqCst);
            });
            let mut seq = desk.seq + 1;
            let mut ahead = [makes(&desk, seq, seq)];
            store.begin(&ahead);
            loop {
                seq += 1;
                let next = [makes(&desk, seq, seq)];
                store.begin(&next);
                let ended = store.end(&ahead);
                let oldest = std::mem::replace(&mut ahead, next);
                match ended {
                    Ok(committed) => {
                        assert_eq!(committed.outcomes, [Outcome::Durable], "round {round}");
                        acknowledged = oldest[0].seq;
                        go.store(acknowledged >= 20 * (round + 1), Ordering::SeqCst);
                    }
                    Err(error) => {
                        let known = [StoreError::Unknown, StoreError::Refused(Refusal::Time)];
                        assert!(known.contains(&error), "{error:?}");
                        assert!(store.end(&ahead).is_err(), "it builds on the one before");
                        break;
                    }
                }
            }
        });
        assert!(killed.load(Ordering::SeqCst));
        postgres_sh(&["start", own.path(), &own.port.to_string()]);
        let seq = seq_of(&store, 3);
        assert!(seq >= acknowledged, "{acknowledged} were acknowledged, {seq} are there");
        assert!(seq <= acknowledged + 2, "two commits were under way");
        let there = (1..=seq + 3).filter(|number| is_there(&desk, *number)).count();
        assert_eq!(there as u64, seq, "a commit is there without the one before it");
        desk.seq = seq;
    }
    desk.commit(vec![]);
}
