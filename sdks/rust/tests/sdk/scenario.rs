//! Plays the scenarios of sdks/conformance; its README says what each step is.

mod plain;
mod words;
mod worker;

use crate::proxy::Proxy;
use crate::server::new_queue;
use duly_client::types::{ClaimedRun, Created, JobFilter, Signal};
use duly_client::{CancellationToken, Client, Control, JobRequest, Refusal, Stats};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use words::{number, pick, text};

/// The longest wait for an event.
pub const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
pub enum Mode {
    Tasks,
    Threads,
}

type Gates = Arc<Mutex<HashMap<String, CancellationToken>>>;

fn gate(gates: &Gates, name: &str) -> CancellationToken {
    gates.lock().unwrap().entry(name.to_string()).or_default().clone()
}

/// A worker of the SDK and what its handlers said.
struct Played {
    control: Control,
    events: watch::Sender<Vec<Value>>,
    task: tokio::task::JoinHandle<Stats>,
    stopped: bool,
}

/// Does the event have all of these fields?
fn fits(event: &Value, wanted: &Value) -> bool {
    wanted.as_object().unwrap().iter().all(|(name, value)| event.get(name) == Some(value))
}

fn say(events: &watch::Sender<Vec<Value>>, event: Value) {
    events.send_modify(|list| list.push(event));
}

impl Played {
    async fn wait_for(&self, wanted: &Value) {
        let mut heard = self.events.subscribe();
        let found = heard.wait_for(|list| list.iter().any(|event| fits(event, wanted)));
        if tokio::time::timeout(PATIENCE, found).await.is_err() {
            panic!("no event {wanted} among {:?}", *self.events.borrow());
        }
    }

    fn place_of(&self, wanted: &Value) -> usize {
        let list = self.events.borrow();
        list.iter().position(|event| fits(event, wanted)).expect("the event came")
    }
}

pub struct Scenario {
    mode: Mode,
    queue: String,
    proxy: Proxy,
    client: Client,
    direct: Client,
    jobs: HashMap<String, Created>,
    leases: Arc<Mutex<HashMap<String, ClaimedRun>>>,
    workers: HashMap<String, Played>,
    gates: Gates,
}

impl Scenario {
    pub async fn start(url: &str, mode: Mode) -> Scenario {
        let proxy = Proxy::start(url).await;
        let client = Client::at(proxy.url.as_str()).unwrap();
        let direct = Client::at(url).unwrap();
        Scenario {
            mode,
            queue: new_queue(),
            proxy,
            client,
            direct,
            jobs: HashMap::new(),
            leases: Arc::default(),
            workers: HashMap::new(),
            gates: Gates::default(),
        }
    }

    pub async fn play(mut self, steps: &[Value]) {
        for step in steps {
            let (verb, said) = step.as_object().unwrap().iter().next().unwrap();
            self.step(verb, said).await;
        }
        self.proxy.cut(false);
        for (_, played) in std::mem::take(&mut self.workers) {
            played.control.stop();
            played.control.stop();
            tokio::time::timeout(PATIENCE, played.task).await.unwrap().unwrap();
        }
    }

    async fn step(&mut self, verb: &str, said: &Value) {
        match verb {
            "submit" => self.submit(said).await,
            "same" => assert_eq!(self.job(&said[0]).id, self.job(&said[1]).id),
            "differ" => assert_ne!(self.job(&said[0]).id, self.job(&said[1]).id),
            "count" => self.count(said).await,
            "claim" => self.claim(said).await,
            "before" => {
                let played = &self.workers[text(&said["worker"])];
                assert!(played.place_of(&said["first"]) < played.place_of(&said["then"]));
            }
            "heartbeat" => self.heartbeat(said).await,
            "settle" => self.settle(said).await,
            "worker" => self.worker(said),
            "event" => {
                let mut wanted = pick(said, &["is", "reason", "attempt"]);
                if said.get("job").is_some() {
                    wanted["run"] = self.job(&said["job"]).run_id.as_deref().into();
                }
                self.workers[text(&said["worker"])].wait_for(&wanted).await;
            }
            "open" => gate(&self.gates, text(said)).cancel(),
            "stop" => self.stop(said).await,
            "stats" => self.stats(said).await,
            "drain" => {
                let signal: Signal = serde_json::from_value(said["signal"].clone()).unwrap();
                let name = self.workers[text(&said["worker"])].control.name().to_string();
                self.direct.drain_worker(&name, signal).await.unwrap();
            }
            "known" => self.known(said).await,
            "cancel" => {
                let id = self.job(said).id.clone();
                self.client.cancel(&id).await.unwrap();
            }
            "wait" => self.wait(said).await,
            "lose" => self.proxy.lose(text(&said["path"]), said["answers"].as_u64().unwrap()),
            "cut" => self.proxy.cut(said.as_bool().unwrap()),
            "verify" => verify(said),
            other => panic!("the step {other} is not known"),
        }
    }

