//! The crate graphile_worker: local queues and batched completions, as its documentation advises for
//! throughput.

use bench_peers::{Driver, Due, Payload, Trouble, Work, driver, now};
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, Worker, WorkerContext,
    WorkerOptions,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Job(Payload);

impl TaskHandler for Job {
    const IDENTIFIER: &'static str = "bench";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        let driver = driver().map_err(|trouble| trouble.to_string())?;
        driver.run(&self.0).await.map_err(|trouble| trouble.to_string())
    }
}

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let driver = driver()?;
    let work = driver.ask.work;
    let concurrency = if work == Work::Webhook { 64 } else { 24 };
    let worker = WorkerOptions::default()
        .database_url(&driver.ask.store)
        .max_pg_conn(25)
        .concurrency(concurrency)
        .poll_interval(Duration::from_millis(driver.ask.poll_ms))
        .local_queue(LocalQueueConfig::default().with_size(500).with_queue_count(2))
        .complete_job_batch_delay(Duration::from_millis(1))
        .fail_job_batch_delay(Duration::from_millis(1))
        .define_job::<Job>()
        .init()
        .await?;
    let worker = std::sync::Arc::new(worker);
    let pool = sqlx::PgPool::connect(&driver.ask.store).await?;
    let left = async || -> Result<i64, Trouble> {
        let left = sqlx::query_scalar("SELECT count(*) FROM graphile_worker._private_jobs");
        Ok(left.fetch_one(&pool).await?)
    };

    let start = || {
        let worker = std::sync::Arc::clone(&worker);
        tokio::spawn(async move {
            if let Err(trouble) = worker.run().await {
                eprintln!("the worker ended: {trouble}");
            }
        })
    };
    match work {
        Work::Submit => {
            let (begun, due) = (now(), driver.due());
            submit(driver, &worker, due).await?;
            let ended = now();
            driver.stored(begun, ended, left().await?)
        }
        Work::Drain => {
            submit(driver, &worker, None).await?;
            let begun = now();
            start();
            driver.all_acknowledged(left).await?;
            driver.answer(begun, begun, now(), None)
        }
        Work::Noop | Work::Webhook | Work::Spread | Work::Burst => {
            start();
            tokio::time::sleep(Duration::from_secs(1)).await;
            let (begun, due) = (now(), driver.due());
            submit(driver, &worker, due).await?;
            let submitted = now();
            driver.all_acknowledged(left).await?;
            driver.answer(begun, submitted, now(), due)
        }
    }
}

async fn submit(driver: &Driver, worker: &Worker, due: Option<Due>) -> Result<(), Trouble> {
    let utils = worker.create_utils();
    let ask = &driver.ask;
    let mut first = 0;
    while first < ask.jobs {
        let last = ask.jobs.min(first + ask.batch);
        let specs: Vec<JobSpec> = (first..last)
            .map(|number| JobSpec {
                run_at: due.and_then(|due| chrono::DateTime::from_timestamp_micros(due.of(number))),
                ..JobSpec::default()
            })
            .collect();
        let jobs: Vec<(Job, &JobSpec)> =
            (first..last).map(|number| Job(driver.payload(number))).zip(&specs).collect();
        utils.add_jobs(&jobs).await?;
        first = last;
    }
    Ok(())
}
