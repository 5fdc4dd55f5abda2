//! API keys on the real binary: who is heard, for what, in which namespace, and until when.
#![allow(clippy::expect_used)]

use crate::support::{Reply, Server, ask};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

fn duly(args: &[&str], key: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duly"));
    command.args(args).env_remove("DULY_API_KEY").env_remove("DULY_URL");
    if let Some(key) = key {
        command.env("DULY_API_KEY", key);
    }
    command.output().expect("duly runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn make(args: &[&str], key: Option<&str>) -> String {
    let made = text(&duly(&[&["key", "create"], args].concat(), key));
    let made = made.lines().next().expect("a key").to_string();
    assert!(made.starts_with("duly_") && made.len() == 5 + 12 + 1 + 64, "{made}");
    made
}

fn with(server: &Server, key: &str, method: &str, path: &str, body: &Value) -> Reply {
    let bearer = format!("Bearer {key}");
    let headers = [("Authorization", bearer.as_str())];
    ask(server.address, method, path, &body.to_string(), &headers).expect("an answer")
}

fn job() -> Value {
    json!({"target": {"worker": {"kind": "k"}}, "schedule": {"delay": "1h"}})
}

#[test]
fn without_a_key_only_loopback_is_served() {
    let data = tempfile::tempdir().expect("a folder");
    let folder = data.path().to_str().expect("a path");
    let refused = duly(&["serve", "--listen", "0.0.0.0:0", "--data", folder], None);
    assert_eq!(refused.status.code(), Some(4));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains(&format!("duly key create --scope admin --data {folder}")), "{said}");

    let key = make(&["--scope", "admin", "--data", folder], None);
    let mut command = Command::new(env!("CARGO_BIN_EXE_duly"));
    command.args(["serve", "--listen", "0.0.0.0:0", "--data", folder]);
    let mut server = Server::spawned(command);
    server.address.set_ip([127, 0, 0, 1].into());
    assert_eq!(server.ask("GET", "/v1/version", "").status, 401, "loopback too");
    // Whoever reaches us by another name is heard too: the key proves them.
    let bearer = format!("Bearer {key}");
    let headers = [("Authorization", bearer.as_str()), ("Host", "jobs.example.com")];
    let reply = ask(server.address, "GET", "/v1/version", "", &headers).expect("an answer");
    assert_eq!(reply.status, 200, "{}", reply.text);
    server.stop();
}

#[test]
fn keys_have_scopes_and_namespaces_and_are_revoked_at_once() {
    let data = tempfile::tempdir().expect("a folder");
    let folder = data.path().to_str().expect("a path");
    let admin = make(&["--scope", "admin", "--name", "boss", "--data", folder], None);
    let server = Server::start(data.path());
    let url = format!("http://{}", server.address);

    let refused = server.post("/v1/jobs", &job());
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert_eq!(refused.json()["code"], "unauthorized");
    for open in ["/healthz", "/readyz"] {
        assert_eq!(server.ask("GET", open, "").status, 200, "{open}");
    }
    assert_eq!(server.ask("GET", "/nowhere", "").status, 401, "strangers learn nothing");

    // A server that runs holds its folder; keys are then made through it.
    let busy = duly(&["key", "create", "--scope", "read", "--data", folder], None);
    assert_eq!(busy.status.code(), Some(1), "{}", String::from_utf8_lossy(&busy.stderr));
    let on = |scope: &str, namespace: &str| {
        make(&["--scope", scope, "--namespace", namespace, "--url", &url], Some(&admin))
    };
    let (submit, read, worker) =
        (on("submit", "team-a"), on("read", "team-a"), on("worker", "team-a"));

    let claim = json!({"worker": "w", "queues": ["default"], "wait": "0s"});
    let hold = json!({"reason": "test"});
    let version = json!({});
    for (key, statuses) in [
        (&admin, [202, 200, 200, 200]),
        (&submit, [202, 403, 403, 200]),
        (&read, [403, 403, 403, 200]),
        (&worker, [403, 200, 403, 403]),
    ] {
        let replies = [
            with(&server, key, "POST", "/v1/jobs", &job()),
            with(&server, key, "POST", "/v1/work/claim", &claim),
            with(&server, key, "POST", "/v1/hold", &hold),
            with(&server, key, "GET", "/v1/version", &version),
        ];
        assert_eq!(replies.each_ref().map(|reply| reply.status), statuses, "{replies:?}");
        with(&server, &admin, "POST", "/v1/release", &json!({}));
    }
    let denied = with(&server, &read, "POST", "/v1/jobs", &job());
    assert_eq!(denied.json()["code"], "forbidden");

    // The key decides; another namespace is not there for it.
    let bearer = format!("Bearer {submit}");
    for (header, query, status) in
        [("team-a", "", 202), ("default", "", 404), ("", "?namespace=other", 404)]
    {
        let mut headers = vec![("Authorization", bearer.as_str())];
        if !header.is_empty() {
            headers.push(("X-Namespace", header));
        }
        let path = format!("/v1/jobs{query}");
        let reply =
            ask(server.address, "POST", &path, &job().to_string(), &headers).expect("an answer");
        assert_eq!(reply.status, status, "{header} {query}: {}", reply.text);
    }

    let list = text(&duly(&["key", "list", "--url", &url], Some(&admin)));
    assert!(list.contains("boss") && list.contains("team-a"), "{list}");
    let secret = submit.rsplit('_').next().expect("a secret");
    assert!(!list.contains(secret), "{list}");
    let id = submit.split('_').nth(1).expect("an id");
    for _ in 0..2 {
        let said = text(&duly(&["key", "revoke", id, "--url", &url], Some(&admin)));
        assert_eq!(said, format!("revoked {id}\n"), "twice is the same");
    }
    assert_eq!(with(&server, &submit, "POST", "/v1/jobs", &job()).status, 401);
    let gone = duly(&["key", "revoke", "nothing", "--url", &url], Some(&admin));
    assert_eq!(gone.status.code(), Some(3));
    let last = duly(&["key", "revoke", &admin, "--url", &url], Some(&admin));
    assert_eq!(last.status.code(), Some(4), "{}", String::from_utf8_lossy(&last.stderr));
    server.stop();

    // Still revoked after a restart, and no secret is on disk.
    let server = Server::start(data.path());
    assert_eq!(with(&server, &submit, "POST", "/v1/jobs", &job()).status, 401);
    assert_eq!(with(&server, &read, "GET", "/v1/version", &version).status, 200);
    server.stop();
    for key in [&admin, &submit, &read, &worker] {
        assert!(!is_on_disk(data.path(), key.rsplit('_').next().expect("a secret")));
    }
    assert!(is_on_disk(data.path(), id), "the search finds what is there");
}

