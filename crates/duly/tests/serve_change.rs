//! Changing jobs, filling in the past, and asking why: on the real binary.
#![allow(clippy::expect_used)]

use crate::support::{Reply, Server, ask};
use serde_json::{Value, json};

fn path_of(made: &Value) -> String {
    format!("/v1/jobs/{}", made["id"].as_str().expect("an id"))
}

fn patch(server: &Server, path: &str, tag: &str, body: &Value) -> Reply {
    let headers = [("If-Match", tag)];
    ask(server.address, "PATCH", path, &body.to_string(), &headers).expect("an answer")
}

#[test]
fn a_patch_makes_a_version_and_a_lost_update_is_refused() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let made = server.submit(&json!({
        "schedule": {"every": "1h"}, "target": {"worker": {"kind": "bill"}}, "priority": 3,
        "payload": {"n": 1}, "tags": {"team": "billing", "tier": "1"}, "retry": {"max_retries": 2},
    }));
    let path = path_of(&made);
    let before = server.ask("GET", &path, "");
    assert_eq!(before.header("etag"), Some("\"1\""));
    let before = before.json();
    // Without If-Match nobody's change would be safe.
    let without = server.ask("PATCH", &path, r#"{"priority": 9}"#);
    assert_eq!((without.status, &without.json()["code"]), (428, &json!("if_match_required")));
    let change = json!({"priority": 9, "tags": {"tier": null}, "retry": {"initial": "1s"}});
    let changed = patch(&server, &path, "\"1\"", &change);
    assert_eq!(changed.status, 200, "{}", changed.text);
    assert_eq!(changed.header("etag"), Some("\"2\""));
    let changed = changed.json();
    assert_eq!(changed["version"], 2);
    assert_eq!((&changed["priority"], &changed["tags"]), (&json!(9), &json!({"team": "billing"})));
    assert_eq!(
        (&changed["retry"]["initial"], &changed["retry"]["max_retries"]),
        (&json!("1s"), &json!(2))
    );
    assert_eq!(changed["payload"], json!({"n": 1}));
    // What was not changed did not move: an interval counts from where it began.
    assert_eq!(changed["next_run_at"], before["next_run_at"]);
    let late = patch(&server, &path, "\"1\"", &json!({"priority": 1}));
    assert_eq!(late.status, 412, "{}", late.text);
    assert!(late.json()["detail"].as_str().is_some_and(|text| text.contains("version 2")));
    assert_eq!(patch(&server, &path, "*", &json!({"priority": 1})).json()["version"], 3);
    // The same again changes nothing.
    assert_eq!(patch(&server, &path, "*", &json!({"priority": 1})).json()["version"], 3);
    let cron = json!({"schedule": {"cron": "0 3 * * *", "timezone": "Europe/Zurich"}});
    let cron = patch(&server, &path, "\"3\"", &cron).json();
    assert_eq!(cron["description"], "At 03:00, Europe/Zurich");
    for (field, body) in [
        ("/queue", json!({"queue": "other"})),
        ("/group", json!({"group": "g"})),
        ("/paused", json!({"paused": true})),
        ("/schedule/cron", json!({"schedule": {"cron": "99 * * * *"}})),
        (
            "/schedule",
            json!({"schedule": {"cron": null, "timezone": null, "dst": null, "at": "2037-01-01T00:00:00Z"}}),
        ),
        ("/colour", json!({"colour": "red"})),
    ] {
        let refused = patch(&server, &path, "*", &body);
        assert_eq!(refused.status, 422, "{body}: {}", refused.text);
        let pointers = refused.json()["errors"].to_string();
        assert!(pointers.contains(field), "{body}: {pointers}");
    }
    server.stop();
}

#[test]
fn a_one_off_can_change_until_it_starts() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let target = json!({"worker": {"kind": "k"}});
    let made = server.submit(&json!({"target": target, "schedule": {"delay": "1h"}, "payload": 1}));
    let before = server.get(&path_of(&made));
    let changed = patch(&server, &path_of(&made), "\"1\"", &json!({"payload": {"new": true}}));
    assert_eq!(changed.status, 200, "{}", changed.text);
    let changed = changed.json();
    assert_eq!(changed["next_run_at"], before["next_run_at"], "its instant stays");
    assert_eq!(changed["payload"], json!({"new": true}));
    let sooner = json!({"schedule": {"delay": "0s"}});
    assert_eq!(patch(&server, &path_of(&made), "\"2\"", &sooner).json()["status"], "ready");
    let claim = json!({"worker": "me", "queues": ["default"], "max": 1});
    let claimed = server.post("/v1/work/claim", &claim).json();
    assert_eq!(claimed["runs"][0]["payload"], json!({"new": true}));
    let late = patch(&server, &path_of(&made), "*", &json!({"payload": 2}));
    assert_eq!((late.status, &late.json()["code"]), (409, &json!("conflict")));
    assert!(late.text.contains("POST /v1/jobs"), "the way out: {}", late.text);
    server.stop();
}

