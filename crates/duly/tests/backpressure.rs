//! What a namespace may have: runs that wait, jobs that recur. Whoever is at the limit is told so, and how
//! it stands; nothing of it is forgotten by a restart. What recurs is late then, and never left out; and
//! what is urgent is taken when what is not gives way.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::cluster::until;
use crate::support::{Listener, Reply, Server, ask};
use serde_json::{Value, json};

const TEAM: [(&str, &str); 1] = [("X-Namespace", "team-a")];

fn data() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn job() -> Value {
    json!({"target": {"worker": {"kind": "mail"}}})
}

fn hourly() -> Value {
    json!({"target": {"worker": {"kind": "mail"}}, "schedule": {"every": "1h"}})
}

fn post(server: &Server, path: &str, body: &Value) -> Reply {
    ask(server.address, "POST", path, &body.to_string(), &TEAM).expect("an answer")
}

fn assert_over(reply: &Reply, words: &[&str]) {
    assert_eq!(reply.status, 429, "{}", reply.text);
    let problem = reply.json();
    assert_eq!((&problem["code"], &problem["retryable"]), (&json!("over_quota"), &json!(true)));
    let wait: u64 = reply.header("retry-after").and_then(|n| n.parse().ok()).expect("Retry-After");
    assert!((1..=60).contains(&wait), "{wait}");
    let detail = problem["detail"].as_str().expect("words").to_string();
    assert!(words.iter().all(|word| detail.contains(word)), "{detail}");
}

#[test]
fn what_a_namespace_has_is_bounded_and_a_restart_forgets_nothing() {
    let data = data();
    let args = ["--quota", "team-a,waiting=3,jobs=2"];
    let server = Server::start_with(data.path(), &[], &args);
    for left in [2, 1, 0] {
        let reply = post(&server, "/v1/jobs", &job());
        assert_eq!(reply.status, 202, "{}", reply.text);
        let state = reply.header("ratelimit").expect("a state").to_string();
        assert!(state.contains(&format!("\"waiting\";r={left}")), "{state}");
        assert!(reply.header("ratelimit-policy").is_some_and(|p| p.contains("\"waiting\";q=3")));
    }
    let full = ["quota waiting", "has 3 runs", "may have 3"];
    assert_over(&post(&server, "/v1/jobs", &job()), &full);
    assert_eq!(server.submit(&job())["status"], "ready", "others go on");
    // What was taken does not wait any more.
    let claim = json!({"worker": "w1", "queues": ["default"], "kinds": ["mail"], "max": 2});
    let claimed = post(&server, "/v1/work/claim", &claim).json();
    assert_eq!(claimed["runs"].as_array().map(Vec::len), Some(2), "{claimed}");
    let many = json!({"jobs": [job(), job(), job(), job()]});
    let made = post(&server, "/v1/jobs/batch", &many).json();
    let statuses: Vec<u64> = made["results"]
        .as_array()
        .expect("results")
        .iter()
        .filter_map(|one| one["status"].as_u64())
        .collect();
    assert_eq!(statuses, [202, 202, 429, 429], "{made}");
    // Recurring jobs have a quota of their own.
    let first = post(&server, "/v1/jobs", &hourly()).json();
    assert_eq!(post(&server, "/v1/jobs", &hourly()).status, 202);
    let path = format!("/v1/jobs/{}", first["id"].as_str().expect("an id"));
    let too_many = ["quota jobs", "has 2 recurring jobs", "may have 2"];
    assert_over(&post(&server, "/v1/jobs", &hourly()), &too_many);
    let named = ask(server.address, "PUT", "/v1/jobs/nightly", &hourly().to_string(), &TEAM);
    assert_over(&named.expect("an answer"), &too_many);
    assert_over(&post(&server, &format!("{path}/trigger"), &json!({})), &full);
    let shown = ask(server.address, "GET", "/v1/quotas", "", &TEAM).expect("an answer").json();
    let counts = json!([
        {"name": "waiting", "limit": 3, "current": 3},
        {"name": "jobs", "limit": 2, "current": 2},
    ]);
    assert_eq!(shown["counts"], counts, "{shown}");
    let page = server.ask("GET", "/metrics", "").text;
    assert!(page.contains("duly_submissions_over_quota_total 6\n"), "{page}");
    server.kill();
    let server = Server::start_with(data.path(), &[], &args);
    assert_over(&post(&server, "/v1/jobs", &job()), &full);
    assert_over(&post(&server, "/v1/jobs", &hourly()), &too_many);
    let gone = ask(server.address, "DELETE", &path, "", &TEAM).expect("an answer");
    assert_eq!(gone.status, 200, "{}", gone.text);
    assert_eq!(post(&server, "/v1/jobs", &hourly()).status, 202);
    server.stop();
}

/// The past instants of a job, oldest first.
fn occurrences(server: &Server, job: &Value) -> Vec<Value> {
    let path = format!("/v1/jobs/{}/occurrences?limit=20", job["id"].as_str().expect("an id"));
    let listed = ask(server.address, "GET", &path, "", &TEAM).expect("an answer").json();
    let items = listed["items"].as_array().expect("items").clone();
    items.into_iter().filter(|one| one["status"] != "planned").collect()
}

