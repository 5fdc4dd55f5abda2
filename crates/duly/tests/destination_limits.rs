//! Limits of a destination, what is under way at once and how many in a time, and of a namespace.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::cluster::until;
use crate::support::database::{Database, Node};
use crate::support::{Hooks, Server, ask};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A receiver that takes its time and counts how many it has at once.
struct Slow {
    address: SocketAddr,
    most: Arc<AtomicUsize>,
}

impl Slow {
    fn start() -> Slow {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let highest = most.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (now, highest) = (now.clone(), highest.clone());
                std::thread::spawn(move || answer(stream, &now, &highest));
            }
        });
        Slow { address, most }
    }
}

fn answer(stream: TcpStream, now: &AtomicUsize, highest: &AtomicUsize) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    highest.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(20));
    now.fetch_sub(1, Ordering::SeqCst);
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let _ = reader.get_mut().write_all(answer.as_bytes());
}

fn data() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn submit_many(server: &Server, to: SocketAddr, count: usize) -> Vec<Value> {
    let job = json!({"target": {"http": {"url": format!("http://{to}/hook")}},
                     "retry": {"max_retries": 0}});
    let jobs: Vec<Value> = (0..count).map(|_| job.clone()).collect();
    let made = server.post("/v1/jobs/batch", &json!({"jobs": jobs})).json();
    let results = made["results"].as_array().expect("results");
    let run = |one: &Value| json!(one["id"].as_str().expect("an id").replace("job_", "run_"));
    results.iter().map(run).collect()
}

#[test]
fn no_more_are_under_way_to_a_host_than_its_limit_says() {
    let data = data();
    let (limited, free) = (Slow::start(), Slow::start());
    let file = data.path().join("duly.toml");
    let text = format!("[destinations.\"{}\"]\nin_flight = 2\n", limited.address);
    std::fs::write(&file, text).expect("written");
    let path = file.display().to_string();
    let server = Server::start_with(data.path(), &[], &["--config", &path]);
    let runs = submit_many(&server, limited.address, 30);
    let others = submit_many(&server, free.address, 30);
    for run in runs.iter().chain(&others) {
        // Without a retry: whatever found no room has spent nothing.
        server.run_is(run, "succeeded");
    }
    assert_eq!(limited.most.load(Ordering::SeqCst), 2);
    assert!(free.most.load(Ordering::SeqCst) > 2, "the limit is one host's");
    server.stop();
}

#[test]
fn no_more_of_a_namespace_are_under_way_than_its_quota_says() {
    let data = data();
    let (limited, free) = (Slow::start(), Slow::start());
    let server = Server::start_with(data.path(), &[], &["--quota", "team-a,in_flight=2"]);
    let submit = |to: SocketAddr, namespace: &str| -> Vec<Value> {
        let job = json!({"target": {"http": {"url": format!("http://{to}/hook")}},
                         "retry": {"max_retries": 0}});
        let headers = [("X-Namespace", namespace)];
        let made = (0..30).map(|_| {
            ask(server.address, "POST", "/v1/jobs", &job.to_string(), &headers).expect("an answer")
        });
        made.map(|reply| reply.json()["run_id"].clone()).collect()
    };
    let (runs, others) = (submit(limited.address, "team-a"), submit(free.address, "team-b"));
    for (runs, namespace) in [(&runs, "team-a"), (&others, "team-b")] {
        until("all of them succeed", || {
            runs.iter().all(|run| {
                let path = format!("/v1/runs/{}", run.as_str().expect("an id"));
                let headers = [("X-Namespace", namespace)];
                let shown = ask(server.address, "GET", &path, "", &headers).expect("an answer");
                shown.json()["status"] == "succeeded"
            })
        });
    }
    assert_eq!(limited.most.load(Ordering::SeqCst), 2);
    assert!(free.most.load(Ordering::SeqCst) > 2, "the quota is one namespace's");
    server.stop();
}

/// Takes as long as nodes wait until all of them must know of each other.
#[test]
fn nodes_share_a_limit_out() {
    let database = Database::start();
    let limited = Slow::start();
    let limit = format!("{},in_flight=2", limited.address);
    let nodes: Vec<Node> = (1..=2)
        .map(|number| Node::start_with(&database, number, &["--destination", &limit]))
        .collect();
    until("both have shards", || nodes.iter().all(|node| node.shards() > 64));
    let mut runs = Vec::new();
    // Queues of both nodes.
    for n in 0..10 {
        let job = json!({"target": {"http": {"url": format!("http://{}/hook", limited.address)}},
                         "queue": format!("q{n}"), "retry": {"max_retries": 0}});
        runs.extend((0..4).map(|_| nodes[0].server.submit(&job)["run_id"].clone()));
    }
    let sent = |node: &Node| node.metric("duly_attempts_total{outcome=\"succeeded\"}");
    until("both send", || nodes.iter().all(|node| sent(node) > 0));
    for run in &runs {
        nodes[1].server.run_is(run, "succeeded");
    }
    assert!(limited.most.load(Ordering::SeqCst) <= 2, "never more than the limit");
    for node in nodes {
        node.server.stop();
    }
}

#[test]
fn no_more_are_sent_to_a_host_than_its_rate_allows() {
    let data = data();
    let hooks = Hooks::start(&[]);
    // So slow that no further one is allowed while the test looks.
    let limit = format!("{},rate=1/h,burst=3", hooks.address);
    let server = Server::start_with(data.path(), &[], &["--destination", &limit]);
    let runs = submit_many(&server, hooks.address, 8);
    let state = |run: &Value| {
        let path = format!("/v1/runs/{}", run.as_str().expect("an id"));
        server.get(&path)["status"].as_str().expect("a status").to_string()
    };
    until("three are sent and the others wait", || {
        let states: Vec<String> = runs.iter().map(state).collect();
        let count = |wanted: &str| states.iter().filter(|one| *one == wanted).count();
        count("succeeded") == 3 && count("retrying") == 5
    });
    for _ in 0..3 {
        hooks.next();
    }
    hooks.assert_quiet();
    server.stop();
}

#[test]
fn what_is_wrong_with_a_limit_is_told_at_once() {
    let data = data();
    for (limit, words) in [
        ("api.example", "nothing is said"),
        ("api.example,inflight=3", "known are in_flight"),
        ("api.example,in_flight=0", "from 1 to 512"),
        ("api.example,in_flight=513", "from 1 to 512"),
        ("api.example,rate=many", "50/s"),
        ("api.example,burst=3", "burst belongs to rate"),
        ("http://api.example,in_flight=3", "host"),
        ("api.example:0,in_flight=3", "port"),
    ] {
        let ran = Command::new(env!("CARGO_BIN_EXE_duly"))
            .args(["serve", "--listen", "127.0.0.1:0", "--destination", limit, "--data"])
            .arg(data.path())
            .output()
            .expect("duly runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{limit}: {said}");
        assert!(said.contains("--destination") && said.contains(words), "{limit}: {said}");
    }
}
