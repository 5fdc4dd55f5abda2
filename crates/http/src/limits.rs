//! Every bound of the HTTP interface, named, each with its reason.

use model::Span;
use std::time::Duration;

/// The largest request: a full batch of small jobs.
pub const BODY_MAX: usize = 16 * 1024 * 1024;
pub const PAYLOAD_MAX: usize = 256 * 1024;
pub const OUTPUT_MAX: usize = 16 * 1024;
pub const CHECKPOINT_MAX: usize = 64 * 1024;
pub const BATCH_MAX: usize = 10_000;
/// Connections at once; each may hold one request.
pub const CONNECTIONS_MAX: usize = 4_096;
/// Connections of one address at once; loopback is exempt, it may be a proxy for everybody.
pub const PEER_CONNECTIONS_MAX: usize = 1_024;
/// A TLS handshake must be done within this time.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest head of a request.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The most headers of a request.
pub const HEADERS_MAX: usize = 100;
/// A body must come within this time.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Bodies held at once, in KiB; a request waits for room before its body is read.
pub const BODIES_KIB_MAX: usize = 256 * 1024;
/// A caller that reads nothing of its answer for so long is cut.
pub const READ_STALL_MAX: Duration = Duration::from_secs(30);
/// A request's head must come within this time.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Open connections get so long to finish when the server stops.
pub const CLOSE_GRACE: Duration = Duration::from_secs(5);
/// The longest X-Request-Id that is taken over.
pub const REQUEST_ID_MAX: usize = 128;
/// The longest Idempotency-Key.
pub const KEY_MAX: usize = 255;
/// API keys, revoked ones included: all of them are in memory.
pub const KEYS_MAX: usize = 10_000;
/// The longest name of an API key.
pub const KEY_NAME_MAX: usize = 128;
/// Quotas of namespaces and keys whose use is remembered; of more, those that were not used lately are
/// forgotten, and then all.
pub const QUOTAS_KNOWN: usize = 20_000;
/// The largest rate of submissions that a key may be given.
pub const KEY_RATE_MAX: u64 = 1_000_000;
/// The largest rate of bytes that a key may be given.
pub const KEY_BYTES_MAX: u64 = 4_000_000_000;
/// Changes that are named inside one field of a definition; of more, only the field is named.
pub const CHANGED_MAX: usize = 50;
/// The farthest `at` or `delay`.
pub const FARTHEST: Span = Span::from_secs(50 * 366 * 86_400);
pub const TIMEOUT_HTTP: Span = Span::from_secs(30);
pub const TIMEOUT_WORKER: Span = Span::from_secs(3_600);
pub const TIMEOUT_MIN: Span = Span::from_millis(100);
pub const TIMEOUT_MAX: Span = Span::from_secs(86_400);
pub const PREVIEW_COUNT_MAX: u64 = 1_000;
pub const PREVIEW_COUNT: u64 = 10;
/// Clock changes are listed this far ahead.
pub const DST_DATES_AHEAD: Span = Span::from_secs(731 * 86_400);
pub const REASON_MAX: usize = 500;
/// The longest time in which an old and a new signing secret both sign.
pub const OVERLAP_MAX: Span = Span::from_secs(30 * 86_400);
/// A test of a target takes so long unless told otherwise.
pub const TARGET_TEST_TIMEOUT: Span = Span::from_secs(10);
/// What a test of a target shows of the answer's body.
pub const TARGET_TEST_BODY: usize = 1_024;
/// Rows the doctor reads at once.
pub const DOCTOR_PAGE: usize = 1_024;
/// What was due so long ago and is not decided is a finding.
pub const DOCTOR_LATE: Span = Span::from_secs(10);
/// A difference counts if it is there so many times in a row.
pub const DOCTOR_TRIES: usize = 5;
/// What a claim's call may take beyond its wait.
pub const CLAIM_MARGIN: Span = Span::from_secs(5);
/// How much later than the first the other shards of a claim may answer.
pub const CLAIM_GATHER: Duration = Duration::from_millis(500);
/// How often shards that had enough are asked for what is left of a claim.
pub const CLAIM_AGAIN_MAX: usize = 2;
/// Running runs that a job shows.
pub const RUNNING_SHOWN: usize = 20;
/// The longest `?wait=` for the end of a run.
pub const WAIT_MAX: Span = Span::from_secs(60);
/// How often a request that waits for a run of another node looks for itself.
pub const WAIT_LOOK: Duration = Duration::from_secs(1);
/// Streams of events at once; each holds a connection.
pub const STREAMS_MAX: usize = 256;
/// Events told in one piece of a stream.
pub const STREAM_SLICE: usize = 256;
/// A comment keeps a quiet stream open, and finds out that its reader is gone.
pub const STREAM_QUIET: Duration = Duration::from_secs(15);
/// How often a stream looks for nodes that came or went.
pub const STREAM_LOOK: Duration = Duration::from_millis(500);
/// A new stream waits so long for other nodes to say where they stand.
pub const STREAM_JOIN: Duration = Duration::from_secs(2);
/// API keys are read again at least so often: the longest that a key which another node revoked is
/// still good here when that node could not say so.
pub const KEYS_EVERY: Duration = Duration::from_secs(5);
/// A key that is not known is looked for in the store at most so often.
pub const KEYS_AGAIN: Span = Span::from_millis(200);
/// What a listener waits before it comes again.
pub const STREAM_RETRY_MS: u32 = 2_000;
/// Items of a list when nobody says how many, and the most of them.
pub const LIST_LIMIT: u64 = 100;
pub const LIST_LIMIT_MAX: u64 = 1_000;
/// The rate of a backfill when nobody says one, and the largest, in runs per second.
pub const BACKFILL_RATE: u64 = 10;
pub const BACKFILL_RATE_MAX: u64 = 1_000;
/// Instants that a dry run looks at one by one; beyond it only their number is told.
pub const DRY_RUN_MAX: usize = 100_000;
/// Rows of one read for the interface.
pub const READ_PAGE: usize = 1_000;
/// From so many jobs in the same second on, a warning says that it is a herd.
pub const HERD: u32 = 100;
/// Seconds whose herds are counted.
pub const HERDS_KEPT: usize = 10_000;
/// Clock changes that a new job is warned of: those of the coming year.
pub const DST_WARNED_AHEAD: Span = Span::from_secs(366 * 86_400);
/// Lines of NDJSON that are made at once, and about how many bytes of them: what such a request holds
/// in memory.
pub const BATCH_SLICE: usize = 500;
pub const BATCH_SLICE_BYTES: usize = 4 * 1024 * 1024;
/// The longest line, and the longest request of lines.
pub const LINE_MAX: usize = 512 * 1024;
pub const NDJSON_MAX: usize = 256 * 1024 * 1024;
/// Tries to reserve a name that others want too.
pub const NAME_TRIES: usize = 8;
/// Runs that statistics look at: the newest.
pub const STATS_RUNS: usize = 1_000;
/// Holds that are told at once, the widest first.
pub const HOLDS_SHOWN: usize = 1_000;
/// Namespaces whose names are looked up for them.
pub const HOLDS_NAMESPACES: usize = 10_000;
/// Flows of a queue that are looked at for its groups, and runs that are counted in each.
pub const GROUP_FLOWS: usize = 200;
pub const GROUP_RUNS: usize = 500;
/// A count of what a namespace has, or of what was made with an API key, is trusted for so long, and counting goes so far beyond the limit.
pub const COUNT_TRUSTED: Span = Span::from_secs(5);
pub const COUNT_BEYOND: usize = 10_000;
/// Whoever is at a limit waits at most so long for a count that is not repeated too often.
pub const COUNT_PAUSE_MAX: Span = Span::from_millis(250);
/// Seconds after which it is worth asking again when too many runs wait, or there are too many jobs.
pub const RETRY_WAITING_S: u32 = 5;
pub const RETRY_JOBS_S: u32 = 60;
/// How often the core is told what recurring jobs may do, and of how many namespaces, and of how many API
/// keys, what waits is counted for it at once.
pub const FIRES_LOOK_EVERY: Duration = Duration::from_secs(1);
pub const FIRES_LOOKED_AT: usize = 200;
/// A count of what waits is trusted for so long when recurring jobs are about to fire.
pub const CROWDED_TRUSTED: Span = Span::from_millis(900);
/// Seconds after which it is worth asking a queue again whose service level is broken.
pub const RETRY_SHED_S: u32 = 10;
/// The largest quota of waiting runs and of jobs, and of fires in a minute.
pub const QUOTA_COUNT_MAX: u32 = 10_000_000;
/// Work that is due soon, in a queue's numbers.
pub const QUEUE_SOON: Span = Span::from_secs(300);
/// What waits in a queue shall be gone in so long, by the number of workers that is suggested.
pub const DRAIN_WITHIN: Duration = Duration::from_secs(60);
/// Dead runs that are looked at to group them.
pub const GROUPED_MAX: usize = 10_000;
/// Letters of an error that tell groups apart.
pub const GROUP_ERROR_MAX: usize = 200;
/// Runs that one request may name.
pub const IDS_MAX: usize = 1_000;
/// The rate of a bulk operation when nobody says one, and the largest, in runs per second.
pub const BULK_RATE: u64 = 50;
pub const BULK_RATE_MAX: u64 = 1_000;
/// Rows of an outbox that are submitted at once, and about how many bytes of them.
pub const OUTBOX_ROWS: usize = 500;
pub const OUTBOX_BYTES: usize = 4 * 1024 * 1024;
/// How often an outbox is asked while nothing comes, and while something does: most of what a job
/// waits for between its commit and its submission.
pub const OUTBOX_PAUSE: Duration = Duration::from_millis(150);
pub const OUTBOX_BUSY_PAUSE: Duration = Duration::from_millis(20);
/// Before an outbox whose database is away, or a queue that takes nothing, is tried again: doubling
/// from the first to the last.
pub const OUTBOX_BACKOFF_FIRST: Duration = Duration::from_millis(100);
pub const OUTBOX_BACKOFF_LAST: Duration = Duration::from_secs(5);
/// A shard that does not answer in this time holds up the others of its page no longer.
pub const OUTBOX_CALL_WAIT: Span = Span::from_secs(2);
/// Queues of an outbox that are left alone while they take nothing; were there more, all would wait.
pub const OUTBOX_BLOCKED_MAX: usize = 256;
/// How often the jobs of an outbox are counted, and a fault that lasts is said again.
pub const OUTBOX_LOOK_EVERY: Span = Span::from_secs(2);
pub const OUTBOX_ERROR_AGAIN: Span = Span::from_secs(60);
/// A page of an outbox that was read longer ago is thrown away: another node may have submitted it.
pub const OUTBOX_PAGE_TRUSTED: Span = Span::from_secs(30);
/// A row younger than this is known by its key (24 h at least); of an older one it is first asked
/// whether its job is there.
pub const OUTBOX_KEY_TRUSTED: Span = Span::from_secs(20 * 3_600);
/// Letters that are kept of why a job of an outbox was refused.
pub const OUTBOX_PROBLEM_MAX: usize = 2_000;
/// Outboxes of one duly: each is a connection, and a label of the metrics.
pub const OUTBOXES_MAX: usize = 16;
/// Running attempts whose progress a node remembers, and characters of each one's words: about 4 MB.
pub const PROGRESS_MAX: usize = 10_000;
pub const PROGRESS_TEXT_MAX: usize = 256;
/// Workers that a node remembers.
pub const WORKERS_MAX: usize = 10_000;
/// A worker that was not heard of for so long is shown no more.
pub const WORKER_FORGOTTEN: Span = Span::from_secs(3_600);
/// What a living worker may be silent for beyond its lease or its claim's wait.
pub const WORKER_SILENT: Span = Span::from_secs(10);
/// A worker that was told to take nothing and claims all the same waits so long for its answer.
pub const DRAINED_PAUSE: Duration = Duration::from_secs(1);
/// Leases of a shard that are looked at to say who holds a limit, and how many of them are named.
pub const LEASES_LOOKED_AT: usize = 10_000;
pub const HOLDERS_SHOWN: usize = 5;
/// The shortest and the longest `start_within` and `finish_within`.
pub const WITHIN_MIN: Span = Span::from_secs(1);
pub const WITHIN_MAX: Span = Span::from_secs(365 * 86_400);
