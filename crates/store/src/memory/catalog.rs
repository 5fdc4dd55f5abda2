//! Entries of the whole cluster, in one ordered map.

use super::MemoryStore;
use crate::catalog::{Changed, Entry, EntryChange, List, Place};
use crate::{StoreError, catalog};
use model::{Namespace, Text, Time};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    entries: BTreeMap<Place, Entry>,
    /// The last revision that was given.
    rev: u64,
}

impl Entries {
    fn change(&mut self, changes: &[EntryChange], now: Time) -> Changed {
        let mut next = self.clone();
        next.rev += 1;
        for (index, change) in changes.iter().enumerate() {
            let found = next.entries.get(&change.place).map(|entry| entry.rev);
            if found != change.expect {
                return Changed::Other { index };
            }
            match &change.text {
                Some(text) => {
                    let place = change.place.clone();
                    let entry = Entry { place, rev: next.rev, at: now, text: text.clone() };
                    next.entries.insert(change.place.clone(), entry);
                }
                None => {
                    next.entries.remove(&change.place);
                }
            }
        }
        *self = next;
        Changed::Made { rev: self.rev }
    }

    fn list(&self, list: &List) -> Vec<Entry> {
        let first = list.namespace.unwrap_or(Namespace(0));
        let after = list.after.clone().filter(|(namespace, _)| *namespace >= first);
        let place =
            |(namespace, name): (Namespace, Text)| Place { kind: list.kind, namespace, name };
        let rows = match after {
            Some(after) => self.entries.range((Excluded(place(after)), Unbounded)),
            None => self.entries.range(place((first, Text::from("")))..),
        };
        rows.map(|(_, entry)| entry)
            .take_while(|entry| entry.place.kind == list.kind)
            .take_while(|entry| list.namespace.is_none_or(|only| entry.place.namespace == only))
            .take(list.limit)
            .cloned()
            .collect()
    }
}

impl catalog::Catalog for MemoryStore {
    fn entries(&self, places: &[Place]) -> Result<Vec<Option<Entry>>, StoreError> {
        let state = self.state();
        let entries = &state.data.catalog.entries;
        Ok(places.iter().map(|place| entries.get(place).cloned()).collect())
    }

    fn list_entries(&self, list: &List) -> Result<Vec<Entry>, StoreError> {
        Ok(self.state().data.catalog.list(list))
    }

    fn change_entries(&self, changes: &[EntryChange]) -> Result<Changed, StoreError> {
        let mut state = self.state();
        let now = state.now;
        Ok(state.data.catalog.change(changes, now))
    }
}
