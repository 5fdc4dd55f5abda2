//! The dashboard's files from the real binary, built or as the placeholder: what a browser gets, and what
//! a program that mistypes an address gets.
#![allow(clippy::expect_used)]

use crate::support::{Reply, Server, ask};
use std::process::Command;

const HTML: [(&str, &str); 1] = [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")];

fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> Reply {
    ask(server.address, "GET", path, "", headers).expect("an answer")
}

fn is_page(reply: &Reply) -> bool {
    reply.status == 200 && reply.header("content-type") == Some("text/html; charset=utf-8")
}

#[test]
fn the_page_is_at_the_root_and_at_its_own_addresses() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let page = get(&server, "/", &[]);
    assert!(is_page(&page), "{}", page.text);
    assert!(page.text.contains("duly"));
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(page.header(name), Some(value));
    }
    for path in ["/jobs", "/jobs/nightly?q=1", "/runs/run_x", "/cluster", "/index.html"] {
        assert!(is_page(&get(&server, path, &HTML)), "{path}");
    }
    let tag = page.header("etag").expect("a tag").to_string();
    let again = get(&server, "/", &[("If-None-Match", &tag)]);
    assert_eq!((again.status, again.text.as_str()), (304, ""));
}

#[test]
fn the_api_still_says_that_there_is_no_such_address() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let not_found = |reply: Reply, what: &str| {
        assert_eq!(reply.status, 404, "{what}");
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{what}");
    };
    for path in
        ["/v1", "/v1/nothing", "/v1/jobs/nobody", "/healthz/x", "/metrics/x", "/assets/none.js"]
    {
        not_found(get(&server, path, &HTML), path);
    }
    for path in ["/jobs", "/v2/jobs", "/favicon.ico"] {
        not_found(get(&server, path, &[("Accept", "application/json")]), path);
    }
    not_found(server.ask("POST", "/", "{}"), "POST /");
    assert_eq!(get(&server, "/v1/queues", &HTML).header("content-type"), Some("application/json"));
}

#[test]
fn the_page_needs_no_key_and_the_api_does() {
    let data = tempfile::tempdir().expect("a folder");
    let made = Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(["key", "create", "--scope", "admin", "--data"])
        .arg(data.path())
        .output()
        .expect("duly runs");
    assert!(made.status.success());
    let server = Server::start(data.path());
    assert!(is_page(&get(&server, "/", &HTML)));
    assert!(is_page(&get(&server, "/jobs/new", &HTML)));
    for path in ["/v1/jobs", "/v1/events", "/metrics", "/v1/nothing"] {
        assert_eq!(get(&server, path, &HTML).status, 401, "{path}");
    }
    assert_eq!(get(&server, "/jobs", &[]).status, 401, "a program is not told what exists");
}
