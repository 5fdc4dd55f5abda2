//! Every bound of the load generator.

use std::time::Duration;

/// The most jobs that one work submits.
pub const JOBS_MAX: u64 = 10_000_000;
/// Jobs in one request of a bulk submission, if not said otherwise.
pub const BATCH: usize = 500;
/// Runs that a worker asks for at once.
pub const CLAIM: usize = 500;
/// The longest one request may take.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// A worker's long poll.
pub const CLAIM_WAIT: &str = "1s";
/// Connections of the server that the receiver serves at once.
pub const RECEIVER_CONNECTIONS_MAX: usize = 1_024;
/// The largest head of a message that is read.
pub const HEAD_MAX: usize = 64 * 1024;
/// The largest body that is read.
pub const BODY_MAX: usize = 64 * 1024 * 1024;
/// The longest lateness that is told apart from a longer one.
pub const LATENESS_MAX_MICROS: u64 = 600_000_000;
/// Requests of one connection that may be answered "later" in a row.
pub const BUSY_MAX: u32 = 1_000;
/// And how long it waits before it asks again.
pub const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// Connections of `single`, and the threads that share them: a thread for each would cost the machine more in turns of
/// its threads than its requests do.
pub const SINGLE_CONNECTIONS: usize = 64;
pub const SINGLE_THREADS: usize = 2;
/// Groups that share a queue in `tenants`.
pub const TENANTS: u64 = 999;
/// Jobs of `fill --group` bear numbers from here on: others' workers do not count them.
pub const FOREIGN_NUMBERS: u64 = 1_000_000_000;
/// A server that is away for longer ends the work.
pub const AWAY_MAX: Duration = Duration::from_secs(30);
