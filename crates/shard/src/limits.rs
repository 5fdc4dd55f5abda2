//! Every bound of the core, named, with its reason. Memory is bounded by these, never by the
//! backlog or by how many jobs are registered.

use model::Span;

/// The near horizon: what is due before it is in memory.
pub const HORIZON: Span = Span::from_secs(60);
/// The horizon is raised when less than this is left of it.
pub const HORIZON_LOW: Span = Span::from_secs(30);
/// While little waits, the horizon is far, so that a shard with nothing to do seldom asks: it ends at a
/// multiple of this, the same for all shards of a node, whose reads then go together ...
pub const HORIZON_FAR: Span = Span::from_secs(300);
/// ... and at least so far away.
pub const HORIZON_FAR_LEAST: Span = Span::from_secs(225);
/// Timer entries up to which the horizon may be far; with twice as many it comes near again.
pub const SPARSE_MAX: usize = 512;
/// A shard whose horizon came near again keeps it so for this long.
pub const DENSE_FOR: Span = Span::from_secs(600);
/// On load only this much is read before claims are served.
pub const HORIZON_FIRST: Span = Span::from_secs(1);
/// Rows in one page of the wheel, of a flow or of leases.
pub const PAGE: usize = 1_024;
/// Timer entries in memory; above it the horizon is lowered, and what lies beyond is read again
/// when its time comes nearer.
pub const TIMER_MAX: usize = 200_000;
/// Ready entries of one flow in memory: its front. The rest stays on disk in the same order.
pub const FLOW_FRONT: usize = 8_192;
/// When fewer are left, the next page is read.
pub const FLOW_LOW: usize = 512;
/// Pages of flows under way at once: what they bring must fit into memory.
pub const PAGES_MAX: usize = 64;
/// Rows in a page of a flow while half of `READY_MAX` is used, so that `FLOWS_MAX` flows fit into
/// the other half.
pub const PAGE_SCARCE: usize = 4;
/// Ready entries in memory over all flows; above it what becomes ready is left on disk.
pub const READY_MAX: usize = 1_000_000;
/// Flows in memory; others take turns.
pub const FLOWS_MAX: usize = 100_000;
/// Fires, rescues and other due work in one batch, so that a herd delays nobody else.
pub const SLICE: usize = 512;
/// Slices of due work that may wait for their rows at once: what they read must fit into the cache together,
/// or they would drive out each other's rows and ask for them again.
pub const SLICES_WAITING: usize = 4;
/// Changes in one batch: what a store writes in a few milliseconds.
pub const BATCH_CHANGES: usize = 4_096;
/// Commands that wait to be decided; more are told to come back.
pub const INBOX_MAX: usize = 16_384;
/// Jobs of one namespace that are decided before it is another's turn.
pub const TURN_JOBS: usize = 64;
/// Claims that wait for work.
pub const WAITERS_MAX: usize = 16_384;
/// Runs one claim may take.
pub const CLAIM_MAX: usize = 1_000;
/// A run is reserved twice as long before its time as commits take, or as long as slow ones took lately, and
/// this: what the driver and the commit lane may be late by.
pub const RESERVE_LEAST: Span = Span::from_millis(1);
/// Of slow commits no more counts, because who is promised a run hears of nothing else until then; and each
/// commit lets them fade by this part.
pub const RESERVE_SLOW: Span = Span::from_millis(8);
pub const RESERVE_FADES: i64 = 256;
/// Nothing is reserved longer before its time: a claimer who is promised a run hears of nothing else.
pub const RESERVE_MAX: Span = Span::from_millis(200);
/// An answer that was kept for its time is told without asking the store again if it is late by less;
/// and an answer of the store that took less tells the time. A clock that jumps by a second is noticed.
pub const RESERVE_BELIEVED: Span = Span::from_millis(500);
/// A herd is reserved earlier by this for each run in it: what writing a lease takes.
pub const RESERVE_PER_RUN: Span = Span::from_micros(12);
/// So many in the timer may be a herd, which is looked for so often, among so many: what `RESERVE_MAX` is
/// enough for.
pub const RESERVE_HERD: usize = 256;
pub const RESERVE_LOOK: Span = Span::from_millis(5);
pub const RESERVE_COUNTED: usize = 16_384;
/// Runs reserved in one pass, at least as many as a claim may take; and those passed over because nobody
/// waits for them.
pub const RESERVE_AT_ONCE: usize = 1_024;
pub const RESERVE_SKIPPED: usize = 256;
/// If nobody took one of more than so many, the next look at them waits for `RESERVE_LOOK`.
pub const RESERVE_FEW: usize = 16;
/// Rows of jobs and specs kept for the next fire. A node may own all shards: together they stay below a
/// gigabyte. What `SLICES_WAITING` slices read fits in.
pub const CACHE_MAX: usize = 8_192;
/// Answers to settles that are remembered, so that asking again needs no read.
pub const RECENT_MAX: usize = 65_536;
/// Ids of submissions that the store refused once and that are looked at before the next try; a
/// request has at most 10,000.
pub const DOUBTED_MAX: usize = 65_536;
/// At least one start in so many goes to the run that has waited longest.
pub const OLDEST_EVERY: u32 = 8;
/// Starts that a flow had for its age and that are taken off its next turns; more are given.
pub const OWED_MAX: u32 = 16;
/// Groups of a limited queue that nothing waits or runs in and that are remembered for a while.
pub const GROUPS_ASIDE_MAX: usize = 1_024;
/// Queues of one shard that have limits: all are in memory.
pub const QUEUES_LIMITED_MAX: usize = 10_000;
/// Groups of a queue that have a weight of their own.
pub const WEIGHTS_MAX: usize = 10_000;
/// Shares of the lanes inside a level: fresh, retry, backfill.
pub const LANE_SHARES: [i32; 3] = [8, 4, 1];
/// Versions of a recurring job's definition that stay readable, the one in force included. One that an
/// unfinished run names stays beyond that.
pub const VERSIONS_KEPT: u32 = 20;
/// An occurrence later than this is missed, and the job's catch-up policy decides.
pub const MISSED_AFTER: Span = Span::from_secs(60);
/// A fire that is put off is looked at again after a quarter of what it is late, within these two.
pub const PUT_OFF_LEAST: Span = Span::from_secs(1);
pub const PUT_OFF_MAX: Span = Span::from_secs(120);
/// Namespaces, and API keys, whose fires were asked for and that those who count have not heard of yet.
pub const QUOTAS_ASKED_MAX: usize = 10_000;
/// The owner takes a run back when its lease is over by a tenth; its worker stopped at nine.
pub const RESCUE_PERCENT: i64 = 110;
/// Leases that nobody heard of and that are remembered as such until they are known to be back.
pub const UNHEARD_MAX: usize = 1_024;
/// A rescue that did not happen (its rows did not come) is tried again after this.
pub const RESCUE_AGAIN: Span = Span::from_secs(10);
/// A dead run waits so long for a person.
pub const DEAD_KEPT: Span = Span::from_secs(90 * 86_400);
/// A receiver may ask for at most this delay.
pub const RETRY_AFTER_MAX: Span = Span::from_secs(86_400);
/// Backoffs spread by a fifth either way, so that what failed together does not return together.
pub const BACKOFF_SPREAD_PERCENT: i64 = 20;
/// Attempts of one run that spend nothing (released, snoozed) end here: no loop is endless.
pub const ATTEMPTS_MAX: u16 = 10_000;
/// Runs that a backlog makes in one slice.
pub const BACKLOG_SLICE: usize = 64;
/// Pause before a commit that was refused for room or time is sent again; it doubles.
pub const RESEND_FIRST: Span = Span::from_millis(20);
pub const RESEND_MAX: Span = Span::from_secs(2);
/// Nothing that adds work is tried for so long after the store had no room for it; it doubles.
pub const FULL_FIRST: Span = Span::from_secs(1);
pub const FULL_MAX: Span = Span::from_secs(32);
/// The floor is written at most this often.
pub const FLOOR_EVERY: Span = Span::from_secs(10);
/// Where the ready runs and leases begin is looked for so often while it is not known.
pub const START_AGAIN: Span = Span::from_secs(1);
/// All shards are asked whether time has passed for them at least this often; those that wait for an
/// instant are asked at that instant.
pub const SWEEP_EVERY: Span = Span::from_millis(250);
/// A commit that decided so many commands of callers or of our own is followed by a pause, counted
/// from when it was sent, in which the next ones gather; a lone caller never waits.
pub const COMMIT_MANY: usize = 6;
pub const COMMIT_PAUSE: Span = Span::from_micros(1_500);

