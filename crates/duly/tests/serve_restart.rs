//! What survives the end of a process, orderly or not.
#![allow(clippy::expect_used)]

use crate::support::{Hooks, PATIENCE, Server, ask};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn a_restart_keeps_jobs_and_what_is_done() {
    let data = tempfile::tempdir().expect("a folder");
    let hooks = Hooks::start(&[]);
    let server = Server::start(data.path());
    let target = json!({"http": {"url": hooks.url()}});
    let done = server.submit(&json!({"target": target, "queue": "first"}));
    hooks.next();
    server.run_is(&done["run_id"], "succeeded");
    let soon = json!({"target": target, "queue": "second", "schedule": {"delay": "2s"}});
    let soon = server.submit(&soon);
    let cron = json!({"target": target, "queue": "third", "schedule": {"cron": "*/1 * * * * *"}, "paused": true});
    let cron = server.submit(&cron)["id"].as_str().expect("an id").to_string();
    server.stop();
    hooks.assert_quiet();

    // Its queue is known to no submission of this process: the executor finds it all the same.
    let server = Server::start(data.path());
    assert_eq!(hooks.next().header("x-run-id"), soon["run_id"]);
    server.run_is(&soon["run_id"], "succeeded");
    server.run_is(&done["run_id"], "succeeded");
    let job = server.ask("GET", &format!("/v1/jobs/{cron}"), "").json();
    assert_eq!(job["status"], "paused");
    assert_eq!(server.ask("POST", &format!("/v1/jobs/{cron}/resume"), "").status, 200);
    assert_eq!(hooks.next().header("x-job-id"), cron);
    server.stop();
}

#[test]
fn a_killed_attempt_is_taken_back_at_once_under_a_larger_token() {
    let data = tempfile::tempdir().expect("a folder");
    let hooks = Hooks::slow(&[], PATIENCE);
    let server = Server::start(data.path());
    let made = server.submit(&json!({"target": {"http": {"url": hooks.url()}}, "timeout": "1h"}));
    let first = hooks.next();
    server.run_is(&made["run_id"], "running");
    server.kill();
    let server = Server::start(data.path());
    let second = hooks.next();
    assert_eq!(second.header("x-run-id"), made["run_id"]);
    assert_eq!((first.header("x-attempt"), second.header("x-attempt")), ("1", "2"));
    let token =
        |hook: &crate::support::Hook| hook.header("x-fencing-token").parse::<u64>().expect("one");
    assert!(token(&first) < token(&second));
    server.kill();
}

/// The leases that the killed server gave are in the store; whether anybody heard of them is not.
#[test]
fn a_claim_that_is_repeated_after_a_kill_brings_its_runs_at_once() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let made = server.submit(&json!({
        "target": {"worker": {"kind": "k"}}, "schedule": {"at": "2020-01-01T00:00:00Z"},
    }));
    let claim = json!({"worker": "w", "queues": ["default"], "max": 1, "wait": "0s", "lease": "10m", "request_id": "r"});
    let first = server.post("/v1/work/claim", &claim);
    assert_eq!(first.json()["runs"][0]["run_id"], made["run_id"], "{}", first.text);
    server.kill();
    let server = Server::start(data.path());
    let again = server.post("/v1/work/claim", &claim);
    assert_eq!(again.status, 200, "{}", again.text);
    let told = |reply: &crate::support::Reply| {
        let run = &reply.json()["runs"][0];
        (run["run_id"].clone(), run["token"].clone(), run["attempt"].clone())
    };
    assert_eq!(told(&again), told(&first));
    server.kill();
}

#[test]
fn a_stop_lets_attempts_finish() {
    let data = tempfile::tempdir().expect("a folder");
    let hooks = Hooks::slow(&[], Duration::from_millis(500));
    let server = Server::start(data.path());
    let made = server.submit(&json!({"target": {"http": {"url": hooks.url()}}}));
    hooks.next();
    server.stop();
    let server = Server::start(data.path());
    server.run_is(&made["run_id"], "succeeded");
    hooks.assert_quiet();
    server.stop();
}

