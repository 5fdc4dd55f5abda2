//! Every bound of the crash test, named, each with its reason.

use std::time::Duration;

/// Rounds in one world: one data folder lives through so many deaths.
pub const ROUNDS_PER_WORLD: u32 = 12;
/// What CI runs: at least 150 rounds are asked for; these are 168.
pub const CI_WORLDS: u64 = 14;
/// Worlds at once: two cores, and a world waits for the disk most of the time.
pub const WORLDS_AT_ONCE: usize = 3;
/// A process that is not ready by then has failed.
pub const READY_PATIENCE: Duration = Duration::from_secs(20);
/// A named place that was not passed by then is not passed in this round: it is killed there.
pub const POINT_PATIENCE: Duration = Duration::from_millis(900);
/// For places that the care of the store passes, once a second.
pub const CARE_PATIENCE: Duration = Duration::from_millis(1_600);
/// The latest random kill after the start, in milliseconds: some fall before the process is ready.
pub const KILL_MILLIS_MAX: u64 = 700;
/// An orderly stop takes at most this: open requests have 5 s, attempts 25.
pub const STOP_PATIENCE: Duration = Duration::from_secs(35);
/// One request to the server; longer than any wait that is asked for.
pub const REQUEST_PATIENCE: Duration = Duration::from_secs(15);
/// After the last death everything due is done within this, or something hangs.
pub const HEAL_PATIENCE: Duration = Duration::from_secs(30);
/// At least so long is waited before anything may be called left over.
pub const HEAL_MIN: Duration = Duration::from_millis(2_000);
pub const CLIENTS: usize = 3;
pub const WORKERS: usize = 2;
/// Recurring jobs in one world: each fires every second.
pub const RECURRING_MAX: usize = 4;
/// Ids a client remembers to do something to.
pub const KNOWN_MAX: usize = 200;
/// Tries of one settle or keyed submission.
pub const TRIES_MAX: u32 = 40;
/// Webhook connections answered at once.
pub const CONNECTIONS_MAX: usize = 512;

/// Connections through one proxy: more than a node's pools hold.
pub const PROXY_CONNECTIONS_MAX: usize = 512;
/// A server on this machine that does not take a connection by then is not there.
pub const PROXY_DIAL_PATIENCE: Duration = Duration::from_secs(2);
/// Bytes carried at once.
pub const PROXY_CHUNK: usize = 16 * 1024;

/// Nodes of a cluster.
pub const CLUSTER_NODES: u32 = 3;
/// What CI runs: at least 25 faults of 12 kinds in 4 minutes are asked for. Every kind is among them,
/// which the lies need.
pub const CLUSTER_FAULTS: usize = 32;
/// No run has more of them.
pub const CLUSTER_FAULTS_MAX: usize = 10_000;
pub const CLUSTER_CLIENTS: usize = 24;
pub const CLUSTER_WORKERS: usize = 4;
/// Queues with webhooks, and as many for workers: each lies in a shard of its own, nearly.
pub const CLUSTER_QUEUES: u64 = 12;
/// Each fires every second.
pub const CLUSTER_RECURRING: usize = 30;
/// Between two requests of a client: two cores shall have time for the rest.
pub const CLUSTER_PACE: Duration = Duration::from_millis(20);
/// Without trouble before each fault.
pub const CLUSTER_CALM: Duration = Duration::from_millis(1_500);
/// A cluster that has not recovered by then does not. A statement that nobody answers is given up
/// after 15 s, and leases run out in 3.
pub const RECOVERY_PATIENCE: Duration = Duration::from_secs(45);
/// A renewal that comes so long after the one before took longer than 1.5 s (`shard::limits::RENEWAL_SLOW`,
/// and one begins every second): its node asks for no shards until two were quicker.
pub const RENEWED_LATE: Duration = Duration::from_millis(2_500);
/// As long as that happens `RECOVERY_PATIENCE` begins again, but not for ever.
pub const STARVED_PATIENCE: Duration = Duration::from_secs(300);
/// A promoted replica has been noticed by all nodes by then.
pub const PROMOTION_PATIENCE: Duration = Duration::from_secs(20);
/// A drained node has given all its shards away by then.
pub const DRAIN_PATIENCE: Duration = Duration::from_secs(30);
pub const CLUSTER_HEAL_PATIENCE: Duration = Duration::from_secs(120);
/// Everybody's answers and dead nodes' leases are over by then.
pub const CLUSTER_HEAL_MIN: Duration = Duration::from_secs(6);
/// No shard changed its owner for so long: none is on its way.
pub const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// Clients and workers of the load in bulk.
pub const BULK_CLIENTS: u64 = 4;
pub const BULK_WORKERS: usize = 4;
/// Queues for pull workers (`b`), and as many with webhooks (`c`); nobody holds them.
pub const BULK_QUEUES: u64 = 12;
/// A request carries at least and at most so many jobs.
pub const BULK_BATCH_LEAST: u64 = 20;
pub const BULK_BATCH_MAX: u64 = 1_000;
/// What could not be sent for longer than this is not sent later.
pub const BULK_DEBT: Duration = Duration::from_secs(5);
/// A client that has too little to send waits so long.
pub const BULK_AWAIT: Duration = Duration::from_millis(20);
/// Runs of one claim.
pub const BULK_CLAIM: u64 = 250;
/// How long all cores are kept busy in an ordinary run.
pub const FULL_CPU: Duration = Duration::from_secs(6);
/// Jobs per second where nobody says another number: much, while nodes are restarted in order.
pub const CALM_RATE: u64 = 2_500;
/// Fires per second while nodes die, and how long before its time each is submitted: what is due after
/// a death was in the store before it.
pub const TAKEOVER_RATE: u64 = 1_000;
pub const TAKEOVER_AHEAD: model::Span = model::Span::from_secs(10);
/// Jobs per second while all cores are busy.
pub const FULL_CPU_RATE: u64 = 200;

/// Failovers of a cluster whose queues have limits, in CI.
pub const LIMITED_CI: usize = 3;
/// Of each of the eight sorts of limited queues there are so many.
pub const LIMITED_SETS: u32 = 1;
/// More jobs than may run wait in each: a place that is given twice is taken.
pub const LIMITED_WAITING: usize = 6;
pub const LIMITED_CLIENTS: usize = 6;
/// Workers with each of the two lengths of leases.
pub const LIMITED_WORKERS: usize = 3;
/// Leases of pull workers, in seconds: shorter than a takeover takes, and longer.
pub const LIMITED_LEASES: [i64; 2] = [3, 15];
/// Runs of one claim.
pub const LIMITED_CLAIM: u64 = 12;
/// A node that does not answer by then is left for another: leases are short.
pub const LIMITED_PATIENCE: Duration = Duration::from_secs(4);
/// A failover is found by a planted fault within so many.
pub const LIMITED_PLANTED: usize = 6;

/// Faults of a cluster whose nodes have network namespaces, in CI.
pub const NAMESPACES_CI: usize = 2;
