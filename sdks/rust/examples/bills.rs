use duly_client::{Client, Context, Control, End, JobRequest, Schedule, Worker};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Deserialize)]
struct Bill {
    customer: u64,
    pages: u64,
}

/// What it returns is the run's output.
async fn bill(bill: Bill, ctx: Context) -> Result<Value, End> {
    let start = ctx.saved()?.unwrap_or(0);
    for page in start..bill.pages {
        ctx.check()?; // an error when this handler shall stop
        ctx.progress(page as f64 / bill.pages as f64);
        ctx.checkpoint(&page).await?; // durable; the next attempt goes on from here
    }
    Ok(json!({"customer": bill.customer, "token": ctx.token()}))
}

/// An error says how the attempt ends otherwise.
fn remind(payload: &Value, control: &Control) -> Result<(), End> {
    if payload["later"] == true {
        return Err(End::snooze(Duration::from_secs(600))); // spends no retry
    }
    control.stop(); // what SIGTERM does, too
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::new()?; // DULY_URL, or http://127.0.0.1:7070
    let mut worker = Worker::builder(&client).queues(["bills"]).concurrency(20).build()?;
    worker.handle("bill", bill)?;
    let control = worker.control();
    worker.handle_blocking("remind", move |payload: Value, _| remind(&payload, &control))?;

    let now = JobRequest::worker("bill").payload(json!({"customer": 42, "pages": 3}));
    let done = client.create(&now.queue("bills")).await?;
    let monthly = JobRequest::worker("bill")
        .payload(json!({"customer": 1, "pages": 9}))
        .schedule(Schedule::cron("0 3 1 * *", "Europe/Zurich"))
        .queue("bills");
    client.declare("monthly", &monthly).await?; // saying it twice changes nothing
    let later = JobRequest::worker("remind").payload(json!({})).queue("bills");
    let later = later.schedule(Schedule::delay(Duration::from_secs(1)));
    client.create(&later.idempotency_key("remind-42")).await?;

    worker.run().await?; // until SIGTERM
    let run = client.run(&done.run_id.unwrap_or_default()).await?;
    println!("{}", run.output.unwrap_or_default());
    Ok(())
}
