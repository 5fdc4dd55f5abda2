//! One job per request, over many connections that each have one request under way. A few threads share them: each waits
//! for the answers of all of its connections at once, hears those that are there and asks the next of each.

use crate::Options;
use crate::connection::{Connection, ready};
use crate::limits::{BUSY_MAX, BUSY_PAUSE, PATIENCE, SINGLE_CONNECTIONS, SINGLE_THREADS};
use crate::seen::histogram;
use crate::submit::{Shape, taken};
use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const PATH: &str = "/v1/jobs";

/// A connection, what it asked last, and when.
struct Asking {
    connection: Connection,
    body: String,
    asked: Instant,
    /// How often it was told "later" in a row.
    later: u32,
}

impl Asking {
    fn ask(&mut self) -> Result<(), String> {
        self.asked = Instant::now();
        self.again()
    }

    fn again(&mut self) -> Result<(), String> {
        let body = self.body.as_bytes();
        self.connection.send("POST", PATH, "", body).map_err(|error| error.to_string())
    }
}

/// One thread: asks until no number is left, and says how long each answer took.
pub fn one_by_one(
    options: &Options,
    shape: &Shape,
    next: &AtomicU64,
    done: &AtomicU64,
) -> Result<Histogram<u64>, String> {
    let mut times = histogram()?;
    let mut asking: Vec<Asking> = Vec::new();
    // The next job into its body; false if there is none left.
    let fill = |body: &mut String| -> Result<bool, String> {
        let number = next.fetch_add(1, Ordering::Relaxed);
        body.clear();
        if number < options.jobs {
            shape.job(number, body)?;
        }
        Ok(number < options.jobs)
    };
    for _ in 0..SINGLE_CONNECTIONS / SINGLE_THREADS {
        let connection = options.server.connect().map_err(|error| error.to_string())?;
        let mut one = Asking { connection, body: String::new(), asked: Instant::now(), later: 0 };
        if fill(&mut one.body)? {
            one.ask()?;
            asking.push(one);
        }
    }
    while !asking.is_empty() {
        let heard = answered(&asking)?;
        for at in heard.into_iter().rev() {
            let one = &mut asking[at];
            let reply = one.connection.hear().map_err(|error| error.to_string())?;
            if taken(PATH, reply)?.is_none() {
                one.later += 1;
                if one.later >= BUSY_MAX {
                    return Err(format!(
                        "POST {PATH} was answered \"later\" {BUSY_MAX} times in a row"
                    ));
                }
                std::thread::sleep(BUSY_PAUSE);
                one.again()?;
                continue;
            }
            let took = one.asked.elapsed().as_micros();
            times.saturating_record(u64::try_from(took).unwrap_or(u64::MAX));
            done.fetch_add(1, Ordering::Relaxed);
            one.later = 0;
            if fill(&mut one.body)? {
                one.ask()?;
            } else {
                // From the last to the first: those before it keep their places.
                asking.swap_remove(at);
            }
        }
    }
    Ok(times)
}

/// Which of them have an answer, the first one first.
fn answered(asking: &[Asking]) -> Result<Vec<usize>, String> {
    let mut all: Vec<PollFd> =
        asking.iter().map(|one| PollFd::new(&one.connection, PollFlags::IN)).collect();
    let heard = ready(&mut all, Some(PATIENCE)).map_err(|error| error.to_string())?;
    if heard.is_empty() {
        return Err(format!("POST {PATH} was not answered within {PATIENCE:?}"));
    }
    Ok(heard)
}
