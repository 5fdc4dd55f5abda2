//! Rows on their way to the functions of `table`: one call per table and verb, with an array per
//! column.

use crate::conn::Param;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use tokio_postgres::types::Type;

/// In the order in which the functions are called: what is replaced goes before what replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Remove,
    Update,
    Insert,
    Absent,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Verb::Remove => "remove",
            Verb::Update => "update",
            Verb::Insert => "insert",
            Verb::Absent => "absent",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Int(Option<i64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
}

macro_rules! from {
    ($($kind:ty => $variant:ident($make:expr);)+) => {$(
        impl From<$kind> for Value {
            fn from(value: $kind) -> Value {
                let make: fn($kind) -> _ = $make;
                Value::$variant(make(value))
            }
        }
    )+};
}

from! {
    i64 => Int(Some);
    u8 => Int(|value| Some(value.into()));
    u16 => Int(|value| Some(value.into()));
    u32 => Int(|value| Some(value.into()));
    // All 64 bits of an unsigned number.
    u64 => Int(|value| Some(value as i64));
    bool => Int(|value| Some(value.into()));
    Option<i64> => Int(|value| value);
    Option<u8> => Int(|value| value.map(i64::from));
    Option<u16> => Int(|value| value.map(i64::from));
    Option<u32> => Int(|value| value.map(i64::from));
    Option<u64> => Int(|value| value.map(|value| value as i64));
    &str => Text(|value| Some(value.to_owned()));
    String => Text(Some);
    Option<&str> => Text(|value| value.map(str::to_owned));
    Option<String> => Text(|value| value);
    &[u8] => Bytes(|value| Some(value.to_vec()));
    Vec<u8> => Bytes(Some);
    Option<Vec<u8>> => Bytes(|value| value);
    Option<&[u8]> => Bytes(|value| value.map(<[u8]>::to_vec));
}

/// A row as a list of values, in the order of the table's columns.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::batch::Value::from($value)),*] };
}
pub(crate) use values;

/// A column of many rows.
#[derive(Debug)]
pub(crate) enum Array {
    Int(Vec<Option<i64>>),
    Text(Vec<Option<String>>),
    Bytes(Vec<Option<Vec<u8>>>),
}

impl Array {
    fn of(value: &Value) -> Array {
        match value {
            Value::Int(_) => Array::Int(Vec::new()),
            Value::Text(_) => Array::Text(Vec::new()),
            Value::Bytes(_) => Array::Bytes(Vec::new()),
        }
    }

    /// A table's column has one kind, so the others never meet.
    fn push(&mut self, value: Value) {
        match (self, value) {
            (Array::Int(array), Value::Int(value)) => array.push(value),
            (Array::Text(array), Value::Text(value)) => array.push(value),
            (Array::Bytes(array), Value::Bytes(value)) => array.push(value),
            (Array::Int(array), _) => array.push(None),
            (Array::Text(array), _) => array.push(None),
            (Array::Bytes(array), _) => array.push(None),
        }
    }

    fn len(&self) -> usize {
        match self {
            Array::Int(array) => array.len(),
            Array::Text(array) => array.len(),
            Array::Bytes(array) => array.len(),
        }
    }

    pub fn param(&self) -> Param<'_> {
        match self {
            Array::Int(array) => (array, Type::INT8_ARRAY),
            Array::Text(array) => (array, Type::TEXT_ARRAY),
            Array::Bytes(array) => (array, Type::BYTEA_ARRAY),
        }
    }
}

/// Many rows of the same columns.
#[derive(Debug, Default)]
pub(crate) struct Arrays(pub Vec<Array>);

impl Arrays {
    pub fn push(&mut self, row: Vec<Value>) {
        if self.0.is_empty() {
            self.0 = row.iter().map(Array::of).collect();
        }
        for (array, value) in self.0.iter_mut().zip(row) {
            array.push(value);
        }
    }

    pub fn params(&self) -> Vec<Param<'_>> {
        self.0.iter().map(Array::param).collect()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Batch(BTreeMap<(Verb, Cow<'static, str>), Arrays>);

impl Batch {
    pub fn push(&mut self, table: impl Into<Cow<'static, str>>, verb: Verb, row: Vec<Value>) {
        self.0.entry((verb, table.into())).or_default().push(row);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Rows that it changes.
    pub fn len(&self) -> usize {
        self.0.values().filter_map(|arrays| arrays.0.first()).map(Array::len).sum()
    }

    /// The calls as they stand in a select list, with parameters after the first `used`; `clock` is
    /// what they are told as the time.
    pub fn calls(&self, clock: &str, used: usize) -> (String, Vec<Param<'_>>) {
        let (mut sql, mut params) = (String::new(), Vec::new());
        for ((verb, table), arrays) in &self.0 {
            let separator = if sql.is_empty() { "" } else { ", " };
            // Writing to a String cannot fail.
            let _ = write!(sql, "{separator}duly.{}_{table}({clock}", verb.name());
            for array in &arrays.0 {
                params.push(array.param());
                let _ = write!(sql, ", ${}", used + params.len());
            }
            sql.push(')');
        }
        (sql, params)
    }
}
