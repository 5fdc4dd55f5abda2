//! Names, PUT, lists, dead letters and queues, on the real binary.
#![allow(clippy::expect_used)]

use crate::support::{Hooks, Reply, Server, ask};
use serde_json::{Value, json};

fn put(server: &Server, name: &str, body: &Value) -> Reply {
    server.ask("PUT", &format!("/v1/jobs/{name}"), &body.to_string())
}

fn ids(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().cloned().unwrap_or_default();
    items.iter().filter_map(|item| Some(item["id"].as_str()?.to_string())).collect()
}

#[test]
fn a_name_belongs_to_one_unfinished_job() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let job = json!({"name": "bill", "target": {"worker": {"kind": "k"}}, "queue": "n"});
    let first = server.submit(&job);
    let again = server.post("/v1/jobs", &job);
    assert_eq!((again.status, &again.json()["code"]), (409, &json!("name_taken")));
    assert!(again.text.contains(first["id"].as_str().expect("an id")), "{}", again.text);
    // A name stands wherever an id may.
    assert_eq!(server.get("/v1/jobs/bill")["id"], first["id"]);
    assert_eq!(server.get("/v1/jobs/bill/runs")["items"][0]["id"], first["run_id"]);
    assert_eq!(server.ask("DELETE", "/v1/jobs/bill", "").json()["status"], "cancelled");
    // The job has ended: it is still found by its name, and the name can be taken.
    assert_eq!(server.get("/v1/jobs/bill")["status"], "cancelled");
    let second = server.submit(&job);
    assert_ne!(second["id"], first["id"]);
    assert_eq!(server.get("/v1/jobs/bill")["id"], second["id"]);
    for bad in ["", "Bill", "job_x", "-a", "a b", "ä"] {
        let refused =
            server.post("/v1/jobs", &json!({"name": bad, "target": {"worker": {"kind": "k"}}}));
        assert_eq!(refused.status, 422, "{bad}: {}", refused.text);
    }
    assert_eq!(server.ask("GET", "/v1/jobs/nobody", "").status, 404);
    server.stop();
}

#[test]
fn of_many_who_want_a_name_at_once_one_gets_it_and_a_retry_gets_its_answer() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let body = json!({"name": "one", "target": {"worker": {"kind": "k"}}}).to_string();
    let address = server.address;
    let threads: Vec<_> = (0..8)
        .map(|n| {
            let body = body.clone();
            std::thread::spawn(move || {
                let key = format!("key-{n}");
                let headers = [("Idempotency-Key", key.as_str())];
                let reply = ask(address, "POST", "/v1/jobs", &body, &headers).expect("heard");
                (key, reply.status, reply.json())
            })
        })
        .collect();
    let heard: Vec<_> = threads.into_iter().map(|one| one.join().expect("joined")).collect();
    let made: Vec<_> = heard.iter().filter(|(_, status, _)| *status == 202).collect();
    assert_eq!(made.len(), 1, "{heard:?}");
    let (key, _, first) = made[0];
    let headers = [("Idempotency-Key", key.as_str())];
    let again = ask(address, "POST", "/v1/jobs", &body, &headers).expect("heard");
    assert_eq!((again.status, &again.json()["id"]), (202, &first["id"]));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    server.stop();
}

#[test]
fn put_makes_changes_and_leaves_alone() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let mut job = json!({
        "schedule": {"every": "90m", "jitter": "5m"}, "target": {"worker": {"kind": "k"}},
        "payload": {"n": 1}, "retry": {"max_retries": 2, "permanent": [400, 404]},
        "catch_up": {"policy": "all", "window": "2h"}, "tags": {"team": "a"},
    });
    let made = put(&server, "nightly", &job);
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!((made.header("etag"), &made.json()["version"]), (Some("\"1\""), &json!(1)));
    let made = made.json();
    let same = put(&server, "nightly", &job);
    assert_eq!((same.status, &same.json()["version"]), (200, &json!(1)));
    assert_eq!(same.json()["id"], made["id"]);
    job["payload"] = json!({"n": 2});
    let changed = put(&server, "nightly", &job);
    assert_eq!((changed.status, &changed.json()["version"]), (200, &json!(2)));
    assert_eq!(changed.json()["next_run_at"], made["next_run_at"], "the interval did not move");
    assert_eq!(changed.json()["retry"]["permanent"], json!([400, 404]));
    // And again nothing, although where the interval began is now part of it.
    assert_eq!(put(&server, "nightly", &job).json()["version"], 2);
    // It survives a restart.
    server.stop();
    let server = Server::start(data.path());
    assert_eq!(put(&server, "nightly", &job).json()["version"], 2);
    let tag = [("If-Match", "\"1\"")];
    let late = ask(server.address, "PUT", "/v1/jobs/nightly", &job.to_string(), &tag);
    assert_eq!(late.expect("heard").status, 412);
    job["queue"] = json!("other");
    let moved = put(&server, "nightly", &job);
    assert_eq!((moved.status, &moved.json()["errors"][0]["pointer"]), (422, &json!("/queue")));
    let other = put(&server, "nightly", &json!({"name": "x", "target": {"worker": {"kind": "k"}}}));
    assert_eq!(other.json()["errors"][0]["pointer"], "/name");
    server.stop();
}

