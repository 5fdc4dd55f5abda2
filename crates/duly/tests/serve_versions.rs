//! What a job was: its versions over HTTP and on the command line, on the real binary, with both stores.
#![allow(clippy::expect_used)]

use crate::support::database::Database;
use crate::support::{Reply, Server, ask, new_key};
use serde_json::{Value, json};
use std::process::{Command, Output};

fn duly(server: &Server, key: Option<&str>, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duly"));
    command.args(args).env("DULY_URL", format!("http://{}", server.address));
    match key {
        Some(key) => command.env("DULY_API_KEY", key),
        None => command.env_remove("DULY_API_KEY"),
    };
    command.output().expect("duly runs")
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn send(server: &Server, key: &str, method: &str, path: &str, tag: &str, body: &Value) -> Reply {
    let bearer = format!("Bearer {key}");
    let headers = [("Authorization", bearer.as_str()), ("If-Match", tag)];
    let headers = if tag.is_empty() { &headers[..1] } else { &headers[..] };
    ask(server.address, method, path, &body.to_string(), headers).expect("an answer")
}

fn job() -> Value {
    json!({"name": "bill", "schedule": {"cron": "0 3 * * *"},
           "target": {"publish": {"redis": {"url": "redis://u:hush@10.0.0.1", "stream": "s"}}},
           // More digits than a double holds: they come back as they went in.
           "payload": {"account": 12_345_678_901_234_567_890_u64}})
}

#[test]
fn versions_say_what_changed_who_did_it_and_since_when() {
    let data = tempfile::tempdir().expect("a folder");
    let folder = data.path().to_str().expect("a path");
    let admin = new_key(folder.as_ref(), &["--scope", "admin", "--name", "boss"]);
    let server = Server::start(data.path());
    let nameless = send(
        &server,
        &admin,
        "POST",
        "/v1/api-keys",
        "",
        &json!({"scope": "submit", "namespace": "default"}),
    );
    let nameless = nameless.json();
    let other = nameless["key"].as_str().expect("a key");
    let path = "/v1/jobs/bill";
    let made = send(&server, &admin, "POST", "/v1/jobs", "", &job());
    assert_eq!(made.status, 202, "{}", made.text);
    let changes = json!({"schedule": {"cron": "0 4 * * *"}, "tags": {"team": "b"}});
    assert_eq!(send(&server, other, "PATCH", path, "\"1\"", &changes).status, 200);
    let moved = json!({"target": {"publish": {"redis": {"url": "redis://u:hush2@10.0.0.1"}}}});
    assert_eq!(send(&server, &admin, "PATCH", path, "\"2\"", &moved).status, 200);

    let list = send(&server, other, "GET", &format!("{path}/versions"), "", &json!({}));
    assert!(!list.text.contains("hush"), "a password is covered: {}", list.text);
    assert!(list.text.contains("12345678901234567890"), "each digit: {}", list.text);
    let items = list.json()["items"].clone();
    let of = |field: &str| -> Vec<Value> {
        items.as_array().expect("a list").iter().map(|item| item[field].clone()).collect()
    };
    assert_eq!(of("version"), [3, 2, 1]);
    assert_eq!(of("in_force"), [true, false, false]);
    assert_eq!(of("changed_from"), [json!(2), json!(1), Value::Null]);
    let changed = [json!(["/target/publish/redis/url"]), json!(["/schedule/cron", "/tags"])];
    assert_eq!(of("changed"), [changed[0].clone(), changed[1].clone(), Value::Null]);
    let boss = json!({"kind": "key", "key_id": &admin[5..17], "name": "boss"});
    let by = [boss.clone(), json!({"kind": "key", "key_id": &other[5..17]}), boss];
    assert_eq!(of("by"), by);
    let now = send(&server, other, "GET", path, "", &json!({})).json();
    let since = of("since");
    assert_eq!((&since[0], &since[2]), (&now["updated_at"], &now["created_at"]));
    let texts: Vec<&str> = since.iter().filter_map(Value::as_str).collect();
    assert!(texts.len() == 3 && texts.is_sorted_by(|a, b| a >= b), "{since:?}");
    for (field, value) in items[0]["definition"].as_object().expect("a definition") {
        assert_eq!(&now[field], value, "{field} as the job shows it");
    }

    let two = send(&server, other, "GET", &format!("{path}/versions/2"), "", &json!({})).json();
    assert_eq!(two, items[1]);
    for (version, why) in [("4", "no such"), ("0", "no such"), ("x", "no such")] {
        let none = send(&server, other, "GET", &format!("{path}/versions/{version}"), "", &two);
        assert_eq!(none.status, 404, "{}", none.text);
        assert!(none.json()["detail"].as_str().is_some_and(|text| text.contains(why)));
    }
    // The same on the command line.
    let table = said(&duly(&server, Some(&admin), &["job", "versions", "bill"]));
    let lines: Vec<Vec<&str>> = table.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["VERSION", "SINCE", "BY", "CHANGED"]);
    assert_eq!(lines[2], ["2", texts[1], &other[5..17], "/schedule/cron", "/tags"]);
    assert_eq!(lines[3], ["1", texts[2], "boss"]);
    let one = said(&duly(&server, Some(&admin), &["job", "versions", "bill", "2", "--json"]));
    assert_eq!(serde_json::from_str::<Value>(&one).expect("JSON"), items[1]);
    server.stop();
}

