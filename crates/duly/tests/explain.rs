//! `explain`: each reason that it can give, from a server in which it is the true one. Limits, breakers, delays,
//! holds and blocked runs are explained where they are tested.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::cluster::until;
use crate::support::{Hooks, Server};
use serde_json::{Value, json};

fn work(queue: &str) -> Value {
    json!({"target": {"worker": {"kind": "mail"}}, "queue": queue})
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_string()
}

/// The status and the codes of the reasons.
fn why(server: &Server, run: &Value) -> (String, Vec<String>, Value) {
    let why = server.get(&format!("/v1/runs/{}/explain", text(run)));
    let reasons = why["reasons"].as_array().expect("reasons").clone();
    for one in &reasons {
        let words = text(&one["message"]);
        assert!(text(&why["summary"]).contains(&words), "{why}");
    }
    let codes = reasons.iter().map(|one| text(&one["code"])).collect();
    (text(&why["status"]), codes, reasons[0].clone())
}

fn claim(server: &Server, queue: &str) -> Value {
    let claim = json!({"worker": "w1", "queues": [queue], "kinds": ["mail"], "wait": "5s"});
    let claimed = server.post("/v1/work/claim", &claim).json();
    claimed["runs"][0].clone()
}

fn settle(server: &Server, run: &Value, outcome: &Value) {
    let mut one = json!({"run_id": run["run_id"], "token": run["token"]});
    one.as_object_mut().expect("an object").extend(outcome.as_object().expect("one").clone());
    let body = json!({"worker": "w1", "runs": [one]});
    let settled = server.post("/v1/work/settle", &body).json();
    assert_eq!(settled["results"][0]["status"], "ok", "{settled}");
}

fn fail(server: &Server, run: &Value) {
    settle(server, run, &json!({"outcome": "failed", "error": {"message": "no luck"}}));
}

#[test]
fn a_run_is_explained_from_its_claim_to_its_end() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let mut job = work("life");
    job["retry"] = json!({"max_retries": 1, "initial": "1s", "factor": 1});
    let run = server.submit(&job)["run_id"].clone();
    let claimed = claim(&server, "life");
    let (status, codes, reason) = why(&server, &run);
    assert_eq!((status.as_str(), codes.as_slice()), ("running", &["running".to_string()][..]));
    assert!(text(&reason["message"]).contains("attempt 1, held by the worker w1"), "{reason}");
    assert!(reason["deadline"].is_string(), "{reason}");
    fail(&server, &claimed);
    let (status, codes, reason) = why(&server, &run);
    assert_eq!((status.as_str(), codes[0].as_str()), ("retrying", "retrying"), "{reason}");
    assert_eq!((&reason["retries_left"], &reason["error"]), (&json!(0), &json!("no luck")));
    fail(&server, &claim(&server, "life"));
    let (status, codes, reason) = why(&server, &run);
    assert_eq!((status.as_str(), codes[0].as_str()), ("dead", "dead"), "{reason}");
    assert!(text(&reason["message"]).contains("duly run replay"), "{reason}");
    server.post(&format!("/v1/runs/{}/replay", text(&run)), &json!({}));
    let again = claim(&server, "life");
    let path = format!("/v1/runs/{}/cancel", text(&run));
    assert!(server.post(&path, &json!({})).status < 300);
    let (_, codes, _) = why(&server, &run);
    assert_eq!(codes, ["stopping"]);
    settle(&server, &again, &json!({"outcome": "succeeded"}));
    let (status, codes, _) = why(&server, &run);
    assert_eq!(codes, ["ended"], "{status}");
    server.stop();
}

#[test]
fn what_is_ready_says_what_it_waits_for() {
    let data = tempfile::tempdir().expect("a folder");
    let (server, hooks) = (Server::start(data.path()), Hooks::start(&[]));
    let job = json!({"target": {"http": {"url": hooks.url()}}, "queue": "sent"});
    server.submit(&job);
    hooks.next();
    server.post("/v1/queues/sent/pause", &json!({"reason": "repairs"}));
    let run = server.submit(&job)["run_id"].clone();
    let (status, codes, _) = why(&server, &run);
    assert_eq!((status.as_str(), codes), ("ready", vec!["waits_for_turn".into(), "held".into()]));
    // A bucket is empty when it is made.
    let body = json!({"rate": "1/d", "burst": 1});
    assert_eq!(server.ask("PUT", "/v1/queues/rare", &body.to_string()).status, 200);
    let run = server.submit(&work("rare"))["run_id"].clone();
    let (status, codes, reason) = why(&server, &run);
    assert_eq!((status.as_str(), codes[0].as_str()), ("ready", "rate_limited"), "{reason}");
    assert_eq!((&reason["queue"], &reason["rate"]), (&json!("rare"), &json!("1/d")), "{reason}");
    server.stop();
}

#[test]
fn an_instant_of_a_job_that_does_not_fire_says_so() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let mut job = work("ticks");
    job["schedule"] = json!({"every": "1h"});
    let made = server.submit(&job);
    let path = format!("/v1/jobs/{}", text(&made["id"]));
    let list = server.get(&format!("{path}/occurrences?limit=1"));
    let run = list["items"][0]["run_id"].clone();
    let (status, codes, _) = why(&server, &run);
    assert_eq!((status.as_str(), codes), ("planned", vec!["not_due".to_string()]));
    server.post(&format!("{path}/pause"), &json!({"reason": "holidays"}));
    let (_, codes, reason) = why(&server, &run);
    assert_eq!(codes, ["paused", "not_due"]);
    assert!(text(&reason["message"]).contains("holidays"), "{reason}");
    server.post(&format!("{path}/resume"), &json!({}));
    assert_eq!(server.ask("DELETE", &path, "").status, 200);
    until("it is over", || server.get(&path)["status"] == "cancelled");
    let (_, codes, reason) = why(&server, &run);
    assert_eq!(codes[0], "job_over", "{reason}");
    server.stop();
}
