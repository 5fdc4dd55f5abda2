//! Reads a row's columns one after the other. What does not fit is an error that names the table,
//! the row (by the first columns) and the column.

use crate::error::{Fault, Res};
use model::row::BacklogId;
use model::{Bytes, JobId, RunId, Span, Text, Time};
use store::codec::codes::Code;
use store::codec::ids;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

/// How many columns say which row it is.
const NAMED_BY: usize = 4;

pub(crate) struct Cols<'a> {
    row: &'a Row,
    table: &'static str,
    at: usize,
}

impl<'a> Cols<'a> {
    /// Begins at this column.
    pub fn from(row: &'a Row, table: &'static str, at: usize) -> Cols<'a> {
        Cols { row, table, at }
    }

    /// About the column that was read last.
    pub fn odd(&self) -> Fault {
        self.odd_before(0)
    }

    /// About the column that was read `back` columns before the last.
    pub fn odd_before(&self, back: usize) -> Fault {
        use std::fmt::Write;
        let mut text = format!("table {}, row", self.table);
        let last = self.at.saturating_sub(1 + back);
        for (n, at) in (0..NAMED_BY).chain([last]).enumerate() {
            let Some(column) = self.row.columns().get(at) else { continue };
            if n == NAMED_BY {
                text.push_str(": not known:");
            }
            // Writing to a String cannot fail.
            let _ = write!(text, " {}={}", column.name(), self.show(at));
        }
        Fault::Odd(text)
    }

    fn show(&self, at: usize) -> String {
        if let Ok(value) = self.int_at(at) {
            return value.map_or("NULL".into(), |value| value.to_string());
        }
        if let Ok(value) = self.row.try_get::<_, &str>(at) {
            return format!("'{value}'");
        }
        match self.row.try_get::<_, &[u8]>(at) {
            Ok(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            Err(_) => "?".into(),
        }
    }

    fn need<T>(&self, value: Option<T>) -> Res<T> {
        value.ok_or_else(|| self.odd())
    }

    pub fn skip(&mut self, columns: usize) {
        self.at += columns;
    }

    fn int_at(&self, at: usize) -> Result<Option<i64>, tokio_postgres::Error> {
        let row = self.row;
        match row.columns().get(at).map(|column| column.type_()) {
            Some(&Type::INT2) => Ok(row.try_get::<_, Option<i16>>(at)?.map(i64::from)),
            Some(&Type::INT4) => Ok(row.try_get::<_, Option<i32>>(at)?.map(i64::from)),
            _ => row.try_get(at),
        }
    }

    pub fn opt_int(&mut self) -> Res<Option<i64>> {
        let value = self.int_at(self.at)?;
        self.at += 1;
        Ok(value)
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
        let value = self.row.try_get(self.at)?;
        self.at += 1;
        Ok(value)
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
        let value = self.row.try_get(self.at)?;
        self.at += 1;
        Ok(value)
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
