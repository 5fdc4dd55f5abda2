//! Idempotency keys while the clock moves, also back. The tables turn only when something is
//! written, so what a reader says before and after a turn has to agree.

mod common;

use common::{Moved, make};
use model::Span;
use model::row::{Key, Row};
use store::conformance::TestStore;
use store::conformance::desk::{Desk, insert};
use store::conformance::sample::{self, job_id};
use store::{Outcome, Store};

const DAY: Span = Span::from_secs(86_400);

fn is_known(desk: &Desk<'_>) -> bool {
    desk.row(Key::Idempotency(sample::key("k"))).is_some()
}

/// A key is written, the clock goes to each of these days (counted from that one) and something is
/// written there. Is the key still known?
fn known_after(days: &[i64]) -> bool {
    let store: Moved = make();
    let mut desk = Desk::open(&store, 3);
    let row = Row::Idempotency(sample::key_row(job_id(desk.shard, 1)));
    desk.commit(vec![insert(Key::Idempotency(sample::key("k")), row)]);
    let (mut at, mut known) = (0, true);
    for day in days {
        store.advance(DAY.times(day - at));
        at = *day;
        let before = is_known(&desk);
        desk.commit(vec![]);
        known = is_known(&desk);
        assert_eq!(before, known, "a reader saw another day than the writer, at {day} of {days:?}");
    }
    known
}

#[test]
fn a_key_lives_through_its_day_and_the_next() {
    assert!(known_after(&[0]));
    assert!(known_after(&[1]));
    assert!(!known_after(&[1, 2]));
    assert!(!known_after(&[2]), "also when nobody wrote in between");
    assert!(!known_after(&[1_000]));
}

#[test]
fn a_clock_that_goes_back_forgets_nothing_and_keeps_nothing_for_ever() {
    assert!(known_after(&[-1]));
    assert!(known_after(&[-50]));
    assert!(known_after(&[-51]), "odd or even");
    assert!(known_after(&[-51, -50]));
    assert!(!known_after(&[-51, -50, -49]));
    assert!(!known_after(&[-50, -49, -48]));
}

/// One that was known yesterday and is replaced counts as today's.
#[test]
fn a_replaced_key_begins_again() {
    let store: Moved = make();
    let mut desk = Desk::open(&store, 3);
    let key = Key::Idempotency(sample::key("k"));
    let row = Row::Idempotency(sample::key_row(job_id(desk.shard, 1)));
    desk.commit(vec![insert(key.clone(), row.clone())]);
    store.advance(DAY);
    desk.commit(vec![store::conformance::desk::update(key, 1, row)]);
    store.advance(DAY);
    store.rotate().expect("the store answers");
    assert!(is_known(&desk));
    store.advance(DAY);
    assert!(!is_known(&desk));
}

/// Decisions of a clock that runs ahead are refused; fence and number are told first, rows last.
#[test]
fn a_decision_from_the_future_is_refused() {
    let store: Moved = make();
    let mut desk = Desk::open(&store, 3);
    let mut ahead =
        desk.build(vec![store::conformance::desk::remove(Key::Job(job_id(desk.shard, 1)), 1)]);
    ahead.decided = desk.now().plus(Span::from_micros(1));
    let (mut fenced, mut gap) = (ahead.clone(), ahead.clone());
    (fenced.epoch.0, fenced.seq, gap.seq) = (9, 9, 9);
    assert_eq!(desk.send(fenced), Outcome::Fenced);
    assert_eq!(desk.send(gap), Outcome::Gap { last: 0 });
    assert_eq!(desk.send(ahead.clone()), Outcome::Early);
    store.advance(Span::from_micros(1));
    assert_eq!(desk.send(ahead), Outcome::Row { index: 0 }, "its time has come");
}
