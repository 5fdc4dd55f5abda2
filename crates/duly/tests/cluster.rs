//! Three nodes on one PostgreSQL, real binaries over real sockets: whatever one can be asked, each
//! can be asked.
#![allow(clippy::expect_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use support::database::{Database, Node};
use support::{Hooks, PATIENCE, ask};

struct Cluster {
    nodes: Vec<Node>,
    _database: Database,
}

impl Cluster {
    fn start() -> Cluster {
        let database = Database::start();
        let nodes: Vec<Node> = (1..=3).map(|number| Node::start(&database, number)).collect();
        let cluster = Cluster { nodes, _database: database };
        cluster.settled();
        cluster
    }

    /// Every node has its share and no shard is on its way.
    fn settled(&self) {
        until("all shards are spread", || {
            let counts: Vec<u64> = self.nodes.iter().map(Node::shards).collect();
            counts.iter().sum::<u64>() == 256 && counts.iter().all(|count| *count > 40)
        });
    }

    fn each(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    /// In turn: whatever a job's queue, its requests fall on all nodes.
    fn node(&self, n: usize) -> &Node {
        &self.nodes[n % self.nodes.len()]
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "it did not come to pass: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

/// Any node takes any request, for any shard.
fn any_node_takes_any_request(cluster: &Cluster) {
    for n in 0..9 {
        let (a, b, c) = (cluster.node(n), cluster.node(n + 1), cluster.node(n + 2));
        let queue = format!("queue-{n}");
        let job = json!({"name": format!("job-{n}"), "queue": queue, "schedule": {"every": "1h"},
            "target": {"worker": {"kind": "k"}}});
        let made = a.server.submit(&job);
        let id = text(&made["id"]).to_string();
        // Read, changed and triggered elsewhere.
        assert_eq!(b.server.get(&format!("/v1/jobs/{id}"))["name"], job["name"]);
        assert_eq!(c.server.get(&format!("/v1/jobs/job-{n}"))["id"], id);
        let patched = b.ask_with(
            "PATCH",
            &format!("/v1/jobs/{id}"),
            &json!({"priority": 7}),
            &[("If-Match", "\"1\"")],
        );
        assert_eq!(patched.status, 200, "{}", patched.text);
        assert_eq!(c.server.get(&format!("/v1/jobs/{id}"))["version"], 2);
        let triggered = c.server.post(&format!("/v1/jobs/{id}/trigger"), &json!({}));
        assert_eq!(triggered.status, 202, "{}", triggered.text);
        let run = triggered.json()["run_id"].clone();
        // A worker of one node gets it, another one hears how it ended.
        let claim = json!({"worker": "w", "queues": [queue], "max": 5, "wait": "10s"});
        let claimed = b.server.post("/v1/work/claim", &claim).json();
        assert_eq!(claimed["runs"][0]["run_id"], run, "{claimed}");
        let token = claimed["runs"][0]["token"].clone();
        let beat = json!({"worker": "w", "runs": [{"run_id": run, "token": token}]});
        let beat = c.server.post("/v1/work/heartbeat", &beat).json();
        assert_eq!(beat["results"][0]["status"], "ok", "{beat}");
        let settle = json!({"worker": "w", "runs":
            [{"run_id": run, "token": token, "outcome": "succeeded", "output": {"n": n}}]});
        let settled = a.server.post("/v1/work/settle", &settle).json();
        assert_eq!(settled["results"][0]["status"], "ok", "{settled}");
        b.server.run_is(&run, "succeeded");
        // Cancelled where it was not made, gone everywhere.
        assert_eq!(c.ask("DELETE", &format!("/v1/jobs/{id}"), "").status, 200);
        assert_eq!(a.server.get(&format!("/v1/jobs/{id}"))["status"], "cancelled");
    }
}

/// A claim that waits at one node gets work that is made at another.
fn waiting_claims_get_work_of_other_nodes(cluster: &Cluster) {
    std::thread::scope(|scope| {
        for n in 0..3 {
            let queue = format!("waiting-{n}");
            let claim = json!({"worker": format!("w{n}"), "queues": [queue], "wait": "20s"});
            let to = cluster.node(n + 1).server.address;
            let waits = scope.spawn(move || {
                let claim = claim.to_string();
                ask(to, "POST", "/v1/work/claim", &claim, &[]).expect("an answer").json()
            });
            let job = json!({"queue": queue, "target": {"worker": {"kind": "k"}}});
            let made = cluster.node(n + 2).server.submit(&job);
            let claimed = waits.join().expect("a claim");
            assert_eq!(claimed["runs"][0]["run_id"], made["run_id"], "{claimed}");
        }
    });
}

fn one_key_makes_one_job_wherever_it_is_sent(cluster: &Cluster) {
    for n in 0..4 {
        let job = json!({"queue": format!("keyed-{n}"), "target": {"worker": {"kind": "k"}}});
        let key = format!("key-{n}");
        let made: BTreeSet<String> = cluster
            .each()
            .map(|node| {
                let reply = node.ask_with("POST", "/v1/jobs", &job, &[("Idempotency-Key", &key)]);
                assert_eq!(reply.status, 202, "{}", reply.text);
                text(&reply.json()["id"]).to_string()
            })
            .collect();
        assert_eq!(made.len(), 1, "{made:?}");
    }
}

fn lists_span_all_shards(cluster: &Cluster) {
    let made: BTreeSet<String> = (0..30)
        .map(|n| {
            let job = json!({"queue": format!("listed-{n}"), "tags": {"list": "yes"},
                "schedule": {"delay": "1h"}, "target": {"worker": {"kind": "k"}}});
            text(&cluster.node(n).server.submit(&job)["id"]).to_string()
        })
        .collect();
    for node in cluster.each() {
        let items = node.server.get("/v1/jobs?tag=list:yes&limit=100")["items"].clone();
        let items = items.as_array().expect("a list");
        let found: BTreeSet<String> =
            items.iter().map(|job| text(&job["id"]).to_string()).collect();
        assert_eq!(found, made);
    }
}

/// `?wait` is answered by the end of the run, whichever node decides it.
fn waits_end_with_the_run(cluster: &Cluster) {
    for n in 0..3 {
        let queue = format!("awaited-{n}");
        let job = json!({"queue": queue, "target": {"worker": {"kind": "k"}}});
        let run = cluster.node(n).server.submit(&job)["run_id"].clone();
        std::thread::scope(|scope| {
            let path = format!("/v1/runs/{}?wait=20s", text(&run));
            let waits: Vec<_> = cluster
                .each()
                .map(|node| {
                    let (path, to) = (path.clone(), node.server.address);
                    scope.spawn(move || ask(to, "GET", &path, "", &[]).expect("an answer").json())
                })
                .collect();
            let claim = json!({"worker": "w", "queues": [queue], "wait": "10s"});
            let claimed = cluster.node(n + 1).server.post("/v1/work/claim", &claim).json();
            let token = claimed["runs"][0]["token"].clone();
            let settle = json!({"worker": "w",
                "runs": [{"run_id": run, "token": token, "outcome": "succeeded"}]});
            assert_eq!(cluster.node(n + 2).server.post("/v1/work/settle", &settle).status, 200);
            for wait in waits {
                assert_eq!(wait.join().expect("an answer")["status"], "succeeded");
            }
        });
    }
}

fn webhooks_of_all_shards_are_sent_once(cluster: &Cluster) {
    let hooks = Hooks::start(&[]);
    let made: BTreeSet<String> = (0..30)
        .map(|n| {
            let job =
                json!({"queue": format!("hooks-{n}"), "target": {"http": {"url": hooks.url()}}});
            text(&cluster.node(n).server.submit(&job)["run_id"]).to_string()
        })
        .collect();
    let sent: BTreeSet<String> =
        (0..30).map(|_| hooks.next().header("x-run-id").to_string()).collect();
    assert_eq!(sent, made);
    for (n, run) in made.iter().enumerate() {
        cluster.node(n).server.run_is(&json!(run), "succeeded");
    }
    hooks.assert_quiet();
}

/// A queue that is paused at one node starts nothing, also for workers of others.
fn pauses_and_holds_are_seen_everywhere(cluster: &Cluster) {
    for n in 0..3 {
        let (a, b, c) = (cluster.node(n), cluster.node(n + 1), cluster.node(n + 2));
        let queue = format!("paused-{n}");
        let job = json!({"queue": queue, "target": {"worker": {"kind": "k"}}});
        let run = a.server.submit(&job)["run_id"].clone();
        assert_eq!(b.ask("POST", &format!("/v1/queues/{queue}/pause"), "").status, 200);
        assert!(!c.server.get(&format!("/v1/queues/{queue}"))["paused"].is_null());
        let claim = |wait| json!({"worker": "w", "queues": [queue], "wait": wait});
        let claimed = c.server.post("/v1/work/claim", &claim("100ms")).json();
        assert_eq!(claimed["runs"], json!([]));
        assert_eq!(c.ask("POST", &format!("/v1/queues/{queue}/resume"), "").status, 200);
        let claimed = a.server.post("/v1/work/claim", &claim("10s")).json();
        assert_eq!(claimed["runs"][0]["run_id"], run);
    }
    let hold = json!({"reason": "a test", "scope": "all"});
    assert_eq!(cluster.node(0).server.post("/v1/hold", &hold).status, 200);
    let job = json!({"queue": "held", "target": {"worker": {"kind": "k"}}});
    cluster.node(1).server.submit(&job);
    let claim = json!({"worker": "w", "queues": ["held"], "wait": "100ms"});
    assert_eq!(cluster.node(2).server.post("/v1/work/claim", &claim).json()["runs"], json!([]));
    assert_eq!(cluster.node(1).server.post("/v1/release", &json!({"scope": "all"})).status, 200);
    let claim = json!({"worker": "w", "queues": ["held"], "wait": "10s"});
    let claimed = cluster.node(2).server.post("/v1/work/claim", &claim).json();
    assert_eq!(claimed["runs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn any_node_answers_any_request() {
    let cluster = Cluster::start();
    any_node_takes_any_request(&cluster);
    waiting_claims_get_work_of_other_nodes(&cluster);
    one_key_makes_one_job_wherever_it_is_sent(&cluster);
    lists_span_all_shards(&cluster);
    waits_end_with_the_run(&cluster);
    webhooks_of_all_shards_are_sent_once(&cluster);
    pauses_and_holds_are_seen_everywhere(&cluster);
}
