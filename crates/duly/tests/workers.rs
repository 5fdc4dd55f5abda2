//! Workers as the server knows them: registered by what they say, told to go, gone.
#![allow(clippy::expect_used)]

use crate::support::cluster::{Cluster, until};
use crate::support::{Server, ask};
use serde_json::{Value, json};

fn send(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let reply = ask(server.address, method, path, &body.to_string(), &[]).expect("an answer");
    let json = if reply.text.is_empty() { Value::Null } else { reply.json() };
    (reply.status, json)
}

fn get(server: &Server, path: &str) -> (u16, Value) {
    let reply = ask(server.address, "GET", path, "", &[]).expect("an answer");
    (reply.status, reply.json())
}

#[test]
fn a_worker_is_known_by_what_it_says() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let about = json!({"capacity": 8, "running": 2, "version": "1.2", "labels": {"zone": "a"}});
    let claim = json!({
        "worker": "w1", "queues": ["q"], "kinds": ["k"], "wait": "0s", "about": about,
    });
    assert_eq!(send(&server, "POST", "/v1/work/claim", &claim).1["signal"], "none");
    let (status, worker) = get(&server, "/v1/workers/w1");
    assert_eq!(status, 200, "{worker}");
    for (name, value) in [
        ("status", json!("active")),
        ("capacity", json!(8)),
        ("running", json!(2)),
        ("version", json!("1.2")),
        ("labels", json!({"zone": "a"})),
        ("queues", json!(["q"])),
        ("kinds", json!(["k"])),
    ] {
        assert_eq!(worker[name], value, "{name} of {worker}");
    }
    // A heartbeat without runs is heard, and says how much is under way.
    let beat = json!({"worker": "w1", "runs": [], "about": {"capacity": 8, "running": 5}});
    assert_eq!(send(&server, "POST", "/v1/work/heartbeat", &beat).1["signal"], "none");
    assert_eq!(get(&server, "/v1/workers/w1").1["running"], 5);

    send(
        &server,
        "POST",
        "/v1/work/claim",
        &json!({"worker": "w2", "queues": ["q"], "wait": "0s"}),
    );
    let (_, first) = get(&server, "/v1/workers?limit=1");
    assert_eq!((&first["items"][0]["id"], &first["next_cursor"]), (&json!("w1"), &json!("w1")));
    let (_, second) = get(&server, "/v1/workers?limit=2&cursor=w1");
    assert_eq!(second["items"][0]["id"], "w2");
    assert_eq!(
        (second["items"].as_array().map(Vec::len), &second["next_cursor"]),
        (Some(1), &Value::Null)
    );

    let left = send(&server, "POST", "/v1/work/leave", &json!({"worker": "w1"}));
    assert_eq!(left, (200, json!({"left": true})));
    let (status, gone) = get(&server, "/v1/workers/w1");
    assert_eq!((status, &gone["code"]), (404, &json!("not_found")));
}

#[test]
fn a_worker_that_is_drained_hears_it_while_it_waits_and_gets_nothing() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let (status, unknown) = send(&server, "POST", "/v1/workers/nobody/drain", &json!({}));
    assert_eq!(status, 404, "{unknown}");
    let claim = json!({"worker": "w", "queues": ["q"], "wait": "0s", "request_id": "a"});
    send(&server, "POST", "/v1/work/claim", &claim);
    let waiting = std::thread::spawn({
        let address = server.address;
        move || {
            let claim = json!({"worker": "w", "queues": ["q"], "wait": "60s"}).to_string();
            ask(address, "POST", "/v1/work/claim", &claim, &[]).expect("an answer").json()
        }
    });
    // Whether the claim waits already or comes later: it hears of it, long before its wait is over.
    let (_, drained) = send(&server, "POST", "/v1/workers/w/drain", &json!({"signal": "quiet"}));
    assert_eq!(drained["status"], "quiet", "{drained}");
    let told = waiting.join().expect("a claim");
    assert_eq!(told, json!({"runs": [], "signal": "quiet"}));

    let job = json!({"target": {"worker": {"kind": "k"}}, "queue": "q"});
    send(&server, "POST", "/v1/jobs", &job);
    let claim = json!({"worker": "w", "queues": ["q"], "wait": "0s"});
    assert_eq!(send(&server, "POST", "/v1/work/claim", &claim).1["runs"], json!([]));
    send(&server, "POST", "/v1/workers/w/drain", &json!({}));
    let beat = json!({"worker": "w", "runs": []});
    assert_eq!(send(&server, "POST", "/v1/work/heartbeat", &beat).1["signal"], "terminate");
    // A change of mind.
    send(&server, "POST", "/v1/workers/w/drain", &json!({"signal": "none"}));
    let claim = json!({"worker": "w", "queues": ["q"], "wait": "10s"});
    let (_, claimed) = send(&server, "POST", "/v1/work/claim", &claim);
    assert_eq!(claimed["signal"], "none");
    assert_eq!(claimed["runs"].as_array().map(Vec::len), Some(1), "{claimed}");
}

