//! How the nodes of one cluster talk to each other: letters over HTTP/1.1, in an encoding of their
//! own (`codec`), each request proven by the cluster's secret (`secret`).
//!
//! ```text
//!   driver ─► lane (bounded queue) ─► request with many letters ─► door ─► driver of the other node
//!      ▲        nothing written, or refused: they bounce             │
//!      └──────────────────────────────────────────────────────────────┘  answers are letters, too
//! ```
//!
//! - `send`: lanes to each node. `receive`: the door and what is behind it. `question`: requests that
//!   are no letters. `wire`: one request and the three ways it can end.
//!
//! What it does not do: decide anything, know which node owns a shard, retry a command that may have
//! been heard, hide what is said (no TLS yet), or start tasks of its own (it asks `node`).

pub mod codec;
pub mod limits;
mod question;
mod receive;
mod secret;
mod send;
mod wire;

pub use receive::{Sender, routes};
pub use secret::{SECRET_BYTES_MIN, Secret, node_of, node_text};
pub use send::Peers;
pub use wire::Failed;

/// Where letters go.
pub const LETTERS: &str = "/cluster/v1/letters";
/// The status of an answer that says "none of this was heard".
pub const REFUSED: u16 = 421;
