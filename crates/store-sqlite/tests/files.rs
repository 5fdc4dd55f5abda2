//! What only a store in a file can get wrong: closing, crashing, filling up, a second process.
#![allow(clippy::expect_used)] // all of this is tests

mod common;

use common::{Moved, folder, make, open, try_open};
use model::row::{Key, Row, RunRow};
use model::{NodeId, RunState, Span, Time};
use rusqlite::Connection;
use std::path::Path;
use store::conformance::desk::{Desk, insert, insert_run};
use store::conformance::sample::{self, one_off, run};
use store::{Outcome, Refusal, Store, StoreError};
use store_sqlite::OpenError;

fn ready(desk: &Desk<'_>, n: u64) -> RunRow {
    let mut row = run(one_off(desk.shard, n), RunState::Ready, desk.now());
    row.body = Some(sample::spec(&[n as u8; 100]));
    row
}

/// Looks into the file as `sqlite3` does: from outside, without the lock.
fn look(folder: &Path) -> Connection {
    Connection::open(folder.join("duly.db")).expect("anyone may look")
}

fn count(conn: &Connection, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    conn.query_row(&sql, [], |row| row.get(0)).expect("a table")
}

#[test]
fn what_was_acknowledged_is_there_after_closing() {
    let folder = folder();
    let (row, cluster, seq, epoch, shard);
    {
        let store = open(folder.path());
        let mut desk = Desk::open(&store, 3);
        row = ready(&desk, 1);
        let key = Key::Idempotency(sample::key("k"));
        let kept = Row::Idempotency(sample::key_row(row.id.job));
        desk.commit(vec![insert_run(&row), insert(key, kept)]);
        let node = NodeId { node: 9, boot: u64::MAX };
        cluster = store.renew(model::cluster::Renew { node, ttl: Span::from_secs(3) });
        (seq, epoch, shard) = (desk.seq, desk.epoch, desk.shard);
    }
    let store = open(folder.path());
    let node = NodeId { node: 9, boot: u64::MAX };
    assert_eq!(store.renew(model::cluster::Renew { node, ttl: Span::from_secs(3) }), cluster);
    let mut desk = Desk { store: &store, shard, epoch, seq };
    assert_eq!(desk.row(Key::Run(row.id)), Some(Row::Run(RunRow { body: None, ..row.clone() })));
    assert_eq!(store.specs(&[(row.id, 9)]), Ok(vec![row.body]));
    assert!(desk.row(Key::Idempotency(sample::key("k"))).is_some());
    desk.commit(vec![]);
}

/// A process that dies leaves the files as they are at that moment. Copies taken between two
/// commits and while commits run must open with every commit that was acknowledged before the
/// copy, each whole.
#[test]
fn a_killed_process_loses_nothing_that_was_acknowledged() {
    use std::sync::atomic::{AtomicU64, Ordering};
    const ROWS: u64 = 20;
    let folder = folder();
    let store = open(folder.path());
    let acknowledged = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut desk = Desk::open(&store, 3);
            for batch in 0..150 {
                let rows = (0..ROWS).map(|n| insert_run(&ready(&desk, batch * ROWS + n)));
                let rows = rows.collect();
                desk.commit(rows);
                acknowledged.store(desk.seq, Ordering::SeqCst);
            }
        });
        let mut copies = 0;
        while !writing.is_finished() || copies == 0 {
            let copy = common::folder();
            let before = acknowledged.load(Ordering::SeqCst);
            // The database first: no checkpoint runs here, so it does not change meanwhile.
            for name in ["duly.db", "duly.db-wal"] {
                std::fs::copy(folder.path().join(name), copy.path().join(name)).expect("a copy");
            }
            let opened = open(copy.path());
            let node = NodeId { node: 1, boot: 1 };
            let cluster = opened.renew(model::cluster::Renew { node, ttl: Span::ZERO });
            let seq = cluster.expect("answers").shards[3].seq;
            assert!(seq >= before, "{before} were acknowledged, {seq} are there");
            let rows = count(&look(copy.path()), "runs");
            assert_eq!(rows as u64, seq * ROWS, "a batch is there in part");
            copies += 1;
        }
        println!("{copies} copies");
        writing.join().expect("the writer did not fail");
    });
}

