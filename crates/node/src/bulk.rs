//! Many dead runs replayed or discarded, because a person asked: a durable operation, an entry of the
//! catalog with its progress. One task works at all of them, a slice a second, and writes after each
//! slice how far it came: a process that dies goes on there at its next start. A run that was done
//! already is not dead any more and is not found again.
//!
//! ```text
//!   running ──► done
//!      └──────► cancelled     (what was replayed or discarded stays so)
//! ```

mod text;
mod work;

pub use work::work;

use crate::events::{Happened, What};
use crate::limits::BULK_COUNT_MAX;
use crate::{NodeHandle, Reading};
use model::{JobId, Namespace, RunId, RunState, Text, Time};
use store::catalog::{Changed, Entry, EntryChange, Kind, Place};
use store::search::{FindRuns, States};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Replay,
    Discard,
}

impl Verb {
    pub const fn name(self) -> &'static str {
        match self {
            Verb::Replay => "replay",
            Verb::Discard => "discard",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Running,
    Done,
    Cancelled,
}

impl Status {
    pub const fn name(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Done => "done",
            Status::Cancelled => "cancelled",
        }
    }
}

/// Which dead runs are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meant {
    Ids(Vec<RunId>),
    Filter {
        job: Option<JobId>,
        queue: Option<Text>,
        text: Option<Text>,
        since: Option<Time>,
        until: Option<Time>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bulk {
    pub verb: Verb,
    pub meant: Meant,
    /// Runs per second.
    pub rate: u32,
    pub status: Status,
    pub done: u64,
    /// Runs that were not dead any more when their turn came.
    pub failed: u64,
    /// None: more than were counted.
    pub total: Option<u64>,
    pub created: Time,
    /// Hash of the request under an idempotency key.
    pub body: u64,
    /// Where it goes on: a place in the list of ids, or a cursor of the search.
    pub cursor: Option<Text>,
}

/// An operation as it stands in the catalog.
#[derive(Clone, Debug)]
pub struct Kept {
    pub id: Text,
    pub rev: u64,
    pub namespace: Namespace,
    pub bulk: Bulk,
}

impl Meant {
    pub fn search(&self, namespace: Namespace, after: Option<Text>, limit: usize) -> FindRuns {
        let states = States::of(&[RunState::Dead]);
        let mut find = FindRuns { namespace, states, after, limit, ..FindRuns::default() };
        if let Meant::Filter { job, queue, text, since, until } = self {
            find.job = *job;
            find.queue = queue.clone();
            find.text = text.clone();
            (find.since, find.until) = (*since, *until);
        }
        find
    }
}

/// How many are meant; none if there are more than are counted.
pub async fn count(
    node: &NodeHandle,
    namespace: Namespace,
    meant: &Meant,
) -> Result<Option<u64>, Reading> {
    if let Meant::Ids(ids) = meant {
        return Ok(Some(ids.len() as u64));
    }
    let (mut count, mut after) = (0, None);
    loop {
        let found = node.find_runs(meant.search(namespace, after, BULK_COUNT_MAX)).await?;
        count += found.items.len();
        match found.next {
            None => return Ok(Some(count as u64)),
            Some(_) if count >= BULK_COUNT_MAX => return Ok(None),
            Some(next) => after = Some(next),
        }
    }
}

/// Keeps a new operation under this id and begins. False: the id is taken.
pub async fn begin(
    node: &NodeHandle,
    namespace: Namespace,
    id: &str,
    bulk: &Bulk,
) -> Result<bool, Reading> {
    let place = place(namespace, id);
    let text = Some(Text::from(text::write(bulk)));
    let change = EntryChange { place, expect: None, text };
    let made = matches!(node.change_entries(vec![change]).await?, Changed::Made { .. });
    node.shared.bulk.notify_one();
    node.tell_changed(crate::Changed::Operations);
    Ok(made)
}

pub async fn find(
    node: &NodeHandle,
    namespace: Namespace,
    id: &str,
) -> Result<Option<Kept>, Reading> {
    Ok(node.entry(place(namespace, id)).await?.and_then(|entry| kept(&entry)))
}

/// Stops it. The answer is how it stands then; none if there is none.
pub async fn cancel(
    node: &NodeHandle,
    namespace: Namespace,
    id: &str,
) -> Result<Option<Kept>, Reading> {
    loop {
        let Some(mut kept) = find(node, namespace, id).await? else { return Ok(None) };
        if kept.bulk.status != Status::Running {
            return Ok(Some(kept));
        }
        kept.bulk.status = Status::Cancelled;
        // Another answer means that the worker wrote in between: look again.
        if let Some(written) = write(node, &kept).await? {
            return Ok(Some(written));
        }
    }
}

/// None if somebody else wrote since it was read.
async fn write(node: &NodeHandle, kept: &Kept) -> Result<Option<Kept>, Reading> {
    let change = EntryChange {
        place: place(kept.namespace, &kept.id),
        expect: Some(kept.rev),
        text: Some(Text::from(text::write(&kept.bulk))),
    };
    Ok(match node.change_entries(vec![change]).await? {
        Changed::Made { rev } => {
            tell(node, kept);
            Some(Kept { rev, ..kept.clone() })
        }
        Changed::Other { .. } => None,
    })
}

fn tell(node: &NodeHandle, kept: &Kept) {
    let bulk = &kept.bulk;
    let over = bulk.status != Status::Running;
    let what = What::Bulk { id: kept.id.clone(), done: bulk.done, total: bulk.total, over };
    node.events().tell(Happened {
        seq: 0,
        at: node.now(),
        what,
        namespace: Some(kept.namespace),
        queue: None,
        job: None,
        run: None,
    });
}

fn kept(entry: &Entry) -> Option<Kept> {
    let bulk = text::read(&entry.text)?;
    let Place { namespace, name, .. } = entry.place.clone();
    Some(Kept { id: name, rev: entry.rev, namespace, bulk })
}

fn place(namespace: Namespace, id: &str) -> Place {
    Place { kind: Kind::Operation, namespace, name: Text::from(id) }
}
