//! The rules of the core, one test each, named after the rule. `support` drives one shard over a
//! store in memory; every commit that does not find what it expects fails the test.

// Helpers of tests fail a test by panicking; clippy knows only functions marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

#[path = "core/clock.rs"]
mod clock;
#[path = "core/clocks.rs"]
mod clocks;
#[path = "core/commits.rs"]
mod commits;
#[path = "core/expire.rs"]
mod expire;
#[path = "core/fairness.rs"]
mod fairness;
#[path = "core/gathering.rs"]
mod gathering;
#[path = "core/gone.rs"]
mod gone;
#[path = "core/leaving.rs"]
mod leaving;
#[path = "core/level.rs"]
mod level;
#[path = "core/limits.rs"]
mod limits;
#[path = "core/loading.rs"]
mod loading;
#[path = "core/operators.rs"]
mod operators;
#[path = "core/outcomes.rs"]
mod outcomes;
#[path = "core/ownership.rs"]
mod ownership;
#[path = "core/put_off.rs"]
mod put_off;
#[path = "core/recurring.rs"]
mod recurring;
#[path = "core/reserve.rs"]
mod reserve;
#[path = "core/routing.rs"]
mod routing;
#[path = "core/runs.rs"]
mod runs;
#[path = "core/starts.rs"]
mod starts;
#[path = "core/versions.rs"]
mod versions;
