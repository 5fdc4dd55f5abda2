//! Reads a row's columns one after the other, for every database. What does not fit is an error that
//! names the table, the row (by its first columns) and the column.

use super::codes::Code;
use super::{NotKnown, ids};
use model::row::BacklogId;
use model::{Bytes, JobId, RunId, Span, Text, Time};

/// A row as a database brings it. Each answers `None` where the column is of another kind.
pub trait Raw<'a> {
    type Fault: From<NotKnown>;

    fn int(&self, at: usize) -> Result<Option<Option<i64>>, Self::Fault>;
    fn text(&self, at: usize) -> Result<Option<Option<&'a str>>, Self::Fault>;
    fn blob(&self, at: usize) -> Result<Option<Option<&'a [u8]>>, Self::Fault>;
    /// None: there is no such column.
    fn name(&self, at: usize) -> Option<&str>;
}

/// How many columns say which row it is.
const NAMED_BY: usize = 4;

#[derive(Debug)]
pub struct Cols<R> {
    row: R,
    table: &'static str,
    at: usize,
}

impl<'a, R: Raw<'a>> Cols<R> {
    /// Begins at this column.
    pub fn new(row: R, table: &'static str, at: usize) -> Cols<R> {
        Cols { row, table, at }
    }

    /// About the column that was read last.
    pub fn odd(&self) -> R::Fault {
        self.odd_before(0)
    }

    /// About the column that was read `back` columns before the last.
    pub fn odd_before(&self, back: usize) -> R::Fault {
        use std::fmt::Write;
        let mut text = format!("table {}, row", self.table);
        let last = self.at.saturating_sub(1 + back);
        for (n, at) in (0..NAMED_BY).chain([last]).enumerate() {
            let Some(name) = self.row.name(at) else { continue };
            if n == NAMED_BY {
                text.push_str(": not known:");
            }
            // Writing to a String cannot fail.
            let _ = write!(text, " {name}={}", self.show(at));
        }
        NotKnown(text).into()
    }

    fn show(&self, at: usize) -> String {
        if let Ok(Some(value)) = self.row.int(at) {
            return value.map_or("NULL".into(), |value| value.to_string());
        }
        if let Ok(Some(value)) = self.row.text(at) {
            return value.map_or("NULL".into(), |value| format!("'{value}'"));
        }
        match self.row.blob(at) {
            Ok(Some(value)) => value.map_or("NULL".into(), |bytes| {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("x'{hex}'")
            }),
            _ => "?".into(),
        }
    }

    fn need<T>(&self, value: Option<T>) -> Result<T, R::Fault> {
        value.ok_or_else(|| self.odd())
    }

    fn step(&mut self) -> usize {
        self.at += 1;
        self.at - 1
    }

    pub fn skip(&mut self, columns: usize) {
        self.at += columns;
    }

    pub fn opt_int(&mut self) -> Result<Option<i64>, R::Fault> {
        let at = self.step();
        let value = self.row.int(at)?;
        value.ok_or_else(|| self.odd())
    }

    pub fn int(&mut self) -> Result<i64, R::Fault> {
        let value = self.opt_int()?;
        self.need(value)
    }

    /// An integer of a narrower type.
    pub fn num<T: TryFrom<i64>>(&mut self) -> Result<T, R::Fault> {
        let value = self.int()?;
        self.need(T::try_from(value).ok())
    }

    /// All 64 bits of an unsigned number.
    pub fn bits(&mut self) -> Result<u64, R::Fault> {
        self.int().map(|value| value as u64)
    }

    pub fn flag(&mut self) -> Result<bool, R::Fault> {
        self.int().map(|value| value != 0)
    }

    pub fn time(&mut self) -> Result<Time, R::Fault> {
        self.int().map(Time::from_micros)
    }

    pub fn opt_time(&mut self) -> Result<Option<Time>, R::Fault> {
        Ok(self.opt_int()?.map(Time::from_micros))
    }

    pub fn span(&mut self) -> Result<Span, R::Fault> {
        self.int().map(Span::from_micros)
    }

    pub fn code<T: Code>(&mut self) -> Result<T, R::Fault> {
        let value = self.int()?;
        self.need(T::from_code(value))
    }

    pub fn opt_str(&mut self) -> Result<Option<&'a str>, R::Fault> {
        let at = self.step();
        let value = self.row.text(at)?;
        value.ok_or_else(|| self.odd())
    }

    pub fn str(&mut self) -> Result<&'a str, R::Fault> {
        let value = self.opt_str()?;
        self.need(value)
    }

    pub fn text(&mut self) -> Result<Text, R::Fault> {
        self.str().map(Text::from)
    }

    pub fn opt_text(&mut self) -> Result<Option<Text>, R::Fault> {
        Ok(self.opt_str()?.map(Text::from))
    }

    pub fn group(&mut self) -> Result<Option<Text>, R::Fault> {
        let text = self.str()?;
        self.need(ids::group_of(text))
    }

    pub fn opt_blob(&mut self) -> Result<Option<&'a [u8]>, R::Fault> {
        let at = self.step();
        let value = self.row.blob(at)?;
        value.ok_or_else(|| self.odd())
    }

    pub fn blob(&mut self) -> Result<&'a [u8], R::Fault> {
        let value = self.opt_blob()?;
        self.need(value)
    }

    pub fn bytes(&mut self) -> Result<Bytes, R::Fault> {
        self.blob().map(Bytes::from)
    }

    pub fn run(&mut self) -> Result<RunId, R::Fault> {
        let bytes = self.blob()?;
        self.need(ids::run_id(bytes))
    }

    pub fn opt_run(&mut self) -> Result<Option<RunId>, R::Fault> {
        match self.opt_blob()? {
            Some(bytes) => self.need(ids::run_id(bytes)).map(Some),
            None => Ok(None),
        }
    }

    pub fn job(&mut self) -> Result<JobId, R::Fault> {
        let bytes = self.blob()?;
        self.need(ids::job_id(bytes))
    }

    pub fn backlog(&mut self) -> Result<BacklogId, R::Fault> {
        let bytes = self.blob()?;
        self.need(ids::backlog_id(bytes))
    }
}
