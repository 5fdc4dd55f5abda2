//! Plain types, one word per idea (see ARCHITECTURE.md). Nothing here does I/O, reads a clock
//! or knows how anything is stored or sent.

pub mod schedule;
pub mod time;

pub use schedule::{Dialect, Dst, Gap, Repeat, ScheduleSpec, When};
pub use time::{Span, Time};
