//! apalis with apalis-postgres: large fetches and no row per start (`lock_tasks`), as its example of a
//! fast worker has them. It keeps due times in whole seconds; they are rounded up, so that nothing
//! starts early.

use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PgTask, PostgresStorage};
use bench_peers::{Driver, Due, Payload, Trouble, Work, driver, now};
use std::time::Duration;

const QUEUE: &str = "bench";

async fn handle(payload: Payload) -> Result<(), BoxDynError> {
    driver()?.run(&payload).await
}

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let driver = driver()?;
    let pool = PgPool::connect(&driver.ask.store).await?;
    PostgresStorage::setup(&pool).await?;
    let left = async || -> Result<i64, Trouble> {
        let left = sqlx::query_scalar("SELECT count(*) FROM apalis.jobs WHERE status <> 'Done'");
        Ok(left.fetch_one(&pool).await?)
    };
    let start = || {
        let config = Config::default().queue(QUEUE).batch_size(500).lock_tasks(false);
        // Two intervals, because one can fall asleep until the next heartbeat: when a fetch takes longer than
        // the interval, the new delay is made and never polled.
        let poll = Duration::from_millis(driver.ask.poll_ms);
        let backend = PostgresStorage::<Payload>::new(&pool)
            .with_config(config)
            .poll_with_strategy(Strategy::new().interval(poll).interval(poll * 5));
        tokio::spawn(async move {
            let worker = WorkerBuilder::new("bench").backend(backend).build(handle);
            if let Err(trouble) = worker.run().await {
                eprintln!("the worker ended: {trouble}");
            }
        })
    };
    match driver.ask.work {
        Work::Submit => {
            let (begun, due) = (now(), driver.due());
            submit(driver, &pool, due).await?;
            let ended = now();
            driver.stored(begun, ended, left().await?)
        }
        Work::Drain => {
            submit(driver, &pool, None).await?;
            let begun = now();
            start();
            driver.all_acknowledged(left).await?;
            driver.answer(begun, begun, now(), None)
        }
        Work::Noop | Work::Webhook | Work::Spread | Work::Burst => {
            start();
            tokio::time::sleep(Duration::from_secs(1)).await;
            let (begun, due) = (now(), driver.due());
            submit(driver, &pool, due).await?;
            let submitted = now();
            driver.all_acknowledged(left).await?;
            driver.answer(begun, submitted, now(), due)
        }
    }
}

async fn submit(driver: &Driver, pool: &PgPool, due: Option<Due>) -> Result<(), Trouble> {
    let ask = &driver.ask;
    let mut first = 0;
    while first < ask.jobs {
        let last = ask.jobs.min(first + ask.batch);
        let mut tasks: Vec<PgTask> = Vec::with_capacity(usize::try_from(ask.batch)?);
        for number in first..last {
            let task = TaskBuilder::new(serde_json::to_vec(&driver.payload(number))?);
            tasks.push(match due {
                Some(due) => {
                    let seconds = due.of(number).div_euclid(1_000_000) + 1;
                    task.run_at_timestamp(u64::try_from(seconds)?).build()
                }
                None => task.build(),
            });
        }
        let mut transaction = pool.begin().await?;
        apalis_postgres::queries::push_tasks(&mut *transaction, QUEUE, tasks).await?;
        transaction.commit().await?;
        first = last;
    }
    Ok(())
}
