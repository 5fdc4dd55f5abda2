//! The core of duly: one shard of the schedule, and the ownership of shards, as pure state
//! machines. No I/O, no clock, no randomness, no threads, no hash-ordered iteration.
//!
//! Read in this order: `shard.rs` (how a command is decided), `lifecycle.rs` (the states of a
//! run), `verbs/` (one file per verb), `pipeline.rs` (commits and their three outcomes), `load.rs`
//! (how memory is filled), `flows.rs` and `timer.rs` (what runs next), then `ownership.rs` and
//! `host.rs` (who owns a shard).

mod batch;
mod clock;
pub mod command;
mod counts;
mod entry;
mod flows;
pub mod host;
mod inbox;
mod leases;
pub mod lifecycle;
pub mod limits;
mod load;
mod ownership;
mod pipeline;
pub mod placement;
pub mod planted;
pub mod quotas;
mod recent;
mod rows;
mod shard;
mod starts;
mod timer;
mod touched;
mod verbs;
mod waiters;
mod write;

pub use batch::{Event, Output};
pub use clock::StoreClock;
pub use counts::Counts;
pub use entry::Entry;
pub use flows::LevelChange;
pub use host::{CallId, Host, HostOutput, Message, StoreAnswer, StoreCall};
pub use ownership::{Findings, Ownership};
pub use pipeline::{CommitEnd, EpochWish};
pub use planted::{Bug, Planted};
pub use quotas::{Allowed, FiresLeft, Quotas};
pub use rows::ReadId;
pub use shard::{Caller, Shard};