#[test]
fn lists_are_filtered_and_paged() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let target = json!({"worker": {"kind": "k"}});
    let mut made = Vec::new();
    for n in 0..7 {
        let team = if n % 2 == 0 { "a" } else { "b" };
        let job = json!({
            "target": target, "queue": format!("q{}", n % 3), "tags": {"team": team},
            "schedule": {"every": "1h"}, "owner": "me",
        });
        made.push(server.submit(&job)["id"].as_str().expect("an id").to_string());
    }
    // Ids grow with time, to the millisecond; two of the same one stand in the order of their ids.
    made.sort();
    made.reverse();
    let mut seen = Vec::new();
    let mut path = "/v1/jobs?limit=3".to_string();
    for _ in 0..10 {
        let page = server.get(&path);
        assert!(ids(&page).len() <= 3);
        seen.extend(ids(&page));
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/jobs?limit=3&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, made, "newest first, each once");
    // A cursor that nobody gave does not begin again at the top.
    let occurrences = format!("/v1/jobs/{}/occurrences", made[0]);
    for list in ["/v1/jobs", "/v1/runs", "/v1/dead-letters", &occurrences] {
        let refused = server.ask("GET", &format!("{list}?cursor=nonsense"), "");
        assert_eq!(refused.status, 422, "{list}: {}", refused.text);
        assert_eq!(refused.json()["errors"][0]["pointer"], "?cursor", "{list}");
    }
    assert_eq!(ids(&server.get("/v1/jobs?tag=team:a")).len(), 4);
    assert_eq!(ids(&server.get("/v1/jobs?queue=q1")).len(), 2);
    assert_eq!(ids(&server.get("/v1/jobs?status=paused")).len(), 0);
    assert_eq!(ids(&server.get("/v1/jobs?status=active&owner=me")).len(), 7);
    server.ask("POST", &format!("/v1/jobs/{}/pause", made[0]), "{}");
    assert_eq!(ids(&server.get("/v1/jobs?status=paused")), made[..1]);
    // Runs: triggered ones of one job.
    for _ in 0..3 {
        let triggered = server.ask("POST", &format!("/v1/jobs/{}/trigger", made[1]), "{}");
        assert_eq!(triggered.status, 202);
    }
    assert_eq!(ids(&server.get("/v1/runs?status=ready&cause=trigger")).len(), 3);
    assert_eq!(ids(&server.get(&format!("/v1/jobs/{}/runs?status=pending", made[1]))).len(), 3);
    assert_eq!(ids(&server.get("/v1/runs?status=finished")).len(), 0);
    let stats = server.get(&format!("/v1/jobs/{}/stats", made[1]));
    assert_eq!((&stats["unfinished"], &stats["runs"]), (&json!(3), &json!(0)));
    for bad in ["status=blue", "limit=0", "limit=1001", "since=yesterday", "x=1"] {
        assert_eq!(server.ask("GET", &format!("/v1/runs?{bad}"), "").status, 422, "{bad}");
    }
    let queues = server.get("/v1/queues");
    let names: Vec<&str> = queues["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter_map(|q| q["name"].as_str())
        .collect();
    assert_eq!(names, ["q0", "q1", "q2"]);
    server.stop();
}

#[test]
fn a_paused_queue_starts_nothing_and_goes_on() {
    let data = tempfile::tempdir().expect("a folder");
    let (server, hooks) = (Server::start(data.path()), Hooks::start(&[]));
    let job = json!({"target": {"http": {"url": hooks.url()}}, "queue": "slow"});
    assert_eq!(server.ask("GET", "/v1/queues/slow", "").status, 404);
    server.submit(&job);
    hooks.next();
    let paused = server.post("/v1/queues/slow/pause", &json!({"reason": "repairs"}));
    assert_eq!(paused.json()["paused"]["reason"], "repairs");
    let held = server.submit(&job);
    let queue = server.get("/v1/queues/slow");
    assert_eq!((&queue["ready"], &queue["paused"]["reason"]), (&json!(1), &json!("repairs")));
    let why = server.get(&format!("/v1/runs/{}/explain", held["run_id"].as_str().expect("a run")));
    assert!(why["summary"].as_str().is_some_and(|text| text.contains("repairs")), "{why}");
    hooks.assert_quiet();
    assert_eq!(server.ask("POST", "/v1/queues/slow/resume", "").json()["paused"], Value::Null);
    assert_eq!(hooks.next().header("x-run-id"), held["run_id"]);
    server.stop();
}

