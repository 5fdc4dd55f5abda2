//! What a queue allows, through the whole server: set, kept, explained, kept over a crash and in a cluster.
#![allow(clippy::expect_used)]

use crate::support::cluster::Cluster;
use crate::support::{Hooks, Server, ask};
use serde_json::{Value, json};
use std::process::Command;

fn send(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let reply = ask(server.address, method, path, &body.to_string(), &[]).expect("an answer");
    (reply.status, reply.json())
}

fn work(queue: &str, group: Option<&str>) -> Value {
    json!({"target": {"worker": {"kind": "k"}}, "queue": queue, "group": group})
}

/// Claims without waiting.
fn claim(server: &Server, queue: &str, max: usize) -> Vec<Value> {
    let body = json!({"worker": "w", "queues": [queue], "max": max, "wait": "0s"});
    let (status, claimed) = send(server, "POST", "/v1/work/claim", &body);
    assert_eq!(status, 200, "{claimed}");
    claimed["runs"].as_array().expect("runs").clone()
}

fn settle(server: &Server, run: &Value) {
    let item = json!({"run_id": run["run_id"], "token": run["token"], "outcome": "succeeded"});
    let body = json!({"worker": "w", "runs": [item]});
    let (status, settled) = send(server, "POST", "/v1/work/settle", &body);
    assert_eq!((status, &settled["results"][0]["status"]), (200, &json!("ok")), "{settled}");
}

#[test]
fn limits_are_set_shown_kept_and_taken_off() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let limits = json!({
        "max_running": 3, "rate": "5000/s", "burst": 1000,
        "groups": {"max_running": 2, "weights": {"a": 3}},
    });
    // Before its first job.
    let (status, queue) = send(&server, "PUT", "/v1/queues/mail", &limits);
    assert_eq!(status, 200, "{queue}");
    let expected = json!({
        "max_running": 3, "rate": "5000/s", "burst": 1000, "partitions": 1, "start_within": null,
        "groups": {"max_running": 2, "rate": null, "burst": null, "weights": {"a": 3}},
    });
    assert_eq!(queue["limits"], expected);
    assert_eq!(server.get("/v1/queues/mail")["limits"], expected);
    let runs: Vec<Value> = (0..5).map(|_| server.submit(&work("mail", Some("a")))).collect();
    server.submit(&work("mail", None));
    // A bucket is empty when it is made: the first starts wait for it.
    let mut claimed = Vec::new();
    while claimed.len() < 3 {
        claimed.extend(claim(&server, "mail", 9));
    }
    assert_eq!(claimed.len(), 3);
    assert_eq!(claim(&server, "mail", 9), Vec::<Value>::new());
    let waiting = runs.iter().find(|run| claimed.iter().all(|c| c["run_id"] != run["run_id"]));
    let run = waiting.expect("one waits")["run_id"].as_str().expect("an id").to_string();
    let why = server.get(&format!("/v1/runs/{run}/explain"));
    let full: Vec<&Value> = why["reasons"]
        .as_array()
        .expect("reasons")
        .iter()
        .filter(|reason| reason["code"] == "limit_full")
        .collect();
    assert_eq!(full.len(), 2, "of the queue and of the group: {why}");
    assert_eq!((&full[0]["limit"], &full[1]["limit"]), (&json!(3), &json!(2)));
    let ready = why["reasons"]
        .as_array()
        .and_then(|all| all.iter().find(|reason| reason["code"] == "waits_for_worker").cloned());
    let before = ready.expect("it is ready")["before_it"].as_u64().expect("a place");
    assert_eq!(before, 0, "what runs is not before it: {why}");
    let held = full[0]["held_by"].as_array().expect("holders");
    assert!(claimed.iter().all(|run| held.contains(&run["run_id"])), "{why}");
    // A crash forgets nothing.
    server.kill();
    let server = Server::start(data.path());
    assert_eq!(claim(&server, "mail", 9), Vec::<Value>::new());
    settle(&server, &claimed[0]);
    let mut next = Vec::new();
    while next.is_empty() {
        next = claim(&server, "mail", 9);
    }
    assert_eq!(next.len(), 1);
    let (status, queue) = send(&server, "PUT", "/v1/queues/mail", &json!({}));
    assert_eq!((status, &queue["limits"]["max_running"]), (200, &Value::Null));
    assert_eq!(claim(&server, "mail", 9).len(), 2);
    server.stop();
}

#[test]
fn bad_limits_are_refused_and_nothing_changes() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    for (body, pointer) in [
        (json!({"max_running": 0}), "/max_running"),
        (json!({"rate": "fast"}), "/rate"),
        (json!({"groups": {"weights": {"a": 0}}}), "/groups/weights/a"),
        (json!({"partitions": 4}), "/partitions"),
        (json!({"maxrunning": 4}), "/maxrunning"),
    ] {
        let (status, problem) = send(&server, "PUT", "/v1/queues/q", &body);
        assert_eq!((status, &problem["errors"][0]["pointer"]), (422, &json!(pointer)), "{problem}");
    }
    assert_eq!(server.ask("GET", "/v1/queues/q", "").status, 404);
    server.stop();
}

