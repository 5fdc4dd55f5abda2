//! Many tenants in one queue, each a group, beside one that has filled it (`fill --group`). Their jobs
//! arrive at an even rate, whatever the server does; how long each waits for a worker is counted from
//! the instant it was to arrive. A server that goes away and comes back is waited for.

use crate::Options;
use crate::connection::{Connection, Server};
use crate::limits::{AWAY_MAX, FOREIGN_NUMBERS, TENANTS};
use crate::seen::{Due, Seen, now};
use crate::submit::Shape;
use crate::worker;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Pause before a server is asked again that was not there.
const AGAIN: Duration = Duration::from_millis(20);

/// Calls `work` with a connection until it succeeds; a connection that breaks is made anew.
pub fn persistently<T>(
    server: &Server,
    mut work: impl FnMut(&mut Connection) -> Result<T, String>,
) -> Result<T, String> {
    let begun = Instant::now();
    loop {
        let tried =
            server.connect().map_err(|error| error.to_string()).and_then(|mut c| work(&mut c));
        match tried {
            Ok(value) => return Ok(value),
            Err(why) if begun.elapsed() > AWAY_MAX => return Err(why),
            Err(_) => std::thread::sleep(AGAIN),
        }
    }
}

/// Sends each job when it is due, in one request with those that are due by then.
pub fn arrive(
    options: &Options,
    shape: &Shape,
    due: Due,
    part: (u64, u64),
    sent: &AtomicU64,
) -> Result<(), String> {
    let (first, every) = part;
    let mut next = first;
    let mut body = String::new();
    while next < options.jobs {
        let wait = due.of(next) - now();
        if wait > 0 {
            std::thread::sleep(Duration::from_micros(wait.unsigned_abs()));
        }
        let (begin, at) = (next, now());
        body.clear();
        body.push_str("{\"jobs\":[");
        let mut count = 0;
        while next < options.jobs && due.of(next) <= at && count < options.batch as u64 {
            if count > 0 {
                body.push(',');
            }
            shape.job_of(next, Some(&format!("tenant-{}", next % TENANTS)), &mut body)?;
            (next, count) = (next + every, count + 1);
        }
        body.push_str("]}");
        // A request whose answer was lost is repeated, and makes nothing twice.
        let key = format!("Idempotency-Key: {}-{}-{begin}\r\n", options.queue, std::process::id());
        persistently(&options.server, |connection| {
            let reply = connection.post_with("/v1/jobs/batch", &key, body.as_bytes());
            let reply = reply.map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&reply.body);
            match reply.status == 200 && !text.contains("\"error\"") {
                true => Ok(()),
                false => Err(format!("a batch was answered with {}: {text}", reply.status)),
            }
        })?;
        sent.fetch_add(count, Ordering::Relaxed);
    }
    Ok(())
}

/// A worker that begins again when its connection breaks.
pub fn work(
    options: &Options,
    name: &str,
    seen: &Seen,
    settled: &AtomicU64,
    over: &AtomicBool,
) -> Result<(), String> {
    let (mut broken, mut state) = (None, worker::State::default());
    while !over.load(Ordering::Relaxed) {
        let before = settled.load(Ordering::Relaxed);
        let (server, queue) = (&options.server, &options.queue);
        let end = worker::work(server, queue, name, seen, settled, over, &mut state);
        let Err(why) = end else { return Ok(()) };
        if settled.load(Ordering::Relaxed) > before {
            broken = None;
        }
        if broken.get_or_insert_with(Instant::now).elapsed() > AWAY_MAX {
            return Err(why);
        }
        std::thread::sleep(AGAIN);
    }
    Ok(())
}

/// The payload of a job that is not of the work at hand.
pub fn is_foreign(number: u64) -> bool {
    number >= FOREIGN_NUMBERS
}