#[test]
fn a_torn_tail_of_the_log_is_not_believed() {
    let folder = folder();
    let store = open(folder.path());
    let mut desk = Desk::open(&store, 3);
    for n in 0..4 {
        let row = ready(&desk, n);
        desk.commit(vec![insert_run(&row)]);
    }
    let log = std::fs::read(folder.path().join("duly.db-wal")).expect("the log");
    let (mut last, mut seen) = (0, std::collections::BTreeSet::new());
    for cut in (0..=log.len()).step_by(1_500) {
        let copy = common::folder();
        let name = "duly.db";
        std::fs::copy(folder.path().join(name), copy.path().join(name)).expect("a copy");
        std::fs::write(copy.path().join("duly.db-wal"), &log[..cut]).expect("a log");
        // With the first part of the log gone there may be no tables yet: a fresh file.
        let opened = open(copy.path());
        let rows = count(&look(copy.path()), "runs");
        assert!(rows >= last, "a longer log has no fewer rows");
        assert_eq!(opened.store.broken(), None);
        last = rows;
        seen.insert(rows);
    }
    assert!(seen.len() > 2, "the cuts were not between commits: {seen:?}");
}

/// The files of a data folder.
fn files(folder: &Path) -> [Vec<u8>; 2] {
    ["duly.db", "duly.db-wal"].map(|name| std::fs::read(folder.join(name)).expect("a file"))
}

/// A power cut: of what was written since the last sync, each sector is on the disk or is not.
/// What stood there before is the synced file, or nothing. Checkpoints happen in between, so that the
/// log begins again, over frames that were synced.
#[test]
fn a_power_cut_takes_nothing_that_was_synced() {
    const SECTOR: usize = 512;
    const LOG_HEAD: usize = 32;
    const ROWS: u64 = 7;
    // xorshift; the seed is in the message.
    let seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut state = seed;
    let mut draw = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let folder = folder();
    let store = open(folder.path());
    let mut desk = Desk::open(&store, 3);
    let mut made = 0;
    let (mut cuts, mut lost, mut kept_more) = (0, 0, 0);
    for round in 0..60 {
        store.store.sync().expect("synced");
        let (synced, durable) = (files(folder.path()), desk.seq);
        // Commits that nobody has synced: nobody was told that they are durable.
        for _ in 0..draw() % 4 {
            let rows = (0..ROWS).map(|n| insert_run(&ready(&desk, made + n))).collect();
            made += ROWS;
            let commit = desk.build(rows);
            let applied = store.store.apply(std::slice::from_ref(&commit)).expect("applied");
            assert_eq!(applied.outcomes, [Outcome::Durable]);
            desk.seq = commit.seq;
        }
        let written = files(folder.path());
        for _ in 0..4 {
            let copy = common::folder();
            for (name, (old, new)) in
                ["duly.db", "duly.db-wal"].iter().zip(synced.iter().zip(&written))
            {
                let mut found = new.clone();
                for at in (0..new.len()).step_by(SECTOR) {
                    let end = (at + SECTOR).min(new.len());
                    if draw() % 2 == 0 {
                        // SQLite syncs the head of a log that begins again before it writes the first
                        // frame behind it.
                        let first = if name.ends_with("-wal") { LOG_HEAD } else { 0 };
                        let begin = at.max(first).min(end);
                        for (place, byte) in (begin..).zip(&mut found[begin..end]) {
                            *byte = old.get(place).copied().unwrap_or(0);
                        }
                    }
                }
                std::fs::write(copy.path().join(name), found).expect("a file");
            }
            let opened = open(copy.path());
            let node = NodeId { node: 1, boot: 1 };
            let cluster = opened.renew(model::cluster::Renew { node, ttl: Span::ZERO });
            let seq = cluster.expect("answers").shards[3].seq;
            assert!(seq >= durable, "seed {seed:x}, round {round}: {durable} synced, {seq} there");
            assert!(seq <= desk.seq);
            let rows = count(&look(copy.path()), "runs");
            assert_eq!(rows as u64, seq * ROWS, "seed {seed:x}, round {round}: a part of a commit");
            cuts += 1;
            lost += usize::from(seq < desk.seq);
            kept_more += usize::from(seq > durable);
        }
        if round % 5 == 4 {
            // SQLite syncs what it moves; then the log begins again.
            store.store.checkpoint().expect("a checkpoint");
        }
    }
    println!("{cuts} cuts, {lost} lost something, {kept_more} had more than was synced");
    assert!(lost > 0, "no cut took anything: nothing was tried");
}

