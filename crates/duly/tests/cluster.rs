//! Three nodes on one PostgreSQL, real binaries over real sockets: whatever one can be asked, each
//! can be asked.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::cluster::{Cluster, until};
use crate::support::database::{Database, Node};
use crate::support::{Hooks, Listener, ask};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;

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
        for node in [a, b, c] {
            let versions = node.server.get(&format!("/v1/jobs/{id}/versions"));
            let numbers = [&versions["items"][0]["version"], &versions["items"][1]["version"]];
            assert_eq!(numbers, [&json!(2), &json!(1)], "{versions}");
            // Where an interval began becomes part of the definition with its first change.
            let changed = json!(["/priority", "/schedule/start_at"]);
            assert_eq!(versions["items"][0]["changed"], changed, "{versions}");
        }
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
    for node in cluster.each() {
        let held = node.server.get("/v1/holds")["items"][0].clone();
        assert_eq!((&held["scope"], &held["everywhere"]), (&json!("all"), &json!(true)), "{held}");
    }
    let claim = json!({"worker": "w", "queues": ["held"], "wait": "100ms"});
    assert_eq!(cluster.node(2).server.post("/v1/work/claim", &claim).json()["runs"], json!([]));
    assert_eq!(cluster.node(1).server.post("/v1/release", &json!({"scope": "all"})).status, 200);
    let claim = json!({"worker": "w", "queues": ["held"], "wait": "10s"});
    let claimed = cluster.node(2).server.post("/v1/work/claim", &claim).json();
    assert_eq!(claimed["runs"].as_array().map(Vec::len), Some(1));
}

/// What happens at all nodes is told at each; a listener goes on at another node where it was.
fn events_of_all_nodes_are_told_at_each(cluster: &Cluster) {
    let of = |told: &crate::support::Told| text(&told.data["job_id"]).to_string();
    let path = "/v1/events?types=job.created";
    let mut listeners: Vec<_> = cluster.each().map(|node| node.server.listen(path)).collect();
    let made: BTreeSet<String> = (0..12)
        .map(|n| {
            let job = json!({"queue": format!("told-{n}"), "schedule": {"every": "1h"},
                "target": {"worker": {"kind": "k"}}});
            text(&cluster.node(n).server.submit(&job)["id"]).to_string()
        })
        .collect();
    for listener in &mut listeners {
        let told: BTreeSet<String> = (0..12).map(|_| of(&listener.until("job.created"))).collect();
        assert_eq!(told, made);
    }
    // A third is heard here, the rest at another node.
    let mut listener = cluster.node(0).server.listen(path);
    let made: BTreeSet<String> = (0..12)
        .map(|n| {
            let job = json!({"queue": format!("told-again-{n}"), "schedule": {"every": "1h"},
                "target": {"worker": {"kind": "k"}}});
            text(&cluster.node(n).server.submit(&job)["id"]).to_string()
        })
        .collect();
    let mut told: Vec<String> = (0..4).map(|_| of(&listener.until("job.created"))).collect();
    let last = listener.id.clone();
    drop(listener);
    let mut listener = Listener::open(cluster.node(1).server.address, path, Some(&last));
    told.extend((0..8).map(|_| of(&listener.until("job.created"))));
    assert_eq!(told.iter().cloned().collect::<BTreeSet<_>>(), made, "each once");
    // A life that nobody knows any more may have had more to tell.
    let strange = format!("{last}.00000000000000ff-7");
    let mut listener = Listener::open(cluster.node(2).server.address, path, Some(&strange));
    assert_eq!(listener.next().map(|told| told.name).as_deref(), Some("gap"));
}

