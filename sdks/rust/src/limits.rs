//! Every bound of this crate, with its reason.

use std::time::Duration;

/// Jobs of one batch: what the server takes.
pub const BATCH_MAX: usize = 10_000;
/// Runs of one claim, heartbeat or settle: what the server takes.
pub const ITEMS_MAX: usize = 1_000;
/// Outputs of one settle, checkpoints of one heartbeat; the server reads 16 MiB at most.
pub const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The largest answer that is read.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The largest output of a run, in bytes of JSON.
pub const OUTPUT_BYTES_MAX: usize = 16 * 1024;
/// The largest checkpoint, in bytes of JSON.
pub const CHECKPOINT_BYTES_MAX: usize = 64 * 1024;
/// Checkpoints of one run whose callers wait at once: a handler stores one after the other.
pub const CHECKPOINTS_WAITING_MAX: usize = 64;
/// Characters of an error that are kept.
pub const ERROR_CHARS_MAX: usize = 4_096;
/// Characters of the message of a progress.
pub const PROGRESS_CHARS_MAX: usize = 256;
/// Kinds of one worker: what a claim may name.
pub const KINDS_MAX: usize = 100;
/// Idle connections that a client keeps.
pub const CONNECTIONS_KEPT: usize = 16;
/// A connection is made in so long, or the next try begins.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// What an answer may take beyond the wait that was asked for.
pub const WAIT_MARGIN: Duration = Duration::from_secs(15);
/// What a claim's answer may take beyond its wait, and the longest wait for a heartbeat's answer.
pub const BEAT_TIMEOUT: Duration = Duration::from_secs(10);
/// A settle that is not answered is repeated for so long, with heartbeats going on; then the lease decides.
pub const SETTLE_TRIES_FOR: Duration = Duration::from_secs(300);
/// Handlers get so long to stop after they were told to; then their futures are dropped.
pub const STOP_GRACE: Duration = Duration::from_secs(5);
/// What the last settles of a worker may take after that.
pub const LAST_WORDS: Duration = Duration::from_secs(2);
/// A loop with nothing to do looks again after so long; it is woken before.
pub const IDLE: Duration = Duration::from_secs(3_600);
/// The shortest and the longest lease: what the server takes.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// See [`LEASE_MIN`].
pub const LEASE_MAX: Duration = Duration::from_secs(3_600);
/// Timestamps of webhooks that are older or newer than this many seconds are refused.
pub const WEBHOOK_TOLERANCE: Duration = Duration::from_secs(300);
/// The largest job that an outbox takes, in bytes of JSON: what its function checks.
pub const OUTBOX_JOB_BYTES_MAX: usize = 1_024 * 1_024;
/// The longest name of a schema: what PostgreSQL keeps of one.
pub const SCHEMA_NAME_MAX: usize = 63;
