//! Webhooks. The executor is a worker like any other: it claims runs of kind `http`, sends them and
//! settles. It lives in the node's process, so its attempts end with the node.
//!
//! - `claim`: one waiting claim per queue that has webhooks; which those are, the node tells.
//! - `attempt`: one run, from its definition to its settle.
//! - `send`: one request: resolve, vet every address, dial a vetted one, bounded in time and bytes.
//! - `vet`: which addresses may be dialled. - `sign`: signatures, made and checked.
//! - `verdict`: what an answer means.
//!
//! What it does not do yet: TLS, connection pools, a limit per host, traceparent.

mod attempt;
mod claim;
pub mod limits;
mod send;
pub mod sign;
mod verdict;
pub mod vet;

pub use claim::{Executor, Options};
pub use sign::Secret;
