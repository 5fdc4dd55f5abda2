//! What a person who runs it sees: metrics, log lines, status, configuration, completions, TLS.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::{PATIENCE, Server, ask};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn duly(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duly"));
    command.args(args).env_remove("DULY_URL").env_remove("DULY_API_KEY");
    command
}

fn text(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn series(page: &str, name: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {page}"))
}

#[test]
fn metrics_count_what_happened() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let job = json!({"target": {"worker": {"kind": "k"}}, "retry": {"max_retries": 0}});
    for _ in 0..3 {
        server.submit(&job);
    }
    let claim = json!({"worker": "w", "queues": ["default"], "max": 2});
    let runs = server.post("/v1/work/claim", &claim).json()["runs"].clone();
    let end = |at: usize, outcome: &str| json!({"run_id": runs[at]["run_id"], "token": runs[at]["token"], "outcome": outcome});
    let settle = json!({"worker": "w", "runs": [end(0, "succeeded"), end(1, "failed")]});
    assert_eq!(server.post("/v1/work/settle", &settle).status, 200);
    server.ask("GET", "/nowhere", "");
    let page = || server.ask("GET", "/metrics", "").text;
    let now = page();
    for (name, value) in [
        ("duly_jobs_submitted_total", 3.0),
        ("duly_attempts_total{outcome=\"succeeded\"}", 1.0),
        ("duly_attempts_total{outcome=\"failed\"}", 1.0),
        ("duly_dead_letters_total", 1.0),
        ("duly_fire_skew_seconds_count", 2.0),
        ("duly_shards_live", 256.0),
        ("duly_store_divergence_total", 0.0),
        ("duly_http_in_flight", 1.0),
        ("duly_http_requests_total{method=\"POST\",route=\"/v1/jobs\",status=\"2xx\"}", 3.0),
        ("duly_http_requests_total{method=\"any\",route=\"none\",status=\"4xx\"}", 1.0),
    ] {
        assert_eq!(series(&now, name), value, "{name}");
    }
    assert!(series(&now, "duly_store_seconds_count{call=\"commit\"}") >= 3.0);
    // Queues are counted now and then.
    let ready = "duly_queue_ready{namespace=\"0\",queue=\"default\"}";
    let until = Instant::now() + PATIENCE;
    while !page().contains(&format!("{ready} 1")) {
        assert!(Instant::now() < until, "the queue never shows: {}", page());
        std::thread::sleep(Duration::from_millis(50));
    }
    let url = format!("http://{}", server.address);
    let status = text(duly(&["status", "--url", &url]).output().expect("runs"));
    assert!(status.contains("health              ready"), "{status}");
    assert!(status.contains("jobs_submitted      3"), "{status}");
    let status = text(duly(&["status", "--json", "--url", &url]).output().expect("runs"));
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["counts"]["dead_letters"], 1, "{status}");
    server.stop();
    let gone = duly(&["status", "--url", &url]).output().expect("runs");
    assert_eq!(gone.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("help: duly serve"));
}

#[test]
fn log_lines_carry_ids_and_no_secrets() {
    let data = tempfile::tempdir().expect("a folder");
    let log = data.path().join("log");
    let mut command =
        duly(&["serve", "--listen", "127.0.0.1:0", "--log", "json", "--log-level", "debug"]);
    command.arg("--data").arg(data.path().join("data"));
    command.stderr(Stdio::from(std::fs::File::create(&log).expect("a file")));
    let server = Server::spawned(command);
    let body = json!({
        "target": {"http": {"url": "http://127.0.0.1:1/p4th?token=s3cret", "headers": {"X-Auth": "s3cret"}}},
        "payload": "s3cret",
    });
    let headers = [("X-Request-Id", "from-the-caller"), ("Authorization", "Bearer s3cret")];
    let made = ask(server.address, "POST", "/v1/jobs", &body.to_string(), &headers).expect("made");
    assert_eq!(made.header("x-request-id"), Some("from-the-caller"));
    let job = made.json()["id"].as_str().expect("an id").to_string();
    let refused = ask(server.address, "POST", "/v1/jobs?x=s3cret", "{\"s3cret\":1}", &headers);
    assert_eq!(refused.expect("an answer").status, 422);
    server.stop();
    let text = std::fs::read_to_string(&log).expect("a log");
    assert!(!text.contains("s3cret"), "{text}");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect();
    let of = |status: u64| {
        let found =
            lines.iter().find(|l| l["request_id"] == "from-the-caller" && l["status"] == status);
        found.unwrap_or_else(|| panic!("no line with {status}: {text}")).clone()
    };
    assert_eq!(
        (of(202)["level"].as_str(), of(202)["job"].as_str()),
        (Some("DEBUG"), Some(job.as_str()))
    );
    assert_eq!(
        (of(422)["level"].as_str(), of(422)["code"].as_str()),
        (Some("WARN"), Some("unknown_field"))
    );
}

