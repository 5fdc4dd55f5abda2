//! What both Rust drivers share: what they are asked, what they note, and what they answer. The runner
//! (bench/peers/runner) says it in one JSON argument and reads one JSON line.

use serde::{Deserialize, Serialize};
use std::error::Error;
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub type Trouble = Box<dyn Error + Send + Sync>;

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    Submit,
    Noop,
    Drain,
    Webhook,
    Spread,
    Burst,
}

#[derive(Debug, Deserialize)]
pub struct Ask {
    pub work: Work,
    pub jobs: u64,
    /// Jobs in one call of a bulk submission.
    pub batch: u64,
    pub store: String,
    /// Where webhooks go.
    pub receiver: Option<String>,
    /// How long before they are due the jobs of an instant are submitted.
    pub lead_us: i64,
    /// How often the worker asks for what has become due.
    pub poll_ms: u64,
    pub payload_bytes: usize,
    /// The file for what was noted: pairs of a job's number and its start, as little-endian i64.
    pub records: String,
    pub time_limit_s: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Payload {
    pub number: u64,
    pub pad: String,
}

#[derive(Debug)]
pub struct Driver {
    pub ask: Ask,
    client: reqwest::Client,
    connections: tokio::sync::Semaphore,
    records: Mutex<Vec<(u64, i64)>>,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();
const DAY_US: i64 = 86_400_000_000;
const SPREAD_US: i64 = 10_000_000;
/// To the receiver, of a worker that may have any number of jobs under way.
const CONNECTIONS: usize = 64;
const LOOK: Duration = Duration::from_millis(2);

/// Wall time in microseconds.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// When each job is due; nothing means at once.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    pub first: i64,
    pub step: i64,
}

impl Due {
    pub fn of(self, number: u64) -> i64 {
        self.first + self.step * i64::try_from(number).unwrap_or(0)
    }
}

/// What the driver was asked, kept for the handlers, which get nothing but their job.
pub fn driver() -> Result<&'static Driver, Trouble> {
    if let Some(driver) = DRIVER.get() {
        return Ok(driver);
    }
    let text = std::env::args().nth(1).ok_or("the driver needs its question as an argument")?;
    let ask: Ask = serde_json::from_str(&text)?;
    let records = Mutex::new(Vec::with_capacity(usize::try_from(ask.jobs)?));
    let client = reqwest::Client::builder().pool_max_idle_per_host(CONNECTIONS).build()?;
    let connections = tokio::sync::Semaphore::new(CONNECTIONS);
    Ok(DRIVER.get_or_init(|| Driver { ask, client, connections, records }))
}

impl Driver {
    /// Due times as the work has them, counted from now.
    pub fn due(&self) -> Option<Due> {
        let first = (now() + self.ask.lead_us) / 1_000 * 1_000;
        let jobs = i64::try_from(self.ask.jobs).unwrap_or(i64::MAX).max(1);
        match self.ask.work {
            Work::Submit => Some(Due { first: now() + DAY_US, step: 0 }),
            Work::Spread => {
                Some(Due { first, step: (SPREAD_US / jobs).max(1_000) / 1_000 * 1_000 })
            }
            Work::Burst => Some(Due { first, step: 0 }),
            Work::Noop | Work::Drain | Work::Webhook => None,
        }
    }

    pub fn payload(&self, number: u64) -> Payload {
        Payload { number, pad: "x".repeat(self.ask.payload_bytes.saturating_sub(32)) }
    }

    /// What every job does: notes that it started, and posts itself if the work is to post.
    pub async fn run(&self, payload: &Payload) -> Result<(), Trouble> {
        let at = now();
        self.records().push((payload.number, at));
        if let Some(receiver) = &self.ask.receiver {
            let body = serde_json::to_vec(payload)?;
            let _one = self.connections.acquire().await?;
            let request = self.client.post(receiver).header("content-type", "application/json");
            request.body(body).send().await?.error_for_status()?.bytes().await?;
        }
        Ok(())
    }

    fn records(&self) -> std::sync::MutexGuard<'_, Vec<(u64, i64)>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every job has started.
    pub async fn all_started(&self) -> Result<(), Trouble> {
        let until = Instant::now() + Duration::from_secs(self.ask.time_limit_s);
        while (self.records().len() as u64) < self.ask.jobs {
            if Instant::now() > until {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Waits until `left` says that the store holds nothing more to do.
    pub async fn all_acknowledged(
        &self,
        left: impl AsyncFn() -> Result<i64, Trouble>,
    ) -> Result<(), Trouble> {
        self.all_started().await?;
        let until = Instant::now() + Duration::from_secs(self.ask.time_limit_s);
        while left().await? > 0 {
            if Instant::now() > until {
                return Err("jobs that started are not acknowledged in time".into());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// The answer to a submission: when, and how many jobs the store has now.
    pub fn stored(&self, begun: i64, ended: i64, stored: i64) -> Result<(), Trouble> {
        let line = serde_json::json!({"begun_us": begun, "ended_us": ended, "stored": stored});
        println!("{line}");
        Ok(())
    }

    /// Writes what was noted, says when, and ends the process with whatever still runs in it.
    pub fn answer(
        &self,
        begun: i64,
        submitted: i64,
        ended: i64,
        due: Option<Due>,
    ) -> Result<(), Trouble> {
        let mut bytes = Vec::new();
        for (number, at) in self.records().iter() {
            bytes.extend_from_slice(&i64::try_from(*number)?.to_le_bytes());
            bytes.extend_from_slice(&at.to_le_bytes());
        }
        std::fs::write(&self.ask.records, bytes)?;
        let due = due.map(|due| serde_json::json!({"first_us": due.first, "step_us": due.step}));
        let line = serde_json::json!({
            "begun_us": begun, "submitted_us": submitted, "ended_us": ended, "due": due,
        });
        println!("{line}");
        std::io::stdout().flush()?;
        std::process::exit(0)
    }
}
