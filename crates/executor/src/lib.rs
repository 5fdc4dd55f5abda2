//! Webhooks. The executor is a worker like any other: it claims runs of kind `http`, sends them and
//! settles. It lives in the node's process, so its attempts end with the node.
//!
//! ```text
//!   claim ─► breaker ─► slots ─► attempt ─► request (headers, signatures) ─► client ─► verdict ─► settle
//!     one loop   per host,                                   pool │ dial: resolve, vet, connect,
//!     per queue  bounded                                          │       check the peer, TLS
//! ```
//!
//! - `claim`: one waiting claim per queue that has webhooks; which those are, the node tells.
//! - `slots`: how many may go to one host at once, and what happens to the others.
//! - `breaker`: a destination that fails is given less, `destinations`: what is known of each.
//! - `attempt`: one run, from its lease to its end; `settle`: the ends, to the store. `request`: what is said, `sign`: signed.
//! - `client`: one request, on a kept connection (`pool`) or a new one (`dial`, `tls`);
//!   `connection`: one exchange, bounded in time and bytes.
//! - `vet`: which addresses may be dialled. `place`: what a URL means.
//! - `answer`, `verdict`: what was heard, and what it means. `probe`: a target tried by a person.
//!
//! What it does not do: follow redirects, speak HTTP/2, unpack bodies, keep a queue of its own.

mod answer;
mod attempt;
pub mod breaker;
mod claim;
pub mod client;
pub mod command;
mod connection;
mod destinations;
mod dial;
mod from_spec;
pub mod limits;
mod message;
pub mod place;
mod pool;
pub mod probe;
mod publish;
mod request;
pub mod resolve;
pub mod secrets;
mod settle;
pub mod shares;
pub mod sign;
mod slots;
mod stream;
mod tls;
mod trouble;
mod verdict;
pub mod vet;

pub use answer::Heard;
pub use claim::{Executor, Options, Whose};
pub use client::Client;
pub use command::Commands;
pub use connection::Until;
pub use destinations::Destinations;
pub use probe::{Probe, Probed};
pub use secrets::Secrets;
pub use sign::Secret;
pub use trouble::Trouble;
