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
