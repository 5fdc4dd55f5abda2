//! Submission: the jobs of a work as request bodies, and the threads that send them in batches.

use crate::connection::{Connection, Reply, Server};
use crate::limits::{BUSY_MAX, BUSY_PAUSE};
use crate::seen::Due;
use serde::Deserialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// What every job of a work looks like.
#[derive(Clone, Debug)]
pub struct Shape {
    pub target: String,
    pub queue: String,
    pub payload_bytes: usize,
    pub due: Option<Due>,
    /// Each is due then and every day after it.
    pub recurs: bool,
    pub group: Option<String>,
    /// What the number of a job begins at in its payload.
    pub offset: u64,
}

impl Shape {
    pub fn job(&self, number: u64, out: &mut String) -> Result<(), String> {
        self.job_of(number, self.group.as_deref(), out)
    }

    pub fn job_of(&self, number: u64, group: Option<&str>, out: &mut String) -> Result<(), String> {
        use std::fmt::Write;
        let pad = self.payload_bytes.saturating_sub(32);
        let mut write = || -> std::fmt::Result {
            write!(out, r#"{{"target":{},"queue":"{}","#, self.target, self.queue)?;
            if let Some(group) = group {
                write!(out, r#""group":"{group}","#)?;
            }
            if let Some(due) = self.due {
                let at = jiff::Timestamp::from_microsecond(due.of(number));
                let at = at.map_err(|_| std::fmt::Error)?;
                match self.recurs {
                    true => {
                        write!(out, r#""schedule":{{"every":"24h","start_at":"{at:.3}"}},"#)?;
                    }
                    false => write!(out, r#""schedule":{{"at":"{at:.3}"}},"#)?,
                }
            }
            let number = number + self.offset;
            write!(out, r#""payload":{{"number":{number},"pad":"{:x<pad$}"}}}}"#, "")
        };
        write().map_err(|_| format!("job {number} is due too far away"))
    }
}

/// The number of a job, out of its payload.
pub fn number_in(payload: &[u8]) -> Option<u64> {
    let rest = payload.strip_prefix(br#"{"number":"#)?;
    let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}

#[derive(Deserialize)]
struct Batch<'a> {
    #[serde(borrow)]
    results: Vec<Item<'a>>,
}

#[derive(Deserialize)]
struct Item<'a> {
    status: u16,
    #[serde(borrow, default)]
    error: Option<&'a serde_json::value::RawValue>,
}

/// Sends the jobs of `numbers` in batches over one connection, taking the next free numbers until
/// none is left. `done` counts what was answered.
pub fn bulk(
    server: &Server,
    shape: &Shape,
    jobs: u64,
    batch: usize,
    next: &AtomicU64,
    done: &AtomicU64,
) -> Result<(), String> {
    let mut connection = server.connect().map_err(|error| error.to_string())?;
    let mut body = String::new();
    loop {
        let first = next.fetch_add(batch as u64, Ordering::Relaxed);
        if first >= jobs {
            return Ok(());
        }
        let last = jobs.min(first + batch as u64);
        body.clear();
        body.push_str("{\"jobs\":[");
        for number in first..last {
            if number > first {
                body.push(',');
            }
            shape.job(number, &mut body)?;
        }
        body.push_str("]}");
        let reply = patiently(&mut connection, "/v1/jobs/batch", body.as_bytes())?;
        let answer: Batch = serde_json::from_slice(&reply).map_err(|error| error.to_string())?;
        for item in &answer.results {
            if item.status >= 300 {
                let why = item.error.map_or("", |error| error.get());
                return Err(format!("a job was refused with {}: {why}", item.status));
            }
        }
        done.fetch_add(last - first, Ordering::Relaxed);
    }
}

/// Asks again while the server says "later": the load is more than it takes, and that is measured.
pub fn patiently(connection: &mut Connection, path: &str, body: &[u8]) -> Result<Vec<u8>, String> {
    for _ in 0..BUSY_MAX {
        let reply = connection.post(path, body).map_err(|error| error.to_string())?;
        if let Some(body) = taken(path, reply)? {
            return Ok(body);
        }
        std::thread::sleep(BUSY_PAUSE);
    }
    Err(format!("POST {path} was answered \"later\" {BUSY_MAX} times in a row"))
}

/// The body of a good answer; none if the server said "later".
pub fn taken(path: &str, reply: Reply) -> Result<Option<Vec<u8>>, String> {
    match reply.status {
        200..=299 => Ok(Some(reply.body)),
        429 | 503 => Ok(None),
        status => {
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            Err(format!("POST {path} was answered with {status}: {text}"))
        }
    }
}
