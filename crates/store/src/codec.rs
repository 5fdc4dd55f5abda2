//! How values of the model are written down by databases: ids as bytes, enums as numbers, specs as
//! fields. All databases use these, so that they agree; none of it knows SQL.

pub mod codes;
pub mod columns;
pub mod encode;
pub mod ids;
pub mod queues;
pub mod rows;

pub use codes::Code;

/// A value that this code cannot write down, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotKnown(pub String);
