//! Rows are found by their keys, whatever PostgreSQL believes about its tables. A queue that was cleared
//! while it was empty is believed to be empty when the next thousands come, and then a walk over all of
//! it for every row looks cheap: 10,000 settled jobs took seconds.
#![allow(clippy::expect_used, clippy::panic)] // all of this is tests

mod common;

use common::server;
use model::row::{Change, Expect, Key, Row};
use model::{RunState, ShardId, Time};
use store::conformance::desk::{Desk, insert, remove, update};
use store::conformance::sample::{self, job_id, lease, one_off, run};
use store_postgres::PostgresStore;

/// All in one shard: an index that begins with the shard finds all of them.
const SHARD: ShardId = ShardId(3);
const ROWS: u64 = 300;
const TABLES: [&str; 6] = ["runs", "leases", "jobs", "specs", "backlogs", "checkpoints"];

/// What is in these tables, as PostgreSQL believes: nothing, in many pages.
fn believe_in_nothing(name: &str) {
    let tables = TABLES.map(|table| format!("'duly.{table}'::regclass")).join(", ");
    server().sql(
        name,
        &format!("UPDATE pg_class SET relpages = 100, reltuples = 0 WHERE oid IN ({tables})"),
    );
}

fn rows(n: u64, rev: u32) -> Vec<(Key, Row)> {
    let (id, job) = (one_off(SHARD, n), job_id(SHARD, n));
    let due = Time::from_secs(2_000_000_000);
    let (mut run, mut lease) = (run(id, RunState::Ready, due), lease(id, n as u32, due));
    let (mut planned, mut backlog) = (sample::job(job, Some(due)), sample::backlog(job, 1, due));
    (run.rev, lease.rev, planned.rev, backlog.rev) = (rev, rev, rev, rev);
    vec![
        (Key::Run(id), Row::Run(run)),
        (Key::Lease(id), Row::Lease(lease)),
        (Key::Job(job), Row::Job(planned)),
        (Key::Spec(job, 3), Row::Spec(sample::spec(b"{}"))),
        (Key::Backlog(backlog.id), Row::Backlog(backlog)),
        (Key::Checkpoint(id), Row::Checkpoint(sample::checkpoint(rev, b"here"))),
    ]
}

/// Walks over an index and entries read, of one table.
fn walks(name: &str, table: &str) -> (u64, u64) {
    let sql = format!(
        "SELECT sum(idx_scan) || ' ' || sum(idx_tup_read) FROM pg_stat_user_indexes
         WHERE schemaname = 'duly' AND relname = '{table}'"
    );
    let words = server().ask(name, &sql);
    let (scans, read) = words.split_once(' ').expect("two numbers");
    (scans.parse().expect("a number"), read.parse().expect("a number"))
}

#[test]
fn rows_are_found_by_their_keys_whatever_is_believed_of_their_tables() {
    let name = server().filled();
    believe_in_nothing(&name);
    let store = PostgresStore::open(&server().address(&name)).expect("it opens");
    let mut desk = Desk::open(&store, SHARD.0);
    let each = |rev| (1..=ROWS).flat_map(move |n| rows(n, rev));
    desk.commit(each(1).map(|(key, row)| insert(key, row)).collect());
    let specs_are_never_changed = |(key, _): &(Key, Row)| !matches!(key, Key::Spec(..));
    let updates = each(2).filter(specs_are_never_changed).map(|(key, row)| update(key, 1, row));
    desk.commit(updates.collect());
    let removed = |(key, _): (Key, Row)| {
        let rev = if matches!(key, Key::Spec(..)) { 1 } else { 2 };
        remove(key, rev)
    };
    desk.commit(each(2).map(removed).collect());
    let absent = |(key, _)| Change { key, expect: Expect::Absent, row: None };
    desk.commit(each(2).map(absent).collect());
    // What a connection counted is known when it has ended.
    drop(store);
    for table in TABLES {
        let calls = if table == "specs" { 2 } else { 3 };
        let known =
            (0..10_000).map(|_| walks(&name, table)).find(|(scans, _)| *scans >= calls * ROWS);
        let (_, read) = known.unwrap_or_else(|| panic!("{table}: {:?}", walks(&name, table)));
        // Each time the row itself, and rows before that are not cleared yet.
        assert!(read <= calls * ROWS * 3, "{table}: {read} entries were read");
    }
}
