//! Plain types, one word per idea (ARCHITECTURE.md lists them). Nothing here does I/O, reads a
//! clock or knows how anything is stored or sent.

pub mod cluster;
pub mod hash;
pub mod id;
pub mod job;
pub mod queue;
pub mod read;
pub mod row;
pub mod run;
pub mod schedule;
mod text;
pub mod time;

pub use id::{Cause, Epoch, JobId, KeyId, Namespace, NodeId, RunId, ShardId, Slot, Token};
pub use job::{
    Author, Broker, Bytes, CatchUp, Origin, Overlap, Policy, Spec, Target, Text, Within,
};
pub use queue::{QueueRow, Rate};
pub use run::{FlowKey, Lane, Priority, RunState, Status};
pub use schedule::{Dialect, Dst, Gap, Repeat, ScheduleSpec, When};
pub use text::civil_from_days;
pub use time::{Span, Time};
