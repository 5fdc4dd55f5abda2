//! Every bound of the executor, named, each with its reason.

use model::Span;
use std::time::Duration;

/// Webhooks under way in one process: each holds a socket and at most `BODY_MAX` plus buffers.
pub const IN_FLIGHT_MAX: usize = 256;
/// Runs one claim takes: few, so that queues share what is free.
pub const CLAIM_BATCH: usize = 16;
/// How long a claim waits for work before it is renewed.
pub const CLAIM_WAIT: Span = Span::from_secs(20);
/// What a claim may take beyond its wait.
pub const CLAIM_MARGIN: Span = Span::from_secs(5);
/// An executor's lease counts only as grace behind the attempt's deadline.
pub const LEASE: Span = Span::from_secs(30);
/// Pause after a claim that was refused.
pub const CLAIM_AGAIN: Duration = Duration::from_millis(200);
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// What is kept of an answer's body.
pub const BODY_MAX: usize = 16 * 1024;
/// The head of an answer may be this large.
pub const HEAD_MAX: usize = 64 * 1024;
/// A settle that is not answered is repeated: the result of work is not given up lightly.
pub const SETTLE_TRIES: u32 = 20;
pub const SETTLE_AGAIN_FIRST: Duration = Duration::from_millis(50);
pub const SETTLE_AGAIN_MAX: Duration = Duration::from_secs(2);
/// How old or how far ahead a signature's timestamp may be.
pub const SIGNATURE_AGE_MAX: i64 = 300;
