//! What may be made with one API key: runs that wait, recurring jobs, their fires, bytes. It counts for the
//! key, whatever else its namespace has, and a restart forgets nothing.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::cluster::until;
use crate::support::{Reply, Server, ask, new_key};
use serde_json::{Value, json};
use std::path::Path;

fn data() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The header with a new key.
fn key(data: &Path, args: &[&str]) -> String {
    format!("Bearer {}", new_key(data, args))
}

struct Caller<'a> {
    server: &'a Server,
    key: &'a str,
}

impl Caller<'_> {
    fn ask(&self, method: &str, path: &str, body: &Value) -> Reply {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let headers = [("Authorization", self.key)];
        ask(self.server.address, method, path, &text, &headers).expect("an answer")
    }

    fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask("POST", path, body)
    }

    fn get(&self, path: &str) -> Value {
        self.ask("GET", path, &Value::Null).json()
    }
}

fn job() -> Value {
    json!({"target": {"worker": {"kind": "mail"}}})
}

fn hourly() -> Value {
    json!({"target": {"worker": {"kind": "mail"}}, "schedule": {"every": "1h"}})
}

fn assert_over(reply: &Reply, words: &[&str]) {
    assert_eq!(reply.status, 429, "{}", reply.text);
    let problem = reply.json();
    assert_eq!((&problem["code"], &problem["retryable"]), (&json!("over_quota"), &json!(true)));
    assert!(reply.header("retry-after").is_some());
    let detail = problem["detail"].as_str().expect("words").to_string();
    assert!(words.iter().all(|word| detail.contains(word)), "{detail}");
}

#[test]
fn what_was_made_with_a_key_is_bounded_and_a_restart_forgets_nothing() {
    let data = data();
    let bounded = ["--scope", "submit", "--waiting", "3", "--jobs", "2"];
    let bounded = key(data.path(), &bounded);
    let free = key(data.path(), &["--scope", "submit"]);
    let worker = key(data.path(), &["--scope", "worker"]);
    let server = Server::start(data.path());
    let ours = Caller { server: &server, key: &bounded };
    let others = Caller { server: &server, key: &free };
    // What others make in the same namespace does not count.
    for _ in 0..4 {
        assert_eq!(others.post("/v1/jobs", &job()).status, 202);
    }
    for left in [2, 1, 0] {
        let reply = ours.post("/v1/jobs", &job());
        assert_eq!(reply.status, 202, "{}", reply.text);
        let state = reply.header("ratelimit").expect("a state").to_string();
        assert!(state.contains(&format!("\"key_waiting\";r={left}")), "{state}");
    }
    let full = ["quota key_waiting", "has 3 runs", "may have 3"];
    assert_over(&ours.post("/v1/jobs", &job()), &full);
    let reply = others.post("/v1/jobs", &job());
    assert_eq!((reply.status, reply.header("ratelimit")), (202, None), "others are not limited");
    // Recurring jobs. Whoever triggers one adds to what its key has.
    let first = ours.post("/v1/jobs", &hourly()).json();
    let named = ours.ask("PUT", "/v1/jobs/nightly", &hourly());
    assert_eq!(named.status, 201, "{}", named.text);
    let too_many = ["quota key_jobs", "has 2 recurring jobs", "may have 2"];
    assert_over(&ours.post("/v1/jobs", &hourly()), &too_many);
    let path = format!("/v1/jobs/{}", first["id"].as_str().expect("an id"));
    assert_over(&others.post(&format!("{path}/trigger"), &json!({})), &full);
    // Somebody else changes it, and it stays the key's.
    let changed = json!({"target": {"worker": {"kind": "mail"}}, "schedule": {"every": "2h"}});
    assert_eq!(others.ask("PUT", "/v1/jobs/nightly", &changed).json()["version"], 2);
    let headers = [("Authorization", free.as_str()), ("If-Match", "*")];
    let patch = json!({"priority": 6}).to_string();
    let patched = ask(server.address, "PATCH", &path, &patch, &headers).expect("an answer");
    assert_eq!(patched.json()["version"], 2, "{}", patched.text);
    let counts = json!([
        {"name": "key_waiting", "limit": 3, "current": 3},
        {"name": "key_jobs", "limit": 2, "current": 2},
    ]);
    assert_eq!(ours.get("/v1/quotas")["counts"], counts);
    assert_eq!(others.get("/v1/quotas")["counts"], json!([]));
    server.kill();

    let server = Server::start(data.path());
    let ours = Caller { server: &server, key: &bounded };
    assert_over(&ours.post("/v1/jobs", &job()), &full);
    assert_over(&ours.post("/v1/jobs", &hourly()), &too_many);
    // What is taken does not wait any more; a trigger's run is the key's, with a payload or without.
    let claim = json!({"worker": "w1", "queues": ["default"], "kinds": ["mail"], "max": 50});
    let claimed = Caller { server: &server, key: &worker }.post("/v1/work/claim", &claim).json();
    assert_eq!(claimed["runs"].as_array().map(Vec::len), Some(8), "{claimed}");
    assert_eq!(ours.post(&format!("{path}/trigger"), &json!({})).status, 202);
    assert_eq!(ours.post(&format!("{path}/trigger"), &json!({"payload": 1})).status, 202);
    assert_eq!(ours.get("/v1/quotas")["counts"][0]["current"], 2);
    let many = json!({"jobs": [job(), job(), job()]});
    let made = ours.post("/v1/jobs/batch", &many).json();
    let results = made["results"].as_array().expect("results");
    let statuses: Vec<_> = results.iter().filter_map(|one| one["status"].as_u64()).collect();
    assert_eq!(statuses, [202, 429, 429], "{made}");
    assert_eq!(ours.ask("DELETE", &path, &Value::Null).status, 200);
    assert_eq!(ours.post("/v1/jobs", &hourly()).status, 202);
    server.stop();
}

