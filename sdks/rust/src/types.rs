//! What is said and answered. Answers may grow: fields that are not named here are ignored.

mod answer;
mod filter;
mod job;
mod work;

pub use answer::*;
pub use filter::*;
pub use job::*;
pub use work::*;
