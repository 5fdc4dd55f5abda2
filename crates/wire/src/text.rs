//! What is wrong with a piece of text, told so that a person can point at it.

use std::fmt;

/// A refused duration or timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// 1-based, counted in characters, where the trouble begins.
    pub column: usize,
    /// What is wrong and what is allowed, without the text itself.
    pub message: String,
}

impl TextError {
    pub(crate) fn new(column: usize, message: impl Into<String>) -> TextError {
        TextError { column, message: message.into() }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)
    }
}

impl std::error::Error for TextError {}
