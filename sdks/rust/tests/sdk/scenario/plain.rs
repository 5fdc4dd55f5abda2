//! Steps that speak the plain protocol of workers.

use super::words::{length, number, text};
use super::{Scenario, say};
use duly_client::Client;
use duly_client::types::{BeatItem, ClaimOptions, ClaimedRun, SettleItem};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

impl Scenario {
    pub(super) fn plain(&self, said: &Value) -> Client {
        if said["direct"] == true { self.direct.clone() } else { self.client.clone() }
    }

    pub(super) async fn claim(&mut self, said: &Value) {
        let run = self.job(&said["of"]).run_id.clone().unwrap();
        let claiming = claim(self.plain(said), self.queue.clone(), said.clone(), run);
        let (leases, name) = (Arc::clone(&self.leases), text(&said["as"]).to_string());
        let Some(beside) = said["beside"].as_str() else {
            let run = claiming.await;
            leases.lock().unwrap().insert(name, run);
            return;
        };
        let events = self.workers[beside].events.clone();
        tokio::spawn(async move {
            let run = claiming.await;
            let event = json!({"is": "taken", "run": run.run_id});
            leases.lock().unwrap().insert(name, run);
            say(&events, event);
        });
    }

    pub(super) fn lease(&self, said: &Value) -> ClaimedRun {
        self.leases.lock().unwrap()[text(&said["lease"])].clone()
    }

    pub(super) async fn heartbeat(&self, said: &Value) {
        let mut beat = BeatItem::new(&self.lease(said));
        if let Some(checkpoint) = said.get("checkpoint") {
            beat = beat.checkpoint(checkpoint.clone());
        }
        let answer = self.client.heartbeat(text(&said["worker"]), &[beat]).await.unwrap();
        assert_eq!(answer.results[0].status, text(&said["status"]));
    }

    pub(super) async fn settle(&self, said: &Value) {
        let run = self.lease(said);
        let item = match text(&said["outcome"]) {
            "succeeded" => {
                let item = SettleItem::succeeded(&run);
                said.get("output").map_or(item.clone(), |output| item.output(output.clone()))
            }
            "failed" => {
                SettleItem::failed(&run, said["error"]["message"].as_str().unwrap_or("failed"))
            }
            "released" => SettleItem::released(&run),
            other => panic!("the outcome {other} is not played"),
        };
        let settled = self.plain(said).settle(text(&said["worker"]), &[item]).await.unwrap();
        assert_eq!(settled[0].status, text(&said["status"]));
        if let Some(status) = said["run_status"].as_str() {
            assert_eq!(settled[0].run_status.as_deref(), Some(status));
        }
    }
}

async fn claim(client: Client, queue: String, said: Value, run: String) -> ClaimedRun {
    let wait = said.get("wait").map_or(Duration::from_secs(5), length);
    let lease = said["lease"].as_str().unwrap_or("30s");
    let max = said.get("max").map_or(1, number::<usize>);
    let options = ClaimOptions::new().max(max).wait(wait).lease(lease);
    let claimed = client.claim(text(&said["worker"]), &[&queue], options).await.unwrap();
    let found: Vec<&str> = claimed.runs.iter().map(|run| run.run_id.as_str()).collect();
    assert_eq!(found, [run]);
    let run = claimed.runs.into_iter().next().unwrap();
    if let Some(attempt) = said["attempt"].as_u64() {
        assert_eq!(u64::from(run.attempt), attempt);
    }
    if let Some(checkpoint) = said.get("checkpoint") {
        let saved: Value = serde_json::from_str(run.checkpoint.as_ref().unwrap().get()).unwrap();
        assert_eq!(&saved, checkpoint);
    }
    if let Some(error) = said["previous_error"].as_str() {
        assert_eq!(run.previous_error.as_deref(), Some(error));
    }
    run
}