fn is_on_disk(folder: &Path, text: &str) -> bool {
    let files = std::fs::read_dir(folder).expect("a folder");
    files.map(|file| file.expect("a file").path()).filter(|path| path.is_file()).any(|path| {
        let bytes = std::fs::read(path).expect("readable");
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

#[test]
fn an_admin_of_one_namespace_rules_that_one() {
    let data = tempfile::tempdir().expect("a folder");
    let folder = data.path().to_str().expect("a path");
    let all = make(&["--scope", "admin", "--data", folder], None);
    let own = make(&["--scope", "admin", "--namespace", "team-a", "--data", folder], None);
    let server = Server::start(data.path());
    let made = with(&server, &own, "POST", "/v1/api-keys", &json!({"scope": "read"}));
    assert_eq!((made.status, &made.json()["namespace"]), (201, &json!("team-a")), "{}", made.text);
    let other = json!({"scope": "read", "namespace": "team-b"});
    assert_eq!(with(&server, &own, "POST", "/v1/api-keys", &other).status, 404);
    let seen = with(&server, &own, "GET", "/v1/api-keys", &json!({})).json();
    assert_eq!(seen["items"].as_array().map(Vec::len), Some(2), "{seen}");
    let id = all.split('_').nth(1).expect("an id");
    assert_eq!(
        with(&server, &own, "DELETE", &format!("/v1/api-keys/{id}"), &json!({})).status,
        404
    );
    // Of what is held each sees what concerns it, in the form that releases it.
    let held = |key: &str| {
        let held = with(&server, key, "GET", "/v1/holds", &json!({})).json();
        assert_eq!(held["complete"], true, "{held}");
        let items = held["items"].as_array().expect("items").iter();
        items.map(|one| one["scope"].clone()).collect::<Vec<_>>()
    };
    let hold = |key: &str, scope: Value| {
        let body = json!({"scope": scope, "reason": "test"});
        assert_eq!(with(&server, key, "POST", "/v1/hold", &body).status, 200, "{scope}");
    };
    let (team, bills) = (json!({"namespace": "team-a"}), json!({"queue": "bills"}));
    hold(&own, team.clone());
    hold(&own, bills.clone());
    hold(&all, json!({"queue": "mine"}));
    assert_eq!(held(&own), [team.clone(), bills.clone()]);
    assert_eq!(held(&all), [team.clone(), json!({"queue": "mine"})], "queues of others are theirs");
    hold(&all, json!("all"));
    assert_eq!(held(&own), [json!("all"), team.clone(), bills.clone()]);
    for scope in held(&own).into_iter().skip(1) {
        let reply = with(&server, &own, "POST", "/v1/release", &json!({"scope": scope}));
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    assert_eq!(held(&own), [json!("all")]);
    for bad in [json!({}), json!({"scope": "root"}), json!({"scope": "read", "namespace": "A b"})] {
        assert_eq!(with(&server, &all, "POST", "/v1/api-keys", &bad).status, 422, "{bad}");
    }
    server.stop();
}
