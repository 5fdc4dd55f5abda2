//! Every bound of this crate, with its reason.

use model::Span;
use std::time::Duration;

/// Connections that write, beside the one that commits are sent over: takes and gifts, commits that take the
/// slower way, and what cleans up.
pub(crate) const WRITERS: usize = 3;
/// Connections that read for the core.
pub(crate) const READERS: usize = 2;
/// A connection for people's lists, one for leases of nodes: neither waits for the core.
pub(crate) const SEARCHERS: usize = 1;
pub(crate) const RENEWERS: usize = 1;

/// A server that does not take a connection in this time is away.
pub(crate) const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// A statement that is not answered in this time is not waited for: its fate is unknown. Longer
/// than `LOCK_WAIT`, so that the server's own refusal, which is certain, comes first.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(15);
/// Words of a statement in a log line that says it was not answered.
pub(crate) const HEAD_WORDS: usize = 12;
/// Different faults of the database that wait to be logged; more of them are counted as others.
pub(crate) const FAULTS_MAX: usize = 8;
/// What the functions wait for a row that another transaction holds, in milliseconds.
pub(crate) const LOCK_WAIT_MS: u32 = 5_000;
/// Tables of a new version are made while nobody else does; a crowd of nodes that starts waits.
pub(crate) const MIGRATE_WAIT: Duration = Duration::from_secs(60);
/// Emptying a table of old keys waits this long for readers and is left for later then, because
/// commits wait behind it. In milliseconds.
pub(crate) const EMPTY_WAIT_MS: u32 = 50;

/// Dropping a day of history, likewise: readers that come later wait behind it.
pub(crate) const DROP_WAIT_MS: u32 = 50;
/// Days of history whose tables are made before they come.
pub(crate) const MAKE_AHEAD_DAYS: i64 = 2;
/// Days that one statement of a list looks at; most lists end in the first.
pub(crate) const DAYS_AT_ONCE: usize = 8;
/// A call that meets a table that was dropped while it looked begins again so often.
pub(crate) const DROPPED_TRIES: usize = 3;
/// Rows of which the mean size is taken, where a table is not as small as what is left in it.
pub(crate) const SIZE_SAMPLE: i64 = 1_000;
/// A cluster renews its leases every second. Where nobody did for so long before a server with
/// another timeline is first met, it is a backup that was recovered, and not a failover.
pub(crate) const RESTORED_AFTER: Span = Span::from_secs(900);
/// Alerts that wait to be said; there are few, and nobody may be listening.
pub(crate) const ALERTS_MAX: usize = 16;

/// Before the n-th attempt in a row to connect: doubling from the first to the last.
pub(crate) const BACKOFF_FIRST: Duration = Duration::from_millis(10);
pub(crate) const BACKOFF_LAST: Duration = Duration::from_millis(1_000);

/// A lease row that expired so long ago is dropped at the next renewal: every restart is a new
/// node, so without a bound the rows of former lives would pile up. Absent and expired are the
/// same to a taker.
pub(crate) const LEASE_KEPT: Span = Span::from_secs(3_600);
/// Rows of `commits` that a shard keeps; the last one is what counts, the others are for people.
pub(crate) const COMMITS_KEPT: u64 = 1_024;

/// A page of the wheel looks at no more than so many rows for each that it may return. An hour's
/// bucket may hold a million rows of which few are due soon.
pub(crate) const EXAMINED_PER_ROW: usize = 16;

/// With so many pages of several shards in one call it is first found out which are empty.
pub(crate) const MANY_READS: usize = 2;

/// Pages of an outbox between two looks at how far ids are settled: two short statements more.
pub(crate) const FLOOR_ROUNDS: u32 = 10;
/// Every so many pages of an outbox one begins at the first id: whatever put a row below the floor, a
/// server that was replaced behind a pooler or a person, it is found in less than a minute.
pub(crate) const FULL_ROUNDS: u32 = 200;

/// The oldest PostgreSQL that this is tested with.
pub(crate) const VERSION_MIN: i32 = 150_000;
