//! The store's clock is set back while the shard lives, or while nobody owns it.

use crate::support::*;
use model::{Span, Time};

/// Lets the shard write its floor, as it does now and then with a commit.
fn with_a_floor(world: &mut World) {
    for _ in 0..3 {
        world.secs(120);
        let run = world.submit(now());
        let leased = world.claim_one();
        assert_eq!(leased.run, one_off(run));
        world.succeed(&leased);
    }
}

fn back(world: &mut World, secs: i64) -> Time {
    let earlier = world.now.minus(Span::from_secs(secs));
    world.set_now(earlier);
    earlier
}

#[test]
fn what_is_made_after_a_step_back_is_found_by_the_next_owner() {
    let mut world = World::new();
    with_a_floor(&mut world);
    back(&mut world, 3_600);
    world.restart();
    let run = world.submit(after(5));
    // The owner that made it dies before it is due.
    world.restart();
    world.secs(6);
    assert_eq!(world.claim_one().run, one_off(run));
}
