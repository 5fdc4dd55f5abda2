//! Every route that changes something is sent twice with one Idempotency-Key. Which ones there are, and
//! what the second request must get, comes from the table of routes; a new route without a recipe here
//! fails the test.
#![allow(clippy::expect_used, clippy::panic)] // A helper of a test may fail the test.

use crate::support::{Reply, Server, ask};
use http_api::{Route, Twice, table};
use serde_json::{Value, json};
use std::process::Command;

struct World {
    server: Server,
    key: String,
}

/// A request: its path and its body.
type Sent = (String, Value);

impl World {
    fn send(&self, method: &str, path: &str, body: &Value, key: &str) -> Reply {
        let bearer = format!("Bearer {}", self.key);
        let mut headers = vec![("Authorization", bearer.as_str()), ("Idempotency-Key", key)];
        if method == "PATCH" || path.ends_with("/restore") {
            headers.push(("If-Match", "*"));
        }
        ask(self.server.address, method, path, &body.to_string(), &headers).expect("an answer")
    }

    /// Something that a recipe needs first.
    fn first(&self, method: &str, path: &str, body: &Value) -> Value {
        let reply = self.send(method, path, body, "");
        assert!(reply.status < 300, "{method} {path}: {}", reply.text);
        reply.json()
    }

    fn made(&self, body: &Value) -> String {
        self.first("POST", "/v1/jobs", body)["id"].as_str().expect("an id").to_string()
    }

    fn recurring(&self) -> String {
        self.made(&nightly())
    }

    /// A run of a queue of its own, claimed.
    fn claimed(&self, queue: &str) -> (String, u64) {
        self.made(&json!({
            "target": {"worker": {"kind": "k"}}, "queue": queue, "retry": {"max_retries": 0},
        }));
        let claim = json!({"worker": "w", "queues": [queue], "max": 1});
        let run = self.first("POST", "/v1/work/claim", &claim)["runs"][0].clone();
        let id = run["run_id"].as_str().unwrap_or_else(|| panic!("nothing was claimed: {run}"));
        (id.to_string(), run["token"].as_u64().expect("a token"))
    }

    fn dead(&self, queue: &str) -> String {
        let (run, token) = self.claimed(queue);
        let settle = json!({"worker": "w", "runs": [{
            "run_id": run, "token": token, "outcome": "failed", "error": {"message": "no"},
        }]});
        let settled = self.first("POST", "/v1/work/settle", &settle);
        assert_eq!(settled["results"][0]["run_status"], "dead", "{settled}");
        run
    }

    fn recipe(&self, method: &str, path: &str) -> Option<Sent> {
        let of_job =
            |verb: &str, body: Value| Some((format!("/v1/jobs/{}{verb}", self.recurring()), body));
        let backfill = json!({
            "from": "2026-01-01T00:00:00Z", "to": "2026-03-01T00:00:00Z", "only": "all", "rate": 1,
        });
        match (method, path) {
            ("POST", "/v1/jobs") => Some((path.into(), later())),
            ("POST", "/v1/jobs/batch") => {
                Some((path.into(), json!({"jobs": [later(), nightly()]})))
            }
            ("PUT", "/v1/jobs/{job}") => Some(("/v1/jobs/twice".into(), nightly())),
            ("PATCH", "/v1/jobs/{job}") => of_job("", json!({"priority": 7})),
            ("DELETE", "/v1/jobs/{job}") => of_job("", json!({})),
            ("POST", "/v1/jobs/{job}/pause") => of_job("/pause", json!({"reason": "test"})),
            ("POST", "/v1/jobs/{job}/resume") => {
                let job = self.recurring();
                self.first("POST", &format!("/v1/jobs/{job}/pause"), &json!({}));
                Some((format!("/v1/jobs/{job}/resume"), json!({})))
            }
            ("POST", "/v1/jobs/{job}/trigger") => of_job("/trigger", json!({"payload": 1})),
            ("POST", "/v1/jobs/{job}/versions/{version}/restore") => {
                let job = format!("/v1/jobs/{}", self.recurring());
                self.first("PATCH", &job, &json!({"priority": 7}));
                Some((format!("{job}/versions/1/restore"), json!({})))
            }
            ("POST", "/v1/jobs/{job}/backfill") => of_job("/backfill", backfill),
            ("POST", "/v1/dead-letters/replay" | "/v1/dead-letters/discard") => {
                Some((path.into(), json!({"ids": [self.dead(&path[17..])]})))
            }
            ("POST", "/v1/operations/{operation}/cancel") => {
                let job = self.recurring();
                let made = self.first("POST", &format!("/v1/jobs/{job}/backfill"), &backfill);
                let id = made["id"].as_str().expect("an id");
                Some((format!("/v1/operations/{id}/cancel"), json!({})))
            }
            ("PUT", "/v1/queues/{queue}") => {
                Some(("/v1/queues/limited".into(), json!({"max_running": 3})))
            }
            ("POST", "/v1/queues/{queue}/pause" | "/v1/queues/{queue}/resume") => {
                let mut job = later();
                job["queue"] = json!("quiet");
                self.made(&job);
                Some((path.replace("{queue}", "quiet"), json!({})))
            }
            ("POST", "/v1/runs/{run}/cancel") => {
                let run = self.made(&later()).replacen("job_", "run_", 1);
                Some((format!("/v1/runs/{run}/cancel"), json!({})))
            }
            ("POST", "/v1/runs/{run}/replay") => {
                Some((format!("/v1/runs/{}/replay", self.dead("replayed")), json!({})))
            }
            ("POST", "/v1/work/claim") => {
                self.made(&json!({"target": {"worker": {"kind": "k"}}, "queue": "claimed"}));
                let claim = json!({"worker": "w", "queues": ["claimed"], "request_id": "r1"});
                Some((path.into(), claim))
            }
            ("POST", "/v1/work/heartbeat") => {
                let (run, token) = self.claimed("beaten");
                Some((
                    path.into(),
                    json!({"worker": "w", "runs": [{"run_id": run, "token": token}]}),
                ))
            }
            ("POST", "/v1/work/settle") => {
                let (run, token) = self.claimed("settled");
                let item = json!({"run_id": run, "token": token, "outcome": "succeeded"});
                Some((path.into(), json!({"worker": "w", "runs": [item]})))
            }
            ("POST", "/v1/work/leave") => Some((path.into(), json!({"worker": "gone"}))),
            ("POST", "/v1/workers/{worker}/drain") => {
                let claim = json!({"worker": "drained", "queues": ["empty"], "wait": "0s"});
                self.first("POST", "/v1/work/claim", &claim);
                Some(("/v1/workers/drained/drain".into(), json!({})))
            }
            ("POST", "/v1/signing-secrets/rotate") => Some((path.into(), json!({"overlap": "1h"}))),
            ("POST", "/v1/hold") => {
                Some((path.into(), json!({"scope": {"queue": "held"}, "reason": "x"})))
            }
            ("POST", "/v1/release") => Some((path.into(), json!({"scope": {"queue": "held"}}))),
            ("POST", "/v1/api-keys") => Some((path.into(), json!({"scope": "read"}))),
            ("DELETE", "/v1/api-keys/{key}") => {
                let made = self.first("POST", "/v1/api-keys", &json!({"scope": "read"}));
                Some((format!("/v1/api-keys/{}", made["id"].as_str().expect("an id")), json!({})))
            }
            _ => None,
        }
    }
}