#[test]
fn a_claimed_run_says_its_group() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let job = json!({"target": {"worker": {"kind": "k"}}, "queue": "q", "group": "cust-42"});
    send(&server, "POST", "/v1/jobs", &job);
    let claim = json!({"worker": "w", "queues": ["q"], "wait": "10s"});
    let (_, claimed) = send(&server, "POST", "/v1/work/claim", &claim);
    assert_eq!(claimed["runs"][0]["group"], "cust-42", "{claimed}");
}

#[test]
fn a_worker_is_known_and_drained_at_any_node() {
    let cluster = Cluster::of(2);
    let (a, b) = (cluster.node(0), cluster.node(1));
    let claim = json!({
        "worker": "w", "queues": ["q"], "wait": "0s", "about": {"capacity": 3, "running": 0},
    });
    a.server.post("/v1/work/claim", &claim);
    assert_eq!(b.server.get("/v1/workers/w")["capacity"], 3);
    assert_eq!(b.server.get("/v1/workers")["items"][0]["id"], "w");
    let drained = b.server.post("/v1/workers/w/drain", &json!({}));
    assert_eq!(drained.status, 200, "{}", drained.text);
    assert_eq!(drained.json()["status"], "terminating");
    for node in cluster.each() {
        let beat = node.server.post("/v1/work/heartbeat", &json!({"worker": "w", "runs": []}));
        assert_eq!(beat.json()["signal"], "terminate");
    }
    a.server.post("/v1/work/leave", &json!({"worker": "w"}));
    assert_eq!(b.server.get("/v1/workers")["items"], json!([]));
}

#[test]
fn how_fast_queues_move_and_how_far_runs_are_is_told_by_any_node() {
    const QUEUES: usize = 8;
    let cluster = Cluster::of(2);
    let (a, b) = (cluster.node(0), cluster.node(1));
    let name = |number: usize| format!("q{number}");
    let rates = |number: usize, field: &str| -> Vec<f64> {
        let asked = cluster.each().map(|node| node.server.get(&format!("/v1/queues/q{number}")));
        asked.map(|queue| queue[field].as_f64().unwrap_or(-1.0)).collect()
    };
    let mut held = Vec::new();
    for number in 0..QUEUES {
        let job = json!({"target": {"worker": {"kind": "k"}}, "queue": name(number)});
        let run = a.server.submit(&job)["run_id"].clone();
        let claim = json!({
            "worker": "w", "queues": [name(number)], "wait": "10s", "about": {"capacity": 2},
        });
        let claimed = b.server.post("/v1/work/claim", &claim).json()["runs"][0].clone();
        assert_eq!(claimed["run_id"], run);
        held.push(claimed);
    }
    for number in 0..QUEUES {
        until("what came is counted once, wherever it is asked for", || {
            rates(number, "arrival_per_s").iter().all(|rate| (1.0 / 60.0..=0.2).contains(rate))
        });
        assert_eq!(rates(number, "service_per_s"), [0.0; 2]);
        assert_eq!(rates(number, "suggested_workers"), [1.0; 2]);
    }
    let listed = b.server.get("/v1/queues")["items"].clone();
    let listed: Vec<f64> =
        (0..QUEUES).map(|at| listed[at]["arrival_per_s"].as_f64().unwrap_or_default()).collect();
    assert!(listed.iter().all(|rate| *rate > 0.0), "{listed:?}");

    let path = |run: &Value| format!("/v1/runs/{}", run["run_id"].as_str().expect("an id"));
    for (number, run) in held.iter().enumerate() {
        // A worker may speak to any node.
        let beat = json!({"worker": "w", "runs": [{
            "run_id": run["run_id"], "token": run["token"], "checkpoint": {"page": number},
            "progress": {"fraction": 0.5, "message": format!("half of {number}")},
        }]});
        cluster.node(number).server.post("/v1/work/heartbeat", &beat);
        for node in cluster.each() {
            let shown = node.server.get(&path(run));
            assert_eq!(shown["progress"]["message"], format!("half of {number}"), "{shown}");
            assert_eq!(shown["progress"]["fraction"], 0.5);
            assert_eq!(shown["checkpoint"]["page"], number);
        }
        // A token of another attempt says nothing.
        let stale = json!({"worker": "x", "runs": [{
            "run_id": run["run_id"], "token": 1, "progress": {"message": "wrong"},
        }]});
        let answer = a.server.post("/v1/work/heartbeat", &stale).json();
        assert_eq!(answer["results"][0]["status"], "stale");
        assert_eq!(b.server.get(&path(run))["progress"]["message"], format!("half of {number}"));
        let settle = json!({"worker": "w", "runs": [{
            "run_id": run["run_id"], "token": run["token"], "outcome": "succeeded",
        }]});
        a.server.post("/v1/work/settle", &settle);
        assert_eq!(b.server.get(&path(run))["progress"], Value::Null);
        until("what ended is counted", || {
            rates(number, "service_per_s").iter().all(|rate| *rate > 0.0)
        });
    }
}
