//! A row of SQLite for the readers of `store`.

use crate::error::Fault;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use store::codec::columns::{self, Raw};

pub(crate) type Cols<'a> = columns::Cols<Answer<'a>>;

#[derive(Debug)]
pub(crate) struct Answer<'a>(&'a Row<'a>);

/// Reads `row` from this column on.
pub(crate) fn cols<'a>(row: &'a Row<'a>, table: &'static str, at: usize) -> Cols<'a> {
    Cols::new(Answer(row), table, at)
}

impl<'a> Raw<'a> for Answer<'a> {
    type Fault = Fault;

    fn int(&self, at: usize) -> Result<Option<Option<i64>>, Fault> {
        Ok(match self.0.get_ref(at)? {
            ValueRef::Integer(value) => Some(Some(value)),
            ValueRef::Null => Some(None),
            _ => None,
        })
    }

    fn text(&self, at: usize) -> Result<Option<Option<&'a str>>, Fault> {
        Ok(match self.0.get_ref(at)? {
            ValueRef::Text(value) => std::str::from_utf8(value).ok().map(Some),
            ValueRef::Null => Some(None),
            _ => None,
        })
    }

    fn blob(&self, at: usize) -> Result<Option<Option<&'a [u8]>>, Fault> {
        Ok(match self.0.get_ref(at)? {
            ValueRef::Blob(value) => Some(Some(value)),
            ValueRef::Null => Some(None),
            _ => None,
        })
    }

    fn name(&self, at: usize) -> Option<&str> {
        self.0.as_ref().column_name(at).ok()
    }
}
