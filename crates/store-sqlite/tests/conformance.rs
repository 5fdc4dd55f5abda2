//! The suite that every store passes.

mod common;

use common::{Moved, make};

store::store_conformance!(make);

/// The suite wants a store whose clock it can move; ours is told the time from outside.
#[test]
fn the_clock_is_the_one_that_was_given() {
    use model::Span;
    use store::Store;
    use store::conformance::TestStore;
    let store: Moved = make();
    let before = store.commit(&[]).expect("answers").now;
    store.advance(Span::from_secs(5));
    assert_eq!(store.commit(&[]).expect("answers").now, before.plus(Span::from_secs(5)));
}