/// On any store: twenty are kept, one can go back, and a run keeps what it was made with.
fn one_can_go_back(server: &Server) {
    let made = server.submit(&json!({"schedule": {"every": "1h"}, "priority": 0,
        "target": {"worker": {"kind": "k"}}, "payload": {"n": 1}}));
    let path = format!("/v1/jobs/{}", made["id"].as_str().expect("an id"));
    let triggered = server.post(&format!("{path}/trigger"), &json!({})).json();
    let first = server.get(&path);
    let patch = |n: u64| {
        let body = json!({"payload": {"n": n}}).to_string();
        ask(server.address, "PATCH", &path, &body, &[("If-Match", "*")]).expect("an answer")
    };
    for n in 2..=25 {
        assert_eq!(patch(n).status, 200);
    }
    let list = server.get(&format!("{path}/versions"));
    let items = list["items"].as_array().expect("a list");
    let numbers: Vec<u64> = items.iter().filter_map(|one| one["version"].as_u64()).collect();
    assert_eq!(numbers, (6..=25).rev().collect::<Vec<u64>>());
    assert!(items.iter().all(|one| one["by"] == json!({"kind": "no_key"})), "{list}");
    let gone = server.ask("GET", &format!("{path}/versions/5"), "");
    assert_eq!(gone.status, 404);
    assert!(gone.text.contains("not kept any more"), "{}", gone.text);
    // The first is kept for its run.
    assert_eq!(server.get(&format!("{path}/versions/1"))["definition"]["payload"], json!({"n": 1}));
    let claim = json!({"worker": "w", "queues": ["default"]});
    let run = server.post("/v1/work/claim", &claim).json()["runs"][0].clone();
    assert_eq!((&run["run_id"], &run["payload"]), (&triggered["run_id"], &json!({"n": 1})));

    let restore = |version: u32, tag: &str| {
        let headers = [("If-Match", tag)];
        let headers = if tag.is_empty() { &headers[..0] } else { &headers[..] };
        let path = format!("{path}/versions/{version}/restore");
        ask(server.address, "POST", &path, "", headers).expect("an answer")
    };
    assert_eq!(restore(10, "").status, 428);
    assert_eq!(restore(10, "\"24\"").status, 412);
    assert_eq!(restore(5, "*").status, 404);
    let back = restore(10, "\"25\"");
    assert_eq!((back.status, back.header("etag")), (200, Some("\"26\"")), "{}", back.text);
    let back = back.json();
    assert_eq!(back["payload"], json!({"n": 10}));
    assert_eq!(back["next_run_at"], first["next_run_at"], "what did not change did not move");
    assert_eq!(restore(10, "*").json()["version"], 26, "it is so already");
    assert_eq!(restore(26, "*").json()["version"], 26);
    let said = said(&duly(server, None, &["job", "restore", &path[9..], "12", "--json"]));
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&said["version"], &said["payload"]), (&json!(27), &json!({"n": 12})));
    // A version that only a run kept goes with it.
    let settle = json!({"worker": "w", "runs": [
        {"run_id": run["run_id"], "token": run["token"], "outcome": "succeeded"}]});
    assert_eq!(server.post("/v1/work/settle", &settle).json()["results"][0]["status"], "ok");
    assert_eq!(server.ask("GET", &format!("{path}/versions/1"), "").status, 404);
    // A cancelled job can be read and not restored.
    assert_eq!(server.ask("DELETE", &path, "").status, 200);
    assert_eq!(server.get(&format!("{path}/versions"))["items"][0]["version"], 27);
    assert_eq!(restore(10, "*").status, 409);
    let once = server.submit(&json!({"target": {"worker": {"kind": "k"}}}));
    let once = format!("/v1/jobs/{}/versions", once["id"].as_str().expect("an id"));
    assert_eq!(server.ask("GET", &once, "").json()["code"], "not_recurring");
}

#[test]
fn one_can_go_back_in_a_file() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    one_can_go_back(&server);
    server.stop();
}

#[test]
fn one_can_go_back_in_memory() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start_with(data.path(), &[], &["--store", "memory"]);
    one_can_go_back(&server);
    server.stop();
}

#[test]
fn one_can_go_back_in_a_database() {
    let database = Database::start();
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start_with(data.path(), &[], &["--store", &database.address()]);
    one_can_go_back(&server);
    server.stop();
}
