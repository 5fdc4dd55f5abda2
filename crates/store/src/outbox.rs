//! What duly asks of a user's outbox: rows that a committed transaction left there, each a job to be
//! submitted. Not a part of the store: it is somebody else's database, and duly only reads from it
//! and takes away what it has submitted.
//!
//! A row may be seen by two readers, and again after it was submitted; `Row::key` tells. Nothing here
//! retries, and calls block.

use model::{Span, Time};
use std::fmt;

pub trait Outbox: Send + Sync + fmt::Debug {
    /// The first rows that can be seen, in the order of their ids. A row whose transaction commits
    /// later may have a lower id than one that was seen before, and is in a later page all the same.
    fn page(&self, ask: &Ask) -> Result<Page, String>;
    /// Takes away what was submitted, and moves what was refused to where a person finds it.
    fn settle(&self, settle: &Settle) -> Result<Settled, String>;
    /// How much is there.
    fn look(&self) -> Result<Look, String>;
}

/// Which rows are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Rows of these queues are left where they are.
    pub without: Vec<String>,
    pub rows: usize,
    /// Of all jobs in the page; the first one is there however large it is.
    pub bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub id: i64,
    /// Its own, whatever becomes of the database: a copy that is restored gives ids a second time.
    pub key: String,
    /// When the transaction called, by the database's clock.
    pub at: Time,
    /// How long ago that was when the page was read, by the same clock.
    pub age: Span,
    pub queue: String,
    /// The job as it would be sent to `POST /v1/jobs`.
    pub job: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub rows: Vec<Row>,
    /// There may be others behind these.
    pub more: bool,
}

/// A row that can never become a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub id: i64,
    pub code: String,
    pub problem: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settle {
    pub delivered: Vec<i64>,
    pub refused: Vec<Refused>,
}

/// What this call took away. Less than was asked if another reader was quicker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    pub delivered: u64,
    pub refused: u64,
}

/// Counts are exact up to `COUNT_MAX`; one more than that means "or more".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    pub waiting: u64,
    pub oldest: Option<Span>,
    pub refused: u64,
}

/// Rows that are counted; a backlog of millions is not counted every few seconds.
pub const COUNT_MAX: u64 = 10_000;
