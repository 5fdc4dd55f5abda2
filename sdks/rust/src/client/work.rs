//! The protocol of workers, plain, and what is known of them. [`Worker`](crate::Worker) does this for you.

use super::{Client, Pages};
use crate::clock;
use crate::error::Error;
use crate::limits::WAIT_MARGIN;
use crate::time::Length;
use crate::transport::{Call, part};
use crate::types::{
    BeatItem, Beats, ClaimOptions, Claimed, SettleItem, SettledRun, Signal, WorkerInfo,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Deserialize)]
struct Settled {
    results: Vec<SettledRun>,
}

impl Client {
    /// Asks for runs. The request id makes a retry return the same leases.
    pub async fn claim(
        &self,
        worker: &str,
        queues: &[&str],
        options: ClaimOptions,
    ) -> Result<Claimed, Error> {
        let wait = options.wait.unwrap_or(Duration::from_secs(20));
        let mut body = json!({
            "worker": worker,
            "queues": queues,
            "max": options.max.unwrap_or(50),
            "wait": Length::from(wait),
            "lease": options.lease.unwrap_or_else(|| "30s".into()),
            "request_id": options.request_id.unwrap_or_else(clock::new_id),
        });
        if let (Some(kinds), Some(object)) = (options.kinds, body.as_object_mut()) {
            object.insert("kinds".to_string(), kinds.into());
        }
        let call = Call::post("/v1/work/claim").body(&body)?;
        self.call(call.timeout(wait.saturating_add(WAIT_MARGIN))).await
    }

    /// Renews leases.
    pub async fn heartbeat(&self, worker: &str, runs: &[BeatItem]) -> Result<Beats, Error> {
        let body = json!({ "worker": worker, "runs": runs });
        self.call(Call::post("/v1/work/heartbeat").body(&body)?).await
    }

    /// Says how runs ended. The same again gets the same answer.
    pub async fn settle(
        &self,
        worker: &str,
        runs: &[SettleItem],
    ) -> Result<Vec<SettledRun>, Error> {
        let body = json!({ "worker": worker, "runs": runs });
        let call = Call::post("/v1/work/settle").body(&body)?;
        Ok(self.call::<Settled>(call).await?.results)
    }

    /// Says that a worker goes, so that nobody waits for it.
    pub async fn leave(&self, worker: &str) -> Result<(), Error> {
        let call = Call::post("/v1/work/leave").body(&json!({ "worker": worker }))?;
        self.call::<Value>(call).await.map(|_| ())
    }

    /// The workers that were heard of lately.
    pub fn workers(&self) -> Pages<WorkerInfo> {
        Pages::new(self, "/v1/workers", Vec::new())
    }

    /// A worker that was heard of lately.
    pub async fn worker(&self, worker: &str) -> Result<WorkerInfo, Error> {
        self.call(Call::get(format!("/v1/workers/{}", part(worker)))).await
    }

    /// Tells a worker to take nothing more, finish, and go; or only to be quiet; or neither any more.
    pub async fn drain_worker(&self, worker: &str, signal: Signal) -> Result<WorkerInfo, Error> {
        let call = Call::post(format!("/v1/workers/{}/drain", part(worker)));
        self.call(call.body(&json!({ "signal": signal }))?).await
    }
}