#[test]
fn a_second_process_is_refused_and_a_later_one_is_not() {
    let folder = folder();
    let first = open(folder.path());
    assert!(matches!(try_open(folder.path()), Err(OpenError::InUse)));
    // A person may look meanwhile.
    assert_eq!(count(&look(folder.path()), "shards"), 256);
    drop(first);
    open(folder.path());
}

#[test]
fn a_full_disk_refuses_and_heals() {
    let store = make();
    let (mut desk, mut other) = (Desk::open(&store, 3), Desk::open(&store, 4));
    let row = ready(&desk, 0);
    desk.commit(vec![insert_run(&row)]);
    store.store.limit_pages(Some(1)).expect("a limit");
    let mut refused = 0;
    for n in 1..200 {
        // Two shards: neither may be applied when there is no room for both.
        let small = other.build(vec![]);
        let rows = (0..20).map(|m| insert_run(&ready(&desk, n * 100 + m))).collect();
        let commit = desk.build(rows);
        match store.commit(&[small, commit.clone()]) {
            Ok(committed) => {
                assert_eq!(committed.outcomes, [Outcome::Durable; 2]);
                desk.seq += 1;
                other.seq += 1;
            }
            Err(error) => {
                assert_eq!(error, StoreError::Refused(Refusal::Room));
                refused += 1;
                assert_eq!(desk.row(commit.changes[0].key.clone()), None, "applied in part");
            }
        }
    }
    assert!(refused > 0, "the limit was never met");
    assert_eq!(store.store.broken(), None);
    assert!(store.store.last_fault().is_some());
    // What needs no room still goes: an empty commit, and a removal.
    other.commit(vec![]);
    desk.commit(vec![store::conformance::desk::remove(Key::Run(row.id), 1)]);
    store.store.limit_pages(None).expect("no limit");
    let row = ready(&desk, 99_999);
    desk.commit(vec![insert_run(&row)]);
}

#[test]
fn a_stranger_that_locks_the_file_costs_time_and_no_more() {
    let folder = folder();
    let store = open(folder.path());
    let mut desk = Desk::open(&store, 3);
    let stranger = look(folder.path());
    stranger.execute_batch("BEGIN IMMEDIATE").expect("locked");
    let commit = desk.build(vec![]);
    assert_eq!(store.commit(&[commit]), Err(StoreError::Refused(Refusal::Time)));
    // Reading goes on.
    assert_eq!(desk.due_all(), []);
    stranger.execute_batch("ROLLBACK").expect("unlocked");
    desk.commit(vec![]);
}

#[test]
fn a_newer_file_is_refused_in_words() {
    let folder = folder();
    drop(open(folder.path()));
    look(folder.path()).execute_batch("UPDATE meta SET min_reader = 7").expect("changed");
    let error = try_open(folder.path()).err().expect("refused").to_string();
    assert!(error.contains("version 7") && error.contains("newer"), "{error}");
}

#[test]
fn a_file_of_somebody_else_is_left_alone() {
    let folder = folder();
    look(folder.path()).execute_batch("CREATE TABLE theirs (x)").expect("made");
    assert!(matches!(try_open(folder.path()), Err(OpenError::Foreign)));
    assert_eq!(count(&look(folder.path()), "sqlite_schema"), 1);
    let folder = common::folder();
    std::fs::write(folder.path().join("duly.db"), [7; 8_192]).expect("written");
    assert!(matches!(try_open(folder.path()), Err(OpenError::Sql(_))));
}

