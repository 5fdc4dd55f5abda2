//! Where ready runs and leases begin: what lies before the mark is passed over, also while an old
//! transaction keeps removed rows from being cleared; and nodes of version 4, who know nothing of it,
//! go on beside those of this version.
#![allow(clippy::expect_used, clippy::panic)] // all of this is tests

mod common;

use common::{Held, server};
use model::cluster::Renew;
use model::row::{Change, Commit, Expect, Key, Starts};
use model::{Epoch, RunId, RunState, ShardId, Span, Time, Token};
use std::collections::BTreeSet;
use store::conformance::desk::{Desk, NODE, insert_lease, insert_run, take};
use store::conformance::sample::{lease, one_off, run};
use store::{Outcome, Store};
use store_postgres::PostgresStore;

fn open(name: &str) -> PostgresStore {
    PostgresStore::open(&server().address(name)).expect("it opens")
}

fn send(desk: &mut Desk<'_>, changes: Vec<Change>, starts: Starts) {
    let commit = Commit { starts, ..desk.build(changes) };
    assert_eq!(desk.send(commit), Outcome::Durable);
}

/// A claimed run: its row says ready, and a lease stands beside it.
fn claimed(desk: &Desk<'_>, n: u64, due: i64, counter: u32) -> (RunId, Vec<Change>) {
    let id = one_off(desk.shard, n);
    let mut held = lease(id, counter, Time::from_secs(due));
    held.token = Token::new(desk.epoch, counter);
    (id, vec![insert_run(&run(id, RunState::Ready, Time::from_secs(due))), insert_lease(&held)])
}

fn leased(desk: &Desk<'_>) -> Vec<RunId> {
    desk.leases(None, 10).into_iter().map(|(lease, _)| lease.run).collect()
}

fn ready(desk: &Desk<'_>) -> Vec<RunId> {
    let flows = desk.flows(None, 10);
    flows.iter().flat_map(|flow| desk.flow(flow, None, 10)).map(|run| run.id).collect()
}

#[test]
fn what_lies_before_the_mark_is_passed_over() {
    let name = server().filled();
    let store = open(&name);
    let mut desk = Desk::open(&store, 3);
    let (old, changes) = claimed(&desk, 1, 100, 1);
    desk.commit(changes);
    let (new, changes) = claimed(&desk, 2, 200, 2);
    desk.commit(changes);
    assert_eq!((ready(&desk), leased(&desk)), (vec![old, new], vec![old, new]));
    // A mark that is wrong shows that it is used; an owner gives none that is.
    let starts =
        Starts { ready: Some(Time::from_secs(200)), leases: Some(Token::new(desk.epoch, 2)) };
    send(&mut desk, vec![], starts);
    assert_eq!((ready(&desk), leased(&desk)), (vec![new], vec![new]));
    // Of ready runs only the last commit knows; tokens never go back.
    desk.commit(vec![]);
    assert_eq!((ready(&desk), leased(&desk)), (vec![old, new], vec![new]));
}

#[test]
fn rows_that_an_old_transaction_keeps_are_not_looked_at() {
    const ROWS: u64 = 400;
    let name = server().filled();
    let store = open(&name);
    let mut desk = Desk::open(&store, 3);
    let held = Held::begin(
        &server().address(&name),
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM duly.runs",
    );
    let mut ids = Vec::new();
    for n in 1..=ROWS {
        let (id, changes) = claimed(&desk, n, n as i64, n as u32);
        desk.commit(changes);
        ids.push(id);
    }
    let gone = |key| Change { key, expect: Expect::Rev(1), row: None };
    let ends = ids.iter().flat_map(|id| [gone(Key::Lease(*id)), gone(Key::Run(*id))]);
    let starts = Starts {
        ready: Some(Time::from_secs(ROWS as i64 + 1)),
        leases: Some(Token::new(desk.epoch, ROWS as u32 + 1)),
    };
    send(&mut desk, ends.collect(), starts);
    // What the store asks when a shard is taken, by the server's own count.
    let visited = |sql: &str| {
        let plan = server().plan(&name, sql);
        let line = plan.lines().find(|line| line.contains("Heap Fetches"));
        let count = line.and_then(|line| line.split(':').nth(1)).expect("by index only");
        count.trim().parse::<u64>().expect("a number")
    };
    let all = "SELECT 1 FROM duly.leases AS l WHERE l.shard = 3 ORDER BY l.shard, l.run LIMIT 1";
    assert!(visited(all) >= ROWS, "they are all still there");
    let marked = "SELECT 1 FROM duly.leases AS l WHERE l.shard = 3 AND l.token >= (SELECT c.leases_from \
        FROM duly.commits AS c WHERE c.shard = 3 ORDER BY c.seq DESC LIMIT 1) ORDER BY l.shard, l.token LIMIT 1";
    assert_eq!(visited(marked), 0);
    let runs = "SELECT 1 FROM duly.runs AS r WHERE r.state = 2 AND r.shard = 3 AND r.due >= (SELECT c.ready_from \
        FROM duly.commits AS c WHERE c.shard = 3 ORDER BY c.seq DESC LIMIT 1) \
        ORDER BY r.shard, r.namespace, r.queue, r.kind, r.priority, r.lane, r.grp LIMIT 1";
    assert_eq!(visited(runs), 0);
    assert_eq!((ready(&desk), leased(&desk)), (vec![], vec![]));
    held.end();
}

