//! Idempotency keys: once each, and forgotten after a day or two.

use super::TestStore;
use super::desk::{Desk, insert, remove};
use super::sample::{job_id, key, key_row};
use crate::Outcome;
use model::row::{Change, IdempotencyKey, Key, Row};
use model::{Namespace, Span};

const HOUR: Span = Span::from_secs(3_600);

fn insert_key(desk: &Desk<'_>, key: &IdempotencyKey) -> Change {
    insert(Key::Idempotency(key.clone()), Row::Idempotency(key_row(job_id(desk.shard, 1))))
}

fn is_known(desk: &Desk<'_>, key: &IdempotencyKey) -> bool {
    desk.row(Key::Idempotency(key.clone())).is_some()
}

pub fn key_twice_is_refused(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let change = insert_key(&desk, &key("k"));
    desk.commit(vec![change.clone()]);
    assert_eq!(desk.try_commit(vec![change]), Outcome::Row { index: 0 });
    let other = insert_key(&desk, &key("l"));
    let outcome = desk.try_commit(vec![other.clone(), other]);
    assert_eq!(outcome, Outcome::Row { index: 1 });
    assert!(!is_known(&desk, &key("l")));
}

pub fn key_scope_is_all_of_it(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let (plain, mut namespace, mut queue) = (key("k"), key("k"), key("k"));
    let (mut group, mut empty) = (key("k"), key("k"));
    namespace.namespace = Namespace(8);
    queue.queue = "other".into();
    group.group = Some("g".into());
    // A group that is empty is not the same as none.
    empty.group = Some("".into());
    for key in [plain, namespace, queue, group, empty, key("K")] {
        let change = insert_key(&desk, &key);
        desk.commit(vec![change]);
    }
}

pub fn key_is_known_for_a_day_or_two(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    // Begun at several hours of the day, because days may be counted from midnight.
    for begun in [0, 5, 11, 17, 23] {
        for _ in 0..begun {
            store.advance(HOUR);
            store.rotate().expect("the store answers");
        }
        let key = key(&format!("key {begun}"));
        let change = insert_key(&desk, &key);
        desk.commit(vec![change.clone()]);
        for hour in 1..=23 {
            store.advance(HOUR);
            store.rotate().expect("the store answers");
            assert!(is_known(&desk, &key), "forgotten after {hour} h");
            assert_eq!(desk.try_commit(vec![change.clone()]), Outcome::Row { index: 0 });
        }
        // One hour more than two days: as often as the tables are turned here.
        for _ in 24..=49 {
            store.advance(HOUR);
            store.rotate().expect("the store answers");
        }
        assert!(!is_known(&desk, &key), "still known after 49 h");
        desk.commit(vec![change]);
        // Turning the tables twice in a moment forgets nothing.
        store.rotate().expect("the store answers");
        store.rotate().expect("the store answers");
        assert!(is_known(&desk, &key));
    }
}

pub fn key_can_be_removed(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let change = insert_key(&desk, &key("k"));
    desk.commit(vec![change.clone()]);
    for _ in 0..23 {
        store.advance(HOUR);
        store.rotate().expect("the store answers");
    }
    // Wherever it lies by now.
    desk.commit(vec![remove(change.key.clone(), 1)]);
    assert!(!is_known(&desk, &key("k")));
    desk.commit(vec![change]);
    assert!(is_known(&desk, &key("k")));
}
