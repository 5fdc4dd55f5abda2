//! Events and waiting, on the real binary.
#![allow(clippy::expect_used)]

use crate::support::{Hooks, Listener, Server};
use serde_json::{Value, json};

fn worker_job(queue: &str) -> Value {
    json!({"target": {"worker": {"kind": "k"}}, "queue": queue})
}

#[test]
fn a_listener_hears_a_run_from_birth_to_end_and_can_go_on_where_it_was() {
    let data = tempfile::tempdir().expect("a folder");
    let hooks = Hooks::start(&["500 No\r\n"]);
    let server = Server::start(data.path());
    let mut events = server.listen("/v1/events");
    let before = events.id.clone();
    let made = server.submit(&json!({
        "target": {"http": {"url": hooks.url()}}, "retry": {"initial": "100ms"},
    }));
    let mut names: Vec<String> = Vec::new();
    while names.last().is_none_or(|name| name != "run.succeeded") {
        let told = events.next().expect("an event");
        assert_eq!(told.data["job_id"], made["id"], "{told:?}");
        names.push(told.name);
    }
    // A run that somebody waits for is started in the commit that makes it ready; then it is not told
    // to be ready on its own.
    let told: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| *name != "run.ready").collect();
    let wanted = ["job.created", "run.started", "run.retrying", "run.started", "run.succeeded"];
    assert_eq!(told, wanted);
    // The same again from the cursor before it all, and nothing of it from the last one.
    let mut again = Listener::open(server.address, "/v1/events", Some(&before));
    let replayed: Vec<String> =
        (0..names.len()).map(|_| again.next().expect("an event").name).collect();
    assert_eq!(replayed, names);
    let mut after = Listener::open(server.address, "/v1/events", Some(&events.id));
    let next = server.submit(&worker_job("other"));
    assert_eq!(after.next().expect("an event").data["job_id"], next["id"]);
    server.stop();
}

#[test]
fn a_cursor_of_another_life_finds_a_gap_and_streams_end_with_the_server() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let mut events = server.listen("/v1/events");
    server.submit(&worker_job("a"));
    let last = events.until("run.ready").id;
    // An open stream does not hold up the stop, and ends without an error.
    server.stop();
    while events.next().is_some() {}
    let server = Server::start(data.path());
    let mut events = Listener::open(server.address, "/v1/events", Some(&last));
    assert_eq!(events.next().expect("an event").name, "gap");
    let made = server.submit(&worker_job("b"));
    assert_eq!(events.until("job.created").data["job_id"], made["id"]);
    let mut rubbish = Listener::open(server.address, "/v1/events", Some("rubbish"));
    assert_eq!(rubbish.next().expect("an event").name, "gap");
    server.stop();
}

#[test]
fn filters_leave_out_what_was_not_asked_for() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let every = json!({"schedule": {"every": "1h"}, "target": {"worker": {"kind": "k"}}});
    let watched = server.submit(&every);
    let path = format!("/v1/jobs/{}", watched["id"].as_str().expect("an id"));
    let of_job = format!("/v1/events?job={}", watched["id"].as_str().expect("an id"));
    let mut of_job = server.listen(&of_job);
    let mut of_queue = server.listen("/v1/events?queue=bills&types=run");
    let mut of_type = server.listen("/v1/events?types=job.paused,hold");
    server.submit(&worker_job("other"));
    let bill = server.submit(&worker_job("bills"));
    assert_eq!(server.post(&format!("{path}/pause"), &json!({"reason": "tea"})).status, 200);
    assert_eq!(server.post(&format!("{path}/resume"), &json!({})).status, 200);
    assert_eq!(server.post("/v1/hold", &json!({"reason": "stop"})).status, 200);
    assert_eq!(server.post("/v1/release", &json!({})).status, 200);
    let told = of_job.next().expect("an event");
    assert_eq!((told.name.as_str(), &told.data["reason"]), ("job.paused", &json!("tea")));
    assert_eq!(of_job.next().expect("an event").name, "job.resumed");
    let told = of_queue.next().expect("an event");
    assert_eq!((told.name.as_str(), &told.data["run_id"]), ("run.ready", &bill["run_id"]));
    let names: Vec<String> = (0..3).map(|_| of_type.next().expect("an event").name).collect();
    assert_eq!(names, ["job.paused", "hold.set", "hold.released"]);
    let refused = server.ask("GET", "/v1/events?colour=red", "");
    assert_eq!((refused.status, &refused.json()["code"]), (422, &json!("unknown_field")));
    server.stop();
}

#[test]
fn a_request_waits_for_the_end_of_a_run() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let made = server.submit(&worker_job("w"));
    let run = made["run_id"].as_str().expect("a run").to_string();
    // Not ended yet: the answer comes when the time is over, and says how it stands.
    let waited = server.get(&format!("/v1/runs/{run}?wait=200ms"));
    assert_eq!(waited["status"], "ready");
    let claim = json!({"worker": "me", "queues": ["w"], "max": 1});
    let claimed = server.post("/v1/work/claim", &claim).json();
    let token = claimed["runs"][0]["token"].clone();
    let (address, path) = (server.address, format!("/v1/runs/{run}?wait=30s"));
    let mut started = server.listen("/v1/events?types=run");
    let waiter = std::thread::spawn(move || {
        crate::support::ask(address, "GET", &path, "", &[]).expect("an answer")
    });
    let settle = json!({"worker": "me", "runs": [
        {"run_id": run, "token": token, "outcome": "succeeded", "output": {"n": 1}}]});
    assert_eq!(server.post("/v1/work/settle", &settle).status, 200);
    let ended = waiter.join().expect("waited").json();
    assert_eq!((&ended["status"], &ended["output"]), (&json!("succeeded"), &json!({"n": 1})));
    assert_eq!(started.until("run.succeeded").data["run_id"], json!(run));
    let long = server.ask("GET", &format!("/v1/runs/{run}?wait=1h"), "");
    assert_eq!(long.status, 422, "{}", long.text);
    server.stop();
}