/// A commit of shard 3 as nodes of version 4 send it.
fn commit_as_version_4(name: &str, epoch: u32, seq: u64) -> Result<(), tokio_postgres::Error> {
    let sql = format!(
        "SELECT duly.fence('{{3}}', '{{{epoch}}}', '{{{seq}}}', '{{0}}', '{{NULL}}', '{{0}}')"
    );
    server().try_sql(name, &sql)
}

/// Every function with its parameters, and every column: what nodes may name in their statements.
fn names(name: &str) -> BTreeSet<String> {
    let sql = "SELECT string_agg(what, ' ') FROM (
        SELECT p.oid::regprocedure::text FROM pg_proc AS p
          JOIN pg_namespace AS n ON n.oid = p.pronamespace WHERE n.nspname = 'duly'
        UNION ALL SELECT table_name || '.' || column_name FROM information_schema.columns
          WHERE table_schema = 'duly') AS all_of_them(what)";
    server().ask(name, sql).split(' ').map(str::to_owned).collect()
}

/// Whoever begins with this version can still go back.
#[test]
fn tables_made_now_have_all_that_version_4_names() {
    let old = server().database();
    server().sql(&old, include_str!("fixtures/schema_4.sql"));
    let new = server().filled();
    open(&new);
    // Tables of single days are made as those days come.
    let is_of_a_day = |name: &String| name.contains("history_2");
    let gone: Vec<_> =
        names(&old).difference(&names(&new)).filter(|n| !is_of_a_day(n)).cloned().collect();
    assert!(gone.is_empty(), "version 4 needs {gone:?}");
}

#[test]
fn version_4_runs_beside_this_one() {
    let name = server().database();
    server().sql(&name, include_str!("fixtures/schema_4.sql"));
    let of_version_4 = names(&name);
    // A node of version 4 lives, owns a shard and has written.
    let renew = "SELECT duly.renew(1, 10, 60000000, 4)";
    server().sql(&name, renew);
    let own = |epoch: u32| {
        format!(
            "UPDATE duly.shards SET owner_node = 1, owner_boot = 10, epoch = {epoch} WHERE shard = 3"
        )
    };
    server().sql(&name, &own(1));
    commit_as_version_4(&name, 1, 1).expect("version 4 writes");
    let store = open(&name);
    let gone: Vec<_> = of_version_4.difference(&names(&name)).cloned().collect();
    assert!(gone.is_empty() && of_version_4.len() > 200, "version 4 needs {gone:?}");
    let versions = "SELECT version || ' ' || min_reader || min_writer FROM duly.meta";
    assert_eq!(server().ask(&name, versions), "7 22", "version 4 may read and write");
    // It goes on: its lease, its commits, and the fence that keeps strangers out.
    server().sql(&name, renew);
    commit_as_version_4(&name, 1, 2).expect("version 4 still writes");
    commit_as_version_4(&name, 2, 3).expect_err("another epoch");
    assert_eq!(take(&store, ShardId(3), OTHER, Epoch(1), 1), None, "its lease holds");
    // This version takes over, and says where what is left begins.
    store.move_clock(Span::from_secs(61)).expect("moved");
    store.renew(Renew { node: NODE, ttl: Span::from_secs(60) }).expect("it answers");
    let taken = take(&store, ShardId(3), NODE, Epoch(1), 1).expect("its lease is over");
    assert_eq!((taken.seq, taken.starts), (2, Starts::default()));
    let mut desk = Desk { store: &store, shard: taken.shard, epoch: taken.epoch, seq: taken.seq };
    let (id, changes) = claimed(&desk, 1, 300, 1);
    let starts =
        Starts { ready: Some(Time::from_secs(300)), leases: Some(Token::new(desk.epoch, 1)) };
    send(&mut desk, changes, starts);
    assert_eq!((ready(&desk), leased(&desk)), (vec![id], vec![id]));
    // Version 4 has it again (a rollback) and may add what is due earlier: the mark of ready runs is
    // forgotten, nothing is hidden; its tokens are of a later epoch than those of the mark.
    server().sql(&name, &own(9));
    server().sql(&name, "UPDATE duly.runs SET due = 100000000");
    commit_as_version_4(&name, 9, desk.seq + 1).expect("version 4 writes again");
    assert_eq!((ready(&desk), leased(&desk)), (vec![id], vec![id]));
    server().sql(&name, "UPDATE duly.nodes SET expires = 0");
    let taken = take(&store, ShardId(3), NODE, Epoch(9), 1).expect("nobody lives");
    assert_eq!(taken.starts, Starts { ready: None, leases: starts.leases });
}

const OTHER: model::NodeId = model::NodeId { node: 2, boot: 20 };