/// Dead at once: their receiver says that they cannot succeed.
fn dead(server: &Server, queue: &str, count: usize, hooks: &Hooks) -> Vec<String> {
    let job = json!({"target": {"http": {"url": hooks.url()}}, "queue": queue});
    let made: Vec<Value> = (0..count).map(|_| server.submit(&job)).collect();
    made.iter()
        .map(|one| {
            server.run_is(&one["run_id"], "dead");
            one["run_id"].as_str().expect("a run").to_string()
        })
        .collect()
}

#[test]
fn dead_letters_are_listed_grouped_replayed_and_discarded() {
    let data = tempfile::tempdir().expect("a folder");
    let hooks = Hooks::start(&["422 No\r\n"; 6]);
    let server = Server::start(data.path());
    let first = dead(&server, "a", 4, &hooks);
    let second = dead(&server, "b", 2, &hooks);
    let page = server.get("/v1/dead-letters");
    assert_eq!(ids(&page).len(), 6, "{page}");
    assert_eq!(ids(&server.get("/v1/dead-letters?queue=b")).len(), 2);
    let groups = server.get("/v1/dead-letters/groups?by=error");
    assert_eq!(groups["items"][0]["count"], 6, "{groups}");
    assert_eq!(groups["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.get("/v1/dead-letters/groups")["items"].as_array().map(Vec::len), Some(6));
    let dry =
        server.post("/v1/dead-letters/replay", &json!({"filter": {"queue": "a"}, "dry_run": true}));
    assert_eq!(dry.json()["would_run"], 4);
    let mut events = server.listen("/v1/events?types=operation");
    let key = [("Idempotency-Key", "again-1")];
    let body = json!({"filter": {"queue": "a"}}).to_string();
    let send = |body: &str| {
        ask(server.address, "POST", "/v1/dead-letters/replay", body, &key).expect("heard")
    };
    let accepted = send(&body);
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    let operation = accepted.json()["id"].clone();
    assert_eq!(events.until("operation.over").data["operation_id"], operation);
    for run in &first {
        server.run_is(&json!(run), "succeeded");
    }
    let path = format!("/v1/operations/{}", operation.as_str().expect("an id"));
    let done = server.get(&path);
    assert_eq!(
        (&done["status"], &done["done"], &done["total"]),
        (&json!("done"), &json!(4), &json!(4))
    );
    assert_eq!(send(&body).json()["id"], operation, "the same key is the same operation");
    assert_eq!(send(&json!({"filter": {}}).to_string()).json()["code"], "idempotency_key_reused");
    assert_eq!(server.ask("POST", &format!("{path}/cancel"), "").json()["code"], "operation_over");
    let discard = server.post("/v1/dead-letters/discard", &json!({"ids": second}));
    assert_eq!(discard.status, 202, "{}", discard.text);
    for run in &second {
        server.run_is(&json!(run), "failed");
    }
    assert!(ids(&server.get("/v1/dead-letters")).is_empty());
    for bad in [json!({}), json!({"ids": ["x"]}), json!({"ids": [], "filter": {}})] {
        assert_eq!(server.post("/v1/dead-letters/replay", &bad).status, 422, "{bad}");
    }
    server.stop();
}

#[test]
fn an_operation_goes_on_after_a_kill_and_can_be_stopped() {
    let data = tempfile::tempdir().expect("a folder");
    let hooks = Hooks::start(&["422 No\r\n"; 12]);
    let server = Server::start(data.path());
    let runs = dead(&server, "a", 12, &hooks);
    let mut events = server.listen("/v1/events?types=operation");
    let slow = server.post("/v1/dead-letters/replay", &json!({"filter": {}, "rate": "4/s"}));
    let path = format!("/v1/operations/{}", slow.json()["id"].as_str().expect("an id"));
    events.until("operation.progress");
    server.kill();
    let server = Server::start(data.path());
    for run in &runs {
        server.run_is(&json!(run), "succeeded");
    }
    let mut events = server.listen("/v1/events?types=operation");
    if server.get(&path)["status"] == "running" {
        events.until("operation.over");
    }
    let done = server.get(&path);
    assert_eq!(done["status"], "done", "{done}");
    // A run under way at the kill may be counted or not; none is lost.
    assert!(done["done"].as_u64().is_some_and(|done| (8..=12).contains(&done)), "{done}");

    let hooks = Hooks::start(&["422 No\r\n"; 5]);
    dead(&server, "b", 5, &hooks);
    let slow =
        server.post("/v1/dead-letters/discard", &json!({"filter": {"queue": "b"}, "rate": 1}));
    let path = format!("/v1/operations/{}", slow.json()["id"].as_str().expect("an id"));
    let stopped = server.ask("POST", &format!("{path}/cancel"), "");
    assert_eq!(stopped.json()["status"], "cancelled", "{}", stopped.text);
    assert_eq!(server.get(&path)["status"], "cancelled");
    assert!(ids(&server.get("/v1/dead-letters")).len() >= 3);
    server.stop();
}
