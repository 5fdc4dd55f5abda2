//! Jobs: made, declared, read, changed.

use super::{Client, Pages};
use crate::error::Error;
use crate::limits::BATCH_MAX;
use crate::time::When;
use crate::transport::{Call, part};
use crate::types::{
    Backfill, BatchItem, Created, Job, JobChanged, JobFilter, JobRequest, Occurrence, Triggered,
    given,
};
use hyper::{Method, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Batch {
    results: Vec<BatchItem>,
}

impl Client {
    /// A job for workers, now. [`Client::create`] makes any job.
    pub async fn submit(&self, kind: &str, payload: &impl Serialize) -> Result<Created, Error> {
        let payload = serde_json::to_value(payload)
            .map_err(|error| Error::Invalid(format!("the payload is no JSON: {error}")))?;
        self.create(&JobRequest::worker(kind).payload(payload)).await
    }

    /// Any job. A key is sent in any case, so that a retry of this call makes no second job.
    pub async fn create(&self, job: &JobRequest) -> Result<Created, Error> {
        let call = Call::post("/v1/jobs").body(job)?;
        // A key in the job stands.
        let call = if job.idempotency_key.is_some() { call } else { call.key(None) };
        self.call(call).await
    }

    /// At most 10,000 jobs; each has its own answer, in order. Not atomic.
    pub async fn create_many(&self, jobs: &[JobRequest]) -> Result<Vec<BatchItem>, Error> {
        if jobs.len() > BATCH_MAX {
            return Err(Error::Invalid(format!("a batch has at most {BATCH_MAX} jobs")));
        }
        let call = Call::post("/v1/jobs/batch").body(&json!({ "jobs": jobs }))?.key(None);
        Ok(self.call::<Batch>(call).await?.results)
    }

    /// Makes the job of this name, or changes it to this. Saying it twice changes nothing.
    pub async fn declare(&self, name: &str, job: &JobRequest) -> Result<Job, Error> {
        self.call(Call::new(Method::PUT, path(name, "")).body(job)?).await
    }

    /// A job by its id or name.
    pub async fn job(&self, job: &str) -> Result<Job, Error> {
        self.call(Call::get(path(job, ""))).await
    }

    /// A merge patch of the version that was read; None overwrites whatever is there.
    pub async fn patch(
        &self,
        job: &str,
        change: &Value,
        version: Option<u32>,
    ) -> Result<Job, Error> {
        let matching = version.map_or("*".to_string(), |version| format!("\"{version}\""));
        let call = Call::new(Method::PATCH, path(job, "")).body(change)?;
        self.call(call.header(header::IF_MATCH, matching)).await
    }

    /// Ends a job. A running attempt is told to stop.
    pub async fn cancel(&self, job: &str) -> Result<JobChanged, Error> {
        self.call(Call::new(Method::DELETE, path(job, ""))).await
    }

    /// Starts nothing of a recurring job until it is resumed, or until an instant.
    pub async fn pause(
        &self,
        job: &str,
        reason: Option<&str>,
        until: Option<When>,
    ) -> Result<JobChanged, Error> {
        let until = until.map(|at| at.as_str().to_string());
        let body = fields([("reason", reason.map(Value::from)), ("until", until.map(Value::from))]);
        self.call(Call::post(path(job, "/pause")).body(&body)?).await
    }

    /// Lets a paused job go on.
    pub async fn resume(&self, job: &str) -> Result<JobChanged, Error> {
        self.call(Call::post(path(job, "/resume"))).await
    }

    /// Runs a recurring job now, beside its schedule. The same key makes one run.
    pub async fn trigger(
        &self,
        job: &str,
        payload: Option<Value>,
        idempotency_key: Option<&str>,
    ) -> Result<Triggered, Error> {
        let call = Call::post(path(job, "/trigger")).body(&fields([("payload", payload)]))?;
        self.call(call.key(idempotency_key)).await
    }

    /// Runs for instants of the past, as an operation; a dry run only says what it would do.
    pub async fn backfill(&self, job: &str, backfill: &Backfill) -> Result<Value, Error> {
        let call = Call::post(path(job, "/backfill")).body(backfill)?;
        self.call(call.key(backfill.idempotency_key.as_deref())).await
    }

    /// How its last runs went.
    pub async fn stats(&self, job: &str) -> Result<Value, Error> {
        self.call(Call::get(path(job, "/stats"))).await
    }

    /// Jobs, newest first.
    pub fn jobs(&self, filter: JobFilter) -> Pages<Job> {
        Pages::new(self, "/v1/jobs", filter.query())
    }

    /// A job's instants: verdicts of the past, then plans of the future.
    pub fn occurrences(
        &self,
        job: &str,
        from: Option<When>,
        to: Option<When>,
    ) -> Pages<Occurrence> {
        let text = |at: Option<When>| at.map(|at| at.as_str().to_string());
        let query = given([("from", text(from)), ("to", text(to))]);
        Pages::new(self, path(job, "/occurrences"), query)
    }
}

fn path(job: &str, verb: &str) -> String {
    format!("/v1/jobs/{}{verb}", part(job))
}

/// The fields that were given, as an object.
pub(super) fn fields<const N: usize>(pairs: [(&str, Option<Value>); N]) -> Value {
    let given = pairs.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?)));
    Value::Object(given.collect())
}
