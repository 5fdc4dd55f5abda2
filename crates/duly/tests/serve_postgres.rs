//! `duly serve` on a PostgreSQL of its own: what was answered is there after kill -9, also through
//! a database that is killed with it.
#![allow(clippy::expect_used)]

use crate::support::cluster::until;
use crate::support::database::Database;
use crate::support::{Hooks, Server};
use serde_json::json;
use std::process::Command;

#[test]
fn what_was_answered_on_postgresql_is_there_after_kill_9() {
    let database = Database::start();
    let data = tempfile::tempdir().expect("a folder");
    let start = || Server::start_with(data.path(), &[], &["--store", &database.address()]);
    let hooks = Hooks::start(&[]);
    let server = start();
    let target = json!({"http": {"url": hooks.url()}});
    let done = server.submit(&json!({"target": target, "queue": "first"}));
    hooks.next();
    server.run_is(&done["run_id"], "succeeded");
    let later = json!({"target": target, "queue": "second", "schedule": {"delay": "1h"}});
    let later: Vec<_> = (0..20).map(|_| server.submit(&later)).collect();
    let cron = json!({"target": target, "queue": "third", "schedule": {"cron": "*/1 * * * * *"}, "paused": true});
    let cron = server.submit(&cron)["id"].as_str().expect("an id").to_string();
    server.kill();
    database.run("crash");
    database.run("start");

    // The former life's lease runs out; then everything is there.
    let server = start();
    server.run_is(&done["run_id"], "succeeded");
    for job in &later {
        server.run_is(&job["run_id"], "scheduled");
    }
    // Who asks before the shard has a new owner hears "come again".
    until("the former life's shards are taken", || {
        let reply = server.ask("POST", &format!("/v1/jobs/{cron}/resume"), "");
        assert!([200, 503].contains(&reply.status), "{}", reply.text);
        reply.status == 200
    });
    assert_eq!(hooks.next().header("x-job-id"), cron);
    server.stop();
}

#[test]
fn a_database_that_is_not_there_is_refused_in_words() {
    let data = tempfile::tempdir().expect("a folder");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    for (store, said) in [
        (format!("postgres://u:hidden@127.0.0.1:{port}/d"), "does not answer"),
        ("mysql://u:hidden@127.0.0.1/d".to_string(), "sqlite, memory or postgres://"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_duly"))
            .args(["serve", "--listen", "127.0.0.1:0", "--store", &store, "--data"])
            .arg(data.path())
            .output()
            .expect("it runs");
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && words.contains(said), "{words}");
    }
}

#[test]
fn the_durability_that_was_found_is_told() {
    let database = Database::start();
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start_with(data.path(), &[], &["--store", &database.address()]);
    let status = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_duly"))
            .args(["status", "--url", &format!("http://{}", server.address)])
            .args(args)
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let words = status(&[]);
    assert!(words.contains("durable on one server before it answers"), "{words}");
    let all: serde_json::Value = serde_json::from_str(&status(&["--json"])).expect("JSON");
    let store = &all["store"];
    assert_eq!((&store["kind"], &store["answers"]), (&json!("postgres"), &json!(true)));
    for (fact, value) in [
        ("synchronous_commit", "on"),
        ("synchronous_standby_names", ""),
        ("replicas", "0"),
        ("in_recovery", "off"),
        ("full_page_writes", "on"),
    ] {
        assert_eq!(store["facts"][fact], json!(value), "{fact}");
    }
    assert!(store["facts"]["server_version"].as_str().is_some_and(|version| version >= "15"));
    server.stop();
}
