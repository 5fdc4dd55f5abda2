//! The client commands against a real server: what they print, and the codes they end with.
#![allow(clippy::expect_used)]

use crate::support::{Hooks, Server};
use serde_json::{Value, json};
use std::process::{Command, Output};

fn duly(server: &Server, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(args)
        .env("DULY_URL", format!("http://{}", server.address))
        .env_remove("DULY_API_KEY")
        .env_remove("DULY_NAMESPACE")
        .output()
        .expect("duly runs")
}

fn says(server: &Server, args: &[&str]) -> String {
    let output = duly(server, args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "duly {args:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

fn json_of(server: &Server, args: &[&str]) -> Value {
    let text = says(server, &[args, &["--json"]].concat());
    serde_json::from_str(&text).expect("JSON")
}

/// Ends with this code, and with the next command to type.
fn refused(server: &Server, args: &[&str], code: i32) -> String {
    let output = duly(server, args);
    let errors = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(code), "duly {args:?}: {errors}");
    let last = errors.lines().last().unwrap_or_default();
    assert!(last.starts_with("help: "), "duly {args:?}: {errors}");
    errors
}

#[test]
fn a_day_at_the_command_line() {
    let data = tempfile::tempdir().expect("a folder");
    let (server, hooks) = (Server::start(data.path()), Hooks::start(&[]));
    let url = hooks.url();
    // Made and waited for.
    let done = json_of(&server, &["job", "create", "--http", &url, "--payload", "1", "--wait"]);
    assert_eq!(done["status"], "succeeded");
    // A named, recurring one.
    let made = ["job", "create", "--kind", "bill", "--every", "1h", "--name", "bills"];
    let made = json_of(&server, &[&made[..], &["--queue", "money", "--tag", "team=a"]].concat());
    let table = says(&server, &["job", "list"]);
    assert!(table.starts_with("ID "), "{table}");
    assert!(table.contains("bills") && table.contains("active"), "{table}");
    assert!(says(&server, &["job", "show", "bills"]).contains("description"), "one field per line");
    assert_eq!(json_of(&server, &["job", "show", "bills"])["id"], made["id"]);
    let edited = json_of(&server, &["job", "edit", "bills", "--patch", r#"{"priority": 9}"#]);
    assert_eq!((&edited["version"], &edited["priority"]), (&json!(2), &json!(9)));
    says(&server, &["job", "pause", "bills", "--reason", "tea"]);
    assert!(says(&server, &["job", "list", "--status", "paused"]).contains("bills"));
    says(&server, &["job", "resume", "bills"]);
    let run = json_of(&server, &["job", "trigger", "bills"])["run_id"].clone();
    let run = run.as_str().expect("a run");
    assert!(says(&server, &["run", "list", "--status", "ready"]).contains(run));
    assert!(says(&server, &["run", "explain", run]).contains("a worker of kind bill"));
    assert!(says(&server, &["queue", "list"]).contains("money"));
    says(&server, &["queue", "pause", "money", "--reason", "look"]);
    assert!(says(&server, &["queue", "show", "money"]).contains("look"));
    says(&server, &["queue", "resume", "money"]);
    for (group, many) in [("few", 1), ("many", 3)] {
        for _ in 0..many {
            says(
                &server,
                &["job", "create", "--kind", "bill", "--queue", "grouped", "--group", group],
            );
        }
    }
    says(&server, &["job", "create", "--kind", "bill", "--queue", "grouped"]);
    says(&server, &["queue", "set", "grouped", "--weight", "many=2"]);
    let claim = json!({"worker": "w", "queues": ["grouped"], "max": 1, "wait": "10s"});
    assert_eq!(server.post("/v1/work/claim", &claim).status, 200);
    let groups = json_of(&server, &["queue", "groups", "grouped"]);
    let items = groups["items"].as_array().expect("groups");
    let of = |group: &Value| items.iter().find(|one| one["group"] == *group).expect("a group");
    let sum = |what: &str| items.iter().filter_map(|one| one[what].as_u64()).sum::<u64>();
    assert_eq!(
        (sum("ready"), sum("running"), &groups["complete"]),
        (4, 1, &json!(true)),
        "{groups}"
    );
    assert_eq!(
        (&of(&json!("many"))["weight"], &of(&json!("few"))["weight"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(items[0]["group"], "many", "the longest line first: {groups}");
    let (ready, oldest) = (&of(&json!("many"))["ready"], &of(&json!("many"))["oldest_ready_ms"]);
    assert!(ready.as_u64() >= Some(2) && oldest.is_i64(), "{groups}");
    assert!(says(&server, &["queue", "groups", "grouped"]).starts_with("GROUP"));
    assert_eq!(says(&server, &["hold", "list"]), "nothing is held\n");
    says(&server, &["hold", "--queue", "money", "--reason", "audit"]);
    says(&server, &["hold", "--reason", "fire drill"]);
    let held = says(&server, &["hold", "list"]);
    assert!(held.contains("everything") && held.contains("fire drill"), "{held}");
    assert!(held.contains("queue money") && held.contains("audit"), "{held}");
    assert!(says(&server, &["status"]).contains("everything: fire drill"));
    assert_eq!(json_of(&server, &["status"])["holds"][0]["reason"], "fire drill");
    says(&server, &["release"]);
    assert_eq!(json_of(&server, &["hold", "list"])["items"][0]["scope"]["queue"], "money");
    says(&server, &["release", "--queue", "money"]);
    assert_eq!(json_of(&server, &["run", "cancel", run])["status"], "cancelled");
    assert!(says(&server, &["job", "occurrences", "bills", "--limit", "3"]).contains("planned"));
    let from = ["job", "backfill", "bills", "--from", "2026-01-01T00:00:00Z"];
    let dry =
        json_of(&server, &[&from[..], &["--to", "2026-01-02T00:00:00Z", "--dry-run"]].concat());
    assert_eq!(dry["dry_run"], true);
    assert!(says(&server, &["job", "stats", "bills"]).contains("cancelled"));
    assert_eq!(json_of(&server, &["job", "cancel", "bills"])["status"], "cancelled");
    server.stop();
}

#[test]
fn commands_end_with_a_code_and_with_what_to_type_next() {
    let data = tempfile::tempdir().expect("a folder");
    let hooks = Hooks::start(&["422 No\r\n", "422 No\r\n"]);
    let server = Server::start(data.path());
    refused(&server, &["job", "show", "nobody"], 3);
    refused(&server, &["job", "show", "a/b"], 2);
    refused(&server, &["run", "show", "run_x"], 3);
    refused(&server, &["job", "create", "--kind", "k", "--payload", "{"], 2);
    refused(&server, &["job", "create", "--kind", "k", "--every", "1 hour"], 4);
    refused(&server, &["dead", "replay"], 2);
    says(&server, &["job", "create", "--kind", "k", "--name", "one"]);
    assert!(
        refused(&server, &["job", "create", "--kind", "k", "--name", "one"], 4)
            .contains("name_taken")
    );
    // The run ends badly: 6, and the way out.
    let bad = refused(&server, &["job", "create", "--http", &hooks.url(), "--wait"], 6);
    assert!(bad.contains("help: duly run replay run_"), "{bad}");
    assert!(says(&server, &["dead", "list"]).contains("answered 422"));
    assert!(says(&server, &["dead", "groups"]).starts_with("COUNT"));
    let dead = json_of(&server, &["dead", "list"])["items"][0]["id"].clone();
    let dead = dead.as_str().expect("a run");
    refused(&server, &["run", "replay", dead, "--wait"], 6);
    says(&server, &["run", "replay", dead, "--wait"]);
    let errors = refused(&server, &["run", "replay", dead], 4);
    assert!(errors.contains("run_final"), "{errors}");
    let nobody = Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(["job", "list", "--url", "http://127.0.0.1:1"])
        .output()
        .expect("duly runs");
    assert_eq!(nobody.status.code(), Some(5));
    server.stop();
}

#[test]
fn a_file_is_applied_twice_and_changes_nothing_the_second_time() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let file = data.path().join("jobs.yaml");
    let text = "jobs:\n  - name: nightly\n    schedule: {cron: \"0 3 * * *\", timezone: Europe/Zurich}\n    \
                target: {worker: {kind: report}}\n    timeout: 90m\n  - name: hourly\n    \
                schedule: {every: 60m}\n    target: {worker: {kind: tidy}}\n";
    std::fs::write(&file, text).expect("written");
    let path = file.to_str().expect("a path");
    let dry = says(&server, &["job", "apply", "-f", path, "--dry-run"]);
    assert!(dry.contains("create    nightly"), "{dry}");
    assert_eq!(
        duly(&server, &["job", "show", "nightly"]).status.code(),
        Some(3),
        "nothing was made"
    );
    let first = says(&server, &["job", "apply", "-f", path]);
    assert!(first.contains("created   hourly (version 1)"), "{first}");
    let second = says(&server, &["job", "apply", "-f", path]);
    assert!(second.contains("unchanged nightly (version 1)"), "{second}");
    assert!(!second.contains("+ "), "{second}");
    std::fs::write(&file, text.replace("90m", "2h")).expect("written");
    let third = says(&server, &["job", "apply", "-f", path]);
    assert!(third.contains("  - timeout: \"1h30m\"\n  + timeout: \"2h\"\n"), "{third}");
    assert!(third.contains("changed   nightly (version 2)"), "{third}");
    std::fs::write(&file, "- target: {}\n").expect("written");
    assert!(refused(&server, &["job", "apply", "-f", path], 2).contains("has no name"));
    server.stop();
}

#[test]
fn events_and_watch_follow_what_happens() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let made = json_of(&server, &["job", "create", "--kind", "k", "--queue", "w"]);
    let run = made["run_id"].as_str().expect("a run").to_string();
    let url = format!("http://{}", server.address);
    let watch = Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(["run", "watch", &run, "--url", &url])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("duly runs");
    let claim = json!({"worker": "me", "queues": ["w"], "max": 1});
    let token = server.post("/v1/work/claim", &claim).json()["runs"][0]["token"].clone();
    let settle = json!({"worker": "me", "runs": [
        {"run_id": run, "token": token, "outcome": "failed", "retryable": false,
         "error": {"message": "no ink"}}]});
    assert_eq!(server.post("/v1/work/settle", &settle).status, 200);
    let watched = watch.wait_with_output().expect("it ends");
    assert_eq!(watched.status.code(), Some(6), "a dead run ended badly");
    let text = String::from_utf8(watched.stdout).expect("text");
    assert!(text.contains("no ink"), "{text}");
    // The last events again, from the cursor before them.
    let stream = server.listen("/v1/events");
    let cursor = stream.id.clone();
    server.submit(&json!({"target": {"worker": {"kind": "k"}}, "queue": "other"}));
    let told = says(&server, &["events", "--after", &cursor, "--count", "2"]);
    assert!(told.contains("job.created") && told.contains("run.ready"), "{told}");
    server.stop();
}
