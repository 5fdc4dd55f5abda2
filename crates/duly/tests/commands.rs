//! Programs of this machine as targets, run by the real binary: who may run, what they are told, what
//! their end means, and that nothing of them outlives the attempt.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::{PATIENCE, Server};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const ALLOW: [&str; 8] = [
    "--allow-command",
    "/bin/sh",
    "--allow-command",
    "/usr/bin/env",
    "--allow-command",
    "/bin/cat",
    "--allow-command",
    "/bin/true",
];

fn data() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn shell(script: &str) -> Value {
    json!({"target": {"command": {"argv": ["/bin/sh", "-c", script],
                                  "env": {"PATH": "/usr/bin:/bin"}}},
           "retry": {"max_retries": 0}})
}

/// The number that a program wrote into a file, once it is there.
fn pid(file: &Path) -> u32 {
    let until = Instant::now() + PATIENCE;
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let Some(pid) = text.strip_suffix('\n').and_then(|text| text.parse().ok()) {
            return pid;
        }
        assert!(Instant::now() < until, "{} was not written", file.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until the process is gone, or is only a name that nobody has asked for yet.
fn is_dead(pid: u32) {
    let until = Instant::now() + PATIENCE;
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim().chars().next();
        if matches!(state, None | Some('Z' | 'X')) {
            return;
        }
        assert!(Instant::now() < until, "{pid} goes on: {stat}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A program with a child; both write down who they are and wait for ever.
fn stubborn(folder: &Path) -> (Value, PathBuf, PathBuf) {
    let (own, child) = (folder.join("own"), folder.join("child"));
    let script = format!(
        "trap '' TERM; sleep 1000 & echo $! > {}; echo $$ > {}; wait",
        child.display(),
        own.display()
    );
    (shell(&script), own, child)
}

#[test]
fn only_what_is_allowed_can_be_asked_for() {
    let data = data();
    let server = Server::start(data.path());
    let refused = server.post("/v1/jobs", &shell("true"));
    assert_eq!(refused.status, 422);
    let fault = refused.json()["errors"][0].clone();
    assert_eq!(fault["pointer"], "/target/command/argv/0");
    assert!(
        fault["message"].as_str().is_some_and(|m| m.contains("--allow-command /bin/sh")),
        "{fault}"
    );
    server.stop();
    let server = Server::start_with(data.path(), &[], &ALLOW);
    for (command, pointer) in [
        (json!({"argv": ["/bin/ls"]}), "/target/command/argv/0"),
        (json!({"argv": ["sh"]}), "/target/command/argv/0"),
        (json!({"argv": []}), "/target/command/argv"),
        (json!({}), "/target/command/argv"),
        (json!({"argv": ["/bin/sh", "a\u{0}b"]}), "/target/command/argv/1"),
        (json!({"argv": ["/bin/sh"], "env": {"A B": ""}}), "/target/command/env/A B"),
        (
            json!({"argv": ["/bin/sh"], "env": {"DULY_TOKEN": "1"}}),
            "/target/command/env/DULY_TOKEN",
        ),
        (json!({"argv": ["/bin/sh"], "shell": true}), "/target/command/shell"),
    ] {
        let reply = server.post("/v1/jobs", &json!({"target": {"command": command}}));
        assert_eq!(reply.status, 422, "{command}");
        assert_eq!(reply.json()["errors"][0]["pointer"], pointer, "{}", reply.text);
    }
    // Nobody who may patch a job may run more than who may make one.
    let made = server.submit(&json!({"name": "p", "target": {"worker": {"kind": "k"}},
                                     "schedule": {"every": "1h"}}));
    let path = format!("/v1/jobs/{}", made["id"].as_str().expect("an id"));
    let patch = json!({"target": {"command": {"argv": ["/bin/ls"]}}}).to_string();
    let headers = [("If-Match", "*")];
    let reply =
        crate::support::ask(server.address, "PATCH", &path, &patch, &headers).expect("heard");
    assert_eq!(reply.status, 422, "{}", reply.text);
    server.stop();
    // What was made while it was allowed is told, too, and waits for a person.
    let server = Server::start_with(data.path(), &[], &ALLOW);
    let mut later = shell("true");
    later["schedule"] = json!({"delay": "1s"});
    let made = server.submit(&later);
    server.stop();
    let server = Server::start(data.path());
    let dead = server.run_is(&made["run_id"], "dead");
    assert!(
        dead["error"].as_str().is_some_and(|e| e.contains("--allow-command /bin/sh")),
        "{dead}"
    );
    server.stop();
}

#[test]
fn a_program_hears_its_payload_and_is_told_about_its_run_and_nothing_else() {
    let data = data();
    let server = Server::start_with(data.path(), &[], &ALLOW);
    let job = json!({"target": {"command": {"argv": ["/usr/bin/env"], "env": {"MINE": "a=b"}}},
                     "timeout": "7s"});
    let made = server.submit(&job);
    let run = server.run_is(&made["run_id"], "succeeded");
    let text = run["output"].as_str().expect("text").to_string();
    let mut names: Vec<&str> = text.lines().filter_map(|l| l.split('=').next()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "DULY_ATTEMPT",
            "DULY_CONTENT_TYPE",
            "DULY_DEADLINE",
            "DULY_JOB_ID",
            "DULY_REQUEST_ID",
            "DULY_RUN_ID",
            "DULY_SCHEDULED_FOR",
            "DULY_TOKEN",
            "DULY_TRACEPARENT",
            "MINE",
            "TRACEPARENT",
        ]
    );
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {name}")).to_string()
    };
    assert_eq!(value("DULY_RUN_ID"), made["run_id"].as_str().expect("a run"));
    assert_eq!((value("DULY_ATTEMPT").as_str(), value("MINE").as_str()), ("1", "a=b"));
    let token = value("DULY_TOKEN").parse().expect("a number");
    assert_eq!(value("TRACEPARENT"), wire::trace::parent(&value("DULY_RUN_ID"), token));
    // The payload, byte for byte.
    let bytes: Vec<u8> = (0..=255).collect();
    let payload = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &bytes);
    let count = server.submit(&json!({
        "target": {"command": {"argv": ["/bin/sh", "-c", "od -An -v -tu1 | tr -s ' \\n' ' '"],
                               "env": {"PATH": "/usr/bin:/bin"}}},
        "payload_base64": payload, "content_type": "application/octet-stream"}));
    let run = server.run_is(&count["run_id"], "succeeded");
    let heard: Vec<u8> = run["output"]
        .as_str()
        .expect("text")
        .split_whitespace()
        .map(|one| one.parse().expect("a byte"))
        .collect();
    assert_eq!(heard, bytes);
    // The same from the command line.
    let create = |target: &str| {
        let url = format!("http://{}", server.address);
        let args =
            ["job", "create", "--url", &url, "--wait", "--payload", "[7]", "--target", target];
        let ran = std::process::Command::new(env!("CARGO_BIN_EXE_duly")).args(args).output();
        let ran = ran.expect("duly runs");
        (
            ran.status.code(),
            String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned(),
        )
    };
    let (exit, said) = create(r#"{"command":{"argv":["/bin/cat"]}}"#);
    assert_eq!(exit, Some(0), "{said}");
    let (exit, said) = create("nonsense");
    assert_eq!(exit, Some(2), "{said}");
    assert!(said.contains("--target is not JSON"), "{said}");
    // JSON that it prints is the run's output; who does not listen is not disturbed.
    let job = json!({"target": {"command": {"argv": ["/bin/cat"]}}, "payload": {"n": [1, 2]}});
    let run = server.run_is(&server.submit(&job)["run_id"], "succeeded");
    assert_eq!(run["output"], json!({"n": [1, 2]}));
    let job =
        json!({"target": {"command": {"argv": ["/bin/true"]}}, "payload": "x".repeat(200_000)});
    server.run_is(&server.submit(&job)["run_id"], "succeeded");
    server.stop();
}

#[test]
fn exit_codes_are_answers() {
    let (data, folder) = (data(), data());
    let server = Server::start_with(data.path(), &[], &ALLOW);
    let run = |job: &Value, status: &str| server.run_is(&server.submit(job)["run_id"], status);
    let dead = run(&shell("echo first; echo no such file >&2; exit 3"), "dead");
    let error = dead["error"].as_str().expect("an error");
    assert!(error.contains("exit code 3") && error.contains("no such file"), "{error}");
    assert_eq!(
        (&dead["attempts"][0]["code"], &dead["attempts"][0]["status"]),
        (&json!(3), &json!("failed"))
    );
    let dead = run(&shell("kill -9 $$"), "dead");
    assert!(dead["error"].as_str().is_some_and(|e| e.contains("signal 9")), "{dead}");
    // 75: not now. No retry is spent, there is none.
    let mark = folder.path().join("seen");
    let script =
        format!("if [ -e {0} ]; then echo done; else : > {0}; exit 75; fi", mark.display());
    let mut job = shell(&script);
    job["retry"] = json!({"max_retries": 0, "initial": "100ms"});
    let done = run(&job, "succeeded");
    let status: Vec<&Value> =
        done["attempts"].as_array().expect("attempts").iter().map(|a| &a["status"]).collect();
    assert_eq!(status, ["snoozed", "succeeded"]);
    // Retries, under one run id, with tokens that grow.
    let log = folder.path().join("log");
    let script =
        format!("echo $DULY_RUN_ID $DULY_ATTEMPT $DULY_TOKEN >> {}; exit 1", log.display());
    let mut job = shell(&script);
    job["retry"] = json!({"max_retries": 2, "initial": "10ms"});
    run(&job, "dead");
    let text = std::fs::read_to_string(&log).expect("a log");
    let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split(' ').collect()).collect();
    assert_eq!(lines.iter().map(|l| l[1]).collect::<Vec<_>>(), ["1", "2", "3"]);
    assert!(lines.iter().all(|l| l[0] == lines[0][0]));
    let tokens: Vec<u64> = lines.iter().map(|l| l[2].parse().expect("a token")).collect();
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
    // More than is kept is read and thrown away.
    let done = run(&shell("head -c 1000000 /dev/zero | tr '\\0' a"), "succeeded");
    assert_eq!(done["output"].as_str().map(str::len), Some(16 * 1024));
    server.stop();
}

#[test]
fn nothing_outlives_its_attempt() {
    let data = data();
    let server =
        Server::start_with(data.path(), &[], &[&ALLOW[..], &["--grace", "100ms"]].concat());
    // Its time is over.
    let folder = self::data();
    let (mut job, own, child) = stubborn(folder.path());
    job["timeout"] = json!("1s");
    let dead = server.run_is(&server.submit(&job)["run_id"], "dead");
    assert_eq!(dead["attempts"][0]["status"], "timed_out", "{dead}");
    is_dead(pid(&own));
    is_dead(pid(&child));
    // It is cancelled.
    let folder = self::data();
    let (job, own, child) = stubborn(folder.path());
    let made = server.submit(&job);
    let (own, child) = (pid(&own), pid(&child));
    let path = format!("/v1/runs/{}/cancel", made["run_id"].as_str().expect("a run"));
    assert_eq!(server.ask("POST", &path, "").status, 200);
    server.run_is(&made["run_id"], "cancelled");
    is_dead(own);
    is_dead(child);
    // It ends and leaves a child behind that holds its output open.
    let folder = self::data();
    let file = folder.path().join("left");
    let script = format!("sleep 1000 & echo $! > {}; echo done", file.display());
    let done = server.run_is(&server.submit(&shell(&script))["run_id"], "succeeded");
    assert_eq!(done["output"], "done\n");
    is_dead(pid(&file));
    // The server drains.
    let folder = self::data();
    let (job, own, child) = stubborn(folder.path());
    let made = server.submit(&job);
    let (own, child) = (pid(&own), pid(&child));
    server.stop();
    is_dead(own);
    is_dead(child);
    // So that only the second attempt's are found.
    for name in ["own", "child"] {
        std::fs::remove_file(folder.path().join(name)).expect("removed");
    }
    let server = Server::start_with(data.path(), &[], &ALLOW);
    server.run_is(&made["run_id"], "running");
    let (own, child) = (pid(&folder.path().join("own")), pid(&folder.path().join("child")));
    // The server is told twice.
    server.signal("-TERM");
    while !server.lines.recv_timeout(PATIENCE).expect("it says so").starts_with("stopping") {}
    server.signal("-TERM");
    let mut server = server;
    assert!(server.child.wait().expect("it ends").success());
    is_dead(own);
    is_dead(child);
}
