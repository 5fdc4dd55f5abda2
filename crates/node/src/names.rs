//! Names of jobs: unique per namespace among unfinished jobs.
//!
//! A name is reserved first (an entry of the catalog that says which job), then the job is made: a
//! crash between the two leaves a reservation without a job, which counts for `RESERVED_FOR` and is
//! free afterwards. Of two who reserve at once, one is told. Whoever finds a name looks whether its
//! job still lives; a name whose job has ended may be taken by another.
//!
//! The entry stays when the job ends, so that a finished job can still be looked up by its name.

use crate::{NodeHandle, Reading};
use model::{JobId, Namespace, Span, Text, Time};
use store::catalog::{Changed, EntryChange, Kind, Place};

/// A reservation whose job is not there yet counts for so long. A submission is decided or given up
/// long before.
pub const RESERVED_FOR: Span = Span::from_secs(60);

/// Who has a name, or is about to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    pub job: JobId,
    /// When, by the store's clock.
    pub at: Time,
    pub rev: u64,
}

impl Reserved {
    /// May a job that is not there still appear?
    pub fn is_fresh(&self, now: Time) -> bool {
        now.since(self.at).micros() < RESERVED_FOR.micros()
    }
}

pub async fn find(
    node: &NodeHandle,
    namespace: Namespace,
    name: &str,
) -> Result<Option<Reserved>, Reading> {
    let entry = node.entry(place(namespace, name)).await?;
    Ok(entry.and_then(|entry| {
        let job = JobId::parse(entry.text.trim_matches('"'))?;
        Some(Reserved { job, at: entry.at, rev: entry.rev })
    }))
}

/// Puts `job` in the place of `former`. False: somebody else was quicker; look again.
pub async fn reserve(
    node: &NodeHandle,
    namespace: Namespace,
    name: &str,
    former: Option<Reserved>,
    job: JobId,
) -> Result<bool, Reading> {
    let text = Some(Text::from(format!("\"{job}\"")));
    let expect = former.map(|former| former.rev);
    let change = EntryChange { place: place(namespace, name), expect, text };
    Ok(matches!(node.change_entries(vec![change]).await?, Changed::Made { .. }))
}

/// Gives a reservation back whose job was refused. Nothing happens if it is another's by now.
pub async fn free(
    node: &NodeHandle,
    namespace: Namespace,
    name: &str,
    job: JobId,
) -> Result<(), Reading> {
    if let Some(reserved) = find(node, namespace, name).await?.filter(|found| found.job == job) {
        let place = place(namespace, name);
        let change = EntryChange { place, expect: Some(reserved.rev), text: None };
        node.change_entries(vec![change]).await?;
    }
    Ok(())
}

fn place(namespace: Namespace, name: &str) -> Place {
    Place { kind: Kind::Name, namespace, name: Text::from(name) }
}
