//! Where ready runs and leases begin is told with every commit, and the store of these tests shows nothing
//! that lies before: a mark that is wrong hides a run from the next owner.

use crate::support::*;
use model::{Span, When};
use shard::command::{End, SettleAnswer};

/// Lets the shard find out where things begin, as it does now and then with a commit.
fn with_marks(world: &mut World) {
    for _ in 0..3 {
        world.secs(20);
        let run = world.submit(now());
        let leased = world.claim_one();
        assert_eq!(leased.run, one_off(run));
        world.succeed(&leased);
    }
}

#[test]
fn what_is_due_before_all_others_is_found_by_the_next_owner() {
    let mut world = World::new();
    with_marks(&mut world);
    let past = world.now.minus(Span::from_secs(3_600));
    let run = world.submit(spec(When::At(past)));
    assert_eq!(world.run_row(one_off(run)).unwrap().due, past);
    world.restart();
    assert_eq!(world.claim_one().run, one_off(run));
}

#[test]
fn what_waits_in_another_flow_is_found_by_the_next_owner() {
    let mut world = World::new();
    let waits = world.submit(grouped("a"));
    let other = world.submit(grouped("b"));
    world.secs(20);
    let first = world.claim(1)[0];
    world.secs(20);
    world.succeed(&first);
    world.restart();
    let left = world.claim_one().run;
    assert_eq!([first.run, left], [one_off(waits), one_off(other)]);
}

#[test]
fn a_lease_that_is_older_than_all_others_is_found_by_the_next_owner() {
    let mut world = World::new();
    world.submit(now());
    let old = world.claim_one();
    for _ in 0..6 {
        world.secs(5);
        world.beat(&old);
        world.submit(now());
        let leased = world.claim_one();
        world.succeed(&leased);
    }
    world.restart();
    let answer = world.settle(&old, End::Succeeded { output: None });
    assert!(matches!(answer, SettleAnswer::Ok { .. }), "{answer:?}");
    assert_eq!(world.claim(5), []);
}

#[test]
fn a_claim_that_goes_back_is_found_by_the_next_owner() {
    let mut world = World::new();
    let run = world.submit(now());
    let old = world.claim_one();
    for _ in 0..4 {
        world.secs(5);
        world.beat(&old);
        world.submit(now());
        let leased = world.claim_one();
        world.succeed(&leased);
    }
    world.settle(&old, End::Released);
    world.restart();
    assert_eq!(world.claim_one().run, one_off(run));
}
