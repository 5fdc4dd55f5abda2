//! What is wrong with a schedule: which field, where in it, what is allowed there.

use std::fmt;

/// What is wrong with a schedule: which field, where in it, what is allowed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleError {
    /// The JSON name: `cron`, `timezone`, `every`, `jitter`, …
    pub field: &'static str,
    /// 1-based column inside the expression, where one applies.
    pub column: Option<usize>,
    pub message: String,
    pub did_you_mean: Option<String>,
}

impl ScheduleError {
    pub(crate) fn new(field: &'static str, message: impl Into<String>) -> ScheduleError {
        ScheduleError { field, column: None, message: message.into(), did_you_mean: None }
    }

    /// An error of the cron expression; `at` is the 0-based place.
    pub(crate) fn cron(at: usize, message: impl Into<String>) -> ScheduleError {
        ScheduleError { column: Some(at + 1), ..ScheduleError::new("cron", message) }
    }

    pub(crate) fn suggest(mut self, name: Option<String>) -> ScheduleError {
        self.did_you_mean = name;
        self
    }
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.field)?;
        if let Some(column) = self.column {
            write!(f, ", column {column}")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(name) = &self.did_you_mean {
            write!(f, " (did you mean {name}?)")?;
        }
        Ok(())
    }
}

impl std::error::Error for ScheduleError {}
