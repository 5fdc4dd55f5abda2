//! Quotas: who asks too much is told so at the door, with when to come again, and nothing of it is done.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::cluster::until;
use crate::support::database::{Database, Node};
use crate::support::{PATIENCE, Reply, Server, ask, new_key};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;

fn data() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A job for a worker that does not exist: it waits.
fn job() -> Value {
    json!({"target": {"worker": {"kind": "nobody"}}})
}

fn submit(server: &Server, headers: &[(&str, &str)]) -> Reply {
    ask(server.address, "POST", "/v1/jobs", &job().to_string(), headers).expect("an answer")
}

fn jobs(server: &Server, headers: &[(&str, &str)]) -> usize {
    let listed = ask(server.address, "GET", "/v1/jobs", "", headers).expect("an answer");
    listed.json()["items"].as_array().map_or(0, Vec::len)
}

/// The parameter of the first item of a RateLimit header.
fn number(reply: &Reply, header: &str, name: &str) -> u64 {
    let value = reply.header(header).unwrap_or_else(|| panic!("no {header} in {}", reply.head));
    let first = value.split(',').next().expect("an item");
    let found = first.split(';').find_map(|part| part.trim().strip_prefix(&format!("{name}=")));
    found.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {name} in {value}"))
}

fn assert_refused(reply: &Reply) {
    assert_eq!(reply.status, 429, "{}", reply.text);
    let problem = reply.json();
    assert_eq!((&problem["code"], &problem["retryable"]), (&json!("over_quota"), &json!(true)));
    let wait: u64 = reply.header("retry-after").and_then(|n| n.parse().ok()).expect("Retry-After");
    assert!((1..=3_600).contains(&wait), "{wait}");
    assert!(problem["detail"].as_str().is_some_and(|why| why.contains(&format!("{wait} s"))));
}

#[test]
fn a_namespace_over_its_quota_is_refused_and_others_are_not() {
    let data = data();
    // So slow that none comes back while the test looks.
    let args = ["--quota", "team-a,submissions=1/h,burst=3", "--quota", "*,submissions=1000/s"];
    let server = Server::start_with(data.path(), &[], &args);
    let (a, b) = ([("X-Namespace", "team-a")], [("X-Namespace", "team-b")]);
    for left in [2, 1, 0] {
        let reply = submit(&server, &a);
        assert_eq!(reply.status, 202, "{}", reply.text);
        assert_eq!(number(&reply, "ratelimit", "r"), left, "{}", reply.head);
        assert_eq!(number(&reply, "ratelimit-policy", "q"), 3);
        assert_eq!(number(&reply, "ratelimit-policy", "w"), 3 * 3_600);
    }
    for _ in 0..5 {
        let reply = submit(&server, &a);
        assert_refused(&reply);
        assert_eq!(number(&reply, "ratelimit", "r"), 0);
    }
    // Every way of submitting.
    let named = ask(server.address, "PUT", "/v1/jobs/nightly", &job().to_string(), &a);
    assert_refused(&named.expect("an answer"));
    let many = json!({"jobs": [job(), job()]}).to_string();
    assert_refused(&ask(server.address, "POST", "/v1/jobs/batch", &many, &a).expect("an answer"));
    assert_eq!(jobs(&server, &a), 3, "nothing of what was refused is there");
    // Reading is no submission, and the others go on.
    for _ in 0..20 {
        assert_eq!(submit(&server, &b).status, 202);
    }
    let shown = ask(server.address, "GET", "/v1/quotas", "", &a).expect("an answer").json();
    assert_eq!((&shown["namespace"], &shown["nodes"]), (&json!("team-a"), &json!(1)), "{shown}");
    assert_eq!(shown["items"][0]["name"], "namespace", "{shown}");
    assert_eq!(shown["items"][0]["remaining"], 0, "{shown}");
    let page = server.ask("GET", "/metrics", "").text;
    assert!(page.contains("duly_submissions_over_quota_total 7\n"), "{page}");
    server.stop();
}

#[test]
fn of_a_batch_what_is_within_the_quota_is_made_and_the_rest_is_refused_one_by_one() {
    let data = data();
    let args = ["--quota", "*,submissions=1/h,burst=5"];
    let server = Server::start_with(data.path(), &[], &args);
    let all: Vec<Value> = (0..8).map(|_| job()).collect();
    let reply = server.post("/v1/jobs/batch", &json!({"jobs": all}));
    assert_eq!(reply.status, 200, "{}", reply.text);
    let results = reply.json()["results"].as_array().expect("results").clone();
    let statuses: Vec<u64> = results.iter().filter_map(|one| one["status"].as_u64()).collect();
    assert_eq!(statuses, [202, 202, 202, 202, 202, 429, 429, 429]);
    assert_eq!(results[7]["error"]["code"], "over_quota", "{}", results[7]);
    assert_eq!(jobs(&server, &[]), 5);
    server.stop();
}

