//! Where webhooks of the real binary may go (`--allow-egress`), and whose secret signs them: a
//! namespace's own, in its runs and when it tries a target.
#![allow(clippy::expect_used)]

use crate::support::{Hook, Hooks, Reply, Server, ask, new_key};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// A server that is not on loopback, so that loopback is one of the networks it must not call.
fn outward(data: &Path, allow: Option<&str>, args: &[&str]) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duly"));
    command.args(["serve", "--listen", "0.0.0.0:0", "--data"]).arg(data).args(args);
    command.env_remove("DULY_ALLOW_EGRESS");
    if let Some(allow) = allow {
        command.env("DULY_ALLOW_EGRESS", allow);
    }
    let mut server = Server::spawned(command);
    server.address.set_ip([127, 0, 0, 1].into());
    server
}

fn with(server: &Server, key: &str, method: &str, path: &str, body: &Value) -> Reply {
    let bearer = format!("Bearer {key}");
    let headers = [("Authorization", bearer.as_str())];
    ask(server.address, method, path, &body.to_string(), &headers).expect("an answer")
}

/// Submits, waits for the end (`?wait=`) and gives the run.
fn ended(server: &Server, key: &str, url: &str) -> Value {
    let job = json!({"target": {"http": {"url": url}}, "retry": {"max_retries": 0}});
    let made = with(server, key, "POST", "/v1/jobs", &job).json();
    let run = made["run_id"].as_str().expect("a run");
    with(server, key, "GET", &format!("/v1/runs/{run}?wait=15s"), &json!({})).json()
}

#[test]
fn a_network_that_is_not_public_is_called_only_when_it_is_allowed() {
    let data = tempfile::tempdir().expect("a folder");
    let key = new_key(data.path(), &["--scope", "admin"]);
    let hooks = Hooks::start(&[]);
    let server = outward(data.path(), None, &[]);
    let run = ended(&server, &key, &hooks.url());
    let why = run["error"].as_str().expect("an error");
    assert_eq!(run["status"], "dead", "{run}");
    assert!(why.contains("is refused") && why.contains("--allow-egress"), "{why}");
    server.stop();
    // Another network does not help.
    let server = outward(data.path(), None, &["--allow-egress", "10.0.0.0/8"]);
    assert_eq!(ended(&server, &key, &hooks.url())["status"], "dead");
    server.stop();
    hooks.assert_quiet();
    for (variable, flags) in [
        (None, &["--allow-egress", "10.0.0.0/8", "--allow-egress", "127.0.0.0/8"][..]),
        (Some("10.0.0.0/8,127.0.0.0/8"), &[]),
    ] {
        let server = outward(data.path(), variable, flags);
        assert_eq!(ended(&server, &key, &hooks.url())["status"], "succeeded");
        hooks.next();
        // Nothing allows our own port.
        let own = format!("http://127.0.0.1:{}/v1/jobs", server.address.port());
        let run = ended(&server, &key, &own);
        assert!(run["error"].as_str().is_some_and(|why| why.contains("itself")), "{run}");
        server.stop();
    }
}

fn verified(hook: &Hook, secret: &str) -> bool {
    let secret = executor::Secret::parse(secret).expect("whsec_");
    let timestamp = hook.header("webhook-timestamp");
    let now = timestamp.parse().expect("a number");
    let signature = hook.header("webhook-signature");
    secret
        .verify(hook.header("webhook-id"), timestamp, signature, hook.body.as_bytes(), now)
        .is_ok()
}

#[test]
fn a_namespace_signs_with_its_own_secret_in_runs_and_in_tests() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let hooks = Hooks::start(&[]);
    let of = |namespace: &str, method: &str, path: &str, body: &Value| {
        let headers = [("X-Namespace", namespace)];
        ask(server.address, method, path, &body.to_string(), &headers).expect("an answer")
    };
    let none = json!({});
    let secrets = |namespace: &str| -> Vec<String> {
        let items = of(namespace, "GET", "/v1/signing-secrets", &none).json()["items"].clone();
        let items = items.as_array().expect("items").clone();
        items.iter().map(|one| one["secret"].as_str().expect("a secret").to_string()).collect()
    };
    let names = ["default", "blue", "green"];
    let target = json!({"http": {"url": hooks.url()}});
    let mut seen = Vec::new();
    for name in names {
        let made = of(name, "POST", "/v1/jobs", &json!({"target": target, "payload": name}));
        assert_eq!(made.status, 202, "{}", made.text);
        let run = hooks.next();
        let tested = of(name, "POST", "/v1/targets/test", &json!({"target": target}));
        assert_eq!(tested.status, 200, "{}", tested.text);
        let test = hooks.next();
        assert_eq!(test.header("x-run-id"), tested.json()["id"]);
        seen.push((name, secrets(name)[0].clone(), [run, test]));
    }
    for (name, _, hooks) in &seen {
        for (other, secret, _) in &seen {
            let fits = hooks.each_ref().map(|hook| verified(hook, secret));
            assert_eq!(fits, [name == other; 2], "what {name} sent, with the secret of {other}");
        }
    }
    let [usual, blue, green] = names.map(|name| secrets(name)[0].clone());
    // A rotation is its namespace's, too.
    let rotated = of("blue", "POST", "/v1/signing-secrets/rotate", &json!({"overlap": "0s"}));
    assert_eq!(rotated.status, 200, "{}", rotated.text);
    assert_ne!(secrets("blue"), [blue]);
    assert_eq!((secrets("green"), secrets("default")), (vec![green], vec![usual]));
    server.stop();
}

#[test]
fn a_key_of_a_namespace_sees_and_tests_with_that_secret_only() {
    let data = tempfile::tempdir().expect("a folder");
    let admin = new_key(data.path(), &["--scope", "admin"]);
    let blue = new_key(data.path(), &["--scope", "admin", "--namespace", "blue"]);
    let server = Server::start(data.path());
    let hooks = Hooks::start(&[]);
    let first = |key: &str| {
        let list = with(&server, key, "GET", "/v1/signing-secrets", &json!({})).json();
        list["items"][0]["secret"].as_str().expect("a secret").to_string()
    };
    let (usual, own) = (first(&admin), first(&blue));
    assert_ne!(usual, own);
    let body = json!({"target": {"http": {"url": hooks.url()}}});
    let tested = with(&server, &blue, "POST", "/v1/targets/test", &body);
    assert_eq!(tested.status, 200, "{}", tested.text);
    let hook = hooks.next();
    assert!(verified(&hook, &own) && !verified(&hook, &usual));
    server.stop();
}