#[test]
fn jobs_of_a_key_fire_late_and_say_that_it_is_the_keys_quota() {
    let data = data();
    let slow = key(data.path(), &["--scope", "submit", "--fires", "1/m"]);
    let free = key(data.path(), &["--scope", "submit"]);
    let server = Server::start(data.path());
    let ours = Caller { server: &server, key: &slow };
    let others = Caller { server: &server, key: &free };
    let shown = ours.get("/v1/quotas");
    let all = json!([1.0, 1, 1]);
    let fires = &shown["fires"][0];
    assert_eq!(json!([fires["per_min"], fires["burst"], fires["remaining"]]), all, "{shown}");
    assert_eq!(fires["name"], "key", "{shown}");
    let often = json!({
        "target": {"worker": {"kind": "mail"}}, "schedule": {"every": "1s"}, "overlap": "allow",
    });
    let job = ours.post("/v1/jobs", &often).json();
    let path = format!("/v1/jobs/{}", job["id"].as_str().expect("an id"));
    until("a fire waits", || ours.get(&path)["delayed"]["reason"] == "key_fires_quota");
    let shown = ours.get("/v1/quotas");
    assert_eq!(shown["fires"][0]["remaining"], 0, "{shown}");
    let list = ours.get(&format!("{path}/occurrences?limit=20"));
    let items = list["items"].as_array().expect("items");
    let waits = items.iter().find(|one| one["status"] == "delayed").expect("one that waits");
    let run = waits["run_id"].as_str().expect("the run that it will be");
    let why = ours.get(&format!("/v1/runs/{run}/explain"));
    assert_eq!(why["reasons"][0]["code"], "delayed", "{why}");
    let words = why["reasons"][0]["message"].as_str().expect("words");
    assert!(words.contains("API key"), "{words}");
    assert!(shown["fires"][0]["next_at"].as_str() > waits["due_at"].as_str(), "{shown} {waits}");
    // Jobs of others fire at their times.
    let theirs = others.post("/v1/jobs", &often).json();
    let path = format!("/v1/jobs/{}", theirs["id"].as_str().expect("an id"));
    until("two fires", || {
        let list = others.get(&format!("{path}/occurrences?limit=20"));
        let items = list["items"].as_array().expect("items");
        items.iter().filter(|one| one["status"] == "unfinished").count() >= 2
    });
    assert_eq!(others.get(&path)["delayed"], Value::Null);
    assert_eq!(others.get("/v1/quotas")["fires"], json!([]));
    server.stop();
}

