//! The outbox while processes die, freeze and change, and the database goes away: every committed job is
//! submitted once, in order.
#![allow(clippy::expect_used)]

use crate::support::cluster::until;
use crate::support::database::{Database, Node};
use crate::support::outbox::{Sql, User, claimed, drained, job, payloads, status};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

const WRITERS: u64 = 6;
const JOBS_EACH: u64 = 170;
const GROUPS: u64 = 7;
const KILLS: u64 = 6;

/// A small generator: the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A job as its writer knows it.
#[derive(Clone, Debug)]
struct Written {
    payload: Value,
    group: String,
    ordered: bool,
    id: i64,
    called: Instant,
    committed: Instant,
}

/// Transactions of 1 to 3 jobs, of which one in four is rolled back. Others run at the same time, and who
/// called first need not commit first.
fn write(sql: &Sql, writer: u64, seed: u64) -> Vec<Written> {
    let mut random = Random(seed ^ (writer << 32));
    let mut written = Vec::new();
    let mut n = 0;
    while n < JOBS_EACH {
        // One group a transaction, so that those that wait for each other make no deadlock.
        let group = random.below(GROUPS);
        let ordered = group.is_multiple_of(2);
        let rolled_back = random.below(4) == 0;
        let mut open = Vec::new();
        sql.run("BEGIN");
        for _ in 0..1 + random.below(3) {
            let payload = json!({"writer": writer, "n": n, "rolled_back": rolled_back});
            let mut job = job("q", &payload);
            job["group"] = json!(format!("g{group}"));
            let called = Instant::now();
            let id = if ordered { sql.submit_ordered(&job) } else { sql.submit(&job) };
            open.push((payload, id, called));
            n += 1;
        }
        // Work of the user's, as long as it takes.
        sql.run(&format!("SELECT pg_sleep({})", random.below(8) as f64 / 1_000.0));
        sql.run(if rolled_back { "ROLLBACK" } else { "COMMIT" });
        let committed = Instant::now();
        let group = format!("g{group}");
        if !rolled_back {
            written.extend(open.into_iter().map(|(payload, id, called)| Written {
                payload,
                group: group.clone(),
                ordered,
                id,
                called,
                committed,
            }));
        }
    }
    written
}

#[test]
fn each_job_is_submitted_once_and_in_order_while_duly_is_killed() {
    let seed = Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id());
    println!("seed {seed}");
    let user = User::start();
    let data = tempfile::tempdir().expect("a folder");
    let mut random = Random(seed);
    let written: Vec<Written> = std::thread::scope(|scope| {
        let user = &user;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(&user.sql(), writer, seed)))
            .collect();
        for _ in 0..KILLS {
            let server = user.serve(data.path());
            // In the middle of something: when so many were submitted, or there is nothing left to do.
            let enough = 1 + random.below(120);
            until("some are submitted", || {
                let status = status(server.address).unwrap_or_default();
                status["delivered_total"].as_u64() >= Some(enough)
                    || writers.iter().all(|writer| writer.is_finished())
            });
            server.kill();
        }
        writers.into_iter().flat_map(|writer| writer.join().expect("a writer")).collect()
    });
    assert!(written.len() > 500, "{} were committed", written.len());
    let server = user.serve(data.path());
    drained(&user.sql());
    judge(&written, &claimed(&server, "q"));
    server.stop();
}

fn judge(written: &[Written], runs: &[Value]) {
    let place: BTreeMap<String, usize> =
        runs.iter().enumerate().map(|(at, run)| (run["payload"].to_string(), at)).collect();
    assert_eq!(place.len(), runs.len(), "one was made twice");
    let wanted: BTreeSet<String> = written.iter().map(|one| one.payload.to_string()).collect();
    assert_eq!(place.keys().cloned().collect::<BTreeSet<_>>(), wanted, "lost, or never committed");
    let at = |one: &Written| place[&one.payload.to_string()];
    for one in written {
        for other in written.iter().filter(|other| other.group == one.group) {
            let known = one.committed < other.called;
            let same = one.payload["writer"] == other.payload["writer"] && one.id < other.id;
            let locked = one.ordered && one.id < other.id;
            if known || same || locked {
                assert!(at(one) < at(other), "{one:?} comes before {other:?}");
            }
        }
    }
}

