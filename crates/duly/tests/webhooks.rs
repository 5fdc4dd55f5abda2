//! Webhooks end to end: the real binary, real sockets, real TLS, and receivers that misbehave.
#![allow(clippy::expect_used, clippy::panic)]

#[path = "../../executor/tests/hostile/mod.rs"]
mod hostile;

use crate::support::{Hooks, Server};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hostile::{Behaviour, Receiver, Wanted, hold};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

fn data() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// `duly`, with the data folder where the command wants it.
fn duly(args: &[&str], data: &Path) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duly"));
    let ran = command.args(args).arg("--data").arg(data).output().expect("duly runs");
    let text = [ran.stdout, ran.stderr].concat();
    (ran.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

fn once(url: &str, timeout: &str) -> Value {
    json!({"target": {"http": {"url": url}}, "payload": {"hello": "world"},
           "retry": {"max_retries": 0}, "timeout": timeout})
}

fn ca_file(data: &Path) -> PathBuf {
    let file = data.join("ca.pem");
    std::fs::write(&file, &hostile::tls::pki().authority).expect("written");
    file
}

#[test]
fn receivers_that_misbehave_cost_their_own_attempt_and_nothing_else() {
    let data = data();
    let ca = ca_file(data.path());
    let server = Server::start_with(data.path(), &[], &["--ca-file", &ca.display().to_string()]);
    let receivers: Vec<Receiver> = hostile::all().into_iter().map(Receiver::start).collect();
    assert!(receivers.len() >= 25);
    let mut runs = Vec::new();
    for receiver in &receivers {
        let timeout = format!("{}ms", receiver.behaviour.wanted.timeout().as_millis());
        let made = server.submit(&once(&receiver.url(), &timeout));
        runs.push((receiver.behaviour, made["run_id"].clone()));
    }
    // In the same queue, behind all of them.
    let good = Receiver::start(hostile::plain::BEHAVIOURS[0]);
    let jobs: Vec<Value> = (0..50).map(|_| once(&good.url(), "30s")).collect();
    let made = server.post("/v1/jobs/batch", &json!({"jobs": jobs})).json();
    for one in made["results"].as_array().expect("results") {
        let run = one["id"].as_str().expect("an id").replace("job_", "run_");
        server.run_is(&json!(run), "succeeded");
    }
    let mut wrong = Vec::new();
    for (behaviour, run) in &runs {
        let wanted = match behaviour.wanted {
            Wanted::Status(code) | Wanted::Begun(code) if (200..300).contains(&code) => "succeeded",
            _ => "dead",
        };
        let done = server.run_is(run, wanted);
        let attempt = &done["attempts"][0];
        let fits = match behaviour.wanted {
            Wanted::Status(code) | Wanted::Begun(code) => {
                wanted == "succeeded" || attempt["code"] == code
            }
            Wanted::Failed(words) => attempt["error"].as_str().is_some_and(|e| e.contains(words)),
            Wanted::TimedOut => attempt["status"] == "timed_out",
            Wanted::NoAnswer => true,
        };
        if !fits {
            wrong.push(format!("{}: {attempt}", behaviour.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    server.stop();
}

#[test]
fn https_needs_a_known_authority() {
    let data = data();
    let receiver = Receiver::start(hostile::tls::BEHAVIOURS[0]);
    let server = Server::start(data.path());
    let made = server.submit(&once(&receiver.url(), "30s"));
    let dead = server.run_is(&made["run_id"], "dead");
    let why = dead["error"].as_str().expect("an error");
    assert!(why.contains("UnknownIssuer") && why.contains("--ca-file"), "{why}");
    server.stop();
    let ca = ca_file(data.path());
    let server = Server::start_with(data.path(), &[], &["--ca-file", &ca.display().to_string()]);
    let made = server.submit(&once(&receiver.url(), "30s"));
    server.run_is(&made["run_id"], "succeeded");
    server.stop();
    // A file without a certificate is told at once, not at the first webhook.
    std::fs::write(&ca, "nothing").expect("written");
    let (exit, said) = duly(
        &["serve", "--listen", "127.0.0.1:0", "--ca-file", &ca.display().to_string()],
        data.path(),
    );
    assert_eq!(exit, 2, "{said}");
    assert!(said.contains("holds no certificate"), "{said}");
    let (exit, said) = duly(&["serve", "--allow-egress", "10.0.0.0/33"], data.path());
    assert_eq!(exit, 2, "{said}");
    assert!(said.contains("--allow-egress"), "{said}");
}

static HELD: AtomicUsize = AtomicUsize::new(0);
static HELD_MOST: AtomicUsize = AtomicUsize::new(0);

#[test]
fn one_slow_host_with_many_due_runs_does_not_stop_another_in_the_same_queue() {
    let data = data();
    let server = Server::start(data.path());
    let wanted = Wanted::TimedOut;
    let stuck = Receiver::start(Behaviour {
        name: "stuck",
        tls: false,
        wanted,
        act: |mut stream| {
            let now = HELD.fetch_add(1, Ordering::SeqCst) + 1;
            HELD_MOST.fetch_max(now, Ordering::SeqCst);
            hold(&mut stream);
            HELD.fetch_sub(1, Ordering::SeqCst);
        },
    });
    let good = Receiver::start(hostile::plain::BEHAVIOURS[0]);
    let many: Vec<Value> = (0..1_000).map(|_| once(&stuck.url(), "1h")).collect();
    let made = server.post("/v1/jobs/batch", &json!({"jobs": many})).json();
    assert_eq!(made["results"].as_array().map(Vec::len), Some(1_000));
    for _ in 0..5 {
        let made = server.submit(&once(&good.url(), "30s"));
        let done = server.run_is(&made["run_id"], "succeeded");
        assert_eq!(done["attempts"].as_array().map(Vec::len), Some(1), "{done}");
    }
    assert_eq!(HELD_MOST.load(Ordering::SeqCst), 64, "the limit per host");
    // Those that found no room have spent nothing.
    let run = made["results"][999]["id"].as_str().expect("an id").replace("job_", "run_");
    let waits = server.ask("GET", &format!("/v1/runs/{run}"), "").json();
    assert!(
        ["ready", "retrying", "running"].contains(&waits["status"].as_str().expect("a status"))
    );
    server.kill();
}

#[test]
fn secrets_are_sealed_rotated_and_taken_over() {
    let data = data();
    let old = executor::Secret::new(vec![42; 32]).reveal();
    std::fs::write(data.path().join("signing-secret"), format!("{old}\n")).expect("written");
    let server = Server::start(data.path());
    let hooks = Hooks::start(&[]);
    let list = || server.ask("GET", "/v1/signing-secrets", "").json()["items"].clone();
    assert_eq!(list()[0]["secret"], old.as_str(), "the plain secret was taken over");
    assert!(!data.path().join("signing-secret").exists(), "and is gone");
    for name in ["secrets.json", "master.key"] {
        let file = data.path().join(name);
        let mode = std::fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
        let text = std::fs::read_to_string(&file).expect("text");
        assert!(!text.contains(old.trim_start_matches("whsec_")), "{name}");
    }
    // Two rotations, one over HTTP, one in the folder: then three sign.
    let key = [("Idempotency-Key", "rotate-1")];
    let rotate = |body: &str| {
        crate::support::ask(server.address, "POST", "/v1/signing-secrets/rotate", body, &key)
            .expect("heard")
    };
    let first = rotate(r#"{"overlap":"24h"}"#);
    assert_eq!((first.status, first.header("idempotency-replayed")), (200, Some("false")));
    let again = rotate(r#"{"overlap":"24h"}"#);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(first.json(), again.json());
    assert_eq!(rotate(r#"{"overlap":"1h"}"#).json()["code"], "idempotency_key_reused");
    let (exit, said) = duly(&["secret", "rotate", "--overlap", "1h"], data.path());
    assert_eq!(exit, 0, "{said}");
    let url = format!("http://{}", server.address);
    // The server notices within a second.
    let until = std::time::Instant::now() + crate::support::PATIENCE;
    while list().as_array().map(Vec::len) != Some(3) {
        assert!(std::time::Instant::now() < until, "{}", list());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let shown = Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(["secret", "show", "--url", &url])
        .output()
        .expect("duly runs");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    server.submit(&once(&hooks.url(), "30s"));
    let hook = hooks.next();
    assert_eq!(hook.header("webhook-signature").split(' ').count(), 3);
    assert_eq!(hook.header("x-scheduler-signature").matches("v1=").count(), 3);
    for one in list().as_array().expect("items") {
        let text = one["secret"].as_str().expect("a secret");
        assert!(shown.contains(text), "{shown}");
        let secret = executor::Secret::parse(text).expect("whsec_");
        let (id, stamp) = (hook.header("webhook-id"), hook.header("webhook-timestamp"));
        let (given, now) = (hook.header("webhook-signature"), stamp.parse().expect("seconds"));
        assert_eq!(secret.verify(id, stamp, given, hook.body.as_bytes(), now), Ok(()));
    }
    // A leak: the old ones end now.
    let done = server.post("/v1/signing-secrets/rotate", &json!({"overlap": "0s"})).json();
    assert_eq!(done["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.post("/v1/signing-secrets/rotate", &json!({"overlap": "31d"})).status, 422);
    server.stop();
    // Without the key nothing opens, and nothing is made anew in its place.
    let key = data.path().join("master.key");
    std::fs::rename(&key, data.path().join("away")).expect("moved");
    let (exit, said) = duly(&["serve", "--listen", "127.0.0.1:0"], data.path());
    assert_eq!(exit, 1, "{said}");
    assert!(said.contains("master.key"), "{said}");
    assert!(!key.exists());
}

/// The receiver in JavaScript; killed when dropped.
struct Peer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    port: String,
}

impl Peer {
    fn start() -> Peer {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let tools = root.join("target/tools/node");
        assert!(
            tools.join("node_modules/standardwebhooks").exists(),
            "the library standardwebhooks is missing; install it with scripts/setup-tools.sh"
        );
        let script = root.join("crates/duly/tests/peers/standard-webhooks.mjs");
        let mut child = Command::new("node")
            .arg(script)
            .arg(tools)
            .stdout(Stdio::piped())
            .spawn()
            .expect("node runs; scripts/setup-tools.sh installs it");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        let port = lines.next().expect("a line").expect("a port");
        Peer { child, lines, port }
    }

    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("a line").expect("text");
        serde_json::from_str(&line).expect("JSON")
    }

    fn url(&self, secret: &Value) -> String {
        let secret = secret.as_str().expect("a secret");
        format!("http://127.0.0.1:{}/{}", self.port, URL_SAFE_NO_PAD.encode(secret))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_official_library_of_another_language_verifies_our_signatures() {
    let data = data();
    let server = Server::start(data.path());
    let mut peer = Peer::start();
    let rotated = server.post("/v1/signing-secrets/rotate", &json!({"overlap": "1h"})).json();
    let items = rotated["items"].as_array().expect("items").clone();
    assert_eq!(items.len(), 2);
    // Who knows the new secret and who still has the old one: both can check.
    for one in &items {
        let mut job = once(&peer.url(&one["secret"]), "30s");
        job["payload"] = json!({"text": "é € 😀", "n": 1.5, "list": [1, null, true]});
        let made = server.submit(&job);
        let checked = peer.next();
        assert_eq!(checked["error"], Value::Null, "{checked}");
        assert_eq!((&checked["run"], &checked["short"]), (&made["run_id"], &json!(true)));
        server.run_is(&made["run_id"], "succeeded");
    }
    // The test can fail: another secret does not fit.
    let other = json!(executor::Secret::new(vec![1; 32]).reveal());
    let made = server.submit(&once(&peer.url(&other), "30s"));
    assert_ne!(peer.next()["error"], Value::Null);
    server.run_is(&made["run_id"], "dead");
    server.stop();
}

#[test]
fn a_target_can_be_tried() {
    let data = data();
    let server = Server::start(data.path());
    let hooks = Hooks::start(&["200 OK\r\n", "503 No\r\n", "410 Gone\r\n"]);
    let test = |url: &str| {
        let body =
            json!({"target": {"http": {"url": url}}, "payload": {"try": 1}, "timeout": "2s"});
        server.post("/v1/targets/test", &body)
    };
    for (code, meaning) in [(200, "succeeded"), (503, "retrying"), (410, "dead")] {
        let tested = test(&hooks.url());
        assert_eq!(tested.status, 200, "{}", tested.text);
        let tested = tested.json();
        assert_eq!((&tested["status"], &tested["run_status"]), (&json!(code), &json!(meaning)));
        assert_eq!(tested["body"], r#"{"ok":true}"#);
        let hook = hooks.next();
        assert_eq!(hook.header("x-run-id"), tested["id"]);
        assert!(hook.header("webhook-signature").starts_with("v1,"));
        assert_eq!(hook.body, r#"{"try":1}"#);
    }
    for url in [format!("http://{}/v1/jobs", server.address), "http://169.254.169.254/".to_string()]
    {
        let tested = test(&url).json();
        assert_eq!((&tested["status"], &tested["run_status"]), (&Value::Null, &json!("dead")));
        assert!(tested["error"].as_str().is_some_and(|why| why.contains("refused")), "{tested}");
    }
    let silent = Receiver::start(hostile::plain::BEHAVIOURS[1]);
    assert_eq!(test(&silent.url()).json()["error"], "no answer in time");
    assert_eq!(test("http://127.1/").json()["errors"][0]["pointer"], "/target/http/url");
    let worker = json!({"target": {"worker": {"kind": "k"}}});
    assert_eq!(server.post("/v1/targets/test", &worker).status, 422);
    server.stop();
}

#[test]
fn what_the_receiver_says_counts() {
    let data = data();
    let server = Server::start(data.path());
    let hooks = Hooks::start(&[
        "500 No\r\nX-Job-Outcome: succeed\r\n",
        "200 OK\r\nX-Job-Outcome: fail\r\n",
        "200 OK\r\nX-Job-Outcome: retry\r\nRetry-After: 0\r\n",
        "200 OK\r\n",
        "302 Found\r\nLocation: http://127.0.0.1:1/\r\n",
    ]);
    let run = |job: &Value, status: &str| server.run_is(&server.submit(job)["run_id"], status);
    run(&once(&hooks.url(), "30s"), "succeeded");
    run(&once(&hooks.url(), "30s"), "dead");
    let mut again = once(&hooks.url(), "30s");
    again["retry"] = json!({"max_retries": 1});
    let done = run(&again, "succeeded");
    assert_eq!(done["attempts"].as_array().map(Vec::len), Some(2));
    let done = run(&once(&hooks.url(), "30s"), "dead");
    assert!(done["error"].as_str().is_some_and(|why| why.contains("not followed")), "{done}");
    server.stop();
}

#[test]
fn listen_checks_and_misbehaves_on_request() {
    let data = data();
    let server = Server::start(data.path());
    let start = |args: &[&str]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_duly"))
            .args(["listen", "--port", "0"])
            .args(args)
            .arg("--data")
            .arg(data.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("duly listen starts");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        let first = lines.next().expect("a line").expect("text");
        let url = first.trim_start_matches("listening on ").to_string();
        (Peer { child, lines, port: String::new() }, url)
    };
    let other = executor::Secret::new(vec![9; 32]).reveal();
    for (args, said, status, code) in [
        (&["--status", "418"][..], "signature=good answer=418", "dead", json!(418)),
        (&["--reset"], "answer=none (broken off)", "dead", Value::Null),
        (&["--hang"], "answer=none (hangs)", "dead", Value::Null),
        (&["--delay", "50ms", "--outcome", "fail"], "answer=200", "dead", json!(200)),
        (&["--secret", &other], "signature=BAD", "dead", json!(401)),
        (&[], "signature=good answer=200", "succeeded", Value::Null),
    ] {
        let (mut peer, url) = start(args);
        let made = server.submit(&once(&url, "2s"));
        let line = peer.lines.next().expect("a line").expect("text");
        assert!(line.contains(said), "{line}");
        let done = server.run_is(&made["run_id"], status);
        assert_eq!(done["attempts"][0]["code"], code, "{args:?} {done}");
    }
    let (_peer, url) = start(&["--fail-first", "1", "--reset", "--retry-after", "0"]);
    let mut job = once(&url, "2s");
    job["retry"] = json!({"max_retries": 1, "initial": "100ms"});
    server.run_is(&server.submit(&job)["run_id"], "succeeded");
    server.stop();
}
