//! `duly serve`, end to end: the real binary, real sockets, SQLite.
#![allow(clippy::expect_used)]

use crate::support::{Hooks, PATIENCE, Server, ask};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn data() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn hook(hooks: &Hooks) -> Value {
    json!({"target": {"http": {"url": hooks.url()}}})
}

#[test]
fn a_job_for_now_arrives_once_signed_and_is_done() {
    let data = data();
    let (server, hooks) = (Server::start(data.path()), Hooks::start(&[]));
    let mut job = hook(&hooks);
    // Spaces and the order of fields are the sender's: the bytes arrive as they were written.
    job["payload"] = json!({"b": 1, "a": [1.50, "é"]});
    let body = format!(
        r#"{{"target":{{"http":{{"url":"{}"}}}},"payload":{{"b": 1,  "a":[1.50,"é"]}}}}"#,
        hooks.url()
    );
    let made = server.ask("POST", "/v1/jobs", &body);
    assert_eq!(made.status, 202, "{}", made.text);
    assert_eq!(made.header("idempotency-replayed"), Some("false"));
    assert!(made.header("x-request-id").is_some_and(|id| id.starts_with("req_")));
    let made = made.json();
    let heard = hooks.next();
    assert_eq!(heard.body, r#"{"b": 1,  "a":[1.50,"é"]}"#);
    let run = made["run_id"].as_str().expect("a run");
    for name in ["x-run-id", "idempotency-key", "webhook-id"] {
        assert_eq!(heard.header(name), run, "{name}");
    }
    assert_eq!(heard.header("x-job-id"), made["id"]);
    assert_eq!(heard.header("x-attempt"), "1");
    assert!(heard.header("x-fencing-token").parse::<u64>().is_ok_and(|token| token > 0));
    assert!(heard.header("x-scheduled-for").ends_with('Z'));
    assert!(!heard.header("x-request-id").is_empty());
    let token = heard.header("x-fencing-token").parse().expect("a number");
    let parent = wire::trace::parent(heard.header("x-run-id"), token);
    assert_eq!(heard.header("traceparent"), parent);
    let trace: Vec<usize> = heard.header("traceparent").split('-').map(str::len).collect();
    assert_eq!(trace, [2, 32, 16, 2]);
    let secrets = server.ask("GET", "/v1/signing-secrets", "").json();
    let secret = secrets["items"][0]["secret"].as_str().expect("a secret");
    let secret = executor::Secret::parse(secret).expect("whsec_");
    let (stamp, signature) = (heard.header("webhook-timestamp"), heard.header("webhook-signature"));
    let seconds: i64 = stamp.parse().expect("seconds");
    assert_eq!(secret.verify(run, stamp, signature, heard.body.as_bytes(), seconds), Ok(()));
    assert!(secret.verify(run, stamp, signature, b"other", seconds).is_err());
    let mut short = String::new();
    let signed = executor::sign::write_short(&mut short, &[secret], seconds, heard.body.as_bytes());
    assert_eq!((signed, heard.header("x-scheduler-signature")), (Some(()), short.as_str()));
    let done = server.run_is(&made["run_id"], "succeeded");
    assert_eq!(done["attempt"], 1);
    assert_eq!(done["output"], json!({"ok": true}));
    let job = server.ask("GET", &format!("/v1/jobs/{}", made["id"].as_str().expect("an id")), "");
    assert_eq!(job.json()["status"], "succeeded");
    hooks.assert_quiet();
    server.stop();
}

#[test]
fn a_delayed_job_waits_and_a_recurring_one_comes_again() {
    let data = data();
    let (server, hooks) = (Server::start(data.path()), Hooks::start(&[]));
    let asked = Instant::now();
    let mut job = hook(&hooks);
    job["schedule"] = json!({"delay": "1200ms"});
    let made = server.submit(&job);
    assert_eq!(made["status"], "scheduled");
    assert_eq!(server.run_is(&made["run_id"], "scheduled")["attempt"], 0);
    let heard = hooks.next();
    assert!(heard.at - asked >= Duration::from_millis(1_200), "early: {:?}", heard.at - asked);
    server.run_is(&made["run_id"], "succeeded");

    let mut job = hook(&hooks);
    job["schedule"] = json!({"every": "1s", "max_runs": 3});
    let made = server.submit(&job);
    assert_eq!(made["status"], "active");
    assert_eq!(made["run_id"], Value::Null);
    let runs: Vec<String> = (0..3).map(|_| hooks.next().header("x-run-id").to_string()).collect();
    assert!(runs[0] < runs[1] && runs[1] < runs[2], "{runs:?}");
    for run in &runs {
        server.run_is(&json!(run), "succeeded");
    }
    hooks.assert_quiet();
    server.stop();
}

#[test]
fn a_failure_is_tried_again_with_the_same_key_and_a_larger_token() {
    let data = data();
    let hooks = Hooks::start(&["500 No\r\n", "429 Slow\r\nRetry-After: 1\r\n"]);
    let server = Server::start(data.path());
    let mut job = hook(&hooks);
    job["retry"] = json!({"initial": "100ms", "max_retries": 3});
    let made = server.submit(&job);
    let tries: Vec<_> = (0..3).map(|_| hooks.next()).collect();
    for (index, one) in tries.iter().enumerate() {
        assert_eq!(one.header("x-attempt"), (index + 1).to_string());
        assert_eq!(one.header("idempotency-key"), made["run_id"]);
    }
    let token = |at: usize| tries[at].header("x-fencing-token").parse::<u64>().expect("a token");
    assert!(token(0) < token(1) && token(1) < token(2));
    let pause = tries[2].at - tries[1].at;
    assert!(pause >= Duration::from_millis(990), "Retry-After was not kept: {pause:?}");
    let done = server.run_is(&made["run_id"], "succeeded");
    assert_eq!(done["attempts"][0]["code"], 500);
    assert_eq!(done["attempts"].as_array().map(Vec::len), Some(3));
    server.stop();
}

#[test]
fn what_cannot_succeed_dies_and_can_be_replayed() {
    let data = data();
    let (server, hooks) = (Server::start(data.path()), Hooks::start(&["422 No\r\n"]));
    let made = server.submit(&hook(&hooks));
    let dead = server.run_is(&made["run_id"], "dead");
    assert_eq!(dead["attempt"], 1);
    let path = format!("/v1/runs/{}/replay", made["run_id"].as_str().expect("a run"));
    assert_eq!(server.ask("POST", &path, "").status, 200);
    server.run_is(&made["run_id"], "succeeded");
    // duly does not call itself, nor what it must not reach.
    for url in [format!("http://{}/v1/jobs", server.address), "http://169.254.169.254/".to_string()]
    {
        let made = server.submit(&json!({"target": {"http": {"url": url}}}));
        let dead = server.run_is(&made["run_id"], "dead");
        assert!(dead["error"].as_str().is_some_and(|why| why.contains("refused")), "{dead}");
    }
    server.stop();
}

#[test]
fn the_same_key_gets_the_same_answer_and_another_body_is_refused() {
    let data = data();
    let server = Server::start(data.path());
    let job = r#"{"target":{"worker":{"kind":"bill"}},"payload":{"n":1}}"#;
    let spaced = r#"{ "payload": {"n": 1}, "target": {"worker": {"kind": "bill"}} }"#;
    let key = [("Idempotency-Key", "invoice-42")];
    let send = |body: &str| ask(server.address, "POST", "/v1/jobs", body, &key).expect("heard");
    let first = send(job);
    assert_eq!((first.status, first.header("idempotency-replayed")), (202, Some("false")));
    let again = send(spaced);
    assert_eq!((again.status, again.header("idempotency-replayed")), (202, Some("true")));
    assert_eq!(first.json()["id"], again.json()["id"]);
    let other = send(&job.replace("1}", "2}"));
    assert_eq!(other.status, 422);
    assert_eq!(other.json()["code"], "idempotency_key_reused");
    server.stop();
}

#[test]
fn a_worker_claims_beats_and_settles_and_a_stale_token_changes_nothing() {
    let data = data();
    let server = Server::start(data.path());
    let target = json!({"worker": {"kind": "bill"}});
    // The claim waits before there is work, over queues of several shards.
    let waiting = std::thread::spawn({
        let address = server.address;
        let claim = json!({"worker": "w1", "queues": ["a", "b", "c"], "wait": "15s", "max": 5});
        move || ask(address, "POST", "/v1/work/claim", &claim.to_string(), &[]).expect("heard")
    });
    let made = server.submit(&json!({"target": target, "queue": "b", "payload": {"n": 7}}));
    let claimed = waiting.join().expect("no panic").json();
    let run = &claimed["runs"][0];
    assert_eq!(run["run_id"], made["run_id"]);
    assert_eq!((&run["kind"], &run["payload"]), (&json!("bill"), &json!({"n": 7})));
    let (id, token) = (&run["run_id"], run["token"].as_u64().expect("a token"));
    // One trace for the run, one span for the attempt: the same as a webhook's.
    let trace = |run: &Value| {
        let parent = run["traceparent"].as_str().expect("a traceparent").to_string();
        let token = run["token"].as_u64().expect("a token");
        assert_eq!(parent, wire::trace::parent(id.as_str().expect("a run"), token));
        parent
    };
    let first_span = trace(run);
    let beat = |token: u64| {
        let item = json!({"run_id": id, "token": token, "checkpoint": {"at": 3}});
        server.post("/v1/work/heartbeat", &json!({"worker": "w1", "runs": [item]})).json()
    };
    let beaten = beat(token);
    assert_eq!(beaten["results"][0]["status"], "ok");
    assert!(beaten["results"][0]["lease_expires_at"].is_string(), "{beaten}");
    assert_eq!(beat(token + 1)["results"][0]["status"], "stale");
    let settle = |token: u64, outcome: Value| {
        let mut item = json!({"run_id": id, "token": token});
        for (name, value) in outcome.as_object().expect("an object") {
            item[name] = value.clone();
        }
        let body = json!({"worker": "w1", "runs": [item]});
        server.post("/v1/work/settle", &body).json()["results"][0].clone()
    };
    let failed = json!({"outcome": "failed", "error": {"message": "no"}, "retry_after": "100ms"});
    assert_eq!(settle(token + 1, failed.clone())["status"], "stale");
    let answer = settle(token, failed.clone());
    assert_eq!((&answer["status"], &answer["run_status"]), (&json!("ok"), &json!("retrying")));
    // The same settle again gets the same answer.
    assert_eq!(settle(token, failed), answer);
    let claim = json!({"worker": "w2", "queues": ["b"], "kinds": ["bill"], "wait": "15s"});
    let second = server.post("/v1/work/claim", &claim).json()["runs"][0].clone();
    assert_eq!((&second["attempt"], &second["checkpoint"]), (&json!(2), &json!({"at": 3})));
    let second_span = trace(&second);
    assert_eq!((&first_span[..36], first_span.len()), (&second_span[..36], 55));
    assert_ne!(first_span, second_span);
    assert_eq!(settle(token, json!({"outcome": "succeeded"}))["run_status"], "retrying");
    let token = second["token"].as_u64().expect("a token");
    let done = settle(token, json!({"outcome": "succeeded", "output": {"sum": 9}}));
    assert_eq!(done["run_status"], "succeeded");
    assert_eq!(server.run_is(id, "succeeded")["output"], json!({"sum": 9}));
    server.stop();
}

#[test]
fn cancel_ends_a_waiting_run_and_stops_a_running_one() {
    let data = data();
    let (server, hooks) = (Server::start(data.path()), Hooks::slow(&[], PATIENCE));
    let mut job = hook(&hooks);
    job["schedule"] = json!({"delay": "1h"});
    let waiting = server.submit(&job);
    let cancel = |run: &Value| {
        server.ask("POST", &format!("/v1/runs/{}/cancel", run.as_str().expect("a run")), "")
    };
    assert_eq!(cancel(&waiting["run_id"]).json()["status"], "cancelled");
    server.run_is(&waiting["run_id"], "cancelled");
    let again = cancel(&waiting["run_id"]);
    assert_eq!((again.status, &again.json()["code"]), (409, &json!("run_final")));
    let running = server.submit(&hook(&hooks));
    hooks.next();
    server.run_is(&running["run_id"], "running");
    assert_eq!(cancel(&running["run_id"]).json()["cancel_requested"], true);
    // Long before the receiver would have answered.
    server.run_is(&running["run_id"], "cancelled");
    server.stop();
}

#[test]
fn jobs_are_paused_resumed_triggered_held_and_made_in_batches() {
    let data = data();
    let (server, hooks) = (Server::start(data.path()), Hooks::start(&[]));
    let mut job = hook(&hooks);
    job["schedule"] = json!({"cron": "0 3 * * *", "timezone": "Europe/Zurich"});
    let id = server.submit(&job)["id"].as_str().expect("an id").to_string();
    let verb = |verb: &str, body: Value| server.post(&format!("/v1/jobs/{id}/{verb}"), &body);
    let shown = || server.ask("GET", &format!("/v1/jobs/{id}"), "").json();
    assert_eq!(shown()["description"], "At 03:00, Europe/Zurich");
    assert_eq!(verb("pause", json!({"reason": "night off"})).status, 200);
    assert_eq!(
        (&shown()["status"], &shown()["paused"]["reason"]),
        (&json!("paused"), &json!("night off"))
    );
    assert_eq!(verb("resume", json!({})).status, 200);
    assert_eq!(shown()["status"], "active");
    let run = verb("trigger", json!({"payload": {"why": "now"}})).json()["run_id"].clone();
    assert_eq!(hooks.next().body, r#"{"why":"now"}"#);
    server.run_is(&run, "succeeded");

    let scope = json!({"queue": "default"});
    assert_eq!(server.post("/v1/hold", &json!({"scope": scope, "reason": "stop"})).status, 200);
    let jobs: Vec<Value> = vec![hook(&hooks), json!({"target": {}}), hook(&hooks)];
    let made = server.post("/v1/jobs/batch", &json!({"jobs": jobs})).json();
    let status = |at: usize| made["results"][at]["status"].as_u64();
    assert_eq!((status(0), status(1), status(2)), (Some(202), Some(422), Some(202)));
    assert_eq!(made["results"][1]["error"]["errors"][0]["pointer"], "/jobs/1/target");
    let run = made["results"][0]["id"].as_str().expect("an id").replace("job_", "run_");
    server.run_is(&json!(run), "ready");
    hooks.assert_quiet();
    assert_eq!(server.post("/v1/release", &json!({"scope": scope})).status, 200);
    hooks.next();
    hooks.next();
    server.run_is(&json!(run), "succeeded");

    assert_eq!(server.ask("DELETE", &format!("/v1/jobs/{id}"), "").json()["status"], "cancelled");
    let body = json!({"schedule": {"cron": "30 2 * * *", "timezone": "Europe/Berlin"},
                      "after": "2027-03-27T12:00:00Z", "count": 1});
    let preview = server.post("/v1/schedules/preview", &body).json();
    assert_eq!(preview["instants"][0]["nominal"], "2027-03-28T01:00:00.000Z");
    server.stop();
}

#[test]
fn a_worker_that_hangs_up_holds_nothing() {
    let data = data();
    let server = Server::start(data.path());
    let claim =
        json!({"worker": "gone", "queues": ["q"], "wait": "60s", "lease": "1h"}).to_string();
    let mut stream = std::net::TcpStream::connect(server.address).expect("connected");
    let head = format!(
        "POST /v1/work/claim HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{claim}",
        server.address,
        claim.len()
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).expect("sent");
    drop(stream);
    let made = server.submit(&json!({"target": {"worker": {"kind": "k"}}, "queue": "q"}));
    let claim = json!({"worker": "here", "queues": ["q"], "wait": "15s"});
    let claimed = server.post("/v1/work/claim", &claim).json();
    assert_eq!(claimed["runs"][0]["run_id"], made["run_id"], "{claimed}");
    // Everything can be held and released, too.
    assert_eq!(server.post("/v1/hold", &json!({"scope": "all", "reason": "test"})).status, 200);
    server.submit(&json!({"target": {"worker": {"kind": "k"}}, "queue": "q"}));
    let none = json!({"worker": "here", "queues": ["q"], "wait": "0s"});
    assert_eq!(server.post("/v1/work/claim", &none).json()["runs"], json!([]));
    assert_eq!(server.post("/v1/release", &json!({"scope": "all"})).status, 200);
    let claimed = server.post("/v1/work/claim", &claim).json();
    assert_eq!(claimed["runs"].as_array().map(Vec::len), Some(1));
    server.stop();
}
