//! Every bound of the executor, named, each with its reason.

use model::Span;
use std::time::Duration;

// Work.
/// Webhooks under way in one process: each holds a socket and at most 128 KiB besides its payload.
pub const IN_FLIGHT_MAX: usize = 1_024;
/// Webhooks under way to one host (and port). The promise of the public contract. Brokers are hosts,
/// too, and the programs of this machine count together as one.
pub const HOST_IN_FLIGHT_MAX: usize = 64;
/// Claimed runs that wait for their host, in all and for one: what a short burst needs. More are
/// put back for later.
pub const WAITING_MAX: usize = 2_048;
pub const HOST_WAITING_MAX: usize = 256;
/// How long a claimed run waits for its host: its deadline is running. A tenth of its timeout, and
/// never more than this.
pub const HOST_WAIT_MAX: Duration = Duration::from_secs(2);
/// A run that is put back comes again after at least and at most this.
pub const BACK_MIN: Span = Span::from_millis(250);
pub const BACK_MAX: Span = Span::from_secs(60);
/// Hosts whose pace is remembered.
pub const HOSTS_MAX: usize = 4_096;
/// The largest limit of a destination that may be under way, and so the most slots that one of them
/// has at a node: half of all.
pub const LIMIT_IN_FLIGHT_MAX: u32 = IN_FLIGHT_MAX as u32 / 2;
/// A node that comes begins with limited destinations after this: the others have seen it (3 s, the time
/// of a lease, and a renewal), and what they began before has ended, if it had the usual 30 s.
pub const SHARE_JOIN_WAIT: Span = Span::from_secs(35);
/// The part of a node that went is used by the others after this.
pub const SHARE_GROWS_AFTER: Span = Span::from_secs(15);
/// A node that did not look at who lives for so long counts as one that comes.
pub const SHARE_ABSENT: Span = Span::from_secs(6);
/// Where there are more nodes than a destination may have attempts under way, they take turns of this
/// length; an attempt that may take longer is not begun.
pub const SHARE_TURN: Span = Span::from_secs(120);
/// Between two turns, for clocks that differ and answers that are on their way.
pub const SHARE_MARGIN: Span = Span::from_secs(2);
/// How long an attempt takes of which nothing is known yet.
pub const LOOK_AHEAD: Span = Span::from_secs(30);
/// How often a node looks at who lives.
pub const SHARE_LOOK: Duration = Duration::from_secs(1);
/// Destinations (a host and port, as one namespace uses it) whose breaker is remembered. The one that
/// was used least lately is forgotten, and with it that it was failing.
pub const DESTINATIONS_MAX: usize = 4_096;
/// The window of a breaker is counted in so many slices; the oldest falls out as a whole.
pub const BREAKER_SLICES: usize = 6;
/// The time for which a breaker is open is doubled at most so often.
pub const BREAKER_GROWTH_MAX: u32 = 16;
/// It is shortened by up to this, so that many that failed together are not tried together.
pub const BREAKER_JITTER_PERCENT: i64 = 20;
/// Who finds the one probe under way comes again after half the time that the breaker was open, and
/// after at least and at most this.
pub const PROBE_AGAIN_MIN: Span = Span::from_secs(1);
pub const PROBE_AGAIN_MAX: Span = Span::from_secs(60);
/// Runs that a breaker keeps back come again at most so many in a second, of one destination, over at
/// most this time after the probe: a large backlog of a dead host is looked at now and then, not all
/// the time.
pub const KEPT_BACK_PER_S: i64 = 500;
pub const KEPT_BACK_SPREAD: Span = Span::from_secs(600);
/// Runs kept back by breakers that are counted one by one; of more the number is not known.
pub const KEPT_BACK_MAX: usize = 65_536;
/// Runs one claim takes: twice what one host may have under way. A claim waits for a commit, and its runs are
/// settled with the next one: fewer would make more and smaller commits of the same webhooks, more would take
/// what other queues could send.
pub const CLAIM_BATCH: usize = 2 * HOST_IN_FLIGHT_MAX;
/// Before a claim its queue waits for room in the lines of quick hosts, and at most this: what is claimed too
/// early is put back and comes a quarter of a second later. A slow host is not waited for.
pub const ROOM_WAIT_MAX: Duration = Duration::from_millis(20);
/// The lines are looked at again after this at the soonest.
pub const ROOM_LOOK: Duration = Duration::from_millis(1);
/// How long a claim waits for work before it is renewed.
pub const CLAIM_WAIT: Span = Span::from_secs(20);
/// What a claim may take beyond its wait.
pub const CLAIM_MARGIN: Span = Span::from_secs(5);
/// An executor's lease counts only as grace behind the attempt's deadline.
pub const LEASE: Span = Span::from_secs(30);
/// Pause after a claim that was refused, and while nothing is free.
pub const CLAIM_AGAIN: Duration = Duration::from_millis(200);

