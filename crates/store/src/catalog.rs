//! Small things of the whole cluster that belong to no shard: namespaces, names of jobs, queues,
//! API keys, operations. An **entry** has a place and a text; a change names the revision that it
//! replaces, so that of two who change the same entry one is told.
//!
//! - All changes of one call are made together, or none.
//! - Revisions are numbers that no other entry ever gets, also not one that is removed and made
//!   again: whoever read an entry can trust that the same revision is the same entry.
//! - The texts are JSON, written and read by whoever owns the kind; the store does not look inside.
//!
//! What it does not do: fence (no shard owns an entry), or index texts.

use crate::StoreError;
use model::{Namespace, Text, Time};

pub trait Catalog: Send + Sync {
    /// In the order of the places.
    fn entries(&self, places: &[Place]) -> Result<Vec<Option<Entry>>, StoreError>;
    /// The revision of the last change that this process's node has seen with its lease's renewal, so
    /// that whoever follows entries need not ask while nothing changed. None: not known, so ask.
    fn seen_rev(&self) -> Option<u64> {
        None
    }
    /// Entries of one kind in the order of (namespace, name).
    fn list_entries(&self, list: &List) -> Result<Vec<Entry>, StoreError>;
    /// Durable before it answers.
    fn change_entries(&self, changes: &[EntryChange]) -> Result<Changed, StoreError>;
}

/// Stored as numbers: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A tenant: its name → its number.
    Namespace,
    /// The other way round, so that no number is given twice.
    NamespaceNumber,
    /// A name that a job has or is about to have → the job.
    Name,
    /// A queue that has been used, with its settings.
    Queue,
    ApiKey,
    /// Something long that a person asked for, with its progress.
    Operation,
    /// What the whole cluster has agreed on.
    Setting,
}

impl Kind {
    pub const ALL: [Kind; 7] = [
        Kind::Namespace,
        Kind::NamespaceNumber,
        Kind::Name,
        Kind::Queue,
        Kind::ApiKey,
        Kind::Operation,
        Kind::Setting,
    ];
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub kind: Kind,
    pub namespace: Namespace,
    pub name: Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub place: Place,
    pub rev: u64,
    /// When it was written last, by the store's clock.
    pub at: Time,
    pub text: Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    pub kind: Kind,
    /// Of one namespace, or of all.
    pub namespace: Option<Namespace>,
    /// Strictly after this one.
    pub after: Option<(Namespace, Text)>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryChange {
    pub place: Place,
    /// The revision that stands there; none = nothing does.
    pub expect: Option<u64>,
    /// What stands there afterwards; none removes it.
    pub text: Option<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// All were made; those that left an entry gave it this revision.
    Made { rev: u64 },
    /// The change with this index did not find what it expected. Nothing was changed.
    Other { index: usize },
}
