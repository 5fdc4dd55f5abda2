//! Every scenario of sdks/conformance, with handlers in tasks and in threads.

use crate::scenario::{Mode, Scenario};
use crate::server::Server;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Scenarios at once: they wait for the server more than they work.
const AT_ONCE: usize = 6;

fn scenarios(file: &str) -> Vec<(String, Vec<Value>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    // `y` is a name, not a truth.
    let options = serde_saphyr::options! { strict_booleans: true };
    let list: Vec<Value> = serde_saphyr::from_str_with_options(&text, options).unwrap();
    let read = |one: &Value| {
        let name = one["name"].as_str().unwrap().to_string();
        (name, one["steps"].as_array().unwrap().clone())
    };
    list.iter().map(read).collect()
}

async fn play(file: &str, count: usize) {
    let server = Server::start();
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut playing = Vec::new();
    let scenarios = scenarios(file);
    assert_eq!(scenarios.len(), count, "the scenarios of {file}");
    for (name, steps) in scenarios {
        let has_worker = steps.iter().any(|step| step.get("worker").is_some());
        let modes: &[Mode] =
            if has_worker { &[Mode::Tasks, Mode::Threads] } else { &[Mode::Tasks] };
        for mode in modes {
            let (room, steps, url) = (Arc::clone(&room), steps.clone(), server.url.clone());
            let played = tokio::spawn(async move {
                let _place = room.acquire_owned().await.unwrap();
                Scenario::start(&url, *mode).await.play(&steps).await;
            });
            playing.push((format!("{name} [{mode:?}]"), played));
        }
    }
    let mut failed = Vec::new();
    for (name, played) in playing {
        if played.await.is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "of {file}: {failed:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client() {
    play("client.yaml", 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plain_protocol() {
    play("protocol.yaml", 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks() {
    play("webhooks.yaml", 15).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worker() {
    play("worker.yaml", 19).await;
}

#[test]
fn no_file_is_forgotten() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut files: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    files.retain(|name| name.ends_with(".yaml"));
    files.sort();
    assert_eq!(files, ["client.yaml", "protocol.yaml", "webhooks.yaml", "worker.yaml"]);
}
