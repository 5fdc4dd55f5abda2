//! How a command ends badly: a sentence, the next command to type, and an exit code.

use std::fmt;

pub const EXIT_FAILED: u8 = 1;
pub const EXIT_USAGE: u8 = 2;
pub const EXIT_NOT_FOUND: u8 = 3;
pub const EXIT_REFUSED: u8 = 4;
pub const EXIT_UNREACHABLE: u8 = 5;
/// The run that was waited for ended badly.
pub const EXIT_BAD_END: u8 = 6;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub exit: u8,
    pub message: String,
    /// What to type next.
    pub help: String,
}

impl Failure {
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure { exit: EXIT_FAILED, message: message.into(), help: "duly --help".to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.message)?;
        writeln!(f, "help: {}", self.help)
    }
}
