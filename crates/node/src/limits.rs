//! Every bound of the node, named, each with its reason.

use model::Span;
use std::time::Duration;

/// Commands under way that callers wait for, waiting claims included; more are told to come back.
pub const CALLS_MAX: usize = 16_384;
/// Settles, heartbeats and cancels under way. A room of their own: they are never shed for
/// submissions, only slowed.
pub const SETTLES_MAX: usize = 4_096;
/// Messages to the driver: each call may send itself and that it is gone; the lanes send answers.
pub const INPUT_MAX: usize = 2 * (CALLS_MAX + SETTLES_MAX) + 64;
/// Messages handled before the driver looks at its clock again.
pub const INPUT_SLICE: usize = 256;
/// Reads of rows for the API under way at once; each is a blocking thread.
pub const READS_MAX: usize = 16;
/// Queues with webhooks that one process serves. Each costs a waiting claim.
pub const QUEUES_MAX: usize = 10_000;
/// Finished runs whose attempts can be named without a search (about 100 bytes each).
pub const FINISHED_MAX: usize = 100_000;
/// Stops that came before their attempt was registered.
pub const EARLY_STOPS_MAX: usize = 1_024;
/// How long a caller waits for an ordinary command.
pub const CALL_WAIT: Span = Span::from_secs(10);
/// The driver looks around at least this often, whatever the core says.
pub const TICK_MAX: Duration = Duration::from_secs(1);
/// Events that a listener can still be told: minutes of an ordinary day (about 200 bytes each).
pub const EVENTS_KEPT: usize = 65_536;
/// Jobs of which is remembered where they belong and how they stand, to tell events by.
pub const JOBS_KNOWN_MAX: usize = 200_000;
/// Requests that wait for the end of a run.
pub const WAITS_MAX: usize = 4_096;
