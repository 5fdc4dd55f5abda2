//! This SDK's worker as a driver of bench/peers: asked by one JSON argument, answers with one line of JSON.
//!
//! Each handler notes that it started. The work `hold` prints a line for each start and holds its runs until the process is
//! ended.

use duly_client::{Client, Context, End, JobRequest, Schedule, Worker};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SPREAD_US: u64 = 10_000_000;
/// Between two looks at the worker's counters.
const LOOK: Duration = Duration::from_millis(2);

type Fault = Box<dyn std::error::Error>;

#[derive(Deserialize)]
struct Ask {
    work: String,
    jobs: usize,
    batch: usize,
    store: String,
    queue: Option<String>,
    lease: Option<String>,
    #[serde(default)]
    lead_us: u64,
    #[serde(default)]
    payload_bytes: usize,
    #[serde(default)]
    records: String,
    #[serde(default)]
    time_limit_s: u64,
}

#[derive(Clone, Copy, Serialize)]
struct Due {
    first_us: u64,
    step_us: u64,
}

#[derive(Deserialize)]
struct Bench {
    number: u64,
}

/// Wall time in microseconds.
fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

impl Ask {
    fn due(&self) -> Option<Due> {
        let step = (SPREAD_US / self.jobs as u64).max(1_000) / 1_000 * 1_000;
        let first = (wall() + self.lead_us) / 1_000 * 1_000;
        (self.work == "spread").then_some(Due { first_us: first, step_us: step })
    }

    async fn submit(&self, client: &Client, queue: &str, due: Option<Due>) -> Result<(), Fault> {
        let pad = "x".repeat(self.payload_bytes.saturating_sub(32));
        for first in (0..self.jobs).step_by(self.batch) {
            let numbers = first..self.jobs.min(first + self.batch);
            let jobs: Vec<JobRequest> = numbers
                .map(|number| {
                    let job = JobRequest::worker("bench").queue(queue);
                    let job = job.payload(json!({"number": number, "pad": pad}));
                    match due {
                        Some(due) => {
                            let at = due.first_us + due.step_us * number as u64;
                            job.schedule(Schedule::at(UNIX_EPOCH + Duration::from_micros(at)))
                        }
                        None => job,
                    }
                })
                .collect();
            let made = client.create_many(&jobs).await?;
            if let Some(refused) = made.iter().find(|one| one.status != 202) {
                return Err(format!("a job was refused: {refused:?}").into());
            }
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let ask: Ask = serde_json::from_str(&std::env::args().next_back().unwrap_or_default())?;
    let client = Client::at(&*ask.store)?;
    let queue = ask.queue.clone().unwrap_or(format!("bench-rust-{}", std::process::id()));
    let holds = ask.work == "hold";
    let mut worker = Worker::builder(&client)
        .queues([&*queue])
        .concurrency(if holds { ask.jobs } else { 500 })
        .prefetch(if holds { 0 } else { 2_000 })
        .lease(match &ask.lease {
            Some(text) => Duration::from_secs(text.trim_end_matches('s').parse()?),
            None => Duration::from_secs(60),
        })
        .build()?;
    let starts = Arc::new(Mutex::new(Vec::with_capacity(ask.jobs)));
    let noted = Arc::clone(&starts);
    worker.handle("bench", move |job: Bench, _: Context| {
        let start = (job.number, wall());
        if !holds {
            noted.lock().unwrap_or_else(PoisonError::into_inner).push(start);
        }
        async move {
            if holds {
                // One write per line; a reader that is gone is no reason to let go of a run.
                let _ =
                    std::io::stdout().write_all(format!("{} {}\n", start.0, start.1).as_bytes());
                std::future::pending::<()>().await;
            }
            Ok::<(), End>(())
        }
    })?;
    if holds {
        worker.run().await?;
        return Ok(());
    }
    if ask.work == "drain" {
        ask.submit(&client, &queue, None).await?;
    }
    let control = worker.control();
    let drive = async {
        let said = async {
            let (mut begun, mut due) = (wall(), None);
            if ask.work != "drain" {
                tokio::time::sleep(Duration::from_secs(1)).await; // idle before the first job comes
                (begun, due) = (wall(), ask.due());
                ask.submit(&client, &queue, due).await?;
            }
            let (submitted, since) = (wall(), Instant::now());
            while control.stats().succeeded < ask.jobs as u64 {
                if since.elapsed() > Duration::from_secs(ask.time_limit_s) {
                    return Err(format!("not all ended in time: {:?}", control.stats()).into());
                }
                tokio::time::sleep(LOOK).await;
            }
            let times = json!({"begun_us": begun, "submitted_us": submitted, "ended_us": wall()});
            Ok::<(Value, Option<Due>), Fault>((times, due))
        };
        let said = said.await;
        control.stop();
        said
    };
    let (said, stats) = tokio::join!(drive, worker.serve());
    stats?;
    let (mut answer, due) = said?;
    answer["due"] = serde_json::to_value(due)?;
    let starts = starts.lock().unwrap_or_else(PoisonError::into_inner);
    let record = |(number, at): &(u64, u64)| [number.to_le_bytes(), at.to_le_bytes()].concat();
    std::fs::write(&ask.records, starts.iter().flat_map(record).collect::<Vec<u8>>())?;
    println!("{answer}");
    Ok(())
}
