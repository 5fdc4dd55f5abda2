//! Runs, dead runs, operations, queues, holds, the server.

use super::jobs::fields;
use super::{Client, Pages};
use crate::error::Error;
use crate::limits::WAIT_MARGIN;
use crate::time::{Length, When};
use crate::transport::{Call, part};
use crate::types::{
    Bulk, Operation, Queue, Run, RunChanged, RunFilter, Schedule, SigningSecret, given,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Deserialize)]
struct Items<T> {
    items: Vec<T>,
}

impl Client {
    /// A run and its attempts.
    pub async fn run(&self, run: &str) -> Result<Run, Error> {
        self.call(Call::get(format!("/v1/runs/{}", part(run)))).await
    }

    /// The same when it has ended or is dead, or after `wait` (at most 60 s).
    pub async fn run_ended(&self, run: &str, wait: Duration) -> Result<Run, Error> {
        let text = Length::from(wait).as_str().to_string();
        let call = Call::get(format!("/v1/runs/{}", part(run))).query(&[("wait", text)]);
        self.call(call.timeout(wait.saturating_add(WAIT_MARGIN))).await
    }

    /// Runs: unfinished ones first, then the last that ended.
    pub fn runs(&self, filter: RunFilter) -> Pages<Run> {
        Pages::new(self, "/v1/runs", filter.query())
    }

    /// Why is it not running?
    pub async fn explain(&self, run: &str) -> Result<Value, Error> {
        self.call(Call::get(format!("/v1/runs/{}/explain", part(run)))).await
    }

    /// Ends one run. A running attempt is told to stop.
    pub async fn cancel_run(&self, run: &str) -> Result<RunChanged, Error> {
        self.call(Call::post(format!("/v1/runs/{}/cancel", part(run)))).await
    }

    /// Gives a dead run a new budget of attempts, and perhaps another payload.
    pub async fn replay(&self, run: &str, payload: Option<Value>) -> Result<RunChanged, Error> {
        let call = Call::post(format!("/v1/runs/{}/replay", part(run)));
        self.call(call.body(&fields([("payload", payload)]))?).await
    }

    /// Dead runs, which wait for a person.
    pub fn dead_letters(&self, queue: Option<&str>, job: Option<&str>) -> Pages<Run> {
        let text = |value: Option<&str>| value.map(ToString::to_string);
        Pages::new(self, "/v1/dead-letters", given([("queue", text(queue)), ("job", text(job))]))
    }

    /// Replays many dead runs, as an operation.
    pub async fn replay_dead(&self, bulk: &Bulk) -> Result<Operation, Error> {
        let call = Call::post("/v1/dead-letters/replay").body(bulk)?;
        self.call(call.key(bulk.idempotency_key.as_deref())).await
    }

    /// Gives up many dead runs, as an operation.
    pub async fn discard_dead(&self, bulk: &Bulk) -> Result<Operation, Error> {
        let call = Call::post("/v1/dead-letters/discard").body(bulk)?;
        self.call(call.key(bulk.idempotency_key.as_deref())).await
    }

    /// How far an operation is.
    pub async fn operation(&self, operation: &str) -> Result<Operation, Error> {
        self.call(Call::get(format!("/v1/operations/{}", part(operation)))).await
    }

    /// Stops an operation where it is.
    pub async fn cancel_operation(&self, operation: &str) -> Result<Operation, Error> {
        self.call(Call::post(format!("/v1/operations/{}/cancel", part(operation)))).await
    }

    /// How long a queue is and how fast it moves.
    pub async fn queue(&self, queue: &str) -> Result<Queue, Error> {
        self.call(Call::get(format!("/v1/queues/{}", part(queue)))).await
    }

    /// Queues that have been used.
    pub fn queues(&self) -> Pages<Queue> {
        Pages::new(self, "/v1/queues", Vec::new())
    }

    /// Starts nothing more of a queue; what runs goes on.
    pub async fn pause_queue(&self, queue: &str, reason: Option<&str>) -> Result<Queue, Error> {
        let call = Call::post(format!("/v1/queues/{}/pause", part(queue)));
        self.call(call.body(&fields([("reason", reason.map(Value::from))]))?).await
    }

    /// Lets a paused queue go on.
    pub async fn resume_queue(&self, queue: &str) -> Result<Queue, Error> {
        self.call(Call::post(format!("/v1/queues/{}/resume", part(queue)))).await
    }

    /// The stop button: no new attempts in the scope; those under way settle. The scope is
    /// `{"queue": "bills"}` or `{"namespace": "shop"}`; without one it is everything that is the caller's.
    pub async fn hold(
        &self,
        reason: &str,
        scope: Option<Value>,
        until: Option<When>,
    ) -> Result<(), Error> {
        let until = until.map(|at| Value::from(at.as_str()));
        let body = fields([("reason", Some(reason.into())), ("scope", scope), ("until", until)]);
        self.call::<Value>(Call::post("/v1/hold").body(&body)?).await.map(|_| ())
    }

    /// Lets attempts begin again.
    pub async fn release(&self, scope: Option<Value>) -> Result<(), Error> {
        let body = fields([("scope", scope)]);
        self.call::<Value>(Call::post("/v1/release").body(&body)?).await.map(|_| ())
    }

    /// What a schedule will do: its next instants and its meaning in words.
    pub async fn preview(&self, schedule: &Schedule, count: Option<u32>) -> Result<Value, Error> {
        let mut body = json!({ "schedule": schedule });
        if let (Some(count), Some(object)) = (count, body.as_object_mut()) {
            object.insert("count".to_string(), count.into());
        }
        self.call(Call::post("/v1/schedules/preview").body(&body)?).await
    }

    /// The secrets that sign webhooks now; all of them go to [`verify`](crate::verify).
    pub async fn signing_secrets(&self) -> Result<Vec<SigningSecret>, Error> {
        Ok(self.call::<Items<SigningSecret>>(Call::get("/v1/signing-secrets")).await?.items)
    }

    /// The server's version and its store.
    pub async fn version(&self) -> Result<Value, Error> {
        self.call(Call::get("/v1/version")).await
    }
}
