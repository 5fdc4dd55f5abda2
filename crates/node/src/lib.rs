//! One process of duly: drives the pure core (`shard::Host`) over a store, with real time and real
//! threads. The simulator drives the same `Host`; nothing here decides anything about a job.
//!
//! ```text
//!   callers ──► input (bounded) ──► driver thread: owns the Host
//!                   ▲                  │ calls            │ replies, stops
//!                   └── lanes ◄────────┘                  ▼
//!        commit lane │ read lane │ ownership lane     callers' oneshots
//! ```
//!
//! - The driver never blocks on a store or a caller: each lane holds one call, the others wait in
//!   the driver in order. Renewals have a lane of their own, so a slow commit costs no lease.
//! - A caller that goes away (its future is dropped) is told to the core, which undoes its claim.
//! - A panic anywhere ends the process (`tasks::end_on_panic`): no part dies silently.
//!
//! `names` and `namespaces` keep their entries in the store's catalog; `retention` ends history.
//!
//! - Messages to other nodes are handed to whoever carries them (`post`); what could not be carried
//!   comes back as not heard. `view` is the cluster as this node sees it.
//!
//! What it does not do: speak HTTP (`peers` carries the letters), write outside the store.

pub mod bucket;
pub mod bulk;
mod calls;
pub mod clock;
pub mod crash;
mod driver;
pub mod events;
mod handle;
mod lanes;
pub mod limits;
pub mod metrics;
pub mod names;
pub mod namespaces;
mod post;
pub mod queues;
pub mod random;
mod rates;
mod retention;
mod seen;
mod specs;
mod start;
mod steer;
mod stops;
pub mod tasks;
mod tenants;
mod view;

pub use handle::{NodeHandle, Reading};
pub use post::{Changed, Letter, Post};
pub use rates::Rate;
pub use retention::Retention;
pub use seen::SeenQueue;
pub use start::{Node, Options};
pub use stops::Stopped;
pub use tasks::Tasks;
pub use view::View;