#[test]
fn bytes_that_are_not_json_arrive_as_they_are() {
    let data = tempfile::tempdir().expect("a folder");
    let hooks = crate::support::Hooks::start(&[]);
    let server = Server::start(data.path());
    let job = json!({"target": {"http": {"url": hooks.url()}},
        "payload_base64": "aGVsbG8gd29ybGQ=", "content_type": "text/plain"});
    server.submit(&job);
    let heard = hooks.next();
    assert_eq!((heard.body.as_str(), heard.header("content-type")), ("hello world", "text/plain"));
    for (field, bad) in [
        ("/content_type", json!({"payload_base64": "aGk="})),
        ("/payload_base64", json!({"payload_base64": "%%%", "content_type": "text/plain"})),
        (
            "/payload_base64",
            json!({"payload_base64": "aGk=", "content_type": "text/plain", "payload": 1}),
        ),
        ("/content_type", json!({"payload": 1, "content_type": "text/plain"})),
    ] {
        let mut job = json!({"target": {"worker": {"kind": "k"}}});
        bad.as_object().into_iter().flatten().for_each(|(k, v)| job[k] = v.clone());
        let refused = server.post("/v1/jobs", &job);
        assert_eq!(refused.status, 422, "{}", refused.text);
        assert_eq!(refused.json()["errors"][0]["pointer"], field, "{}", refused.text);
    }
    server.stop();
}

#[test]
fn a_backfill_runs_the_past_as_an_operation() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let made = server.submit(&json!({
        "schedule": {"cron": "0 0 * * *"}, "target": {"worker": {"kind": "k"}}, "queue": "past",
    }));
    let path = format!("{}/backfill", path_of(&made));
    let range =
        json!({"from": "2026-01-01T00:00:00Z", "to": "2026-01-06T00:00:00Z", "rate": "50/s"});
    let mut dry = range.clone();
    dry["dry_run"] = json!(true);
    let dry = server.post(&path, &dry).json();
    assert_eq!((&dry["instants"], &dry["would_run"]), (&json!(5), &json!(5)));
    let mut events = server.listen("/v1/events?types=operation");
    let key = [("Idempotency-Key", "fill-1")];
    let send = |body: &Value| {
        ask(server.address, "POST", &path, &body.to_string(), &key).expect("an answer")
    };
    let accepted = send(&range);
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    let operation = accepted.json()["id"].as_str().expect("an id").to_string();
    assert_eq!(accepted.header("location"), Some(format!("/v1/operations/{operation}").as_str()));
    assert_eq!(events.until("operation.over").data["operation_id"], json!(operation));
    assert_eq!(server.get(&format!("/v1/operations/{operation}"))["status"], "done");
    // The same key again is the same operation; nothing runs twice.
    let again = send(&range);
    assert_eq!(again.json()["id"], json!(operation));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let claim = json!({"worker": "me", "queues": ["past"], "max": 50, "wait": "0s"});
    let claimed = server.post("/v1/work/claim", &claim).json();
    let mut instants: Vec<String> = claimed["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .map(|run| run["scheduled_for"].as_str().unwrap_or_default()[..10].to_string())
        .collect();
    instants.sort();
    assert_eq!(instants, ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04", "2026-01-05"]);
    // What has run (or runs) is not missing any more.
    let mut dry = range.clone();
    dry["dry_run"] = json!(true);
    assert_eq!(server.post(&path, &dry).json()["would_run"], 0);
    // A slow one can be stopped.
    let slow = json!({"from": "2020-01-01T00:00:00Z", "to": "2025-01-01T00:00:00Z", "rate": 1});
    let slow = server.post(&path, &slow).json();
    let slow = format!("/v1/operations/{}", slow["id"].as_str().expect("an id"));
    assert_eq!(server.get(&slow)["status"], "running");
    let cancel = format!("{slow}/cancel");
    assert_eq!(server.ask("POST", &cancel, "").json()["status"], "cancelled");
    assert_eq!(server.ask("POST", &cancel, "").json()["code"], "operation_over");
    for (field, bad) in [
        ("/from", json!({"to": "2026-01-01T00:00:00Z"})),
        ("/to", json!({"from": "2026-01-01T00:00:00Z", "to": "2096-01-01T00:00:00Z"})),
        ("/rate", json!({"from": "2026-01-01T00:00:00Z", "rate": "many"})),
    ] {
        let refused = server.post(&path, &bad);
        assert_eq!(refused.status, 422, "{}", refused.text);
        assert_eq!(refused.json()["errors"][0]["pointer"], field);
    }
    server.stop();
}

#[test]
fn occurrences_show_verdicts_of_the_past_and_plans_of_the_future() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let made = server.submit(&json!({
        "schedule": {"every": "1s"}, "target": {"worker": {"kind": "k"}}, "queue": "ticks",
    }));
    let mut events = server.listen("/v1/events?types=occurrence");
    // One waits, one queues behind it, the third is skipped: nobody works.
    let skipped = events.until("occurrence.skipped");
    assert_eq!(skipped.data["verdict"], "skipped_overlap");
    let path = format!("{}/occurrences", path_of(&made));
    let page = server.get(&format!("{path}?limit=5"));
    let items = page["items"].as_array().expect("items");
    assert_eq!(items.len(), 5);
    let words: Vec<&str> = items.iter().filter_map(|item| item["status"].as_str()).collect();
    assert_eq!(words[..3], ["unfinished", "unfinished", "skipped_overlap"], "{page}");
    let cursor = page["next_cursor"].as_str().expect("there is more");
    let next = server.get(&format!("{path}?limit=500&cursor={cursor}"));
    assert!(next["items"][0]["scheduled_for"].as_str() > items[4]["scheduled_for"].as_str());
    assert_eq!(next["items"][499]["status"], "planned");
    // Explained: the first is ready and waits for a worker, the second for the first.
    let explain = |item: &Value| {
        server.get(&format!("/v1/runs/{}/explain", item["run_id"].as_str().expect("a run")))
    };
    let first = explain(&items[0]);
    assert_eq!(first["reasons"][0]["code"], "waits_for_worker", "{first}");
    assert!(first["summary"].as_str().is_some_and(|text| text.contains("a worker of kind k")));
    let second = explain(&items[1]);
    assert_eq!(second["reasons"][0]["code"], "blocked", "{second}");
    assert_eq!(second["reasons"][0]["waits_for"], items[0]["run_id"]);
    assert_eq!(explain(&next["items"][499])["reasons"][0]["code"], "not_due");
    server.post("/v1/hold", &json!({"scope": {"queue": "ticks"}, "reason": "a look"}));
    let held = explain(&items[0]);
    assert_eq!(held["reasons"][1]["code"], "held", "{held}");
    server.stop();
}

