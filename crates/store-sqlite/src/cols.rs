//! Reads a row's columns one after the other. What does not fit is an error that names the table,
//! the row (by its first columns, which are its key) and the column.

use crate::error::{Fault, Res};
use model::row::BacklogId;
use model::{Bytes, JobId, RunId, Span, Text, Time};
use rusqlite::Row;
use rusqlite::types::ValueRef;
use store::codec::codes::Code;
use store::codec::ids;

/// How many columns say which row it is.
const NAMED_BY: usize = 3;

pub(crate) struct Cols<'a> {
    row: &'a Row<'a>,
    table: &'static str,
    at: usize,
}

impl<'a> Cols<'a> {
    pub fn new(row: &'a Row<'a>, table: &'static str) -> Cols<'a> {
        Cols::from(row, table, 0)
    }

    /// Begins at a later column.
    pub fn from(row: &'a Row<'a>, table: &'static str, at: usize) -> Cols<'a> {
        Cols { row, table, at }
    }

    fn value(&mut self) -> Res<ValueRef<'a>> {
        let value = self.row.get_ref(self.at)?;
        self.at += 1;
        Ok(value)
    }

    /// About the column that was read last.
    pub fn odd(&self) -> Fault {
        self.odd_before(0)
    }

    /// About the column that was read `back` columns before the last.
    pub fn odd_before(&self, back: usize) -> Fault {
        use std::fmt::Write;
        let mut text = format!("table {}, row", self.table);
        let name = |at: usize| self.row.as_ref().column_name(at).unwrap_or("?").to_owned();
        let last = self.at.saturating_sub(1 + back);
        for (n, at) in (0..NAMED_BY).chain([last]).enumerate() {
            let Ok(value) = self.row.get_ref(at) else { continue };
            if n == NAMED_BY {
                text.push_str(": not known:");
            }
            // Writing to a String cannot fail.
            let _ = match value {
                ValueRef::Null => write!(text, " {}=NULL", name(at)),
                ValueRef::Integer(value) => write!(text, " {}={value}", name(at)),
                ValueRef::Real(value) => write!(text, " {}={value}", name(at)),
                ValueRef::Text(value) => {
                    write!(text, " {}='{}'", name(at), String::from_utf8_lossy(value))
                }
                ValueRef::Blob(value) => {
                    let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
                    write!(text, " {}=x'{hex}'", name(at))
                }
            };
        }
        Fault::Odd(text)
    }

    fn need<T>(&self, value: Option<T>) -> Res<T> {
        value.ok_or_else(|| self.odd())
    }

    pub fn skip(&mut self, columns: usize) {
        self.at += columns;
    }

    pub fn opt_int(&mut self) -> Res<Option<i64>> {
        match self.value()? {
            ValueRef::Integer(value) => Ok(Some(value)),
            ValueRef::Null => Ok(None),
            _ => Err(self.odd()),
        }
    }

    pub fn int(&mut self) -> Res<i64> {
        let value = self.opt_int()?;
        self.need(value)
    }

    /// An integer of a narrower type.
    pub fn num<T: TryFrom<i64>>(&mut self) -> Res<T> {
        let value = self.int()?;
        self.need(T::try_from(value).ok())
    }

    /// All 64 bits of an unsigned number.
    pub fn bits(&mut self) -> Res<u64> {
        self.int().map(|value| value as u64)
    }

    pub fn flag(&mut self) -> Res<bool> {
        self.int().map(|value| value != 0)
    }

    pub fn time(&mut self) -> Res<Time> {
        self.int().map(Time::from_micros)
    }

    pub fn opt_time(&mut self) -> Res<Option<Time>> {
        Ok(self.opt_int()?.map(Time::from_micros))
    }

    pub fn span(&mut self) -> Res<Span> {
        self.int().map(Span::from_micros)
    }

    pub fn code<T: Code>(&mut self) -> Res<T> {
        let value = self.int()?;
        self.need(T::from_code(value))
    }

    pub fn opt_str(&mut self) -> Res<Option<&'a str>> {
        match self.value()? {
            ValueRef::Text(value) => self.need(std::str::from_utf8(value).ok()).map(Some),
            ValueRef::Null => Ok(None),
            _ => Err(self.odd()),
        }
    }

    pub fn str(&mut self) -> Res<&'a str> {
        let value = self.opt_str()?;
        self.need(value)
    }

    pub fn text(&mut self) -> Res<Text> {
        self.str().map(Text::from)
    }

    pub fn opt_text(&mut self) -> Res<Option<Text>> {
        Ok(self.opt_str()?.map(Text::from))
    }

    pub fn group(&mut self) -> Res<Option<Text>> {
        let text = self.str()?;
        self.need(ids::group_of(text))
    }

    pub fn opt_blob(&mut self) -> Res<Option<&'a [u8]>> {
        match self.value()? {
            ValueRef::Blob(value) => Ok(Some(value)),
            ValueRef::Null => Ok(None),
            _ => Err(self.odd()),
        }
    }

    pub fn blob(&mut self) -> Res<&'a [u8]> {
        let value = self.opt_blob()?;
        self.need(value)
    }

    pub fn bytes(&mut self) -> Res<Bytes> {
        self.blob().map(Bytes::from)
    }

    pub fn run(&mut self) -> Res<RunId> {
        let bytes = self.blob()?;
        self.need(ids::run_id(bytes))
    }

    pub fn opt_run(&mut self) -> Res<Option<RunId>> {
        match self.opt_blob()? {
            Some(bytes) => self.need(ids::run_id(bytes)).map(Some),
            None => Ok(None),
        }
    }

    pub fn job(&mut self) -> Res<JobId> {
        let bytes = self.blob()?;
        self.need(ids::job_id(bytes))
    }

    pub fn backlog(&mut self) -> Res<BacklogId> {
        let bytes = self.blob()?;
        self.need(ids::backlog_id(bytes))
    }
}