#[test]
fn while_too_many_runs_of_a_key_wait_its_jobs_fire_late() {
    let data = data();
    let bounded = key(data.path(), &["--scope", "submit", "--waiting", "1"]);
    let worker = key(data.path(), &["--scope", "worker"]);
    let server = Server::start(data.path());
    let ours = Caller { server: &server, key: &bounded };
    let often = json!({
        "target": {"worker": {"kind": "mail"}}, "schedule": {"every": "1s"}, "overlap": "allow",
    });
    let made = ours.post("/v1/jobs", &often).json();
    let path = format!("/v1/jobs/{}", made["id"].as_str().expect("an id"));
    // Nobody takes its runs, so before long one more would be too much.
    until("a fire waits", || ours.get(&path)["delayed"]["reason"] == "key_waiting_quota");
    assert_over(&ours.post("/v1/jobs", &job()), &["quota key_waiting"]);
    server.kill();
    let server = Server::start(data.path());
    let ours = Caller { server: &server, key: &bounded };
    assert_over(&ours.post("/v1/jobs", &job()), &["quota key_waiting"]);
    let claim = json!({"worker": "w1", "queues": ["default"], "kinds": ["mail"], "max": 50});
    let workers = Caller { server: &server, key: &worker };
    let late =
        |one: &Value| one["status"] != "delayed" && one["delayed"]["reason"] == "key_waiting_quota";
    until("one that waited came, late", || {
        workers.post("/v1/work/claim", &claim);
        let list = ours.get(&format!("{path}/occurrences?limit=20"));
        list["items"].as_array().is_some_and(|all| all.iter().any(late))
    });
    server.stop();
}

#[test]
fn bytes_of_a_key_are_bounded_and_the_api_says_what_a_key_may() {
    let data = data();
    let admin = key(data.path(), &["--scope", "admin"]);
    let server = Server::start(data.path());
    let admin = Caller { server: &server, key: &admin };
    for (field, value) in
        [("waiting", json!(0)), ("jobs", json!("2")), ("fires_per_min", json!(-1))]
    {
        let mut wanted = json!({"scope": "submit"});
        wanted[field] = value;
        let refused = admin.post("/v1/api-keys", &wanted);
        assert_eq!(refused.status, 422, "{}", refused.text);
        assert_eq!(refused.json()["errors"][0]["pointer"], format!("/{field}"));
    }
    let wanted = json!({
        "scope": "submit", "bytes_per_s": 100, "waiting": 5, "jobs": 6, "fires_per_min": 7,
    });
    let made = admin.post("/v1/api-keys", &wanted).json();
    for field in ["bytes_per_s", "waiting", "jobs", "fires_per_min"] {
        assert_eq!(made[field], wanted[field], "{made}");
    }
    let bearer = format!("Bearer {}", made["key"].as_str().expect("a key"));
    let ours = Caller { server: &server, key: &bearer };
    let first = ours.post("/v1/jobs", &job());
    assert_eq!(first.status, 202, "{}", first.text);
    let policy = first.header("ratelimit-policy").expect("a policy").to_string();
    assert!(policy.contains("\"key_bytes\";q=100;qu=\"content-bytes\""), "{policy}");
    let large = json!({"target": {"worker": {"kind": "mail"}}, "payload": "x".repeat(4_000)});
    let mut replies = (0..3).map(|_| ours.post("/v1/jobs", &large));
    let over = replies.find(|reply| reply.status == 429).expect("far more than 100 bytes a second");
    assert_over(&over, &["this API key may submit 100 bytes a second"]);
    server.stop();
}