#[test]
fn a_value_that_is_not_known_is_named() {
    let folder = folder();
    let store = open(folder.path());
    let mut desk = Desk::open(&store, 3);
    let row = ready(&desk, 1);
    desk.commit(vec![insert_run(&row)]);
    look(folder.path()).execute_batch("UPDATE runs SET state = 77").expect("changed");
    let read = model::read::Read::Rows(vec![Key::Run(row.id)]);
    assert_eq!(store.read(&[(desk.shard, read)]), Err(StoreError::Unknown));
    let words = store.store.last_fault().expect("words");
    assert!(words.contains("table runs") && words.contains("state=77"), "{words}");
    assert!(words.contains("shard=3") && words.contains("id=x'"), "{words}");
    assert_eq!(store.store.broken(), None, "other rows are fine");
    desk.commit(vec![]);
}

#[test]
fn a_damaged_file_breaks_the_store_for_good() {
    let folder = folder();
    {
        let store = open(folder.path());
        let mut desk = Desk::open(&store, 3);
        for n in 0..100 {
            let rows = (0..10).map(|m| insert_run(&ready(&desk, n * 10 + m))).collect();
            desk.commit(rows);
        }
    }
    let path = folder.path().join("duly.db");
    let mut bytes = std::fs::read(&path).expect("the file");
    let length = bytes.len();
    // All but the pages that opening needs.
    let schema = 40 * 4_096;
    assert!(length > 2 * schema);
    bytes[schema..].fill(0xa5);
    std::fs::write(&path, bytes).expect("damaged");
    let store = open(folder.path());
    let read = model::read::Read::Leases { after: None, limit: 9 };
    let due = model::read::Read::RunsOf {
        job: one_off(model::ShardId(3), 1).job,
        after: None,
        limit: 999,
    };
    let result = store.read(&[(model::ShardId(3), read), (model::ShardId(3), due)]);
    assert_eq!(result, Err(StoreError::Unknown));
    assert!(store.store.broken().is_some_and(|words| words.contains("malformed")));
    assert_eq!(store.commit(&[]), Err(StoreError::Unknown), "and so it stays");
    assert_eq!(store.rotate(), Err(StoreError::Unknown));
}

#[test]
fn the_file_explains_itself() {
    let folder = folder();
    let _store = open(folder.path());
    let conn = look(folder.path());
    let text = |sql: &str| -> String { conn.query_row(sql, [], |row| row.get(0)).expect("one") };
    let schema = text("SELECT group_concat(sql, ' ') FROM sqlite_schema");
    for words in ["-- 0 scheduled, 1 blocked, 2 ready", "-- 0 fresh, 1 retry", "-- 0 succeeded"] {
        assert!(schema.contains(words), "{words}");
    }
    let bare: i64 = conn
        .query_row(
            "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
             AND sql NOT LIKE '%--%'",
            [],
            |row| row.get(0),
        )
        .expect("a number");
    assert_eq!(bare, 0, "a table without a word");
    assert_eq!(text("PRAGMA journal_mode"), "wal");
    assert_eq!(text("PRAGMA integrity_check"), "ok");
}

#[test]
fn a_checkpoint_empties_the_log_beside_the_writer() {
    let folder = folder();
    let store: Moved = open(folder.path());
    let mut desk = Desk::open(&store, 3);
    let row = ready(&desk, 1);
    desk.commit(vec![insert_run(&row)]);
    assert_eq!(store.store.checkpoint(), Ok(true));
    // What is in the database alone is all there is.
    let copy = common::folder();
    std::fs::copy(folder.path().join("duly.db"), copy.path().join("duly.db")).expect("a copy");
    assert_eq!(count(&look(copy.path()), "runs"), 1);
    desk.commit(vec![]);
}

#[test]
fn a_restored_copy_jumps_over_epochs() {
    let store = make();
    let desk = Desk::open(&store, 3);
    store.store.set_incarnation(3).expect("set");
    assert_eq!(store.store.incarnation(), Ok(3));
    let take = model::cluster::Take {
        shard: desk.shard,
        node: store::conformance::desk::NODE,
        epoch: desk.epoch,
        by: 1,
    };
    let taken = store.take(&[take]).expect("answers")[0].expect("its own");
    assert_eq!(taken.epoch.0, desk.epoch.0 + 2 * model::Epoch::INCARNATION);
    assert_eq!(taken.floor, Time::MIN);
}
