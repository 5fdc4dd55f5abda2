//! What `duly serve` refuses, and how it says so.
#![allow(clippy::expect_used)]

use crate::support::{Server, ask};
use serde_json::json;

const TARGET: &str = r#""target":{"worker":{"kind":"k"}}"#;

#[test]
fn bad_input_is_pointed_at() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let t = TARGET;
    let cases = [
        (format!("{{{t},\"schedule\":{{\"cron\":\"0 3 32 * *\"}}}}"), "/schedule/cron"),
        (format!("{{{t},\"schedule\":{{\"every\":90}}}}"), "/schedule/every"),
        (format!("{{{t},\"schedule\":{{\"every\":\"10ms\"}}}}"), "/schedule/every"),
        (format!("{{{t},\"schedule\":{{\"at\":\"2027-01-01T00:00:00\"}}}}"), "/schedule/at"),
        (format!("{{{t},\"schedule\":{{\"at\":\"9000-01-01T00:00:00Z\"}}}}"), "/schedule/at"),
        (format!("{{{t},\"schedule\":{{\"delay\":\"1s\",\"every\":\"1m\"}}}}"), "/schedule"),
        (
            format!("{{{t},\"schedule\":{{\"cron\":\"* * * * *\",\"timezone\":\"Mars/X\"}}}}"),
            "/schedule/timezone",
        ),
        (format!("{{{t},\"priority\":10}}"), "/priority"),
        (format!("{{{t},\"queue\":\"\"}}"), "/queue"),
        (format!("{{{t},\"timeout\":\"0s\"}}"), "/timeout"),
        (format!("{{{t},\"overlap\":\"never\"}}"), "/overlap"),
        (format!("{{{t},\"retry\":{{\"max_retries\":-1}}}}"), "/retry/max_retries"),
        (format!("{{{t},\"retry\":{{\"retires\":1}}}}"), "/retry/retires"),
        (format!("{{{t},\"name\":\"Nightly\"}}"), "/name"),
        (format!("{{{t},\"payload\":\"{}\"}}", "x".repeat(300_000)), "/payload"),
        ("{}".to_string(), "/target"),
        (r#"{"target":{"http":{}}}"#.to_string(), "/target/http/url"),
        (r#"{"target":{"http":{"url":"ftp://x/"}}}"#.to_string(), "/target/http/url"),
        (r#"{"target":{"http":{"url":"http://u:p@x/"}}}"#.to_string(), "/target/http/url"),
        (
            r#"{"target":{"http":{"url":"http://x/","headers":{"Host":"y"}}}}"#.to_string(),
            "/target/http/headers/Host",
        ),
        (r#"{"target":{"http":{"url":"http://x/"},"worker":{"kind":"k"}}}"#.to_string(), "/target"),
    ];
    for (body, pointer) in cases {
        let reply = server.ask("POST", "/v1/jobs", &body);
        assert_eq!(reply.status, 422, "{pointer}: {}", reply.text);
        assert_eq!(reply.header("content-type"), Some("application/problem+json"));
        let problem = reply.json();
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
        assert_eq!(problem["request_id"].as_str(), reply.header("x-request-id"));
        assert_eq!(problem["retryable"], false);
    }
    let near = server.ask("POST", "/v1/jobs", &format!("{{{TARGET},\"prioriti\":1}}")).json();
    assert_eq!(near["code"], "unknown_field");
    assert_eq!(near["errors"][0]["did_you_mean"], "priority");
    for (body, status) in [("", 400), ("{", 400), ("\u{fffd}", 400), ("[]", 422), ("1", 422)] {
        assert_eq!(server.ask("POST", "/v1/jobs", body).status, status, "{body:?}");
    }
    let settle =
        json!({"worker": "w", "runs": [{"run_id": "run_x", "token": 1, "outcome": "released"}]});
    assert_eq!(
        server.post("/v1/work/settle", &settle).json()["errors"][0]["pointer"],
        "/runs/0/run_id"
    );
    server.stop();
}

#[test]
fn what_is_not_there_is_not_found() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let job = "job_01m7gncz0bfyjarnf4dd2cnt04";
    let run = "run_01m7gncz0bfyjarnf4dd2cnt04";
    for (method, path) in [
        ("GET", format!("/v1/jobs/{job}")),
        ("DELETE", format!("/v1/jobs/{job}")),
        ("POST", format!("/v1/jobs/{job}/pause")),
        ("POST", format!("/v1/jobs/{job}/trigger")),
        ("GET", format!("/v1/runs/{run}")),
        ("POST", format!("/v1/runs/{run}/cancel")),
        ("POST", format!("/v1/runs/{run}/replay")),
        ("GET", "/v1/jobs/rubbish".to_string()),
        ("GET", "/v1/nothing".to_string()),
    ] {
        let reply = server.ask(method, &path, "");
        assert_eq!((reply.status, &reply.json()["code"]), (404, &json!("not_found")), "{path}");
    }
    assert_eq!(server.ask("PUT", "/v1/jobs", "{}").status, 405);
    for path in ["/healthz", "/readyz", "/v1/version"] {
        assert_eq!(server.ask("GET", path, "").status, 200, "{path}");
    }
    server.stop();
}

#[test]
fn strangers_are_not_heard() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let body = format!("{{{TARGET}}}");
    let send = |headers: &[(&str, &str)]| {
        ask(server.address, "POST", "/v1/jobs", &body, headers).expect("heard").status
    };
    assert_eq!(send(&[]), 202);
    assert_eq!(send(&[("Host", "localhost:7070")]), 202);
    assert_eq!(send(&[("Host", "evil.example")]), 403);
    assert_eq!(send(&[("Host", "127.0.0.1.evil.example:80")]), 403);
    assert_eq!(send(&[("Origin", "http://evil.example")]), 403);
    assert_eq!(send(&[("Origin", "null")]), 403);
    assert_eq!(send(&[("Origin", "http://localhost:3000")]), 202);
    assert_eq!(send(&[("Content-Type", "text/plain")]), 415);
    assert_eq!(send(&[("Content-Type", "")]), 415);
    assert_eq!(send(&[("X-Namespace", "No Name")]), 422);
    server.stop();
}
