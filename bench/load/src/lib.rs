//! Load for a duly server on this machine, and a count of what came of it. What is due at a known
//! instant does not wait for the generator, so a slow server cannot hide its lateness (open loop);
//! throughput is measured with a bounded number of connections that always ask (closed loop).
//! Everything is bounded in count and in time, and goes to loopback only.

pub mod compare;
mod connection;
pub mod limits;
mod plot;
mod receiver;
mod report;
mod seen;
mod single;
mod submit;
mod tenants;
mod work;
mod worker;

pub use connection::Server;
pub use receiver::Receiver;
pub use report::{HEADER, Millis, Row, markdown};
pub use seen::{Due, Seen, Tally};
pub use work::Work;

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Options {
    pub server: Server,
    /// The queue of all jobs; none of anybody else's may be in it.
    pub queue: String,
    pub jobs: u64,
    pub batch: usize,
    /// Connections of each side: producers and workers.
    pub connections: usize,
    pub payload_bytes: usize,
    /// The group of all jobs, for others than `tenants`.
    pub group: Option<String>,
    /// Jobs that arrive in a second, in `tenants`.
    pub rate: u64,
    /// A work that is not done by then is given up.
    pub time_limit: Duration,
}

/// Runs one work. `progress` hears now and then how many of how many are done.
pub fn run(
    work: Work,
    options: &Options,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Row, String> {
    let loopback = |host: &str| host == "localhost" || host.starts_with("127.") || host == "[::1]";
    let host = options.server.address.rsplit_once(':').map_or("", |(host, _)| host);
    if !loopback(host) {
        return Err(format!("load goes to this machine only, not to {host}"));
    }
    if options.jobs == 0 || options.jobs > limits::JOBS_MAX {
        return Err(format!("between 1 and {} jobs", limits::JOBS_MAX));
    }
    work.run(options, progress)
}
