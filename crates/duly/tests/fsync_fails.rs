//! A disk that does not keep what it was given: the process says so and stops, and the next one finds
//! everything that was answered.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::{PATIENCE, Server, ask};
use serde_json::json;
use std::fs::File;
use std::process::Command;
use std::time::Instant;

/// strace makes the given call of fsync or fdatasync fail with EIO.
fn start_failing_at(data: &std::path::Path, call: u32, errors: &std::path::Path) -> Server {
    let found = Command::new("strace").arg("-V").output().is_ok_and(|out| out.status.success());
    assert!(found, "strace is missing: scripts/setup-tools.sh installs it");
    let mut command = Command::new("strace");
    command
        .args(["-f", "-qq", "-e", "trace=fsync,fdatasync"])
        .arg("-e")
        .arg(format!("inject=fsync,fdatasync:error=EIO:when={call}"))
        .args(["-o", "/dev/null", env!("CARGO_BIN_EXE_duly")])
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .stderr(File::create(errors).expect("a file"));
    Server::spawned(command)
}

#[test]
fn a_failed_fsync_stops_the_process_and_loses_nothing_that_was_answered() {
    // The calls before the first one are those of the start.
    for call in [60, 75, 110] {
        let folder = tempfile::tempdir().expect("a folder");
        let (data, errors) = (folder.path().join("data"), folder.path().join("errors"));
        let mut server = start_failing_at(&data, call, &errors);
        let mut answered = Vec::new();
        let until = Instant::now() + PATIENCE;
        let ended = loop {
            if let Some(status) = server.child.try_wait().expect("a status") {
                break status;
            }
            assert!(Instant::now() < until, "call {call}: it goes on with a disk that failed");
            let body = json!({"target": {"worker": {"kind": "k"}}, "queue": "q"}).to_string();
            // A request may be cut off, or told that nobody knows: only an answer counts.
            if let Ok(reply) = ask(server.address, "POST", "/v1/jobs", &body, &[])
                && reply.status == 202
            {
                answered.push(reply.json()["id"].as_str().expect("an id").to_string());
            }
        };
        assert_eq!(ended.code(), Some(1), "call {call}");
        let said = std::fs::read_to_string(&errors).expect("what it said");
        assert!(said.contains("duly: the store is broken: "), "call {call}: {said}");
        assert!(!answered.is_empty(), "call {call}: it failed before anything was answered");

        let server = Server::start(&data);
        for id in &answered {
            let reply = server.ask("GET", &format!("/v1/jobs/{id}"), "");
            assert_eq!(reply.status, 200, "call {call}: {id} is gone: {}", reply.text);
        }
        server.stop();
    }
}
