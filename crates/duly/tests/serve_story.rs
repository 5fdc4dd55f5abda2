//! Longer stories on the real binary: downtime, overlap, namespaces.
#![allow(clippy::expect_used)]

use crate::support::{Reply, Server, ask};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::Path;

fn claim(server: &Server, queue: &str, max: usize, wait: &str) -> Vec<Value> {
    let body = json!({"worker": "me", "queues": [queue], "max": max, "wait": wait});
    let claimed = server.post("/v1/work/claim", &body);
    assert_eq!(claimed.status, 200, "{}", claimed.text);
    claimed.json()["runs"].as_array().cloned().unwrap_or_default()
}

fn settle(server: &Server, run: &Value) {
    let body = json!({"worker": "me", "runs": [
        {"run_id": run["run_id"], "token": run["token"], "outcome": "succeeded"}]});
    let settled = server.post("/v1/work/settle", &body);
    assert_eq!(settled.json()["results"][0]["status"], "ok", "{}", settled.text);
}

fn occurrences(server: &Server, name: &str) -> Vec<Value> {
    let page = server.get(&format!("/v1/jobs/{name}/occurrences?limit=20"));
    let items = page["items"].as_array().cloned().unwrap_or_default();
    items.into_iter().filter(|item| item["status"] != "planned").collect()
}

#[test]
fn what_was_missed_while_nobody_was_there_is_caught_up_as_each_job_says() {
    let data = tempfile::tempdir().expect("a folder");
    let file = data.path().join("clock");
    let set = |file: &Path, micros: i64| std::fs::write(file, format!("{micros} {micros}\n"));
    set(&file, 0).expect("written");
    let env = [("DULY_TEST_CLOCK", file.as_os_str() as &OsStr)];
    let server = Server::start_with(data.path(), &env, &[]);
    for (name, catch_up) in [
        ("all", json!({"policy": "all", "max": 4, "rate": 100})),
        ("once", json!({"policy": "once"})),
        ("skip", json!({"policy": "skip"})),
    ] {
        server.submit(&json!({
            "name": name, "queue": name, "schedule": {"every": "10m"},
            "target": {"worker": {"kind": "k"}}, "catch_up": catch_up,
        }));
    }
    server.stop();
    // 65 minutes later: six instants of each were missed.
    set(&file, 65 * 60 * 1_000_000).expect("written");
    let server = Server::start_with(data.path(), &env, &[]);
    let mut caught = Vec::new();
    while caught.len() < 4 {
        let runs = claim(&server, "all", 10, "20s");
        assert!(!runs.is_empty(), "only {} came", caught.len());
        runs.iter().for_each(|run| settle(&server, run));
        caught.extend(runs);
    }
    assert!(claim(&server, "all", 10, "0s").is_empty(), "four and no more");
    let first = occurrences(&server, "all").remove(0);
    assert_eq!((&first["status"], &first["count"]), (&json!("missed"), &json!(2)), "{first}");
    let once = claim(&server, "once", 10, "20s");
    assert_eq!(once.len(), 1);
    settle(&server, &once[0]);
    let verdicts = occurrences(&server, "once");
    assert_eq!((&verdicts[0]["status"], &verdicts[0]["count"]), (&json!("coalesced"), &json!(5)));
    assert_eq!(verdicts[1]["status"], "succeeded");
    assert!(claim(&server, "skip", 10, "0s").is_empty());
    let verdicts = occurrences(&server, "skip");
    assert_eq!((&verdicts[0]["status"], &verdicts[0]["count"]), (&json!("missed"), &json!(6)));
    assert_eq!(verdicts.len(), 1);
    server.stop();
}

#[test]
fn overlap_does_what_each_job_says() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let job = |overlap: &str| {
        json!({"name": overlap.replace('_', "-"), "queue": overlap, "schedule": {"every": "1s"},
            "target": {"worker": {"kind": "k"}}, "overlap": overlap})
    };
    for overlap in ["skip", "allow", "cancel_running"] {
        server.submit(&job(overlap));
    }
    // skip: the first is held by us, the next instants make no run.
    let mut skips = server.listen("/v1/events?types=occurrence&queue=skip");
    let held = claim(&server, "skip", 1, "20s");
    assert_eq!(skips.until("occurrence.skipped").data["verdict"], "skipped_overlap");
    settle(&server, &held[0]);
    // allow: two at once.
    let first = claim(&server, "allow", 1, "20s");
    let second = claim(&server, "allow", 1, "20s");
    assert_ne!(first[0]["run_id"], second[0]["run_id"]);
    // cancel_running: who holds the first is told to stop, and hands it back.
    let first = claim(&server, "cancel_running", 1, "20s");
    let mut events = server.listen("/v1/events?types=run.stopping&queue=cancel_running");
    let body = json!({"worker": "me", "runs": [
        {"run_id": first[0]["run_id"], "token": first[0]["token"]}]});
    let beat = server.post("/v1/work/heartbeat", &body).json();
    if beat["results"][0]["status"] != "cancel" {
        assert_eq!(events.until("run.stopping").data["run_id"], first[0]["run_id"]);
        let beat = server.post("/v1/work/heartbeat", &body).json();
        assert_eq!(beat["results"][0]["status"], "cancel", "{beat}");
    }
    server.stop();
}

fn of(server: &Server, namespace: &str, method: &str, path: &str, body: &str) -> Reply {
    let headers = [("X-Namespace", namespace)];
    ask(server.address, method, path, body, &headers).expect("an answer")
}