#[test]
fn what_is_not_finished_within_the_grace_is_handed_back() {
    let data = tempfile::tempdir().expect("a folder");
    let hooks = Hooks::slow(&[], PATIENCE);
    let server = Server::start_with(data.path(), &[], &["--grace", "200ms"]);
    let made = server.submit(&json!({"target": {"http": {"url": hooks.url()}}, "timeout": "1h"}));
    let first = hooks.next();
    server.signal("-TERM");
    let said = loop {
        let line = server.lines.recv_timeout(PATIENCE).expect("it says so");
        if line.starts_with("stopping") {
            break line;
        }
    };
    assert!(said.contains("200ms"), "{said}");
    // Long before the receiver answers, and in order: exit code 0, no second signal.
    let mut server = server;
    assert!(server.child.wait().expect("it ends").success());
    let server = Server::start(data.path());
    let second = hooks.next();
    assert_eq!(second.header("x-run-id"), made["run_id"]);
    assert_eq!((first.header("x-attempt"), second.header("x-attempt")), ("1", "2"));
    let run = server.get(&format!("/v1/runs/{}", made["run_id"].as_str().expect("a run")));
    // Handed back by the process that ended, not taken from a dead one.
    assert_eq!(run["attempts"][0]["status"], "released", "{run}");
    server.kill();
    let (bad, words) = refused(data.path(), &["--grace", "2h"]);
    assert_eq!(bad, Some(2));
    assert!(words.contains("--grace") && words.contains("at most 1h"), "{words}");
}

fn refused(data: &std::path::Path, args: &[&str]) -> (Option<i32>, String) {
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .args(args)
        .output()
        .expect("it runs");
    (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

#[test]
fn a_second_signal_ends_at_once_and_the_attempt_comes_again() {
    let data = tempfile::tempdir().expect("a folder");
    let hooks = Hooks::slow(&[], PATIENCE);
    let mut server = Server::start(data.path());
    let made = server.submit(&json!({"target": {"http": {"url": hooks.url()}}, "timeout": "1h"}));
    hooks.next();
    server.signal("-TERM");
    while !server.lines.recv_timeout(PATIENCE).expect("it says so").starts_with("stopping") {}
    server.signal("-TERM");
    assert!(server.child.wait().expect("it ends").success());
    let server = Server::start(data.path());
    let again = hooks.next();
    assert_eq!(
        (again.header("x-run-id"), again.header("x-attempt")),
        (made["run_id"].as_str().expect("a run"), "2")
    );
    server.kill();
}

#[test]
fn a_second_process_is_refused_the_folder() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let (exit, said) = refused(data.path(), &[]);
    assert_eq!(exit, Some(1));
    assert!(said.contains("in use"), "{said}");
    server.stop();
}

/// Four clients submit 200 jobs; the process is killed when about half are answered. Every answered
/// one is there after the restart.
#[test]
fn what_was_answered_is_there_after_kill_9() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let answered: Arc<Mutex<Vec<String>>> = Arc::default();
    let sent = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (address, answered, sent) = (server.address, answered.clone(), sent.clone());
            std::thread::spawn(move || {
                while sent.fetch_add(1, Ordering::Relaxed) < 200 {
                    let body =
                        json!({"target": {"worker": {"kind": "k"}}, "schedule": {"delay": "1h"}});
                    match ask(address, "POST", "/v1/jobs", &body.to_string(), &[]) {
                        Ok(reply) if reply.status == 202 => {
                            let id = reply.json()["id"].as_str().expect("an id").to_string();
                            answered.lock().expect("no panic").push(id);
                        }
                        _ => return, // The server is gone.
                    }
                }
            })
        })
        .collect();
    while answered.lock().expect("no panic").len() < 100 {
        std::thread::yield_now();
    }
    server.kill();
    clients.into_iter().for_each(|client| client.join().expect("no panic"));
    let answered = answered.lock().expect("no panic").clone();
    assert!(answered.len() >= 100 && answered.len() < 200, "{} were answered", answered.len());
    let server = Server::start(data.path());
    for id in &answered {
        let reply = server.ask("GET", &format!("/v1/jobs/{id}"), "");
        assert_eq!(reply.status, 200, "{id} was answered and is gone");
        assert_eq!(reply.json()["status"], Value::from("scheduled"));
    }
    server.stop();
}

/// In the commit lane, in the driver, in an attempt: whatever part it is, the process ends with it,
/// and the next one goes on.
#[test]
fn a_panic_in_any_part_ends_the_process() {
    for place in ["commit-before", "reply-before", "send-before"] {
        let data = tempfile::tempdir().expect("a folder");
        let hooks = Hooks::start(&[]);
        let plan = std::ffi::OsString::from(format!("{place}:3:panic"));
        let mut server = Server::start_with(data.path(), &[("DULY_CRASH_AT", &plan)], &[]);
        let job = json!({"target": {"http": {"url": hooks.url()}}}).to_string();
        let until = Instant::now() + PATIENCE;
        let ended = loop {
            if let Some(ended) = server.child.try_wait().expect("a child") {
                break ended;
            }
            assert!(Instant::now() < until, "{place}: it goes on without that part");
            // It may end while it is asked.
            let _ = ask(server.address, "POST", "/v1/jobs", &job, &[]);
        };
        assert_eq!(ended.code(), Some(1), "{place}");
        Server::start(data.path()).stop();
    }
}