#[test]
fn webhooks_of_a_limited_queue_are_sent_one_at_a_time() {
    let data = tempfile::tempdir().expect("a folder");
    let hooks = Hooks::slow(&[], std::time::Duration::from_millis(50));
    let server = Server::start(data.path());
    send(&server, "PUT", "/v1/queues/one", &json!({"max_running": 1}));
    let job = json!({"target": {"http": {"url": hooks.url()}}, "queue": "one"});
    let runs: Vec<Value> = (0..6).map(|_| server.submit(&job)["run_id"].clone()).collect();
    for run in &runs {
        // In order: the next is not sent before this one was answered.
        assert_eq!(hooks.next().header("x-run-id"), run);
    }
    let attempts: Vec<(String, String)> = runs
        .iter()
        .map(|run| {
            let run = server.run_is(run, "succeeded");
            let text = |name: &str| run["attempts"][0][name].as_str().expect("a time").to_string();
            (text("started_at"), text("finished_at"))
        })
        .collect();
    for two in attempts.windows(2) {
        assert!(two[0].1 <= two[1].0, "{two:?}");
    }
    server.stop();
}

#[test]
fn the_command_line_sets_limits() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let duly = |args: &[&str]| {
        let url = format!("http://{}", server.address);
        let ran = Command::new(env!("CARGO_BIN_EXE_duly"))
            .args(args)
            .env("DULY_URL", url)
            .output()
            .expect("it runs");
        (ran.status.code(), String::from_utf8_lossy(&ran.stdout).to_string())
    };
    let set = [
        "queue",
        "set",
        "mail",
        "--max-running",
        "4",
        "--rate",
        "9/m",
        "--weight",
        "a=3",
        "--json",
    ];
    let (code, text) = duly(&set);
    assert_eq!(code, Some(0), "{text}");
    let queue: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(queue["limits"]["max_running"], 4);
    assert_eq!(queue["limits"]["rate"], "9/m");
    assert_eq!(queue["limits"]["groups"]["weights"]["a"], 3);
    assert_eq!(duly(&["queue", "set", "mail"]).0, Some(2), "nothing to set");
    assert_eq!(duly(&["queue", "set", "mail", "--weight", "a"]).0, Some(2));
    assert_eq!(duly(&["queue", "set", "mail", "--rate", "many"]).0, Some(4));
    assert_eq!(duly(&["queue", "set", "mail", "--clear"]).0, Some(0));
    assert_eq!(server.get("/v1/queues/mail")["limits"]["max_running"], Value::Null);
    server.stop();
}

#[test]
fn any_node_sets_the_limits_of_a_queue_and_its_owner_keeps_them() {
    let cluster = Cluster::start();
    for (n, node) in cluster.each().enumerate() {
        let queue = format!("limited{n}");
        let path = format!("/v1/queues/{queue}");
        let (status, set) = send(&node.server, "PUT", &path, &json!({"max_running": 2}));
        assert_eq!((status, &set["limits"]["max_running"]), (200, &json!(2)), "{set}");
    }
    for n in 0..3 {
        let queue = format!("limited{n}");
        for node in cluster.each() {
            node.server.submit(&work(&queue, None));
        }
        let mut claimed = Vec::new();
        for node in cluster.each() {
            claimed.extend(claim(&node.server, &queue, 9));
        }
        assert_eq!(claimed.len(), 2, "whichever node is asked");
    }
}

#[test]
fn a_run_that_nobody_takes_in_time_expires_and_says_so() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let mut job = work("slow", None);
    job["start_within"] = json!("1s");
    job["finish_within"] = json!("1h");
    let made = server.submit(&job);
    let shown = server.get(&format!("/v1/jobs/{}", made["id"].as_str().expect("an id")));
    // A one-off is its run: what it was asked for is shown as long as it waits.
    assert!(shown["start_within"] == "1s" || shown["status"] == "expired", "{shown}");
    let run = server.run_is(&made["run_id"], "expired");
    assert!(run["error"].as_str().is_some_and(|error| error.contains("expired")), "{run}");
    assert_eq!(claim(&server, "slow", 9), Vec::<Value>::new());
    for (field, value) in [("start_within", "10ms"), ("finish_within", "400d")] {
        let mut bad = work("slow", None);
        bad[field] = json!(value);
        let (status, problem) = send(&server, "POST", "/v1/jobs", &bad);
        let pointer = json!(format!("/{field}"));
        assert_eq!((status, &problem["errors"][0]["pointer"]), (422, &pointer), "{problem}");
    }
    server.stop();
}

#[test]
fn a_run_that_no_worker_takes_says_so() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let made = server.submit(&work("lonely", None));
    let run = made["run_id"].as_str().expect("an id").to_string();
    let codes = || -> Vec<String> {
        let why = server.get(&format!("/v1/runs/{run}/explain"));
        let reasons = why["reasons"].as_array().expect("reasons").clone();
        reasons.iter().filter_map(|one| one["code"].as_str().map(str::to_string)).collect()
    };
    assert_eq!(codes(), ["waits_for_worker", "no_worker_of_queue"]);
    let other = json!({"worker": "v", "queues": ["lonely"], "kinds": ["other"], "wait": "0s"});
    send(&server, "POST", "/v1/work/claim", &other);
    assert_eq!(codes(), ["waits_for_worker", "no_worker_of_kind"]);
    server.stop();
}
