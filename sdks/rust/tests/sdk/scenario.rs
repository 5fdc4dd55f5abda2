//! Plays the scenarios of sdks/conformance; its README says what each step is.

use crate::proxy::Proxy;
use crate::server::new_queue;
use duly_client::types::{
    BeatItem, ClaimOptions, ClaimedRun, Created, JobFilter, SettleItem, Signal,
};
use duly_client::{
    CancellationToken, Client, Context, Control, End, JobRequest, OnLeaseUnknown, Refusal, Stats,
    Worker,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

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

    // The plain protocol

    fn plain(&self, said: &Value) -> Client {
        if said["direct"] == true { self.direct.clone() } else { self.client.clone() }
    }

    async fn claim(&mut self, said: &Value) {
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

    fn lease(&self, said: &Value) -> ClaimedRun {
        self.leases.lock().unwrap()[text(&said["lease"])].clone()
    }

    async fn heartbeat(&self, said: &Value) {
        let mut beat = BeatItem::new(&self.lease(said));
        if let Some(checkpoint) = said.get("checkpoint") {
            beat = beat.checkpoint(checkpoint.clone());
        }
        let answer = self.client.heartbeat(text(&said["worker"]), &[beat]).await.unwrap();
        assert_eq!(answer.results[0].status, text(&said["status"]));
    }

    async fn settle(&self, said: &Value) {
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

    // The worker

    fn worker(&mut self, said: &Value) {
        let mut builder = Worker::builder(&self.client).queues([&*self.queue]);
        for (name, value) in said["options"].as_object().into_iter().flatten() {
            builder = match name.as_str() {
                "lease" => builder.lease(length(value)),
                "grace" => builder.grace(length(value)),
                "concurrency" => builder.concurrency(number::<usize>(value)),
                "prefetch" => builder.prefetch(number::<usize>(value)),
                "version" => builder.version(text(value)),
                "labels" => value
                    .as_object()
                    .unwrap()
                    .iter()
                    .fold(builder, |builder, (name, value)| builder.label(name, text(value))),
                "on_lease_unknown" => builder.on_lease_unknown(match text(value) {
                    "stop" => OnLeaseUnknown::Stop,
                    _ => OnLeaseUnknown::Continue,
                }),
                other => panic!("the option {other} is not known"),
            };
        }
        let mut worker = builder.build().unwrap();
        let events = watch::Sender::new(Vec::new());
        for (kind, attempts) in said["handlers"].as_object().unwrap() {
            let attempts = Arc::new(attempts.as_array().unwrap().clone());
            let (gates, events) = (Arc::clone(&self.gates), events.clone());
            let handle = move |_: Value, ctx: Context| {
                attempt(Arc::clone(&attempts), Arc::clone(&gates), events.clone(), ctx)
            };
            match self.mode {
                Mode::Tasks => worker.handle(kind, handle).unwrap(),
                Mode::Threads => {
                    let runtime = tokio::runtime::Handle::current();
                    let blocking =
                        move |payload: Value, ctx: Context| runtime.block_on(handle(payload, ctx));
                    worker.handle_blocking(kind, blocking).unwrap();
                }
            }
        }
        let control = worker.control();
        let heard = events.clone();
        let task = tokio::spawn(async move {
            let stats = worker.serve().await.unwrap();
            say(&heard, json!({"is": "gone"}));
            stats
        });
        let played = Played { control, events, task, stopped: false };
        self.workers.insert(text(&said["as"]).to_string(), played);
    }

    async fn stop(&mut self, said: &Value) {
        let played = self.workers.get_mut(text(&said["worker"])).unwrap();
        // Twice would mean: at once.
        if !std::mem::replace(&mut played.stopped, true) {
            played.control.stop();
        }
        if said["wait"] == true {
            played.wait_for(&json!({"is": "gone"})).await;
        }
    }

    async fn stats(&self, said: &Value) {
        let played = &self.workers[text(&said["worker"])];
        played.wait_for(&json!({"is": "gone"})).await;
        let stats = serde_json::to_value(played.control.stats()).unwrap();
        let mut wanted = said.clone();
        wanted.as_object_mut().unwrap().remove("worker");
        assert!(fits(&stats, &wanted), "{stats} is not {wanted}");
    }

    async fn known(&self, said: &Value) {
        let name = self.workers[text(&said["worker"])].control.name();
        let listed = self.direct.workers().all().await.unwrap();
        let listed = listed.iter().any(|one| one.id == name);
        if said["status"] == "unknown" {
            assert!(!listed, "{name} is still known");
            return;
        }
        assert!(listed, "{name} is not known");
        let known = serde_json::to_value(self.direct.worker(name).await.unwrap()).unwrap();
        let mut wanted = said.clone();
        wanted.as_object_mut().unwrap().remove("worker");
        assert!(fits(&known, &wanted), "{known} is not {wanted}");
    }
}

/// A scenario that failed leaves nobody at a gate: a thread that waits would keep the test from ending.
impl Drop for Scenario {
    fn drop(&mut self) {
        self.gates.lock().unwrap().values().for_each(CancellationToken::cancel);
        self.workers.values().for_each(|played| played.control.stop());
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

async fn attempt(
    attempts: Arc<Vec<Value>>,
    gates: Gates,
    events: watch::Sender<Vec<Value>>,
    ctx: Context,
) -> Result<Value, End> {
    let place = (ctx.attempt() as usize).min(attempts.len()) - 1;
    let script = attempts[place].clone();
    let run = ctx.run_id();
    say(&events, json!({"is": "started", "run": run, "attempt": ctx.attempt()}));
    if let Some(saved) = script.get("saved") {
        assert_eq!(ctx.saved::<Value>()?.as_ref(), Some(saved));
    }
    if let Some(checkpoint) = script.get("checkpoint") {
        ctx.checkpoint(checkpoint).await?;
    }
    if let Some(name) = script["gate"].as_str() {
        let opened = gate(&gates, name);
        if script["deaf"] == true {
            opened.cancelled().await;
        } else if let Err(stopped) = ctx.unless_stopped(opened.cancelled()).await {
            say(&events, json!({"is": "stopped", "run": run, "reason": stopped.0.as_str()}));
            return Err(stopped.into());
        }
    }
    say(&events, json!({"is": "ended", "run": run}));
    if let Some(message) = script["fail"].as_str() {
        let retryable = script.get("retryable").is_none_or(|said| said == true);
        let end = if retryable { End::retry(message) } else { End::fail(message) };
        return Err(match script["after"].as_str() {
            Some(after) => end.after(after),
            None => end,
        });
    }
    if let Some(delay) = script.get("snooze") {
        return Err(End::snooze(length(delay)));
    }
    if script["release"] == true {
        return Err(End::release());
    }
    Ok(script.get("return").cloned().unwrap_or_default())
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

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

fn number<T: TryFrom<u64>>(value: &Value) -> T {
    value.as_u64().and_then(|number| T::try_from(number).ok()).expect("a number that fits")
}

fn pick(said: &Value, names: &[&str]) -> Value {
    let found = names.iter().filter_map(|name| Some((name.to_string(), said.get(*name)?.clone())));
    Value::Object(found.collect())
}

/// The lengths that scenarios use.
fn length(value: &Value) -> Duration {
    let text = text(value);
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap());
    let unit = match unit {
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        other => panic!("{other} is no unit"),
    };
    unit * digits.parse::<u32>().unwrap()
}
