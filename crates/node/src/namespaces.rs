//! Tenants: a name outside, a number inside. A namespace is made when somebody first writes in it,
//! or gets a key for it, and is never removed: its number is in every key of its rows.
//!
//! Both directions are entries of the catalog, made together, so that no two nodes give a number
//! twice. What was found once never changes, so it is remembered (bounded).

use crate::limits::{NAMESPACE_TRIES, NAMESPACES_KNOWN};
use crate::{NodeHandle, Reading};
use model::{Namespace, Text};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use store::catalog::{Changed, EntryChange, Kind, List, Place};

pub const DEFAULT_NAME: &str = "default";
const DEFAULT: Namespace = Namespace(0);

#[derive(Clone, Debug)]
pub struct Namespaces {
    node: NodeHandle,
    known: Arc<Mutex<BTreeMap<Text, Namespace>>>,
}

/// Lower-case letters, digits, `-` and `_`, 1 to 63, beginning with a letter or digit: it appears in
/// headers, metrics and file names.
pub fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    first
        && name.len() <= 63
        && bytes.all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
        })
}

impl Namespaces {
    pub fn new(node: NodeHandle) -> Namespaces {
        let known = BTreeMap::from([(Text::from(DEFAULT_NAME), DEFAULT)]);
        Namespaces { node, known: Arc::new(Mutex::new(known)) }
    }

    /// None if nobody has written in it yet.
    pub async fn find(&self, name: &str) -> Result<Option<Namespace>, Reading> {
        if let Some(known) = self.known().get(name) {
            return Ok(Some(*known));
        }
        let found = self.node.entry(place(name)).await?;
        let found = found.and_then(|entry| entry.text.parse().ok()).map(Namespace);
        if let Some(namespace) = found {
            self.remember(name, namespace);
        }
        Ok(found)
    }

    /// Finds it or makes it. The name must be one (`is_name`).
    pub async fn find_or_make(&self, name: &str) -> Result<Namespace, Reading> {
        for _ in 0..NAMESPACE_TRIES {
            if let Some(found) = self.find(name).await? {
                return Ok(found);
            }
            let number = self.next_number().await?;
            let entry = |place, text: String| EntryChange {
                place,
                expect: None,
                text: Some(Text::from(text)),
            };
            let changes = vec![
                entry(place(name), number.to_string()),
                entry(number_place(number), format!("{name:?}")),
            ];
            // Somebody else may have been quicker, with this name or with this number.
            if let Changed::Made { .. } = self.node.change_entries(changes).await? {
                self.remember(name, Namespace(number));
                return Ok(Namespace(number));
            }
        }
        Err(Reading)
    }

    /// The name of a number that was given. A number that nobody has is its own name.
    pub async fn name(&self, of: Namespace) -> Result<Text, Reading> {
        if let Some((name, _)) = self.known().iter().find(|(_, number)| **number == of) {
            return Ok(name.clone());
        }
        let found = self.node.entry(number_place(of.0)).await?;
        let Some(entry) = found else { return Ok(Text::from(of.0.to_string())) };
        let name = Text::from(entry.text.trim_matches('"'));
        self.remember(&name, of);
        Ok(name)
    }

    /// All there are, with their numbers, by name.
    pub async fn list(&self, limit: usize) -> Result<Vec<(Text, Namespace)>, Reading> {
        let list = List { kind: Kind::Namespace, namespace: None, after: None, limit };
        let entries = self.node.list_entries(list).await?;
        let mut found: Vec<(Text, Namespace)> = entries
            .into_iter()
            .filter_map(|entry| Some((entry.place.name, Namespace(entry.text.parse().ok()?))))
            .collect();
        found.push((Text::from(DEFAULT_NAME), DEFAULT));
        found.sort();
        Ok(found)
    }

    /// One more than there are: numbers are given without a gap, so a gap cannot hide one.
    async fn next_number(&self) -> Result<u32, Reading> {
        let mut count: u32 = 0;
        let mut after = None;
        loop {
            let list = List {
                kind: Kind::NamespaceNumber,
                namespace: None,
                after,
                limit: NAMESPACES_KNOWN,
            };
            let page = self.node.list_entries(list).await?;
            count = count.saturating_add(u32::try_from(page.len()).unwrap_or(u32::MAX));
            match page.last() {
                Some(last) if page.len() == NAMESPACES_KNOWN => {
                    after = Some((last.place.namespace, last.place.name.clone()));
                }
                _ => return count.checked_add(1).ok_or(Reading),
            }
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<Text, Namespace>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, name: &str, namespace: Namespace) {
        let mut known = self.known();
        if known.len() < NAMESPACES_KNOWN {
            known.insert(Text::from(name), namespace);
        }
    }
}

fn place(name: &str) -> Place {
    Place { kind: Kind::Namespace, namespace: DEFAULT, name: Text::from(name) }
}

fn number_place(number: u32) -> Place {
    Place { kind: Kind::NamespaceNumber, namespace: Namespace(number), name: Text::from("") }
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_can_stand_in_headers_and_files() {
        for good in ["default", "team-a", "0x", "a_b", &"a".repeat(63)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "-a", "_a", "Team", "a.b", "a/b", "ä", "a b", &"a".repeat(64)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