#[test]
fn a_namespace_sees_and_changes_only_its_own() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let job = json!({
        "name": "nightly", "schedule": {"every": "1h"}, "target": {"worker": {"kind": "k"}},
    });
    let job = job.to_string();
    let one = of(&server, "one", "POST", "/v1/jobs", &job).json()["id"].clone();
    let two = of(&server, "two", "POST", "/v1/jobs", &job).json()["id"].clone();
    let (one, two) = (one.as_str().expect("an id"), two.as_str().expect("an id"));
    assert_ne!(one, two);
    // The same name is another job in each.
    assert_eq!(of(&server, "one", "GET", "/v1/jobs/nightly", "").json()["id"], one);
    assert_eq!(of(&server, "two", "GET", "/v1/jobs/nightly", "").json()["id"], two);
    let mut theirs =
        crate::support::Listener::open(server.address, "/v1/events?namespace=two", None);
    let run = of(&server, "one", "POST", &format!("/v1/jobs/{one}/trigger"), "{}").json();
    let run = run["run_id"].as_str().expect("a run").to_string();
    let backfill = r#"{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}"#;
    let operation =
        of(&server, "one", "POST", &format!("/v1/jobs/{one}/backfill"), backfill).json();
    let operation = operation["id"].as_str().expect("an operation").to_string();
    for (method, path) in [
        ("GET", format!("/v1/jobs/{one}")),
        ("DELETE", format!("/v1/jobs/{one}")),
        ("GET", format!("/v1/jobs/{one}/runs")),
        ("GET", format!("/v1/jobs/{one}/stats")),
        ("GET", format!("/v1/jobs/{one}/occurrences")),
        ("POST", format!("/v1/jobs/{one}/pause")),
        ("POST", format!("/v1/jobs/{one}/resume")),
        ("POST", format!("/v1/jobs/{one}/trigger")),
        ("GET", format!("/v1/runs/{run}")),
        ("GET", format!("/v1/runs/{run}/explain")),
        ("POST", format!("/v1/runs/{run}/cancel")),
        ("POST", format!("/v1/runs/{run}/replay")),
        ("GET", format!("/v1/operations/{operation}")),
        ("POST", format!("/v1/operations/{operation}/cancel")),
    ] {
        let refused = of(&server, "two", method, &path, "{}");
        assert_eq!(refused.status, 404, "{method} {path}: {}", refused.text);
    }
    let patch = [("X-Namespace", "two"), ("If-Match", "*")];
    let patch =
        ask(server.address, "PATCH", &format!("/v1/jobs/{one}"), r#"{"priority":1}"#, &patch);
    assert_eq!(patch.expect("heard").status, 404);
    assert_eq!(of(&server, "two", "GET", "/v1/runs", "").json()["items"], json!([]));
    let jobs = of(&server, "two", "GET", "/v1/jobs", "").json();
    assert_eq!(jobs["items"].as_array().map(Vec::len), Some(1), "{jobs}");
    let claim = r#"{"worker":"me","queues":["default"],"wait":"0s"}"#;
    assert_eq!(of(&server, "two", "POST", "/v1/work/claim", claim).json()["runs"], json!([]));
    let claimed = of(&server, "one", "POST", "/v1/work/claim", claim).json();
    assert_eq!(claimed["runs"][0]["run_id"], json!(run), "{claimed}");
    assert_eq!(claimed["runs"][0]["job_name"], "nightly");
    // All that the other namespace hears is its own.
    let marker = of(&server, "two", "POST", "/v1/jobs/nightly/trigger", "{}").json();
    let heard = theirs.next().expect("an event");
    assert_eq!(heard.data["job_id"], two, "{heard:?}");
    assert_eq!(heard.data["run_id"], marker["run_id"]);
    server.stop();
}

#[test]
fn what_is_past_its_retention_is_gone_and_not_just_missing() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start_with(data.path(), &[], &["--keep", "1s", "--keep-failures", "1s"]);
    let made = server.submit(&json!({"target": {"worker": {"kind": "k"}}, "queue": "q"}));
    let run = claim(&server, "q", 1, "20s").remove(0);
    settle(&server, &run);
    let path = format!("/v1/runs/{}", made["run_id"].as_str().expect("a run"));
    let until = std::time::Instant::now() + crate::support::PATIENCE;
    loop {
        let reply = server.ask("GET", &path, "");
        if reply.status == 410 {
            assert_eq!(reply.json()["code"], "past_retention");
            break;
        }
        assert_eq!(reply.json()["status"], "succeeded", "{}", reply.text);
        assert!(std::time::Instant::now() < until, "it is never removed");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let job = format!("/v1/jobs/{}", made["id"].as_str().expect("an id"));
    assert_eq!(server.ask("GET", &job, "").status, 410);
    let never = "/v1/runs/run_7zzzzzzzzzzzzzzzzzzzzzzzzz";
    assert_eq!(server.ask("GET", never, "").status, 404);
    server.stop();
}

#[test]
fn a_name_is_taken_for_as_long_as_its_job_lives() {
    let data = tempfile::tempdir().expect("a folder");
    let file = data.path().join("clock");
    let set = |micros: i64| std::fs::write(&file, format!("{micros} {micros}\n"));
    set(0).expect("written");
    let env = [("DULY_TEST_CLOCK", file.as_os_str() as &OsStr)];
    let server = Server::start_with(data.path(), &env, &[]);
    let job = json!({
        "name": "far", "schedule": {"delay": "10h"}, "target": {"worker": {"kind": "k"}},
    });
    let first = server.submit(&job);
    server.stop();
    // Long after the reservation itself would have run out.
    set(5 * 60 * 1_000_000).expect("written");
    let server = Server::start_with(data.path(), &env, &[]);
    let again = server.post("/v1/jobs", &job);
    assert_eq!((again.status, &again.json()["code"]), (409, &json!("name_taken")));
    server.ask("DELETE", "/v1/jobs/far", "");
    assert_ne!(server.submit(&job)["id"], first["id"]);
    server.stop();
}