#[test]
fn bytes_are_counted_before_they_are_read() {
    let data = data();
    let server = Server::start_with(data.path(), &[], &["--quota", "*,bytes=100/h"]);
    let small = submit(&server, &[]);
    assert_eq!(small.status, 202, "{}", small.text);
    let policy = small.header("ratelimit-policy").expect("a policy");
    assert!(policy.contains("content-bytes"), "{policy}");
    // A body that is announced and never sent: the answer does not wait for it.
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 1000\r\n\r\n",
        server.address
    );
    stream.write_all(head.as_bytes()).expect("asked");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("an answer");
    assert!(line.contains(" 429 "), "{line}");
    assert_refused(&submit(&server, &[]));
    assert_eq!(jobs(&server, &[]), 1);
    server.stop();
}

#[test]
fn a_key_has_a_rate_of_its_own() {
    let data = data();
    let slow = format!("Bearer {}", new_key(data.path(), &["--scope", "submit", "--rate", "1/s"]));
    let free = format!("Bearer {}", new_key(data.path(), &["--scope", "submit"]));
    let server = Server::start(data.path());
    let (slow, free) = ([("Authorization", slow.as_str())], [("Authorization", free.as_str())]);
    let mut refused = 0;
    for _ in 0..20 {
        let reply = submit(&server, &slow);
        match reply.status {
            202 => assert!(reply.header("ratelimit").is_some_and(|v| v.starts_with("\"key\""))),
            _ => {
                assert_refused(&reply);
                refused += 1;
            }
        }
        let reply = submit(&server, &free);
        assert_eq!(reply.status, 202, "{}", reply.text);
        assert_eq!(reply.header("ratelimit"), None, "nothing is limited");
    }
    assert!(refused > 0, "twenty in far less than twenty seconds");
    server.stop();
}

#[test]
fn nodes_share_a_quota_out() {
    let database = Database::start();
    let args = ["--quota", "*,submissions=1/h,burst=10"];
    let nodes: Vec<Node> =
        (1..=2).map(|number| Node::start_with(&database, number, &args)).collect();
    until("both see both", || nodes.iter().all(|node| node.server.get("/v1/quotas")["nodes"] == 2));
    for node in &nodes {
        let quota = node.server.get("/v1/quotas");
        assert_eq!(quota["items"][0]["burst"], 5, "{quota}");
        let made = (0..20).filter(|_| submit(&node.server, &[]).status == 202).count();
        assert_eq!(made, 5, "half of ten");
    }
    assert_eq!(jobs(&nodes[0].server, &[]), 10);
    for node in nodes {
        node.server.stop();
    }
}

#[test]
fn the_file_has_tables_for_them_and_what_is_wrong_is_told() {
    let data = data();
    let file = data.path().join("duly.toml");
    let path = file.display().to_string();
    std::fs::write(&file, "[quotas.team-a]\nsubmissions = \"1/h\"\nburst = 2\n").expect("written");
    let server = Server::start_with(data.path(), &[], &["--config", &path]);
    let a = [("X-Namespace", "team-a")];
    let statuses: Vec<u16> = (0..3).map(|_| submit(&server, &a).status).collect();
    assert_eq!(statuses, [202, 202, 429]);
    assert_eq!(submit(&server, &[]).status, 202);
    server.stop();
    for (text, words) in [
        ("[quotas.team-a]\nsubmission = \"1/h\"\n", "known are submissions"),
        ("[quotas.Team]\nsubmissions = \"1/h\"\n", "not a namespace"),
        ("[quotas]\nteam-a = \"1/h\"\n", "[quotas.team-a]"),
        ("[quotas.a]\nsubmissions = [1]\n", "a string, a number or a flag"),
    ] {
        std::fs::write(&file, text).expect("written");
        let ran = Command::new(env!("CARGO_BIN_EXE_duly"))
            .args(["serve", "--listen", "127.0.0.1:0", "--config", &path, "--data"])
            .arg(data.path())
            .output()
            .expect("duly runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{text}: {said}");
        assert!(said.contains(words), "{text}: {said}");
    }
}