// Connections.
/// Resolving and connecting together.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The TLS handshake.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Names that are being resolved. The resolver of the system cannot be interrupted, so each holds
/// a thread for as long as it likes.
pub const RESOLVES_MAX: usize = 64;
/// Addresses of one name that are tried; all of them are vetted.
pub const ADDRESSES_MAX: usize = 4;
/// Connections kept for the next webhook: for one host as many as it may have under way, so that a
/// busy one is not dialled again and again; and in all.
pub const IDLE_PER_HOST_MAX: usize = HOST_IN_FLIGHT_MAX;
pub const IDLE_MAX: usize = 256;
/// Kept this long. Most servers keep theirs for 60 s or more; closing first avoids the race.
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(20);
/// A connection is used this long in all, so that a name that moves is followed.
pub const CONNECTION_AGE_MAX: Duration = Duration::from_secs(300);
/// How long a finished exchange waits for its connection to become free again.
pub const REUSE_WAIT: Duration = Duration::from_millis(50);

// Answers.
/// What is kept of an answer's body; reading stops there.
pub const BODY_MAX: usize = 16 * 1024;
/// The head of an answer may be this large; also the largest buffer of a connection.
pub const HEAD_MAX: usize = 16 * 1024;
pub const HEADERS_MAX: usize = 100;
/// What TLS may hold back of a request that the receiver does not take.
pub const TLS_BUFFER_MAX: usize = 16 * 1024;
/// What is kept of an error body for people.
pub const ERROR_CHARS: usize = 500;

// Commands and messages.
/// What is kept of what a command prints; the rest is read and thrown away.
pub const OUTPUT_MAX: usize = 16 * 1024;
/// The last bytes that a failed command printed stand in its error.
pub const COMMAND_TAIL: usize = 500;
/// Connections to brokers that are kept for the next message: for one URL, and in all.
pub const BROKER_IDLE_PER_URL_MAX: usize = 8;
pub const BROKER_IDLE_MAX: usize = 64;
/// What a broker may say in one line or text.
pub const BROKER_TEXT_MAX: usize = 4 * 1024;
/// The largest frame of RabbitMQ's protocol, and how many may come before an answer: what comes back
/// brings its payload along.
pub const AMQP_FRAME_MAX: usize = 128 * 1024;
pub const AMQP_FRAMES_MAX: usize = 256;
/// What a command printed before it ended may take so long to be read.
pub const COMMAND_DRAIN: Duration = Duration::from_millis(500);

// Settling.
/// Ends of one shard that go to the store together: what a commit can take without making others wait.
pub const SETTLES_TOGETHER: usize = 256;
/// After so many went together the next ones wait for a claim to go with, and at most this long, while claimed runs
/// wait for slots. Otherwise a queue with a limit may wait for what has ended.
pub const SETTLES_MANY: usize = 16;
pub const SETTLE_GATHER: Duration = Duration::from_millis(4);
/// A settle that is not answered is repeated: the result of work is not given up lightly.
pub const SETTLE_TRIES: u32 = 20;
pub const SETTLE_AGAIN_FIRST: Duration = Duration::from_millis(50);
pub const SETTLE_AGAIN_MAX: Duration = Duration::from_secs(2);

// Signatures.
/// How old or how far ahead a signature's timestamp may be.
pub const SIGNATURE_AGE_MAX: i64 = 300;
/// Secrets that sign at once: the new one and those still in their overlap.
pub const SECRETS_MAX: usize = 4;
