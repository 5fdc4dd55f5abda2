//! A job as it is asked for.

use crate::setters::{plain, texts};
use crate::time::{Length, When};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Who runs a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Target {
    /// A webhook.
    Http {
        /// Where it is sent.
        url: String,
        /// POST unless said otherwise.
        #[serde(skip_serializing_if = "Option::is_none")]
        method: Option<String>,
        /// Beside those of duly.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
    },
    /// A worker with a handler of this kind.
    Worker {
        /// The handler.
        kind: String,
    },
    /// A message to a broker, as the API's document describes it.
    Publish(Value),
    /// A program of the server's allow-list.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Its environment.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
    },
}

/// What happens where clocks change.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Dst {
    /// `run` (at the change) or `skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<String>,
    /// `first`, `second` or `both`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<String>,
}

impl Dst {
    /// The defaults: run at the change, repeat the first.
    pub fn new() -> Dst {
        Dst::default()
    }

    texts! {
        /// `run` (at the change) or `skip`.
        gap: String,
        /// `first`, `second` or `both`.
        repeat: String,
    }
}

/// When a job runs: one of at, delay, every, cron. A job without a schedule runs now.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Schedule {
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<When>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dst: Option<Dst>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_at: Option<When>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_at: Option<When>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_runs: Option<u64>,
}

impl Schedule {
    /// Once, at this instant.
    pub fn at(at: impl Into<When>) -> Schedule {
        Schedule { at: Some(at.into()), ..Schedule::default() }
    }

    /// Once, after this length.
    pub fn delay(delay: impl Into<Length>) -> Schedule {
        Schedule { delay: Some(delay.into()), ..Schedule::default() }
    }

    /// Again and again, at this distance.
    pub fn every(every: impl Into<Length>) -> Schedule {
        Schedule { every: Some(every.into()), ..Schedule::default() }
    }

    /// By a cron expression, in a time zone such as `Europe/Zurich` or `UTC`.
    pub fn cron(cron: impl Into<String>, timezone: impl Into<String>) -> Schedule {
        let timezone = Some(timezone.into());
        Schedule { cron: Some(cron.into()), timezone, ..Schedule::default() }
    }

    texts! {
        /// What happens where clocks change.
        dst: Dst,
        /// A window in which each job has a fixed place of its own.
        jitter: Length,
        /// Not before.
        start_at: When,
        /// Not after.
        end_at: When,
    }

    plain! {
        /// At most so often.
        max_runs: u64,
    }
}

/// How failures are retried.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RetryPolicy {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    initial: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cap: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permanent: Option<Vec<u16>>,
}

impl RetryPolicy {
    /// The defaults: five retries, 10 s × 4, at most 1 h.
    pub fn new() -> RetryPolicy {
        RetryPolicy::default()
    }

    texts! {
        /// Before the first retry.
        initial: Length,
        /// The longest wait.
        cap: Length,
        /// Codes that are not retried.
        permanent: Vec<u16>,
    }

    plain! {
        /// After the first attempt.
        max_retries: u32,
        /// Each wait is so much longer than the one before.
        factor: u32,
    }
}

/// What becomes of instants that were missed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CatchUp {
    policy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<Value>,
}

impl CatchUp {
    /// `once`, `skip` or `all`.
    pub fn new(policy: impl Into<String>) -> CatchUp {
        CatchUp { policy: policy.into(), ..CatchUp::default() }
    }

    texts! {
        /// How far back.
        window: Length,
        /// As the API's document writes it.
        rate: Value,
    }

    plain! {
        /// At most so many.
        max: u64,
    }
}

/// A job. Only the target is needed.
///
/// ```
/// use duly_client::{JobRequest, Schedule};
/// let job = JobRequest::worker("bill").payload(serde_json::json!({"customer": 42}))
///     .schedule(Schedule::cron("0 3 1 * *", "Europe/Zurich")).queue("bills");
/// # assert_eq!(serde_json::to_value(&job).unwrap()["target"]["worker"]["kind"], "bill");
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobRequest {
    target: Target,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<Schedule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overlap: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    catch_up: Option<CatchUp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<bool>,
    /// Fields that this version of the crate has no name for.
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

impl JobRequest {
    /// A job of any target.
    pub fn new(target: Target) -> JobRequest {
        JobRequest {
            target,
            name: None,
            owner: None,
            tags: None,
            schedule: None,
            payload: None,
            payload_base64: None,
            content_type: None,
            queue: None,
            priority: None,
            group: None,
            idempotency_key: None,
            retry: None,
            timeout: None,
            overlap: None,
            catch_up: None,
            paused: None,
            more: BTreeMap::new(),
        }
    }

    /// A job for workers.
    pub fn worker(kind: impl Into<String>) -> JobRequest {
        JobRequest::new(Target::Worker { kind: kind.into() })
    }

    /// A webhook.
    pub fn http(url: impl Into<String>) -> JobRequest {
        JobRequest::new(Target::Http { url: url.into(), method: None, headers: BTreeMap::new() })
    }

    /// A field that this version of the crate has no name for.
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> JobRequest {
        self.more.insert(name.into(), value.into());
        self
    }

    /// A tag.
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> JobRequest {
        self.tags.get_or_insert_default().insert(name.into(), value.into());
        self
    }

    texts! {
        /// Unique among the unfinished jobs of its namespace.
        name: String,
        /// Who is asked about it.
        owner: String,
        /// When; without one, now.
        schedule: Schedule,
        /// Any JSON.
        payload: Value,
        /// A payload that is not JSON; say its content type too.
        payload_base64: String,
        /// Of a payload that is not JSON.
        content_type: String,
        /// Where its runs wait: `default` unless said otherwise.
        queue: String,
        /// A key of fairness and concurrency inside the queue.
        group: String,
        /// The same key and body make one job. A new key is sent if none is given.
        idempotency_key: String,
        /// How failures are retried.
        retry: RetryPolicy,
        /// Of one attempt.
        timeout: Length,
        /// `queue_one`, `skip`, `allow` or `cancel_running`.
        overlap: String,
        /// What becomes of instants that were missed.
        catch_up: CatchUp,
    }

    plain! {
        /// 0 to 9, 9 first.
        priority: u8,
        /// Made, but not started.
        paused: bool,
    }
}