/// An operation is begun at one node, worked at by one of them, and seen at all.
fn operations_are_worked_at_by_one_node(cluster: &Cluster) {
    let dead: Vec<Value> = (0..6)
        .map(|n| {
            let queue = format!("dying-{n}");
            let job = json!({"queue": queue, "target": {"worker": {"kind": "k"}}});
            let run = cluster.node(n).server.submit(&job)["run_id"].clone();
            let claim = json!({"worker": "w", "queues": [queue], "wait": "10s"});
            let claimed = cluster.node(n + 1).server.post("/v1/work/claim", &claim).json();
            let failed = json!({"run_id": run, "token": claimed["runs"][0]["token"],
                "outcome": "failed", "retryable": false, "error": {"message": "no"}});
            let settle = json!({"worker": "w", "runs": [failed]});
            assert_eq!(cluster.node(n + 2).server.post("/v1/work/settle", &settle).status, 200);
            cluster.node(n).server.run_is(&run, "dead");
            run
        })
        .collect();
    for (n, runs) in dead.chunks(2).enumerate() {
        let begun = cluster.node(n).server.post("/v1/dead-letters/replay", &json!({"ids": runs}));
        assert_eq!(begun.status, 202, "{}", begun.text);
        let path = format!("/v1/operations/{}", text(&begun.json()["id"]));
        for node in cluster.each() {
            until("the operation is over", || node.server.get(&path)["status"] == "done");
            let over = node.server.get(&path);
            assert_eq!((&over["done"], &over["failed"]), (&json!(2), &json!(0)), "{over}");
        }
        runs.iter().for_each(|run| drop(cluster.node(n + 1).server.run_is(run, "ready")));
    }
    for n in 0..3 {
        let job = json!({"name": format!("filled-{n}"), "queue": format!("filled-{n}"),
            "schedule": {"cron": "0 * * * *"}, "target": {"worker": {"kind": "k"}}});
        cluster.node(n).server.submit(&job);
        let past = json!({"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T04:30:00Z",
            "only": "missing", "rate": 1000});
        let path = format!("/v1/jobs/filled-{n}/backfill");
        let begun = cluster.node(n + 1).server.post(&path, &past);
        assert_eq!(begun.status, 202, "{}", begun.text);
        let path = format!("/v1/operations/{}", text(&begun.json()["id"]));
        let node = cluster.node(n + 2);
        until("the backfill is over", || node.server.get(&path)["status"] == "done");
        assert_eq!(node.server.get(&path)["done"], 5);
    }
}

/// The nodes and shards, as each node tells them.
fn every_node_shows_the_same_cluster(cluster: &Cluster) {
    for node in cluster.each() {
        // A node sees the cluster anew with every renewal; shards may move after that, so what was seen
        // then is what is looked at.
        let mut shown = Value::Null;
        until("what is seen is what is", || {
            shown = node.server.get("/v1/cluster");
            let nodes = shown["nodes"].as_array().cloned().unwrap_or_default();
            nodes.iter().all(|one| one["about"]["shards_live"] == one["shards"])
        });
        let nodes = shown["nodes"].as_array().expect("nodes").clone();
        let numbers: Vec<_> = nodes.iter().map(|node| node["number"].as_u64()).collect();
        assert_eq!(numbers, [Some(1), Some(2), Some(3)], "{shown}");
        for one in &nodes {
            assert_eq!(one["answers"], true, "{one}");
            assert_eq!(one["about"]["shards_live"], one["shards"], "{one}");
            assert!(one["about"]["clock_within_ms"].as_f64().is_some(), "{one}");
        }
        let shards = shown["shards"].as_array().expect("shards");
        assert_eq!(shards.len(), 256);
        assert!(shards.iter().all(|shard| shard["alive"] == true && shard["epoch"] != 0));
    }
}

