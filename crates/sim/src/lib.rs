//! The whole cluster in one process, from one seed. See `world.rs` for how a story goes.

pub mod calls;
pub mod campaign;
mod carry;
pub mod checker;
mod clock;
mod event;
mod executor;
mod faults;
mod fires;
mod leave;
mod levels;
pub mod limited;
pub mod log;
pub mod options;
pub mod rng;
pub mod run;
mod stall;
mod worker;
mod workload;
pub mod world;
