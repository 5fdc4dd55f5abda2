//! Every bound of the traffic between nodes, named, each with its reason.

use std::time::Duration;

/// Connections for letters to one node. Letters of one command keep to one, so that "the caller hung
/// up" never overtakes the claim it is about.
pub const LANES: usize = 4;
/// Nodes that letters are sent to.
pub const PEERS_MAX: usize = 1_024;
/// A node that wrote to us is answered for so long although its lease row was not seen yet: longer
/// than a renewal takes.
pub const MET_KEPT: Duration = Duration::from_secs(10);
/// Letters that wait for one connection; more are refused at once, and were not heard.
pub const PEER_QUEUE_MAX: usize = 8_192;
/// Letters in one request.
pub const BATCH_LETTERS: usize = 1_024;
/// A request is sent when it is this large; one letter may be larger.
pub const BATCH_BYTES: usize = 1024 * 1024;
/// The largest request that is heard: a batch of jobs as large as the door lets in, and its fields.
pub const BODY_BYTES_MAX: usize = 40 * 1024 * 1024;
/// A node that does not take a connection in this time is not there.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// A connection is used again only if it was idle for less: nodes close idle ones after ten seconds.
pub const IDLE_MAX: Duration = Duration::from_secs(3);
/// A request is answered as soon as it was read: what it asks for is answered in letters.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// What other questions between nodes (how are you, leave) may take.
pub const QUESTION_TIMEOUT: Duration = Duration::from_secs(3);
/// The largest answer to one.
pub const QUESTION_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Between two lines in the log about a node that does not take what is sent.
pub const TROUBLE_EVERY: Duration = Duration::from_secs(10);
