//! A row of PostgreSQL for the readers of `store`.

use crate::error::Fault;
use store::codec::columns::{self, Raw};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

pub(crate) type Cols<'a> = columns::Cols<Answer<'a>>;

#[derive(Debug)]
pub(crate) struct Answer<'a>(&'a Row);

/// Reads `row` from this column on.
pub(crate) fn cols<'a>(row: &'a Row, table: &'static str, at: usize) -> Cols<'a> {
    Cols::new(Answer(row), table, at)
}

impl<'a> Raw<'a> for Answer<'a> {
    type Fault = Fault;

    fn int(&self, at: usize) -> Result<Option<Option<i64>>, Fault> {
        let row = self.0;
        Ok(match row.columns().get(at).map(|column| column.type_()) {
            Some(&Type::INT2) => Some(row.try_get::<_, Option<i16>>(at)?.map(i64::from)),
            Some(&Type::INT4) => Some(row.try_get::<_, Option<i32>>(at)?.map(i64::from)),
            Some(&Type::INT8) => Some(row.try_get(at)?),
            _ => None,
        })
    }

    fn text(&self, at: usize) -> Result<Option<Option<&'a str>>, Fault> {
        match self.0.columns().get(at).map(|column| column.type_()) {
            Some(&Type::TEXT) => Ok(Some(self.0.try_get(at)?)),
            _ => Ok(None),
        }
    }

    fn blob(&self, at: usize) -> Result<Option<Option<&'a [u8]>>, Fault> {
        match self.0.columns().get(at).map(|column| column.type_()) {
            Some(&Type::BYTEA) => Ok(Some(self.0.try_get(at)?)),
            _ => Ok(None),
        }
    }

    fn name(&self, at: usize) -> Option<&str> {
        self.0.columns().get(at).map(|column| column.name())
    }
}
