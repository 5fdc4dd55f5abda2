//! A refused command line, told so that the person can repair it: what is wrong, where, what is
//! allowed there, and the next command to type.

use std::fmt;

use crate::limits::EXCERPT_CHARS;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The flag, `--cron`.
    pub flag: String,
    /// What the user wrote after it.
    pub value: String,
    /// 1-based, in characters, if one place in the value is at fault.
    pub column: Option<usize>,
    pub message: String,
    /// What to write instead.
    pub help: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (excerpt, caret) = excerpt(&self.value, self.column);
        match self.column {
            Some(column) => {
                writeln!(f, "error: {}, column {column}: {}", self.flag, self.message)?;
                writeln!(f, "  {excerpt}")?;
                writeln!(f, "  {:>width$}", '^', width = caret)?;
            }
            None => writeln!(f, "error: {} {excerpt:?}: {}", self.flag, self.message)?,
        }
        writeln!(f, "help: {}", self.help)
    }
}

/// The text around the column, on one line, and where the caret stands under it (1-based).
fn excerpt(value: &str, column: Option<usize>) -> (String, usize) {
    // Control characters would move the caret away from its column, or repaint the terminal.
    let clean = value.chars().map(|c| if c.is_control() { ' ' } else { c });
    let length = value.chars().count();
    if length <= 2 * EXCERPT_CHARS {
        return (clean.collect(), column.unwrap_or(1));
    }
    let column = column.unwrap_or(1).clamp(1, length + 1);
    let from = column.saturating_sub(EXCERPT_CHARS);
    let until = (column + EXCERPT_CHARS).min(length);
    let middle: String = clean.skip(from).take(until - from).collect();
    let (before, shift) = if from > 0 { ("…", 1) } else { ("", 0) };
    let after = if until < length { "…" } else { "" };
    (format!("{before}{middle}{after}"), column - from + shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_column() {
        let text = Fault {
            flag: "--cron".into(),
            value: "0 0 32 * *".into(),
            column: Some(5),
            message: "no".into(),
            help: "yes".into(),
        }
        .to_string();
        assert_eq!(text, "error: --cron, column 5: no\n  0 0 32 * *\n      ^\nhelp: yes\n");
    }

    #[test]
    fn a_long_value_is_cut_and_the_caret_still_points_at_it() {
        let value = format!("{}X{}", "a".repeat(5_000), "b".repeat(5_000));
        let (text, caret) = excerpt(&value, Some(5_001));
        assert!(text.chars().count() <= 2 * EXCERPT_CHARS + 2);
        assert_eq!(text.chars().nth(caret - 1), Some('X'));
        // At both ends too, and one past the end, where something is missing.
        for column in [1, 10_001, 10_002, usize::MAX] {
            let (text, caret) = excerpt(&value, Some(column));
            assert!(caret <= text.chars().count() + 1, "column {column}");
        }
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let (text, _) = excerpt("0\t0\n\u{1b}[31m", Some(2));
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}
