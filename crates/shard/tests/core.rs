//! The rules of the core, one test each, named after the rule. `support` drives one shard over a
//! store in memory; every commit that does not find what it expects fails the test.

mod support;

#[path = "core/fairness.rs"]
mod fairness;
#[path = "core/loading.rs"]
mod loading;
#[path = "core/operators.rs"]
mod operators;
#[path = "core/outcomes.rs"]
mod outcomes;
#[path = "core/recurring.rs"]
mod recurring;
#[path = "core/runs.rs"]
mod runs;
