//! The outbox: a job exists exactly when the user's transaction commits, whatever it looks like, whoever
//! may do what, and whatever is wrong with it. Real PostgreSQL, the real binary.
#![allow(clippy::expect_used)]

use crate::support::Server;
use crate::support::cluster::until;
use crate::support::database::Database;
use crate::support::outbox::{
    Sql, User, claimed, drained, install, installed, job, payloads, status,
};
use serde_json::json;
use std::process::Command;

#[test]
fn committed_is_submitted_and_rolled_back_is_never() {
    let user = User::start();
    let data = tempfile::tempdir().expect("a folder");
    let server = user.serve(data.path());
    let sql = user.sql();
    sql.run("CREATE TABLE orders (id int)");
    sql.run("BEGIN; INSERT INTO orders VALUES (1)");
    sql.submit(&job("q", &json!({"order": 1})));
    sql.run("ROLLBACK");
    sql.run("BEGIN; INSERT INTO orders VALUES (2)");
    sql.submit(&job("q", &json!({"order": 2})));
    // A part that is rolled back alone.
    sql.run("SAVEPOINT s");
    sql.submit(&job("q", &json!({"order": 99})));
    sql.run("ROLLBACK TO s");
    sql.submit(&job("q", &json!({"order": 3})));
    // Seen from elsewhere nothing is there, however long one looks: another is delivered meanwhile.
    let other = user.sql();
    other.submit(&job("other", &json!({})));
    until("the other one is submitted", || other.count("duly_outbox.waiting") == 0);
    assert_eq!(payloads(&claimed(&server, "other")).len(), 1);
    assert!(claimed(&server, "q").is_empty(), "nothing is committed yet");
    sql.run("COMMIT");
    drained(&sql);
    assert_eq!(payloads(&claimed(&server, "q")), [json!({"order": 2}), json!({"order": 3})]);
    server.stop();
}

