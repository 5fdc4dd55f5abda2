//! `duly top` against the real server: one page for programs and people, and a live one in a
//! pseudo-terminal (made by `script`) that leaves the terminal as it found it.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::{Hooks, PATIENCE, Server};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

fn once(server: &Server, more: &[&str]) -> std::process::Output {
    let url = format!("http://{}", server.address);
    Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(["top", "--url", &url, "--interval", "300ms"])
        .args(more)
        .output()
        .expect("duly runs")
}

#[test]
fn one_page_says_what_fires_fails_waits_and_comes_next() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let hooks = Hooks::start(&["500 Oh\r\n"]);
    let url = hooks.url();
    let far = json!({"max_retries": 3, "initial": "1h"});
    let failing =
        server.submit(&json!({"name": "breaks", "target": {"http": {"url": url}}, "retry": far}));
    server.run_is(&failing["run_id"], "retrying");
    let done = server.submit(&json!({"target": {"http": {"url": url}}}));
    server.run_is(&done["run_id"], "succeeded");
    server.submit(&json!({"target": {"worker": {"kind": "k"}}, "queue": "slow"}));
    server.submit(&json!({"name": "nightly", "target": {"worker": {"kind": "k"}},
                          "schedule": {"every": "2h"}}));
    server.submit(&json!({"name": "hourly", "target": {"worker": {"kind": "k"}},
                          "schedule": {"every": "1h"}}));
    let ran = once(&server, &["--json"]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let page: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(page["health"], "ready", "{page}");
    assert!(page["interval_ms"].as_i64().is_some_and(|ms| ms >= 300), "{page}");
    let total = |name: &str| page["rates"][name]["total"].as_u64().expect("a total");
    assert_eq!(
        ["fired", "succeeded", "failed", "retried", "died", "submitted"].map(total),
        [2, 1, 1, 1, 0, 5]
    );
    let slow = page["queues"].as_array().expect("queues").iter().find(|q| q["name"] == "slow");
    let slow = slow.expect("the queue");
    assert_eq!(slow["ready"], 1);
    assert!(slow["oldest_ready_ms"].is_i64(), "{slow}");
    assert_eq!(page["failing"][0]["job_id"], failing["id"]);
    assert!(page["failing"][0]["error"].as_str().is_some_and(|e| e.contains("500")), "{page}");
    let next = page["next"].as_array().expect("a list");
    let names: Vec<&str> = next.iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["hourly", "nightly"]);
    // For people, without a terminal: one page, no escapes.
    let ran = once(&server, &[]);
    let text = String::from_utf8(ran.stdout).expect("text");
    assert!(ran.status.success());
    for word in ["fired", "slow", "500", "nightly", "QUEUE", "NEXT IN"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text:?}");
    server.stop();
}

#[test]
fn a_server_that_is_not_there_and_a_bad_interval_are_told() {
    let top = |args: &[&str]| {
        let ran = Command::new(env!("CARGO_BIN_EXE_duly")).arg("top").args(args).output();
        let ran = ran.expect("duly runs");
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let (exit, said) = top(&["--once", "--url", "http://127.0.0.1:1"]);
    assert_eq!(exit, Some(5), "{said}");
    let (exit, said) = top(&["--interval", "1ms"]);
    assert_eq!(exit, Some(2));
    assert!(said.contains("between 200ms and 1h"), "{said}");
}

/// A shell in a pseudo-terminal that runs `duly top` and notes the terminal's settings around it.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    seen: Receiver<Vec<u8>>,
    text: String,
}

impl Terminal {
    fn start(server: &Server, folder: &Path) -> Terminal {
        let line = format!(
            "cd '{}'; stty rows 50 cols 100; stty -g > before; \
             sh -c 'echo $$ > pid; exec {} top --url http://{} --interval 200ms'; \
             echo $? > code; stty -g > after",
            folder.display(),
            env!("CARGO_BIN_EXE_duly"),
            server.address
        );
        let mut child = Command::new("script")
            .args(["-q", "-c", &line, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script runs (scripts/setup-tools.sh installs it: bsdutils)");
        let mut out = child.stdout.take().expect("stdout");
        let (tell, seen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut bytes) {
                if tell.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let keys = child.stdin.take().expect("stdin");
        Terminal { child, keys, seen, text: String::new() }
    }

    /// Waits until this was drawn so often.
    fn until(&mut self, word: &str, times: usize) {
        let until = Instant::now() + PATIENCE;
        while self.text.matches(word).count() < times {
            let left = until.saturating_duration_since(Instant::now());
            let more = self.seen.recv_timeout(left);
            let more = more.unwrap_or_else(|_| panic!("no {word:?} in {:?}", self.text));
            self.text.push_str(&String::from_utf8_lossy(&more));
        }
    }

    fn ended(mut self, folder: &Path) {
        self.until("\u{1b}[?1049l", 1);
        assert!(self.child.wait().expect("it ends").success());
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("written");
        assert_eq!(read("before"), read("after"), "the terminal is as it was");
        assert_eq!(read("code").trim(), "0");
        assert!(self.text.contains("\u{1b}[?25h"), "the cursor is back");
    }
}

#[test]
fn the_live_page_is_drawn_again_and_leaves_the_terminal_clean() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    for way in ["q", "\u{3}", "-TERM", "-INT"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut terminal = Terminal::start(&server, folder.path());
        terminal.until("PER SECOND", 2);
        if way.starts_with('-') {
            let pid = std::fs::read_to_string(folder.path().join("pid")).expect("a pid");
            let sent = Command::new("kill").args([way, pid.trim()]).status().expect("kill runs");
            assert!(sent.success());
        } else {
            terminal.keys.write_all(way.as_bytes()).expect("a key");
        }
        terminal.ended(folder.path());
    }
    // A server that goes away is said, and the page stays.
    let folder = tempfile::tempdir().expect("a folder");
    let mut terminal = Terminal::start(&server, folder.path());
    terminal.until("PER SECOND", 1);
    server.stop();
    terminal.until("what follows is old", 1);
    terminal.keys.write_all(b"q").expect("a key");
    terminal.ended(folder.path());
}