// Ownership.
/// A node's lease, and how often it is renewed.
pub const NODE_TTL: Span = Span::from_secs(3);
pub const NODE_RENEW: Span = Span::from_secs(1);
/// Renewals sent beside a call about ownership that is not answered: the lease lasts three of them, so
/// that two answers in a row may be lost.
pub const RENEWALS_BESIDE: usize = 3;
/// A node judges others only after so many renewals of its own in a row.
pub const RENEWALS_BEFORE_JUDGING: u32 = 2;
/// A jump of the store's clock by more is a step: shorter ones are answers that were slow.
pub const CLOCK_STEP: Span = Span::from_secs(30);
/// A renewal that took longer does not count among them: a lease outlives two such.
pub const RENEWAL_SLOW: Span = Span::from_millis(1_500);
/// Shards one node takes, or asks for, at once.
pub const MOVES_AT_ONCE: usize = 32;
/// Nodes that hold leases of a shard and began after the cluster was last seen; others count as dead.
pub const STRANGERS_MAX: usize = 64;
/// Gifts that were told of and not yet taken: no node has more shards than there are.
pub const GIFTS_MAX: usize = 256;
/// A request for a shard that was not answered is repeated after this.
pub const ASK_AGAIN: Span = Span::from_secs(2);
/// Between two tries to find the owner of a shard.
pub const ROUTE_AGAIN: Span = Span::from_millis(50);
/// Between two looks at where shards are, when one was not where it was thought to be.
pub const LOOK_AGAIN: Span = Span::from_millis(100);
/// A renewal that took less is followed by the next one a whole second after its answer.
pub const RENEWAL_QUICK: Span = Span::from_millis(100);
/// Forwarded commands that a node remembers, to do a repeated one once.
pub const HEARD_MAX: usize = 65_536;
/// Answered claims of other nodes' callers that a node remembers, should they hang up.
pub const PARTING_MAX: usize = 4_096;
/// How long a forwarded command may wait for an owner.
pub const ROUTE_WAIT: Span = Span::from_secs(2);

/// The bounds that decide when memory gives way to the disk. The simulator makes them small, so
/// that pages, spills and slices happen within a few runs; everybody else uses the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub page: usize,
    pub timer_max: usize,
    /// 0: the horizon is never far.
    pub sparse: usize,
    pub flow_front: usize,
    pub flow_low: usize,
    pub slice: usize,
    pub batch_changes: usize,
    /// Tokens given out in one epoch before the next one is taken; past half as many again nothing
    /// is decided until it is.
    pub tokens: u32,
    pub versions: u32,
    /// How long before its time a run is reserved, at least; and how many may be a herd.
    pub reserve: Span,
    pub herd: usize,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes {
            page: PAGE,
            timer_max: TIMER_MAX,
            sparse: SPARSE_MAX,
            flow_front: FLOW_FRONT,
            flow_low: FLOW_LOW,
            slice: SLICE,
            batch_changes: BATCH_CHANGES,
            tokens: u32::MAX / 2,
            versions: VERSIONS_KEPT,
            reserve: RESERVE_LEAST,
            herd: RESERVE_HERD,
        }
    }
}