fn later() -> Value {
    json!({"target": {"worker": {"kind": "k"}}, "schedule": {"delay": "1h"}})
}

fn nightly() -> Value {
    json!({"target": {"worker": {"kind": "k"}}, "schedule": {"cron": "0 3 * * *"}})
}

/// What may differ between two good answers: times that went on, and how far an operation has come.
fn without_times(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            let id = fields.get("id").and_then(Value::as_str).unwrap_or_default();
            let operation = id.starts_with("op_");
            if operation {
                fields.remove("status");
            }
            fields.retain(|name, _| {
                !["lease_expires_at", "updated_at", "version", "done"].contains(&name.as_str())
            });
            for field in fields.values_mut() {
                *field = without_times(field.take());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_times(item.take())),
        _ => {}
    }
    value
}

#[test]
fn every_change_is_sent_twice_with_one_key() {
    let data = tempfile::tempdir().expect("a folder");
    let made = Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(["key", "create", "--scope", "admin", "--data"])
        .arg(data.path())
        .output()
        .expect("duly runs");
    let key = String::from_utf8_lossy(&made.stdout).lines().next().expect("a key").to_string();
    let world = World { server: Server::start(data.path()), key };
    let (mut count, mut wrong) = (0, Vec::new());
    // One node alone has nobody to be drained to: tests/cluster.rs sends that twice.
    let alone = |route: &Route| route.path != "/v1/cluster/drain";
    for route in table().into_iter().filter(|route| route.changes_something() && alone(route)) {
        let (method, name) = (route.method.as_str(), format!("{} {}", route.method, route.path));
        let Some((path, body)) = world.recipe(method, route.path) else {
            wrong.push(format!("{name} has no recipe in this test"));
            continue;
        };
        let key = format!("twice-{count}");
        let one = world.send(method, &path, &body, &key);
        let two = world.send(method, &path, &body, &key);
        count += 1;
        let replayed = |reply: &Reply| reply.header("idempotency-replayed").map(str::to_string);
        let both = one.status == route.status && two.status == route.status;
        let good = match route.twice {
            Twice::Reads => false,
            Twice::Key => {
                let heads = (replayed(&one), replayed(&two));
                both && without_times(one.json()) == without_times(two.json())
                    && heads == (Some("false".to_string()), Some("true".to_string()))
            }
            Twice::Same | Twice::Named => {
                (one.status < 300 && two.status < 300)
                    && without_times(one.json()) == without_times(two.json())
            }
            Twice::Refused => one.status == route.status && [404, 409].contains(&two.status),
        };
        if !good {
            let (a, b) = (one.status, two.status);
            wrong.push(format!(
                "{name} ({:?}): {a} {:?} {}\n    then {b} {:?} {}",
                route.twice,
                replayed(&one),
                one.text,
                replayed(&two),
                two.text
            ));
        }
        // The same key with another body is refused where keys are honoured.
        if route.twice == Twice::Key && route.path == "/v1/jobs" {
            let other = world.send(method, &path, &nightly(), &key);
            assert_eq!(
                (other.status, &other.json()["code"]),
                (422, &json!("idempotency_key_reused"))
            );
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 20);
    world.server.stop();
}
