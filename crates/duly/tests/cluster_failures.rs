//! Nodes that die, leave and come, and a database that goes away, under three real nodes.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::cluster::{Cluster, until};
use crate::support::database::Node;
use crate::support::{Hooks, ask};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}")).to_string()
}

/// Webhooks under way on every node: run → the number of the node that sends it.
fn under_way(cluster: &Cluster, hooks: &Hooks, count: usize) -> BTreeMap<String, u64> {
    let runs: Vec<Value> = (0..count)
        .map(|n| {
            let job =
                json!({"queue": format!("slow-{n}"), "target": {"http": {"url": hooks.url()}}});
            cluster.node(n).server.submit(&job)["run_id"].clone()
        })
        .collect();
    (0..count).for_each(|_| drop(hooks.next()));
    let held = runs.iter().map(|run| {
        let shown = cluster.node(0).server.run_is(run, "running");
        let holder = text(&shown["worker"]);
        let number = holder.strip_prefix("node ").and_then(|number| number.parse().ok());
        (text(run), number.unwrap_or_else(|| panic!("{shown}")))
    });
    held.collect()
}

#[test]
fn what_a_killed_node_ran_comes_again_under_the_same_id_with_a_higher_token() {
    let mut cluster = Cluster::start();
    let hooks = Hooks::slow(&[], Duration::from_secs(8));
    let held = under_way(&cluster, &hooks, 24);
    assert!((1..=3).all(|node| held.values().any(|holder| *holder == node)), "{held:?}");
    // A worker's attempt in each of many shards: it does not end with the node that owned them.
    let queues: Vec<String> = (0..16).map(|n| format!("worker-{n}")).collect();
    let mut claimed = Vec::new();
    for queue in &queues {
        cluster
            .node(0)
            .server
            .submit(&json!({"queue": queue, "target": {"worker": {"kind": "k"}}}));
        let claim = json!({"worker": "w", "queues": [queue], "wait": "10s", "lease": "1m"});
        let answer = cluster.node(1).server.post("/v1/work/claim", &claim).json();
        claimed.push(answer["runs"][0].clone());
    }
    // Due while nobody owns their shards.
    let due: Vec<Value> = (0..16)
        .map(|n| {
            let job = json!({"queue": format!("due-{n}"), "schedule": {"delay": "1s"},
                "target": {"worker": {"kind": "k"}}});
            cluster.node(n).server.submit(&job)["run_id"].clone()
        })
        .collect();
    cluster.nodes.remove(0).server.kill();

    let lost: Vec<&String> =
        held.iter().filter(|(_, node)| **node == 1).map(|(run, _)| run).collect();
    let mut again: Vec<String> =
        lost.iter().map(|_| hooks.next().header("x-run-id").to_string()).collect();
    again.sort();
    assert!(again.iter().eq(lost), "{again:?}");
    for (run, node) in &held {
        let shown = cluster.node(0).server.run_is(&json!(run), "succeeded");
        let attempts = shown["attempts"].as_array().expect("attempts").clone();
        assert_eq!(attempts.len(), if *node == 1 { 2 } else { 1 }, "{shown}");
        if let [first, second] = &attempts[..] {
            assert_eq!(first["status"], "lost", "{shown}");
            assert!(first["token"].as_u64() < second["token"].as_u64(), "{shown}");
        }
    }
    hooks.assert_quiet();
    for run in &claimed {
        let settle = json!({"worker": "w", "runs":
            [{"run_id": run["run_id"], "token": run["token"], "outcome": "succeeded"}]});
        let settled = cluster.node(1).server.post("/v1/work/settle", &settle).json();
        assert_eq!(settled["results"][0]["status"], "ok", "{settled}");
    }
    for run in &due {
        cluster.node(1).server.run_is(run, "ready");
    }
    cluster.settled();
}

/// Submits without a pause to the nodes that are ready, as behind a load balancer.
struct Load {
    to: Mutex<Vec<SocketAddr>>,
    over: AtomicBool,
    made: Mutex<Vec<Value>>,
    refused: AtomicUsize,
}