#[test]
fn what_recurs_is_late_under_a_quota_and_the_ledger_says_why() {
    let data = data();
    let args = ["--quota", "team-a,waiting=2,fires=60/m"];
    let server = Server::start_with(data.path(), &[], &args);
    let often = json!({
        "target": {"worker": {"kind": "mail"}}, "schedule": {"every": "1s"}, "overlap": "allow",
    });
    let job = post(&server, "/v1/jobs", &often).json();
    // Nobody takes its runs, so before long as many wait as may.
    until("a fire waits", || {
        let path = format!("/v1/jobs/{}", job["id"].as_str().expect("an id"));
        let shown = ask(server.address, "GET", &path, "", &TEAM).expect("an answer").json();
        assert_eq!(shown["paused"], Value::Null, "{shown}");
        shown["delayed"]["reason"] == "waiting_quota"
    });
    let waits = occurrences(&server, &job).into_iter().find(|one| one["status"] == "delayed");
    let waits = waits.expect("one that waits");
    assert_eq!(waits["delayed"]["reason"], "waiting_quota", "{waits}");
    let run = waits["run_id"].as_str().expect("the run that it will be").to_string();
    let path = format!("/v1/runs/{run}/explain");
    let why = ask(server.address, "GET", &path, "", &TEAM).expect("an answer").json();
    assert_eq!(
        (&why["status"], &why["reasons"][0]["code"]),
        (&json!("delayed"), &json!("delayed"))
    );
    // A worker takes what waits, again and again: then that very run is made.
    let claim = json!({
        "worker": "w1", "queues": ["default"], "kinds": ["mail"], "max": 50, "wait": "1s",
    });
    until("the run is made", || {
        post(&server, "/v1/work/claim", &claim);
        let path = format!("/v1/runs/{run}");
        ask(server.address, "GET", &path, "", &TEAM).expect("an answer").status == 200
    });
    let came = occurrences(&server, &job).into_iter().find(|one| one["run_id"] == json!(run));
    let came = came.expect("its instant");
    assert_eq!(came["delayed"]["reason"], "waiting_quota", "{came}");
    assert!(came["delayed"]["fired_at"].as_str() > came["due_at"].as_str(), "{came}");
    let path = format!("/v1/runs/{run}");
    let shown = ask(server.address, "GET", &path, "", &TEAM).expect("an answer").json();
    assert_eq!(shown["scheduled_for"], came["scheduled_for"], "{shown}");
    for one in occurrences(&server, &job) {
        let made = ["unfinished", "succeeded", "failed", "delayed"]
            .contains(&one["status"].as_str().expect("a word"));
        assert!(made, "nothing is left out: {one}");
    }
    let page = server.ask("GET", "/metrics", "").text;
    assert!(!page.contains("duly_fires_delayed_total 0\n"), "{page}");
    server.stop();
}

#[test]
fn while_a_service_level_is_broken_what_is_not_urgent_gives_way() {
    let data = data();
    let server = Server::start_with(data.path(), &[], &[]);
    // A namespace is there when something was submitted to it.
    assert_eq!(post(&server, "/v1/jobs", &hourly()).status, 202);
    let put = |body: Value| {
        let reply = ask(server.address, "PUT", "/v1/queues/mail", &body.to_string(), &TEAM);
        reply.expect("an answer")
    };
    assert_eq!(put(json!({"start_within": "10ms"})).status, 422);
    let set = put(json!({"start_within": "1s"})).json();
    assert_eq!(set["limits"]["start_within"], "1s", "{set}");
    assert_eq!(set["service_level"], json!({"start_within": "1s", "kept": true}), "{set}");
    let of = |priority: u8| {
        let target = json!({"worker": {"kind": "mail"}});
        post(&server, "/v1/jobs", &json!({"target": target, "queue": "mail", "priority": priority}))
    };
    let mut told = Listener::open(server.address, "/v1/events?namespace=team-a", None);
    assert_eq!(of(2).status, 202);
    let broken = told.until("queue.level_broken");
    assert_eq!(broken.data["queue"], "mail", "{}", broken.data);
    let refused = of(4);
    assert_eq!((refused.status, &refused.json()["code"]), (429, &json!("shed")));
    assert_eq!(refused.json()["retryable"], true);
    assert!(refused.header("retry-after").is_some());
    assert_eq!(of(5).status, 202);
    let path = "/v1/queues/mail";
    let shown = ask(server.address, "GET", path, "", &TEAM).expect("an answer").json();
    assert_eq!(shown["service_level"]["kept"], false, "{shown}");
    let claim = json!({"worker": "w1", "queues": ["mail"], "kinds": ["mail"], "max": 50});
    post(&server, "/v1/work/claim", &claim);
    told.until("queue.level_kept");
    assert_eq!(of(0).status, 202);
    let page = server.ask("GET", "/metrics", "").text;
    assert!(page.contains("duly_submissions_shed_total 1\n"), "{page}");
    server.stop();
}
