//! A destination that fails: its runs wait and spend nothing, others go on, and when it works again every
//! run arrives, once.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::cluster::until;
use crate::support::database::{Database, Node};
use crate::support::{Server, header};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A receiver that fails while it is told to. It knows which runs it heard of, and how it answered.
struct Switch {
    address: SocketAddr,
    failing: Arc<AtomicBool>,
    heard: Arc<Mutex<Vec<(String, bool)>>>,
}

impl Switch {
    fn start(failing: bool) -> Switch {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let failing = Arc::new(AtomicBool::new(failing));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (fails, notes) = (failing.clone(), heard.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (fails, notes) = (fails.clone(), notes.clone());
                std::thread::spawn(move || serve(stream, &fails, &notes));
            }
        });
        Switch { address, failing, heard }
    }

    fn heal(&self) {
        self.failing.store(false, Ordering::SeqCst);
    }

    fn job(&self, max_retries: u32) -> Value {
        json!({"target": {"http": {"url": format!("http://{}/hook", self.address)}},
               "retry": {"max_retries": max_retries, "initial": "100ms", "factor": 1}})
    }

    /// How often it answered so to this run.
    fn count(&self, run: &str, good: bool) -> usize {
        let heard = self.heard.lock().expect("no panic");
        heard.iter().filter(|(one, ok)| one == run && *ok == good).count()
    }

    fn all(&self) -> usize {
        self.heard.lock().expect("no panic").len()
    }
}

fn serve(stream: TcpStream, failing: &AtomicBool, heard: &Mutex<Vec<(String, bool)>>) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let length = header(&head, "content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let good = !failing.load(Ordering::SeqCst);
    let run = header(&head, "x-run-id").unwrap_or_default().to_string();
    heard.lock().expect("no panic").push((run, good));
    let status = if good { "200 OK" } else { "503 Service Unavailable" };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    let _ = reader.get_mut().write_all(answer.as_bytes());
}

const QUICK: [&str; 6] =
    ["--breaker-attempts", "5", "--breaker-open", "300ms", "--breaker-open-max", "1s"];

fn data() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Fails so often that the breaker opens.
fn break_it(server: &Server, sick: &Switch) {
    let mut events = server.listen("/v1/events?types=destination");
    for _ in 0..5 {
        server.submit(&sick.job(0));
    }
    let opened = events.until("destination.opened");
    assert_eq!(opened.data["host"], json!(sick.address.to_string()), "{opened:?}");
    assert!(opened.data["next_probe_at"].is_string(), "{opened:?}");
}

fn destination(server: &Server, of: &Switch) -> Value {
    let all = server.get("/v1/destinations");
    let items = all["items"].as_array().expect("items");
    let found = items.iter().find(|one| one["host"] == json!(of.address.to_string()));
    found.cloned().unwrap_or_else(|| panic!("{} is not in {all}", of.address))
}

fn submit_many(server: &Server, of: &Switch, count: usize, max_retries: u32) -> Vec<Value> {
    let jobs: Vec<Value> = (0..count).map(|_| of.job(max_retries)).collect();
    let made = server.post("/v1/jobs/batch", &json!({"jobs": jobs})).json();
    let results = made["results"].as_array().expect("results");
    let run = |one: &Value| json!(one["id"].as_str().expect("an id").replace("job_", "run_"));
    results.iter().map(run).collect()
}

#[test]
fn runs_of_a_failing_destination_wait_unspent_and_arrive_once_when_it_works_again() {
    let data = data();
    let server = Server::start_with(data.path(), &[], &QUICK);
    let (sick, well) = (Switch::start(true), Switch::start(false));
    break_it(&server, &sick);
    let mut events = server.listen("/v1/events?types=destination");
    let runs = submit_many(&server, &sick, 40, 50);
    // In the same queue, behind all of them.
    for run in submit_many(&server, &well, 20, 0) {
        let done = server.run_is(&run, "succeeded");
        assert_eq!(done["attempts"].as_array().map(Vec::len), Some(1), "{done}");
    }
    until("they wait for it", || {
        let sick = destination(&server, &sick);
        sick["waiting"].as_u64() >= Some(39) && sick["state"] != "closed"
    });
    let shown = destination(&server, &well);
    assert_eq!((&shown["state"], &shown["waiting"]), (&json!("closed"), &json!(0)), "{shown}");
    // A person who asks is told why.
    until("it is explained", || {
        let path = format!("/v1/runs/{}/explain", runs[39].as_str().expect("an id"));
        let told = server.get(&path);
        let reasons = told["reasons"].as_array().expect("reasons").clone();
        reasons.iter().any(|one| {
            one["code"] == "destination_fails"
                && one["message"].as_str().is_some_and(|m| m.contains(&sick.address.to_string()))
                && one["until"].is_string()
        })
    });
    // It is tried again and again, by one run at a time, at most.
    let before = sick.all();
    until("two probes", || sick.all() >= before + 2);
    sick.heal();
    events.until("destination.closed");
    for run in &runs {
        let done = server.run_is(run, "succeeded");
        let run = run.as_str().expect("an id");
        assert_eq!(sick.count(run, true), 1, "{run} arrived once");
        let attempts = done["attempts"].as_array().expect("attempts");
        let failed = attempts.iter().filter(|one| one["status"] == "failed").count();
        assert_eq!(failed, sick.count(run, false), "only what was sent was spent: {done}");
    }
    // Forty runs failed together far less than once each: the others were kept back.
    let bad: usize = runs.iter().map(|run| sick.count(run.as_str().expect("an id"), false)).sum();
    assert!(bad < 20, "{bad} attempts went to a destination that fails");
    let shown = destination(&server, &sick);
    assert_eq!((&shown["state"], &shown["waiting"]), (&json!("closed"), &json!(0)), "{shown}");
    let page = server.ask("GET", "/metrics", "").text;
    let metric = |name: &str| -> u64 {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}"))
    };
    assert!(metric("duly_destinations_opened_total") >= 1);
    assert_eq!(metric("duly_destinations_closed_total"), 1);
    assert_eq!(metric("duly_destinations_open"), 0);
    assert!(metric("duly_runs_kept_back_total") >= 39);
    server.stop();
}