impl Load {
    fn run(&self, url: &str) {
        for n in 0.. {
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            let to = {
                let all = self.to.lock().expect("a lock");
                all[n % all.len()]
            };
            let job =
                json!({"queue": format!("load-{}", n % 40), "target": {"http": {"url": url}}});
            let reply = ask(to, "POST", "/v1/jobs", &job.to_string(), &[]);
            let reply = reply.unwrap_or_else(|error| panic!("{to}: {error}"));
            // "Nothing was done, come again": a machine that is too busy to move a shard within the
            // two seconds that a request waits. Whoever hears it knows.
            if reply.status == 503 && reply.json()["code"] == "store_unavailable" {
                self.refused.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            assert_eq!(reply.status, 202, "{}", reply.text);
            self.made.lock().expect("a lock").push(reply.json()["run_id"].clone());
        }
    }
}

/// Shards that a node gives away in one write.
const MOVES_AT_ONCE: u64 = 32;

/// Shards that nodes took because their former owners said so.
fn received(cluster: &Cluster) -> u64 {
    cluster.each().map(|node| node.metric("duly_shards_received_total")).sum()
}

/// No caller is left without an answer it can act on, and every run is delivered once, while nodes come
/// and go one after the other.
#[test]
fn a_rolling_restart_repeats_nothing_and_leaves_no_call_unknown() {
    let mut cluster = Cluster::of(2);
    let hooks = Hooks::slow(&[], Duration::from_millis(300));
    let addresses = |cluster: &Cluster| cluster.each().map(|node| node.server.address).collect();
    let load = Load {
        to: Mutex::new(addresses(&cluster)),
        over: AtomicBool::new(false),
        made: Mutex::default(),
        refused: AtomicUsize::new(0),
    };
    let url = hooks.url();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| load.run(&url));
        // One comes, then two leave; each leaves the balancer first, as readyz would tell it.
        cluster.nodes.push(Node::start(&cluster.database, 3));
        cluster.settled();
        for _ in 0..2 {
            let leaving = cluster.nodes.remove(0);
            *load.to.lock().expect("a lock") = addresses(&cluster);
            let (moving, before) = (leaving.shards(), received(&cluster));
            leaving.server.stop();
            // They took its shards because it told them; a renewal that comes just between the gift
            // and the letter finds a few by itself.
            let told = received(&cluster) - before;
            assert!(told + MOVES_AT_ONCE >= moving, "{told} of {moving} were told of");
            let number = leaving.number + 3;
            cluster.nodes.push(Node::start(&cluster.database, number));
            *load.to.lock().expect("a lock") = addresses(&cluster);
            cluster.settled();
        }
        load.over.store(true, Ordering::SeqCst);
        running.join().expect("every call succeeded");
    });
    let refused = load.refused.load(Ordering::SeqCst);
    println!("{refused} calls were told to come again");
    let made = load.made.into_inner().expect("a lock");
    assert!(made.len() > 100, "{}", made.len());
    let mut sent: BTreeMap<String, u32> = BTreeMap::new();
    for _ in &made {
        *sent.entry(hooks.next().header("x-run-id").to_string()).or_default() += 1;
    }
    for (n, run) in made.iter().enumerate() {
        let shown = cluster.node(n).server.run_is(run, "succeeded");
        // Never sent: a claim that was answered while its executor hung up is handed back, and one
        // for which the receiver's host has no room left waits a little.
        let mut attempts = shown["attempts"].as_array().expect("attempts").clone();
        attempts.pop();
        let unsent = |one: &Value| one["status"] == "released" || one["status"] == "snoozed";
        assert!(attempts.iter().all(unsent), "{shown}");
    }
    hooks.assert_quiet();
    assert_eq!(sent.len(), made.len(), "each was delivered once");
}

/// Nothing is lost, nothing moves, and it heals by itself.
#[test]
fn a_database_that_goes_away_and_comes_back_costs_nothing_but_time() {
    let cluster = Cluster::start();
    let hooks = Hooks::slow(&[], Duration::from_secs(3));
    let held = under_way(&cluster, &hooks, 12);
    let taken = |cluster: &Cluster| -> Vec<u64> {
        cluster.each().map(|node| node.metric("duly_failovers_total")).collect()
    };
    let before = taken(&cluster);
    cluster.database.run("stop");
    let job = json!({"queue": "away", "target": {"worker": {"kind": "k"}}});
    for node in cluster.each() {
        let reply = node.server.post("/v1/jobs", &job);
        assert_eq!(reply.status, 503, "{}", reply.text);
        assert!(reply.header("retry-after").is_some(), "{}", reply.head);
        assert_eq!(node.ask("GET", "/healthz", "").status, 200);
    }
    cluster.database.run("start");
    until("submissions are taken again", || {
        cluster.each().all(|node| node.server.post("/v1/jobs", &job).status == 202)
    });
    // What ended while it was away is known now, and was not done twice.
    for run in held.keys() {
        let shown = cluster.node(1).server.run_is(&json!(run), "succeeded");
        assert_eq!(shown["attempts"].as_array().map(Vec::len), Some(1), "{shown}");
    }
    hooks.assert_quiet();
    cluster.settled();
    assert_eq!(taken(&cluster), before, "shards moved");
}
