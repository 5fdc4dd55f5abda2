//! No-op runs per second through one worker process: `cargo run --release -p duly-client --example throughput [RUNS]`
//! beside a server (DULY_URL).
//!
//! Jobs are submitted first, so that the worker alone is measured: from its first claim to its last settle's answer.

use duly_client::{Client, Context, End, JobRequest, Worker};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const BATCH: usize = 5_000;
/// A measurement that has not ended by then has failed.
const LONGEST: Duration = Duration::from_secs(300);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let total: usize = std::env::args().nth(1).map_or(Ok(30_000), |text| text.parse())?;
    let client = Client::new()?;
    let queue = format!("bench-rust-{}", std::process::id());
    for start in (0..total).step_by(BATCH) {
        let jobs = vec![JobRequest::worker("noop").queue(&*queue); BATCH.min(total - start)];
        let made = client.create_many(&jobs).await?;
        if let Some(refused) = made.iter().find(|one| one.status != 202) {
            return Err(format!("a job was refused: {refused:?}").into());
        }
    }
    let mut worker = Worker::builder(&client)
        .queues([&*queue])
        .concurrency(500)
        .prefetch(2_000)
        .lease(Duration::from_secs(60))
        .build()?;
    let called = Arc::new(AtomicUsize::new(0));
    let calls = Arc::clone(&called);
    worker.handle("noop", move |_: Value, _: Context| {
        calls.fetch_add(1, Ordering::Relaxed);
        async { Ok::<(), End>(()) }
    })?;
    let control = worker.control();
    let begun = Instant::now();
    let watch = async {
        while control.stats().succeeded < total as u64 && begun.elapsed() < LONGEST {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let took = begun.elapsed().as_secs_f64();
        control.stop();
        took
    };
    let (took, stats) = tokio::join!(watch, worker.serve());
    let (stats, called) = (stats?, called.load(Ordering::Relaxed));
    if stats.succeeded != total as u64 || called != total {
        return Err(format!("{total} runs, {called} calls: {stats:?}").into());
    }
    let rate = total as f64 / took;
    println!("rust: {total} runs in {took:.2} s: {rate:.0} runs/s");
    Ok(())
}