#[test]
fn retries_are_spent_while_it_waits_if_that_is_wanted() {
    let data = data();
    // Long enough that nothing is sent in the meantime.
    let args = ["--breaker-attempts", "5", "--breaker-open", "1h", "--breaker-open-max", "1h"];
    let args = [&args[..], &["--breaker-spend-retries", "true"]].concat();
    let server = Server::start_with(data.path(), &[], &args);
    let sick = Switch::start(true);
    break_it(&server, &sick);
    let heard = sick.all();
    let made = server.submit(&sick.job(1));
    let dead = server.run_is(&made["run_id"], "dead");
    assert!(dead["error"].as_str().is_some_and(|why| why.contains("nothing was sent")), "{dead}");
    assert_eq!(dead["attempts"].as_array().map(Vec::len), Some(2), "{dead}");
    assert_eq!(sick.all(), heard, "nothing was sent");
    server.stop();
}

#[test]
fn a_breaker_that_is_off_keeps_nothing_back() {
    let data = data();
    let mut args = QUICK.to_vec();
    args.extend(["--breaker-enabled", "false"]);
    let server = Server::start_with(data.path(), &[], &args);
    let sick = Switch::start(true);
    for run in submit_many(&server, &sick, 30, 1) {
        server.run_is(&run, "dead");
        assert_eq!(sick.count(run.as_str().expect("an id"), false), 2, "tried and retried");
    }
    assert_eq!(destination(&server, &sick)["state"], "closed");
    server.stop();
}

#[test]
fn the_file_has_a_table_for_it_and_what_is_wrong_is_told() {
    let data = data();
    let file = data.path().join("duly.toml");
    std::fs::write(&file, "[breaker]\nattempts = 5\nopen = \"1h\"\nopen_max = \"1h\"\n")
        .expect("written");
    let path = file.display().to_string();
    let server = Server::start_with(data.path(), &[], &["--config", &path]);
    let sick = Switch::start(true);
    break_it(&server, &sick);
    server.stop();
    for (text, words) in [
        ("[breaker]\nattempt = 5\n", "breaker-attempt"),
        ("[breaker]\nwindow = \"2h\"\n", "from 100ms to 1h"),
        ("[breaker]\nfailures = 101\n", "101"),
        ("[breaker.deep]\nx = 1\n", "breaker-deep"),
    ] {
        std::fs::write(&file, text).expect("written");
        let ran = Command::new(env!("CARGO_BIN_EXE_duly"))
            .args(["serve", "--listen", "127.0.0.1:0", "--config", &path, "--data"])
            .arg(data.path())
            .output()
            .expect("duly runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{text}: {said}");
        assert!(said.contains(words), "{text}: {said}");
    }
}

#[test]
fn any_node_tells_of_the_destinations_of_all() {
    let database = Database::start();
    let args = ["--breaker-attempts", "5", "--breaker-open", "1h", "--breaker-open-max", "1h"];
    let nodes: Vec<Node> =
        (1..=2).map(|number| Node::start_with(&database, number, &args)).collect();
    until("both have shards", || nodes.iter().all(|node| node.shards() > 64));
    let sick = Switch::start(true);
    break_it(&nodes[0].server, &sick);
    let run = nodes[1].server.submit(&sick.job(0))["run_id"].clone();
    for node in &nodes {
        until("it waits there", || {
            let shown = destination(&node.server, &sick);
            shown["state"] == "open" && shown["waiting"] == 1
        });
        let path = format!("/v1/runs/{}/explain", run.as_str().expect("an id"));
        // It counts as waiting from when the executor puts it off; the lease is given back a moment later.
        until("its explanation names the destination", || {
            node.server.get(&path).to_string().contains("destination_fails")
        });
    }
    for node in nodes {
        node.server.stop();
    }
}
