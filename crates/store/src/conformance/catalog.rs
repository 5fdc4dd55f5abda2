//! Entries of the whole cluster.

use super::TestStore;
use crate::catalog::{Changed, Entry, EntryChange, Kind, List, Place};
use model::{Namespace, Span, Text};

fn place(kind: Kind, namespace: u32, name: &str) -> Place {
    Place { kind, namespace: Namespace(namespace), name: name.into() }
}

fn change(place: &Place, expect: Option<u64>, text: Option<&str>) -> EntryChange {
    EntryChange { place: place.clone(), expect, text: text.map(Text::from) }
}

#[track_caller]
fn make(store: &dyn TestStore, changes: &[EntryChange]) -> u64 {
    match store.change_entries(changes).expect("the store answers") {
        Changed::Made { rev } => rev,
        other => panic!("not made: {other:?}"),
    }
}

fn get(store: &dyn TestStore, place: &Place) -> Option<Entry> {
    store.entries(&[place.clone()]).expect("the store answers").remove(0)
}

fn list(
    store: &dyn TestStore,
    kind: Kind,
    namespace: Option<u32>,
    after: Option<(u32, &str)>,
    limit: usize,
) -> Vec<(u32, String)> {
    let list = List {
        kind,
        namespace: namespace.map(Namespace),
        after: after.map(|(namespace, name)| (Namespace(namespace), name.into())),
        limit,
    };
    let entries = store.list_entries(&list).expect("the store answers");
    assert!(entries.iter().all(|entry| entry.place.kind == kind));
    entries.iter().map(|e| (e.place.namespace.0, e.place.name.to_string())).collect()
}

pub fn entries_come_back_as_written(store: &dyn TestStore) {
    for (n, kind) in Kind::ALL.into_iter().enumerate() {
        let here = place(kind, 7, "naïve \u{1f980} 'name'");
        assert_eq!(get(store, &here), None);
        let before = store.commit(&[]).expect("time").now;
        let text = format!("{{\"n\":{n}}}");
        let rev = make(store, &[change(&here, None, Some(&text))]);
        let entry = get(store, &here).expect("it was made");
        assert_eq!((entry.place, entry.rev, &*entry.text), (here.clone(), rev, &*text));
        assert!(entry.at >= before);
        store.advance(Span::from_secs(5));
        make(store, &[change(&here, Some(rev), Some("\"other\""))]);
        let entry = get(store, &here).expect("it stands");
        assert!(entry.at >= before.plus(Span::from_secs(5)), "when it was written last");
    }
}

pub fn changes_are_made_together_or_not(store: &dyn TestStore) {
    let (first, second) = (place(Kind::Name, 1, "a"), place(Kind::Name, 1, "b"));
    make(store, &[change(&second, None, Some("1"))]);
    let both = [change(&first, None, Some("2")), change(&second, None, Some("2"))];
    assert_eq!(store.change_entries(&both), Ok(Changed::Other { index: 1 }));
    assert_eq!(get(store, &first), None, "the first was not made either");
    let found = get(store, &second).expect("it stands");
    assert_eq!(&*found.text, "1");
    let both = [change(&first, None, Some("2")), change(&second, Some(found.rev), None)];
    make(store, &both);
    assert!(get(store, &first).is_some() && get(store, &second).is_none());
}

pub fn what_is_expected_is_asked_for(store: &dyn TestStore) {
    let here = place(Kind::Name, 1, "a");
    let rev = make(store, &[change(&here, None, Some("1"))]);
    for wrong in [None, Some(rev + 1), Some(rev.wrapping_sub(1))] {
        let changed = store.change_entries(&[change(&here, wrong, Some("2"))]);
        assert_eq!(changed, Ok(Changed::Other { index: 0 }), "{wrong:?}");
    }
    // On what those before it left.
    let twice = [change(&here, Some(rev), None), change(&here, None, Some("3"))];
    make(store, &twice);
    assert_eq!(get(store, &here).map(|entry| entry.text), Some("3".into()));
}

pub fn a_revision_is_never_given_again(store: &dyn TestStore) {
    let here = place(Kind::Operation, 1, "a");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..5 {
        let rev = make(store, &[change(&here, None, Some("1"))]);
        assert!(seen.insert(rev), "{rev} was given before");
        make(store, &[change(&here, Some(rev), None)]);
    }
}

pub fn lists_are_in_order_and_paged(store: &dyn TestStore) {
    for (namespace, name) in [(2, "b"), (0, "z"), (2, "a"), (1, ""), (u32::MAX, "x"), (2, "ä")] {
        make(store, &[change(&place(Kind::Queue, namespace, name), None, Some("1"))]);
    }
    make(store, &[change(&place(Kind::ApiKey, 2, "aa"), None, Some("1"))]);
    let owned = |all: &[(u32, &str)]| -> Vec<(u32, String)> {
        all.iter().map(|(namespace, name)| (*namespace, name.to_string())).collect()
    };
    let all = owned(&[(0, "z"), (1, ""), (2, "a"), (2, "b"), (2, "ä"), (u32::MAX, "x")]);
    assert_eq!(list(store, Kind::Queue, None, None, 100), all);
    assert_eq!(list(store, Kind::Queue, Some(2), None, 100), all[2..5]);
    assert_eq!(list(store, Kind::Queue, Some(2), None, 2), all[2..4]);
    assert_eq!(list(store, Kind::Queue, Some(2), Some((2, "b")), 9), all[4..5]);
    assert_eq!(list(store, Kind::Queue, Some(2), Some((0, "z")), 9), all[2..5]);
    assert_eq!(list(store, Kind::Queue, None, Some((1, "")), 2), all[2..4]);
    assert_eq!(list(store, Kind::Queue, Some(3), None, 9), owned(&[]));
}