/// While it is closed, what is submitted cannot be deleted.
struct Gate(Sql);

impl Gate {
    fn closed(user: &User) -> Gate {
        let sql = user.sql();
        sql.run(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql
               AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END';
             CREATE TRIGGER wait BEFORE DELETE ON duly_outbox.waiting EXECUTE FUNCTION wait();
             SELECT pg_advisory_lock(42)",
        );
        Gate(sql)
    }

    /// So many want to delete.
    fn waiting(&self) -> i64 {
        self.0.count("pg_stat_activity WHERE wait_event = 'advisory'")
    }

    fn open(&self) {
        self.0.run("SELECT pg_advisory_unlock(42)");
    }

    /// What the dead asked for is not done either.
    fn forget(&self) {
        self.0.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'advisory'",
        );
        until("they are gone", || self.waiting() == 0);
    }
}

#[test]
fn a_death_between_submission_and_deletion_submits_nothing_twice() {
    let user = User::start();
    let data = tempfile::tempdir().expect("a folder");
    let sql = user.sql();
    for n in 0..20 {
        sql.submit(&job("q", &json!(n)));
    }
    let named =
        json!({"target": {"worker": {"kind": "k"}}, "queue": "q", "name": "one", "payload": 20});
    sql.submit(&named);
    let gate = Gate::closed(&user);
    let server = user.serve(data.path());
    until("duly wants to delete", || gate.waiting() == 1);
    server.kill();
    gate.forget();
    gate.open();
    assert_eq!(sql.count("duly_outbox.waiting"), 21);
    let server = user.serve(data.path());
    drained(&sql);
    assert_eq!(sql.count("duly_outbox.refused"), 0, "a name that is its own is not taken");
    assert_eq!(payloads(&claimed(&server, "q")), (0..=20).map(|n| json!(n)).collect::<Vec<_>>());
    server.stop();
}

#[test]
fn a_row_that_outlived_its_key_is_known_by_its_job() {
    let user = User::start();
    let data = tempfile::tempdir().expect("a folder");
    let sql = user.sql();
    for n in 0..3 {
        sql.submit(&job("q", &json!(n)));
    }
    let every = json!({"target": {"worker": {"kind": "k"}}, "schedule": {"every": "1h"}});
    sql.submit(&every);
    sql.run("UPDATE duly_outbox.waiting SET at = at - interval '30 hours'");
    let gate = Gate::closed(&user);
    let server = user.serve(data.path());
    until("duly wants to delete", || gate.waiting() == 1);
    // One of them is over by the time that duly dies.
    let runs = claimed(&server, "q");
    assert_eq!(runs.len(), 3);
    let settle = json!({"worker": "w", "runs": [
        {"run_id": runs[0]["run_id"], "token": runs[0]["token"], "outcome": "succeeded"}
    ]});
    assert_eq!(server.post("/v1/work/settle", &settle).status, 200);
    server.kill();
    gate.forget();
    gate.open();
    assert_eq!(sql.count("duly_outbox.waiting"), 4);
    forget_keys(data.path());
    let server = user.serve(data.path());
    drained(&sql);
    assert_eq!(sql.count("duly_outbox.refused"), 0);
    let jobs = server.get("/v1/jobs?status=pending&limit=100");
    let jobs = jobs["items"].as_array().expect("items").len();
    assert_eq!(jobs, 3, "two runs and the recurring job, none of them twice");
    assert!(claimed(&server, "q").is_empty(), "and none was made anew");
    server.stop();
}

/// As two days do.
fn forget_keys(data: &Path) {
    let base = rusqlite::Connection::open(data.join("duly.db")).expect("it opens");
    let kept: i64 = base
        .query_row(
            "SELECT (SELECT count(*) FROM keys_0) + (SELECT count(*) FROM keys_1)",
            [],
            |row| row.get(0),
        )
        .expect("a count");
    assert_eq!(kept, 4, "each had a key");
    base.execute_batch("DELETE FROM keys_0; DELETE FROM keys_1").expect("emptied");
}

