//! Every bound of what a request may say, named. docs/limits.md lists them.

/// The longest name of a queue, a group or a kind, in characters.
pub const SHORT_MAX: usize = 128;
/// The longest idempotency key, owner or media type, in characters.
pub const KEY_MAX: usize = 255;
/// The longest URL of a webhook.
pub const URL_MAX: usize = 2_048;
/// The most arguments of a command, its program among them, and the longest of them in bytes.
pub const ARGUMENTS_MAX: usize = 64;
pub const ARGUMENT_MAX: usize = 4_096;
/// The largest `max_len` of a stream.
pub const STREAM_LEN_MAX: u64 = 1_000_000_000;
/// The most tags, and the most headers, of a job.
pub const PAIRS_MAX: usize = 32;
/// The most statuses that a job calls permanent.
pub const CODES_MAX: usize = 100;
/// The longest cron expression.
pub const EXPRESSION_MAX: usize = 1_024;
/// The longest name of a worker or of a claim's request, in characters.
pub const WORKER_MAX: usize = 255;
/// The most queues, and the most kinds, of one claim.
pub const QUEUES_MAX: usize = 100;
/// The largest `max_running` of a queue or group.
pub const RUNNING_MAX: u32 = 1_000_000;
/// The most starts of a rate, and its largest burst.
pub const STARTS_MAX: u32 = 1_000_000;
/// The largest weight of a group, and the most groups of a queue that have one.
pub const WEIGHT_MAX: u32 = 1_000;
pub const WEIGHTS_MAX: usize = 10_000;
/// The most labels of a worker.
pub const LABELS_MAX: usize = 32;
/// The most runs of one heartbeat or settle.
pub const ITEMS_MAX: usize = 1_000;
/// What is kept of an error's message, in characters.
pub const ERROR_MAX: usize = 4_096;
/// Faults that one refusal lists; more would help nobody.
pub const FAULTS_MAX: usize = 32;