#[test]
fn a_job_is_text_json_or_jsonb_and_its_payload_arrives_as_it_was_written() {
    let user = User::start();
    let data = tempfile::tempdir().expect("a folder");
    let sql = user.sql();
    let text =
        r#"{"target": {"worker": {"kind": "k"}}, "queue": "q", "payload": {"b" : 1.50, "a":"ä"}}"#;
    sql.run(&format!("SELECT duly_outbox.submit('{text}')"));
    sql.run(&format!("SELECT duly_outbox.submit('{text}'::text)"));
    sql.run(&format!("SELECT duly_outbox.submit('{text}'::json)"));
    sql.run(&format!("SELECT duly_outbox.submit('{text}'::jsonb, ordered => true)"));
    let server = user.serve(data.path());
    drained(&sql);
    let claim = json!({"worker": "w", "queues": ["q"], "max": 10, "wait": "0s"});
    let said = server.post("/v1/work/claim", &claim).text;
    assert_eq!(said.matches(r#""payload":{"b" : 1.50, "a":"ä"}"#).count(), 3, "{said}");
    assert_eq!(said.matches(r#""payload":{"a": "ä", "b": 1.50}"#).count(), 1, "{said}");
    server.stop();

    for (bad, said) in [
        ("'[1]'", "the job is a JSON array"),
        ("'{'", "invalid input syntax for type json"),
        ("NULL::text", "the job is NULL"),
        ("json_build_object('payload', repeat('x', 1048576))", "at most 1048576"),
    ] {
        let words = sql.try_run(&format!("SELECT duly_outbox.submit({bad})"));
        assert!(words.as_ref().is_err_and(|words| words.contains(said)), "{bad}: {words:?}");
    }
}

#[test]
fn a_bad_job_is_moved_aside_and_the_others_go_on() {
    let user = User::start();
    let data = tempfile::tempdir().expect("a folder");
    let sql = user.sql();
    let grouped = |n: u32| {
        let mut job = job("q", &json!(n));
        job["group"] = json!("g");
        job
    };
    let mut poison = grouped(2);
    poison["scedule"] = json!({"delay": "1s"});
    poison["priority"] = json!(17);
    sql.run("BEGIN");
    sql.submit(&grouped(1));
    let bad = sql.submit(&poison);
    sql.submit(&grouped(3));
    let named = json!({"target": {"worker": {"kind": "k"}}, "name": "only-one", "schedule": {"every": "1h"}});
    sql.submit(&named);
    let taken = sql.submit(&named);
    sql.submit(&grouped(4));
    sql.run("COMMIT");
    let server = user.serve(data.path());
    drained(&sql);
    assert_eq!(payloads(&claimed(&server, "q")), [json!(1), json!(3), json!(4)]);
    let row =
        sql.one("SELECT code, problem, job::text FROM duly_outbox.refused WHERE id = $1", &[&bad]);
    assert_eq!(row.get::<_, &str>(0), "invalid");
    let problem: &str = row.get(1);
    assert!(problem.contains("/scedule") && problem.contains("/priority"), "{problem}");
    assert_eq!(row.get::<_, &str>(2), poison.to_string(), "as it was written");
    let row = sql.one("SELECT code FROM duly_outbox.refused WHERE id = $1", &[&taken]);
    assert_eq!(row.get::<_, &str>(0), "name_taken");
    until("it is shown", || {
        status(server.address).is_some_and(|one| {
            assert_eq!((&one["name"], &one["namespace"]), (&json!("shop"), &json!("default")));
            (&one["refused"], &one["refused_total"], &one["delivered_total"], &one["waiting"])
                == (&json!(2), &json!(2), &json!(4), &json!(0))
        })
    });
    let page = server.ask("GET", "/metrics", "").text;
    for line in [
        "duly_outbox_delivered_total{source=\"shop\"} 4",
        "duly_outbox_refused_total{source=\"shop\"} 2",
        "duly_outbox_reading{source=\"shop\"} 1",
        "duly_outbox_delivery_seconds_count{source=\"shop\"} 4",
    ] {
        assert!(page.lines().any(|one| one == line), "{line} is missing in {page}");
    }
    let url = format!("http://{}", server.address);
    let shown = Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(["outbox", "status", "--url", &url])
        .output()
        .expect("duly runs");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("shop") && shown.contains("WAITING"), "{shown}");

    // Repaired it is the newest.
    let again = sql.one("SELECT duly_outbox.again($1, $2)", &[&bad, &grouped(5).to_string()]);
    assert!(again.get::<_, i64>(0) > taken);
    drained(&sql);
    assert_eq!(payloads(&claimed(&server, "q")), [json!(5)]);
    assert_eq!(sql.count("duly_outbox.refused"), 1);
    assert!(sql.try_run("SELECT duly_outbox.again(424242)").is_err(), "there is none");
    server.stop();
}

#[test]
fn a_key_of_its_own_counts() {
    let user = User::start();
    let data = tempfile::tempdir().expect("a folder");
    let sql = user.sql();
    let mut keyed = job("q", &json!(1));
    keyed["idempotency_key"] = json!("order-1");
    sql.submit(&keyed);
    sql.submit(&keyed);
    let server = user.serve(data.path());
    drained(&sql);
    assert_eq!(payloads(&claimed(&server, "q")), [json!(1)], "one key, one job");
    server.stop();
}

#[test]
fn a_quota_that_is_used_up_is_waited_for() {
    let user = User::start();
    let data = tempfile::tempdir().expect("a folder");
    let sql = user.sql();
    sql.run("BEGIN");
    for n in 0..12 {
        sql.submit(&job(if n % 3 == 0 { "q2" } else { "q" }, &json!(n)));
    }
    sql.run("COMMIT");
    let args = ["--outbox", &user.flag(), "--quota", "default,submissions=5/s"];
    let server = Server::start_with(data.path(), &[], &args);
    until("it is said", || {
        let status = status(server.address).unwrap_or_default();
        status["last_error"].as_str().is_some_and(|words| words.contains("may submit"))
    });
    drained(&sql);
    assert_eq!(sql.count("duly_outbox.refused"), 0, "it may pass later");
    assert_eq!(payloads(&claimed(&server, "q2")), [0, 3, 6, 9].map(|n| json!(n)));
    let others = [1, 2, 4, 5, 7, 8, 10, 11].map(|n| json!(n));
    assert_eq!(payloads(&claimed(&server, "q")), others);
    server.stop();
}

#[test]
fn roles_may_do_what_they_need_and_no_more() {
    let user = User::start();
    let owner = user.sql();
    owner.run("CREATE ROLE app LOGIN; CREATE ROLE reads LOGIN; CREATE ROLE nobody LOGIN");
    installed(&user.database.address(), &["--writer", "app", "--reader", "reads"]);
    let of = |role: &str| user.database.address().replace("postgres@", &format!("{role}@"));
    let app = Sql::connect(&of("app"));
    app.submit(&job("q", &json!(1)));
    for bad in [
        "SELECT * FROM duly_outbox.waiting",
        "DELETE FROM duly_outbox.waiting",
        "INSERT INTO duly_outbox.waiting (queue, bytes, job) VALUES ('q', 2, '{}')",
        "SELECT duly_outbox.again(1)",
    ] {
        let said = app.try_run(bad).expect_err("refused");
        assert!(said.contains("permission denied"), "{bad}: {said}");
    }
    let nobody = Sql::connect(&of("nobody")).try_run("SELECT duly_outbox.submit('{}')");
    assert!(nobody.expect_err("refused").contains("permission denied"));

    // A role that may not read says so, and how to allow it.
    let data = tempfile::tempdir().expect("a folder");
    let flag = format!("shop={}", of("nobody"));
    let server = Server::start_with(data.path(), &[], &["--outbox", &flag]);
    until("the fault is shown", || {
        let status = status(server.address).unwrap_or_default();
        let words = status["last_error"].as_str().unwrap_or_default().to_string();
        words.contains("permission denied") && words.contains("--reader")
    });
    server.stop();
    let data = tempfile::tempdir().expect("a folder");
    let flag = format!("shop={}", of("reads"));
    let server = Server::start_with(data.path(), &[], &["--outbox", &flag]);
    app.submit(&json!({"nothing": "good"}));
    drained(&owner);
    assert_eq!(payloads(&claimed(&server, "q")), [json!(1)]);
    assert_eq!(owner.count("duly_outbox.refused"), 1);
    server.stop();
}

#[test]
fn it_is_installed_once_and_only_where_it_may() {
    let database = Database::start();
    let address = database.address();
    let sql = Sql::connect(&address);
    // The outbox is not there yet: said, and found when it is.
    let data = tempfile::tempdir().expect("a folder");
    let flag = format!("shop={address}?outbox_schema=mine&outbox_namespace=eu");
    let server = Server::start_with(data.path(), &[], &["--outbox", &flag]);
    until("the fault is shown", || {
        let status = status(server.address).unwrap_or_default();
        status["last_error"].as_str().is_some_and(|words| words.contains("duly outbox install"))
    });
    for _ in 0..2 {
        installed(&address, &["--schema", "mine"]);
    }
    sql.run(
        "SELECT mine.submit('{\"target\": {\"worker\": {\"kind\": \"k\"}}, \"queue\": \"q\"}')",
    );
    installed(&address, &["--schema", "mine"]);
    until("it is delivered", || sql.count("mine.waiting") == 0);
    let claim = json!({"worker": "w", "queues": ["q"], "wait": "0s"}).to_string();
    let claimed = server.ask("POST", "/v1/work/claim?namespace=eu", &claim).json();
    assert_eq!(claimed["runs"].as_array().map(Vec::len), Some(1), "{claimed}");
    server.stop();

    sql.run("CREATE SCHEMA theirs; CREATE TABLE theirs.waiting (id int)");
    let ran = install(&address, &["--schema", "theirs"]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!ran.status.success() && said.contains("somebody else's"), "{said}");
    sql.run("UPDATE mine.meta SET version = 2");
    let ran = install(&address, &["--schema", "mine"]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!ran.status.success() && said.contains("newer duly"), "{said}");

    let printed = Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(["outbox", "install", "--print", "--schema", "printed", "--writer", "postgres"])
        .output()
        .expect("duly runs");
    sql.run(&String::from_utf8_lossy(&printed.stdout));
    assert_eq!(sql.count("printed.waiting"), 0);
    let ran = install(&address, &["--schema", "No Name"]);
    assert_eq!(ran.status.code(), Some(2));
}
