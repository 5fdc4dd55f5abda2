//! Workers that wait and get nothing: `cargo run --release -p duly-client --example idle_workers [WORKERS] [SECONDS]` beside
//! a server (DULY_URL). Each has a connection of its own and a claim that waits, as a process of its own would.

use duly_client::Client;
use duly_client::types::ClaimOptions;
use std::time::{Duration, Instant};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let number = |at, default| {
        let given: Option<String> = std::env::args().nth(at);
        given.map_or(Ok(default), |text| text.parse::<u64>())
    };
    let (workers, seconds) = (number(1, 1_000)?, number(2, 60)?);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut tasks = Vec::new();
    for worker in 0..workers {
        let client = Client::new()?;
        tasks.push(tokio::spawn(async move {
            let (name, mut claims) = (format!("idle-{worker}"), 0_u64);
            while Instant::now() < end {
                let left = end.saturating_duration_since(Instant::now());
                let options = ClaimOptions::new().wait(left.min(Duration::from_secs(20)));
                let claimed = client.claim(&name, &["idle"], options).await?;
                if !claimed.runs.is_empty() {
                    return Err("the queue `idle` is not empty".into());
                }
                claims += 1;
            }
            client.leave(&name).await?;
            Ok::<u64, Box<dyn std::error::Error + Send + Sync>>(claims)
        }));
    }
    let mut claims = 0;
    for task in tasks {
        claims += task.await?.map_err(|error| error.to_string())?;
    }
    println!("idle: {workers} workers, {claims} claims in {seconds} s");
    Ok(())
}
