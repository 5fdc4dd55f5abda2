//! Steps about a worker of the SDK, and what its handlers do.

use super::words::{length, number, text};
use super::{Gates, Mode, Played, Scenario, fits, gate, say};
use duly_client::{Context, End, OnLeaseUnknown, Worker};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::watch;

impl Scenario {
    pub(super) fn worker(&mut self, said: &Value) {
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

    pub(super) async fn stop(&mut self, said: &Value) {
        let played = self.workers.get_mut(text(&said["worker"])).unwrap();
        // Twice would mean: at once.
        if !std::mem::replace(&mut played.stopped, true) {
            played.control.stop();
        }
        if said["wait"] == true {
            played.wait_for(&json!({"is": "gone"})).await;
        }
    }

    pub(super) async fn stats(&self, said: &Value) {
        let played = &self.workers[text(&said["worker"])];
        played.wait_for(&json!({"is": "gone"})).await;
        let stats = serde_json::to_value(played.control.stats()).unwrap();
        let mut wanted = said.clone();
        wanted.as_object_mut().unwrap().remove("worker");
        assert!(fits(&stats, &wanted), "{stats} is not {wanted}");
    }

    pub(super) async fn known(&self, said: &Value) {
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
