//! How duly speaks to the outside: the JSON shapes of its answers, and durations and timestamps as
//! text. The command line, the HTTP interface and the clients read and write the same words, so
//! the rules for them live here once.
//!
//! This crate knows no other crate of the project: plain numbers come in and go out (instants and
//! lengths are i64 microseconds), and it neither checks schedules nor reads a clock.

pub mod answer;
pub mod broker;
pub mod duration;
pub mod fields;
pub mod host;
pub mod job;
pub mod limits;
pub mod preview;
pub mod problem;
pub mod queue;
pub mod shape;
pub mod text;
pub mod timestamp;
pub mod trace;
pub mod webhook;
pub mod work;

pub use fields::{Faults, Object, WordOr};
pub use preview::{DstDate, DstKind, Instant, Preview};
pub use problem::{FieldFault, Problem};
pub use text::TextError;
