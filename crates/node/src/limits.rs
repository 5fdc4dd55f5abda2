//! Every bound of the node, named, each with its reason.

use model::Span;
use std::time::Duration;

/// Commands under way that callers wait for, waiting claims included; more are told to come back.
pub const CALLS_MAX: usize = 16_384;
/// Settles, heartbeats and cancels under way. A room of their own: they are never shed for
/// submissions, only slowed.
pub const SETTLES_MAX: usize = 4_096;
/// Messages to the driver: each call may send itself and that it is gone; the lanes send answers.
pub const INPUT_MAX: usize = 2 * (CALLS_MAX + SETTLES_MAX) + LETTERS_MAX + 64;
/// Batches of letters from or back from other nodes that wait for the driver; each connection of
/// each node has one at a time.
pub const LETTERS_MAX: usize = 1_024;
/// Commits under way where the store syncs apart from applying: one is applied, one is synced, one
/// waits between them.
pub const COMMITS_AT_ONCE: usize = 3;
/// Commits under way where the store takes them ahead of its answers: it works at one, the next is made ready.
pub const COMMITS_AHEAD: usize = 2;
/// A call of the store that takes longer stands in the log.
pub const SLOW_CALL: Span = Span::from_millis(1_500);
/// Calls of the read lane that are asked together when it is free, and how many go alone after a failure.
pub const READS_TOGETHER: usize = 64;
/// Definitions of runs kept from their submission to their first attempt: how many, how many bytes of
/// payloads in all and in one, and how soon the run must be due.
pub const SPECS_KEPT: usize = 32_768;
pub const SPECS_KEPT_BYTES: usize = 16 << 20;
pub const SPEC_BYTES_MAX: usize = 16 << 10;
pub const SPECS_NEAR: Span = Span::from_secs(60);
/// Claims sent to other nodes that are remembered, should their callers hang up after the answer.
pub const CLAIMS_TOLD: usize = 16_384;
/// Messages handled before the driver looks at its clock again.
pub const INPUT_SLICE: usize = 256;
/// Reads of rows for the API under way at once; each is a blocking thread.
pub const READS_MAX: usize = 16;
/// Queues with webhooks that one process serves. Each costs a waiting claim.
pub const QUEUES_MAX: usize = 10_000;
/// How often a node that only works looks for new queues without being told, and how many it reads
/// at once.
pub const QUEUES_EVERY: Duration = Duration::from_secs(5);
pub const QUEUES_PAGE: usize = 1_000;
/// Attempts of one run that are shown; a run that was snoozed for months has more.
pub const ATTEMPTS_SHOWN: usize = 1_000;
/// Stops that came before their attempt was registered.
pub const EARLY_STOPS_MAX: usize = 1_024;
/// How long a caller waits for an ordinary command.
pub const CALL_WAIT: Span = Span::from_secs(10);
/// How far the wall clock may be away to be steered towards; further is a step.
pub const CLOCK_NEAR: Span = Span::from_millis(500);
/// Steering moves time by at most one part in so many: less than the core allows for drift.
pub const CLOCK_STEER: i64 = 2_000;
/// A step forward by more is held: somebody may have set the clock wrongly.
pub const CLOCK_STEP_MAX: Span = Span::from_secs(300);
/// If the clock stays there for so long, it was meant.
pub const CLOCK_HELD: Span = Span::from_secs(60);
/// How often a test's clock is read from its file.
pub const TEST_CLOCK_EVERY: Duration = Duration::from_millis(2);
/// The driver looks around at least this often, whatever the core says.
pub const TICK_MAX: Duration = Duration::from_secs(1);
/// Events that a listener can still be told: minutes of an ordinary day (about 200 bytes each).
pub const EVENTS_KEPT: usize = 65_536;
/// Jobs of which is remembered where they belong and how they stand, to tell events by.
pub const JOBS_KNOWN_MAX: usize = 200_000;
/// Queues whose speed is counted, and over what: a minute, in slices of a few seconds.
pub const RATES_MAX: usize = 1_000;
pub const RATE_SLICES: usize = 12;
pub const RATE_SLICE: Span = Span::from_secs(5);
/// Requests that wait for the end of a run.
pub const WAITS_MAX: usize = 4_096;
/// Runs whose end other nodes want to hear of.
pub const WATCHES_MAX: usize = 16_384;
/// Queues that metrics name; a label per queue of a large installation would drown whoever scrapes.
pub const QUEUES_SHOWN: usize = 100;
/// How often the queues are counted for the metrics.
pub const LOOK_EVERY: Span = Span::from_secs(2);
/// Namespaces remembered, and entries of them read at once.
pub const NAMESPACES_KNOWN: usize = 10_000;
/// A namespace that others make at the same time is looked for so often.
pub const NAMESPACE_TRIES: usize = 20;
/// History rows looked at in one slice of removing, and the pause after each: at most 10,000 rows
/// a second, in transactions of a few milliseconds.
pub const PRUNE_SLICE: usize = 500;
pub const PRUNE_PAUSE: Duration = Duration::from_millis(50);
/// From the end of a pass to the beginning of the next, at most.
pub const PRUNE_AGAIN: Duration = Duration::from_secs(600);
/// How often a node looks whether removing has become its duty.
pub const PRUNE_LOOK: Duration = Duration::from_secs(2);
/// Queues that are known to have been used.
pub const QUEUES_KNOWN: usize = 100_000;
/// Dead runs that are counted before a bulk operation begins.
pub const BULK_COUNT_MAX: usize = 10_000;
/// Runs of one slice of a bulk operation, and the pause after it: at most 1,000 a second.
pub const BULK_SLICE: usize = 1_000;
pub const BULK_PAUSE: Duration = Duration::from_secs(1);
/// How often operations are looked for without being told.
pub const BULK_AGAIN: Duration = Duration::from_secs(60);
/// And how often not, while nothing has changed that could have made one.
pub const BULK_ROUNDS: usize = 10;
/// Entries of operations read at once.
pub const BULK_LIST: usize = 200;
/// An operation that is over can be looked up for so long.
pub const BULK_KEPT: Span = Span::from_secs(30 * 86_400);