/// What a person types, with the exit code it must have.
fn duly(node: &Node, args: &[&str], exit: i32) -> String {
    let url = format!("http://{}", node.server.address);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(args)
        .args(["--url", &url])
        .output()
        .expect("duly runs");
    assert_eq!(output.status.code(), Some(exit), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn people_see_the_cluster(cluster: &Cluster) {
    let status = duly(cluster.node(1), &["cluster", "status"], 0);
    assert_eq!(status.lines().count(), 4, "{status}");
    assert!(status.starts_with("NODE") && status.contains("CLOCK"), "{status}");
    let shards = duly(cluster.node(2), &["cluster", "shards"], 0);
    assert_eq!(shards.lines().count(), 257, "{shards}");
    let json = duly(cluster.node(0), &["cluster", "shards", "--json"], 0);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["shards"].as_array().map(Vec::len), Some(256));
    duly(cluster.node(0), &["cluster", "drain", "77"], 3);
}

/// A receiver sees the same signatures, whichever node sends.
fn signing_secrets_are_the_same_everywhere(cluster: &Cluster) {
    let shown = |node: &Node| {
        let items = node.server.get("/v1/signing-secrets")["items"].clone();
        let items = items.as_array().cloned().unwrap_or_default();
        items.iter().map(|one| text(&one["secret"]).to_string()).collect::<Vec<_>>()
    };
    let first = shown(cluster.node(0));
    assert!(first.len() == 1 && cluster.each().all(|node| shown(node) == first));
    let rotated = cluster.node(1).server.post("/v1/signing-secrets/rotate", &json!({}));
    assert_eq!(rotated.status, 200, "{}", rotated.text);
    let both = shown(cluster.node(1));
    assert!(both.len() == 2 && both[1] == first[0], "{both:?}");
    until("the others follow", || cluster.each().all(|node| shown(node) == both));
}

/// A node is drained from another one: it keeps answering and owns nothing any more.
fn a_node_is_drained_from_any_other(cluster: &Cluster) {
    let drained = cluster.node(0).server.post("/v1/cluster/drain", &json!({"node": "3"}));
    assert_eq!(drained.status, 200, "{}", drained.text);
    let again = cluster.node(1).server.post("/v1/cluster/drain", &json!({"node": "3"}));
    assert_eq!((again.status, again.json()), (200, drained.json()), "twice is the same");
    let third = cluster.node(2);
    until("it owns nothing", || third.shards() == 0);
    assert_eq!(third.ask("GET", "/readyz", "").status, 503);
    until("the others have all", || cluster.node(0).shards() + cluster.node(1).shards() == 256);
    let job = json!({"queue": "drained", "target": {"worker": {"kind": "k"}}});
    let run = third.server.submit(&job)["run_id"].clone();
    let claim = json!({"worker": "w", "queues": ["drained"], "wait": "10s"});
    assert_eq!(third.server.post("/v1/work/claim", &claim).json()["runs"][0]["run_id"], run);
    let strange = cluster.node(1).server.post("/v1/cluster/drain", &json!({"node": "77"}));
    assert_eq!(strange.status, 404, "{}", strange.text);
}

/// A key of one node opens the others at once, and is refused by them when it was revoked.
fn keys_are_known_and_revoked_everywhere(cluster: &Cluster) {
    let made = |node: &Node, bearer: &str, body: &Value| {
        let headers = [("Authorization", bearer)];
        let headers = if bearer.is_empty() { &headers[..0] } else { &headers[..] };
        let reply = node.ask_with("POST", "/v1/api-keys", body, headers);
        assert_eq!(reply.status, 201, "{}", reply.text);
        (reply.json()["id"].clone(), format!("Bearer {}", text(&reply.json()["key"])))
    };
    let (_, admin) = made(cluster.node(0), "", &json!({"scope": "admin"}));
    let opens = |node: &Node, bearer: &str| {
        node.ask_with("GET", "/v1/jobs?limit=1", &Value::Null, &[("Authorization", bearer)]).status
    };
    assert!(cluster.each().all(|node| opens(node, &admin) == 200), "known at once");
    until("nobody passes without a key", || {
        cluster.each().all(|node| node.ask("GET", "/v1/jobs?limit=1", "").status == 401)
    });
    let (id, reader) = made(cluster.node(1), &admin, &json!({"scope": "read"}));
    assert!(cluster.each().all(|node| opens(node, &reader) == 200), "known at once");
    let path = format!("/v1/api-keys/{}", text(&id));
    let headers = [("Authorization", admin.as_str())];
    assert_eq!(cluster.node(2).ask_with("DELETE", &path, &Value::Null, &headers).status, 200);
    until("it is refused", || cluster.each().all(|node| opens(node, &reader) == 401));
}

#[test]
fn any_node_answers_any_request() {
    let cluster = Cluster::start();
    every_node_shows_the_same_cluster(&cluster);
    people_see_the_cluster(&cluster);
    any_node_takes_any_request(&cluster);
    waiting_claims_get_work_of_other_nodes(&cluster);
    one_key_makes_one_job_wherever_it_is_sent(&cluster);
    lists_span_all_shards(&cluster);
    waits_end_with_the_run(&cluster);
    webhooks_of_all_shards_are_sent_once(&cluster);
    pauses_and_holds_are_seen_everywhere(&cluster);
    events_of_all_nodes_are_told_at_each(&cluster);
    operations_are_worked_at_by_one_node(&cluster);
    signing_secrets_are_the_same_everywhere(&cluster);
    a_node_is_drained_from_any_other(&cluster);
    keys_are_known_and_revoked_everywhere(&cluster);
}

/// The roles apart: one process answers, one decides, one sends.
#[test]
fn roles_may_be_apart() {
    let database = Database::start();
    let scheduler = Node::start_with(&database, 1, &["--roles", "scheduler"]);
    let api = Node::start_with(&database, 2, &["--roles", "api"]);
    let worker = Node::start_with(&database, 3, &["--roles", "worker"]);
    assert_eq!((api.shards(), worker.shards()), (0, 0));
    until("one has all shards", || scheduler.shards() == 256);
    for node in [&scheduler, &worker] {
        assert_eq!(node.ask("GET", "/v1/jobs", "").status, 404, "no public API");
        assert_eq!(node.ask("GET", "/readyz", "").status, 200);
    }
    let hooks = Hooks::start(&["500 No\r\n"]);
    for n in 0..4 {
        let job = json!({"queue": format!("apart-{n}"), "target": {"http": {"url": hooks.url()}},
            "retry": {"initial": "100ms"}});
        let run = api.server.submit(&job)["run_id"].clone();
        assert_eq!(hooks.next().header("x-run-id"), text(&run));
        if n == 0 {
            assert_eq!(hooks.next().header("x-attempt"), "2");
        }
        api.server.run_is(&run, "succeeded");
    }
    let job = json!({"queue": "pulled", "target": {"worker": {"kind": "k"}}});
    let run = api.server.submit(&job)["run_id"].clone();
    let claim = json!({"worker": "w", "queues": ["pulled"], "wait": "10s"});
    assert_eq!(api.server.post("/v1/work/claim", &claim).json()["runs"][0]["run_id"], run);
}

/// A stranger is not heard, also one who knows the form of what nodes say.
#[test]
fn only_nodes_pass_the_door_of_the_nodes() {
    let database = Database::start();
    let node = Node::start(&database, 1);
    let shown = node.server.get("/v1/cluster");
    let door: SocketAddr = text(&shown["nodes"][0]["address"]).parse().expect("an address");
    let id = text(&shown["nodes"][0]["id"]).to_string();
    let code = "00".repeat(32);
    for headers in [
        vec![],
        vec![("duly-from", "2-7"), ("duly-to", id.as_str())],
        vec![("duly-from", "2-7"), ("duly-to", id.as_str()), ("duly-code", code.as_str())],
        vec![("duly-from", "2-7"), ("duly-to", "1-1"), ("duly-code", code.as_str())],
    ] {
        for (method, path) in [
            ("POST", "/cluster/v1/letters"),
            ("POST", "/cluster/v1/drain"),
            ("GET", "/cluster/v1/node"),
            ("GET", "/cluster/v1/events?of=0"),
        ] {
            let reply = ask(door, method, path, "", &headers).expect("an answer");
            assert_eq!(reply.status, 421, "{path} {headers:?}: {}", reply.text);
        }
    }
    assert_eq!(node.shards(), 256, "nothing was drained");
}
