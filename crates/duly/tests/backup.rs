//! A copy beside a running server, a life from it, and what `duly doctor` says about files.
#![allow(clippy::expect_used, clippy::panic)]

use crate::common::duly;
use crate::support::{Hooks, Server};
use serde_json::{Value, json};
use std::path::Path;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// What is there, or comes within a while: right after a start a queue may still be being read.
fn claim(server: &Server) -> Value {
    claim_within(server, "5s")
}

fn claim_within(server: &Server, wait: &str) -> Value {
    let claim = json!({"worker": "me", "queues": ["w"], "max": 10, "wait": wait, "lease": "1h"});
    let reply = server.post("/v1/work/claim", &claim);
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["runs"].clone()
}

fn tokens(runs: &Value) -> Vec<u64> {
    runs.as_array().expect("runs").iter().filter_map(|run| run["token"].as_u64()).collect()
}

#[test]
fn a_restored_copy_waits_for_its_takeover_and_gives_no_token_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy.db"));
    let hooks = Hooks::start(&[]);
    let server = Server::start(&data);
    let work = json!({"target": {"worker": {"kind": "k"}}, "queue": "w"});
    for _ in 0..3 {
        server.submit(&work);
    }
    let hook = json!({"target": {"http": {"url": hooks.url()}}, "schedule": {"delay": "2s"}});
    let hook = server.submit(&hook);
    let ran = duly(&["backup", text(&copy), "--data", text(&data)]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(duly(&["doctor", "--url", &format!("http://{}", server.address)]).code, 0);
    // The original goes on: these tokens are in no copy.
    let given = tokens(&claim(&server));
    assert_eq!(given.len(), 3);
    server.kill();

    // The same copy twice, the second over the first.
    let mut seen = given;
    for life in 1..=2 {
        let restored = folder.path().join("restored");
        let mut args = vec!["restore", text(&copy), "--data", text(&restored)];
        if life == 2 {
            assert_eq!(duly(&args).code, 4, "what is there is not overwritten by the way");
            args.push("--replace");
        }
        let ran = duly(&args);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(
            duly(&["doctor", "--data", text(&restored)]).out.lines().last(),
            Some("nothing is wrong")
        );
        let server = Server::start(&restored);
        let nothing = claim_within(&server, "0s");
        assert_eq!(nothing, json!([]), "nothing is handed out before the takeover");
        assert_eq!(server.submit(&work)["status"], "ready", "what is sent is kept");
        server.stop();
        hooks.assert_quiet();
        let server = Server::start_with(&restored, &[], &["--takeover"]);
        let mine = tokens(&claim(&server));
        assert_eq!(mine.len(), 4, "three of the copy and the new one");
        for token in &mine {
            assert!(!seen.contains(token), "token {token} was given before");
            assert!(seen.iter().all(|old| old < token), "a later life has the larger token");
        }
        seen.extend(mine);
        // The webhook of the copy comes from each life, under the same run id.
        assert_eq!(hooks.next().header("x-run-id"), hook["run_id"]);
        server.run_is(&hook["run_id"], "succeeded");
        server.stop();
        // A takeover is for good.
        let server = Server::start(&restored);
        server.submit(&work);
        assert_eq!(claim(&server).as_array().map(Vec::len), Some(1));
        seen.extend(tokens(&json!([])));
        server.kill();
    }
}

#[test]
fn the_doctor_finds_what_does_not_belong_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = Server::start(&data);
    server.submit(&json!({"target": {"worker": {"kind": "k"}}, "queue": "w",
                          "schedule": {"every": "1h"}}));
    server.stop();
    let look = || duly(&["doctor", "--data", text(&data)]);
    assert_eq!(look().code, 0);
    let conn = rusqlite::Connection::open(data.join("duly.db")).expect("the database");
    conn.execute("DELETE FROM specs", []).expect("deleted");
    drop(conn);
    let ran = look();
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("1 jobs without a definition"), "{}", ran.out);
    assert!(ran.out.contains("duly restore"), "it says what to do: {}", ran.out);

    // A page in the middle is overwritten.
    let file = data.join("duly.db");
    let mut bytes = std::fs::read(&file).expect("the database");
    bytes[3 * 4096..4 * 4096].fill(0xee);
    std::fs::write(&file, bytes).expect("written");
    let ran = look();
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(
        ran.out.contains("damaged") || ran.err.contains("malformed"),
        "{} {}",
        ran.out,
        ran.err
    );
}

#[test]
fn a_backup_overwrites_nothing_and_needs_a_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy.db"));
    std::fs::create_dir(&data).expect("a folder");
    assert_eq!(duly(&["backup", text(&copy), "--data", text(&data)]).code, 4);
    let server = Server::start(&data);
    std::fs::write(&copy, "mine").expect("written");
    assert_eq!(duly(&["backup", text(&copy), "--data", text(&data)]).code, 4);
    assert_eq!(std::fs::read_to_string(&copy).expect("read"), "mine");
    // Into a folder it gets a name with the time.
    let ran = duly(&["backup", text(folder.path()), "--data", text(&data)]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let made = ran.out.split(" (").next().expect("a name").to_string();
    assert!(Path::new(&made).is_file(), "{made}");
    server.stop();
    assert_eq!(duly(&["restore", text(&data), "--data", text(&copy)]).code, 1, "not a copy");
}
