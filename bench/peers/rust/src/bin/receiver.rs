//! The receiver of webhooks, for the peers: prints where it listens, then, once every job has arrived
//! or the time is over, one JSON line with what came and when the last of it did. It ends when its
//! standard input does, so that what comes twice is counted to the end.
//!
//!     receiver JOBS SECONDS

use bench_load::{Receiver, Seen};
use bench_peers::{Trouble, now};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() -> Result<(), Trouble> {
    let mut args = std::env::args().skip(1);
    let mut number = || args.next().and_then(|text| text.parse::<u64>().ok());
    let (Some(jobs), Some(seconds)) = (number(), number()) else {
        return Err("usage: receiver JOBS SECONDS".into());
    };
    let seen = Arc::new(Seen::new(jobs, None)?);
    let receiver = Receiver::start(Arc::clone(&seen))?;
    println!("http://{}/bench", receiver.address);
    std::io::stdout().flush()?;

    let until = Instant::now() + Duration::from_secs(seconds);
    while seen.distinct() < jobs && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
    let ended = now();
    // The runner closes our input when the driver has ended.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("{}", serde_json::json!({"ended_us": ended, "tally": seen.tally()}));
    Ok(())
}