#[test]
fn a_database_that_goes_away_is_waited_for() {
    let user = User::start();
    let data = tempfile::tempdir().expect("a folder");
    let server = user.serve(data.path());
    user.sql().submit(&job("q", &json!(1)));
    drained(&user.sql());
    user.database.run("crash");
    until("the fault is shown", || {
        status(server.address).unwrap_or_default()["last_error"].is_string()
    });
    assert_eq!(server.post("/v1/jobs", &job("q", &json!(2))).status, 202, "duly itself is fine");
    user.database.run("start");
    let sql = user.sql();
    sql.submit(&job("q", &json!(3)));
    drained(&sql);
    assert_eq!(payloads(&claimed(&server, "q")), [json!(1), json!(2), json!(3)]);
    server.stop();
}

#[test]
fn a_transaction_that_stays_open_holds_up_nobody() {
    let user = User::start();
    let data = tempfile::tempdir().expect("a folder");
    let server = user.serve(data.path());
    let old = user.sql();
    old.run("BEGIN");
    let first = old.submit(&job("q", &json!("old")));
    let sql = user.sql();
    // Many pages, so that whatever is remembered of ids has moved far beyond the open one.
    for n in 0..40 {
        assert!(sql.submit(&job("q", &json!(n))) > first);
        drained(&sql);
    }
    old.run("COMMIT");
    drained(&sql);
    let mut wanted: Vec<Value> = (0..40).map(|n| json!(n)).collect();
    wanted.push(json!("old"));
    let runs = claimed(&server, "q");
    assert_eq!(payloads(&runs), wanted, "it comes when it is committed");
    server.stop();
}

/// The node that reads.
fn reader(nodes: &[Node]) -> Option<usize> {
    nodes.iter().position(|node| {
        let page = node.ask("GET", "/metrics", "").text;
        page.lines().any(|line| line == "duly_outbox_reading{source=\"shop\"} 1")
    })
}

fn cluster(user: &User, store: &Database, count: u32) -> Vec<Node> {
    let flag = user.flag();
    let start = |number| Node::start_with(store, number, &["--outbox", &flag]);
    let nodes: Vec<Node> = (1..=count).map(start).collect();
    until("all shards are spread", || {
        let counts: Vec<u64> = nodes.iter().map(Node::shards).collect();
        counts.iter().sum::<u64>() == 256 && counts.iter().all(|shards| *shards > 60)
    });
    nodes
}

#[test]
fn two_nodes_that_read_at_once_submit_nothing_twice() {
    let user = User::start();
    let store = Database::start();
    let mut nodes = cluster(&user, &store, 2);
    let sql = user.sql();
    until("one of them reads", || reader(&nodes).is_some());
    let first = nodes.remove(reader(&nodes).expect("a reader"));
    let second = nodes.remove(0);
    let gate = Gate::closed(&user);
    sql.run("BEGIN");
    for n in 0..30 {
        sql.submit(&job("q", &json!(n)));
    }
    sql.run("COMMIT");
    until("the first wants to delete", || gate.waiting() == 1);
    first.server.signal("-STOP");
    until("the second wants to delete", || gate.waiting() == 2);
    gate.open();
    drained(&sql);
    first.server.signal("-CONT");
    until("the first is back", || first.shards() > 0);
    // Whoever reads by now, the next comes after them.
    sql.submit(&job("q", &json!(30)));
    drained(&sql);
    let runs = claimed(&second.server, "q");
    assert_eq!(payloads(&runs), (0..=30).map(|n| json!(n)).collect::<Vec<_>>());
    let status = status(second.server.address).expect("an answer");
    assert_eq!((&status["name"], status["node"].is_string()), (&json!("shop"), true));
}

#[test]
fn another_node_reads_when_the_reader_dies() {
    let user = User::start();
    let store = Database::start();
    let mut nodes = cluster(&user, &store, 2);
    let sql = user.sql();
    for round in 0..2 {
        for n in 0..10 {
            sql.submit(&job("q", &json!(round * 10 + n)));
        }
        drained(&sql);
        if round == 0 {
            until("one of them reads", || reader(&nodes).is_some());
            let dead = nodes.remove(reader(&nodes).expect("a reader"));
            for n in 20..40 {
                sql.submit(&job("q2", &json!(n)));
            }
            dead.server.kill();
        }
    }
    let server = &nodes[0].server;
    assert_eq!(claimed(server, "q").len(), 20);
    let late: Vec<Value> = payloads(&claimed(server, "q2"));
    assert_eq!(late, (20..40).map(|n| json!(n)).collect::<Vec<_>>());
}