    fn job(&self, name: &Value) -> &Created {
        &self.jobs[text(name)]
    }

    // Client

    async fn submit(&mut self, said: &Value) {
        let job: JobRequest = serde_json::from_value(said["job"].clone()).unwrap();
        let mut job = job.queue(&*self.queue);
        if let Some(key) = said["key"].as_str() {
            job = job.idempotency_key(format!("{}-{key}", self.queue));
        }
        let created = self.client.create(&job).await;
        let Some(fails) = said.get("fails") else {
            if let Some(name) = said["as"].as_str() {
                self.jobs.insert(name.to_string(), created.unwrap());
            }
            return;
        };
        let error = created.unwrap_err();
        let refusal = error.refusal().unwrap();
        assert!([Refusal::InvalidRequest, Refusal::KeyReused].contains(&refusal), "{error}");
        let api = error.api().unwrap();
        assert_eq!(
            (api.status, api.code.as_str()),
            (number(&fails["status"]), text(&fails["code"]))
        );
        if let Some(pointer) = fails["pointer"].as_str() {
            assert!(api.errors.iter().any(|fault| fault.pointer == pointer), "{error}");
        }
    }

    async fn count(&self, said: &Value) {
        let mut filter = JobFilter::new().queue(&*self.queue).limit(1);
        if let Some(status) = said["status"].as_str() {
            filter = filter.status(status);
        }
        let found = self.client.jobs(filter).all().await.unwrap();
        assert_eq!(found.len() as u64, said["is"].as_u64().unwrap());
    }

    async fn wait(&self, said: &Value) {
        let run = self.job(&said["job"]).run_id.clone().unwrap();
        let wanted = text(&said["status"]);
        // The answer comes when the run has ended; other states are looked for.
        let ends = ["succeeded", "cancelled", "dead", "failed"].contains(&wanted);
        let found = tokio::time::timeout(PATIENCE, async {
            loop {
                let found = if ends {
                    self.direct.run_ended(&run, Duration::from_secs(5)).await.unwrap()
                } else {
                    self.direct.run(&run).await.unwrap()
                };
                if found.status == wanted {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let Ok(found) = found.await else { panic!("{run} did not become {wanted}") };
        if let Some(output) = said.get("output") {
            assert_eq!(found.output.as_ref(), Some(output), "{found:?}");
        }
        if let Some(error) = said["error"].as_str() {
            assert_eq!(found.error.as_deref(), Some(error), "{found:?}");
        }
        if let Some(attempts) = said["attempts"].as_u64() {
            let made = found.attempts.as_ref().map_or(0, Vec::len);
            assert_eq!(made as u64, attempts, "{found:?}");
        }
    }
}

/// A scenario that failed leaves nobody at a gate: a thread that waits would keep the test from ending.
impl Drop for Scenario {
    fn drop(&mut self) {
        self.gates.lock().unwrap().values().for_each(CancellationToken::cancel);
        self.workers.values().for_each(|played| played.control.stop());
    }
}

fn verify(said: &Value) {
    let headers = said["headers"].as_object().unwrap();
    let headers = headers.iter().map(|(name, value)| (name, text(value)));
    let secrets = said["secrets"].as_array().unwrap().iter().map(text);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(said["now"].as_u64().unwrap());
    let tolerance = Duration::from_secs(300);
    let body = text(&said["body"]).as_bytes();
    let verified = duly_client::verify_at(headers, body, secrets, now, tolerance);
    assert_eq!(verified.is_ok(), said["fits"] == true, "{verified:?}");
    assert!(verified.is_err() || verified.unwrap().starts_with("run_"));
}