#[test]
fn a_flag_counts_more_than_a_variable_and_that_more_than_the_file() {
    let data = tempfile::tempdir().expect("a folder");
    let file = data.path().join("duly.toml");
    let folder = data.path().join("from-file");
    std::fs::write(
        &file,
        format!("data = {:?}\nlisten = \"127.0.0.1:0\"\nlog-level = \"error\"\n", folder),
    )
    .expect("written");
    let file = file.to_str().expect("a path");
    let serve = || duly(&["serve", "--config", file]);
    let server = Server::spawned(serve());
    assert_eq!(server.ask("GET", "/readyz", "").status, 200);
    server.stop();
    assert!(folder.join("signing-secret").exists() || folder.read_dir().expect("made").count() > 0);
    let (by_env, by_flag) = (data.path().join("from-env"), data.path().join("from-flag"));
    let mut command = serve();
    command.env("DULY_DATA", &by_env);
    Server::spawned(command).stop();
    assert!(by_env.exists());
    let mut command = serve();
    command.env("DULY_DATA", data.path().join("unused")).arg("--data").arg(&by_flag);
    Server::spawned(command).stop();
    assert!(by_flag.exists() && !data.path().join("unused").exists());
    for (content, said) in [("lisen = 1\n", "no setting lisen"), ("= 1\n", "is not TOML")] {
        std::fs::write(file, content).expect("written");
        let refused = serve().output().expect("runs");
        assert_eq!(refused.status.code(), Some(2));
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(error.contains(said) && error.contains("help: duly serve --help"), "{error}");
    }
}

#[test]
fn shells_get_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let script = text(duly(&["completions", shell]).output().expect("runs"));
        assert!(script.contains("duly") && script.contains("tls-cert"), "{shell}");
    }
}

#[test]
fn https_is_served_and_spoken() {
    let data = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_string()]).expect("made");
    let (cert, key) = (data.path().join("cert.pem"), data.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let mut command = duly(&["serve", "--listen", "127.0.0.1:0"]);
    command.arg("--data").arg(data.path().join("data"));
    let server = {
        command.arg("--tls-cert").arg(&cert).arg("--tls-key").arg(&key);
        Server::spawned(command)
    };
    let url = format!("https://{}", server.address);
    let status =
        duly(&["status", "--url", &url]).env("DULY_CA_FILE", &cert).output().expect("runs");
    assert!(text(status).contains("health              ready"));
    let distrusted = duly(&["status", "--url", &url]).output().expect("runs");
    assert_eq!(distrusted.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&distrusted.stderr).contains("DULY_CA_FILE"));
    server.stop();
    let refused = duly(&["serve", "--tls-cert", "/nowhere.pem", "--tls-key", "/nowhere.pem"]);
    let refused = { refused }.output().expect("runs");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("/nowhere.pem"), "{refused:?}");
}

#[test]
fn ten_thousand_silent_connections_lock_nobody_out() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let mut idle = Vec::new();
    for n in 0..10_000 {
        match TcpStream::connect(server.address) {
            Ok(stream) => idle.push(stream),
            // This process may have fewer descriptors; the server's bound is passed all the same.
            Err(_) if n > 5_000 => break,
            Err(error) => panic!("connection {n}: {error}"),
        }
        if n % 1_000 == 999 {
            assert_eq!(server.ask("GET", "/readyz", "").status, 200, "after {n}");
        }
    }
    let page = server.ask("GET", "/metrics", "").text;
    assert!(series(&page, "duly_http_connections") <= 4_096.0, "{page}");
    server.submit(&json!({"target": {"worker": {"kind": "k"}}}));
    drop(idle);
    server.stop();
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let mut stream = TcpStream::connect(server.address).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let head = format!(
        "POST /v1/jobs/batch HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 99999999999\r\nConnection: close\r\n\r\n{{",
        server.address
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("too_large"), "{answer}");
    // Without a length, as it comes.
    let mut stream = TcpStream::connect(server.address).expect("connected");
    let head = format!(
        "POST /v1/jobs/batch HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        server.address
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1024 * 1024], b"\r\n"].concat();
    for _ in 0..40 {
        if stream.write_all(&chunk).is_err() {
            break;
        }
    }
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert_eq!(server.ask("GET", "/readyz", "").status, 200);
    server.stop();
}
