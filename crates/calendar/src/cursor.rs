//! A place in an expression: what comes next, and which column an error belongs to.

use crate::error::ScheduleError;

/// Reads one field of an expression. The text is ASCII, so bytes are columns.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    pub at: usize,
    end: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str, start: usize, end: usize) -> Cursor<'a> {
        Cursor { text: text.as_bytes(), at: start, end: end.min(text.len()) }
    }

    pub fn peek(&self) -> Option<u8> {
        self.ahead(0)
    }

    pub fn ahead(&self, n: usize) -> Option<u8> {
        let at = self.at + n;
        if at < self.end { self.text.get(at).map(u8::to_ascii_uppercase) } else { None }
    }

    /// Takes this byte (in upper case) if it comes next.
    pub fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// A run of digits. Too large a number stays too large; no limit is near `u32::MAX`.
    pub fn number(&mut self) -> Option<u32> {
        let mut number: Option<u32> = None;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            number = Some(
                number.unwrap_or(0).saturating_mul(10).saturating_add(u32::from(digit - b'0')),
            );
            self.at += 1;
        }
        number
    }

    /// A run of letters, in upper case.
    pub fn letters(&self) -> String {
        (0..)
            .map_while(|n| self.ahead(n))
            .take_while(u8::is_ascii_alphabetic)
            .map(char::from)
            .collect()
    }

    pub fn error(&self, message: impl Into<String>) -> ScheduleError {
        ScheduleError::cron(self.at, message)
    }
}