#[test]
fn a_batch_of_lines_answers_each_line_in_order() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let mut lines = String::new();
    for n in 0..1_200 {
        match n {
            7 => lines.push_str("this is not json\n"),
            11 => lines.push_str("{\"target\":{}}\n\n"),
            _ => lines.push_str(&format!(
                "{{\"target\":{{\"worker\":{{\"kind\":\"k\"}}}},\"queue\":\"q{}\",\"payload\":{n}}}\n",
                n % 10
            )),
        }
    }
    let kind = [("Content-Type", "application/x-ndjson"), ("Idempotency-Key", "batch-1")];
    let send =
        || ask(server.address, "POST", "/v1/jobs/batch", lines.trim_end(), &kind).expect("heard");
    let reply = send();
    assert_eq!(reply.status, 200, "{}", reply.text);
    let results = reply.json()["results"].as_array().cloned().expect("results");
    assert_eq!(results.len(), 1_200);
    for (index, result) in results.iter().enumerate() {
        let status = match index {
            7 => 400,
            11 => 422,
            _ => 202,
        };
        assert_eq!(result["status"], status, "{index}: {result}");
    }
    let last = server.get(&format!("/v1/jobs/{}", results[1_199]["id"].as_str().expect("an id")));
    assert_eq!(last["payload"], 1_199);
    // The same key again: each line is answered as before, and nothing is made.
    assert_eq!(send().json(), reply.json());
    assert_eq!(server.get("/v1/queues/q3")["ready"], 120);
    server.stop();
}

#[test]
fn what_will_surprise_is_said_when_a_job_is_made() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let target = json!({"worker": {"kind": "k"}});
    let codes = |job: &Value| -> Vec<String> {
        let made = server.submit(job);
        let warnings = made["warnings"].as_array().cloned().unwrap_or_default();
        warnings.iter().filter_map(|one| Some(one["code"].as_str()?.to_string())).collect()
    };
    let night = json!({"cron": "30 2 * * *", "timezone": "Europe/Zurich"});
    assert_eq!(codes(&json!({"target": target, "schedule": night})), ["dst"]);
    let past = json!({"at": "2020-01-01T00:00:00Z"});
    assert_eq!(codes(&json!({"target": target, "schedule": past})), ["in_the_past"]);
    assert!(codes(&json!({"target": target})).is_empty());
    let herd = json!({"target": target, "schedule": {"at": "2037-01-01T00:00:00Z"}});
    let said: Vec<Vec<String>> = (0..101).map(|_| codes(&herd)).collect();
    assert!(said[..100].iter().all(Vec::is_empty));
    assert_eq!(said[100], ["herd"]);
    server.stop();
}
