//! What lists are narrowed to, and what operations are asked for.

use crate::setters::{plain, texts};
use crate::time::When;
use serde::Serialize;
use serde_json::Value;

/// Which jobs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct JobFilter {
    status: Option<String>,
    queue: Option<String>,
    tag: Option<String>,
    owner: Option<String>,
    q: Option<String>,
    limit: Option<usize>,
}

impl JobFilter {
    /// All.
    pub fn new() -> JobFilter {
        JobFilter::default()
    }

    texts! {
        /// A state, or `pending`, `finished`, `failed`.
        status: String,
        /// Of one queue.
        queue: String,
        /// `name` or `name:value`.
        tag: String,
        /// Of one owner.
        owner: String,
        /// Words to look for.
        q: String,
    }

    plain! {
        /// The size of a page.
        limit: usize,
    }

    pub(crate) fn query(self) -> Vec<(&'static str, String)> {
        let limit = self.limit.map(|limit| limit.to_string());
        given([
            ("status", self.status),
            ("queue", self.queue),
            ("tag", self.tag),
            ("owner", self.owner),
            ("q", self.q),
            ("limit", limit),
        ])
    }
}

/// Which runs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunFilter {
    job: Option<String>,
    status: Option<String>,
    queue: Option<String>,
    worker: Option<String>,
    cause: Option<String>,
    q: Option<String>,
    since: Option<When>,
    until: Option<When>,
    limit: Option<usize>,
}

impl RunFilter {
    /// All.
    pub fn new() -> RunFilter {
        RunFilter::default()
    }

    texts! {
        /// Of one job, by its id or name.
        job: String,
        /// A state, or `pending`, `finished`, `failed`.
        status: String,
        /// Of one queue.
        queue: String,
        /// That this worker had.
        worker: String,
        /// `schedule`, `trigger`, `backfill`, `rerun` …
        cause: String,
        /// Words to look for.
        q: String,
        /// Not older.
        since: When,
        /// Not newer.
        until: When,
    }

    plain! {
        /// The size of a page.
        limit: usize,
    }

    pub(crate) fn query(self) -> Vec<(&'static str, String)> {
        let limit = self.limit.map(|limit| limit.to_string());
        given([
            ("job", self.job),
            ("status", self.status),
            ("queue", self.queue),
            ("worker", self.worker),
            ("cause", self.cause),
            ("q", self.q),
            ("since", self.since.map(|at| at.as_str().to_string())),
            ("until", self.until.map(|at| at.as_str().to_string())),
            ("limit", limit),
        ])
    }
}

/// Instants of the past that shall become runs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Backfill {
    from: When,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<When>,
    #[serde(skip_serializing_if = "Option::is_none")]
    only: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<bool>,
    #[serde(skip)]
    pub(crate) idempotency_key: Option<String>,
}

impl Backfill {
    /// From this instant on, those that are missing.
    pub fn since(from: impl Into<When>) -> Backfill {
        let from = from.into();
        Backfill { from, to: None, only: None, rate: None, dry_run: None, idempotency_key: None }
    }

    texts! {
        /// Up to this instant.
        to: When,
        /// `missing`, `failed` or `all`.
        only: String,
        /// Such as `10/s`.
        rate: String,
        /// The same key makes one operation. A new key is sent if none is given.
        idempotency_key: String,
    }

    plain! {
        /// Only says what it would do.
        dry_run: bool,
    }
}

/// Which dead runs an operation is about, and how fast.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Bulk {
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
    #[serde(skip)]
    pub(crate) idempotency_key: Option<String>,
}

impl Bulk {
    /// These runs.
    pub fn ids<S: Into<String>>(ids: impl IntoIterator<Item = S>) -> Bulk {
        Bulk { ids: Some(ids.into_iter().map(Into::into).collect()), ..Bulk::default() }
    }

    /// The dead runs that fit, such as `{"queue": "bills"}`.
    pub fn filter(filter: impl Into<Value>) -> Bulk {
        Bulk { filter: Some(filter.into()), ..Bulk::default() }
    }

    texts! {
        /// Such as `10/s`.
        rate: String,
        /// The same key makes one operation. A new key is sent if none is given.
        idempotency_key: String,
    }
}

/// The parts of a query that were given.
pub(crate) fn given<const N: usize>(
    pairs: [(&'static str, Option<String>); N],
) -> Vec<(&'static str, String)> {
    pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
