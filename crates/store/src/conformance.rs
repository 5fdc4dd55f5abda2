//! What every store must do, as tests. A backend implements `TestStore` and writes
//!
//! ```ignore
//! store::store_conformance!(|| MyStore::open_in_a_fresh_place());
//! ```
//!
//! which makes one named test per rule. `make` returns an empty store with all `SHARDS`; each test
//! gets its own. The rules ask for what callers rely on and no more: a real clock may run while a
//! test does, a page may end early, a cursor is opaque, a key may be forgotten any time between
//! 24 and 48 hours.
//!
//! The last test runs random commands against `naive`, a store written for reading and not for
//! speed, and compares every answer. It prints its seed; `DULY_SEED` repeats one.
//!
//! What is not here: durability over a crash and concurrency of several callers. Both need the
//! backend's own process and are tested with it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::cloned_ref_to_slice_refs)] // all of this is tests

pub mod catalog;
pub mod commits;
pub mod desk;
pub mod flows;
pub mod keys;
pub mod naive;
pub mod outcomes;
pub mod ownership;
pub mod random;
pub mod rows;
pub mod sample;
pub mod search;
pub mod wheel;

use crate::{Backend, MemoryStore};
use model::Span;

/// A store whose clock a test can move.
pub trait TestStore: Backend {
    /// Moves the store's clock forward. A database does it with an offset that is added to its
    /// clock wherever the clock is read.
    fn advance(&self, span: Span);
}

impl TestStore for MemoryStore {
    fn advance(&self, span: Span) {
        self.set_now(self.now().plus(span));
    }
}

impl<S: TestStore> TestStore for crate::FaultyStore<S> {
    fn advance(&self, span: Span) {
        self.inner().advance(span);
    }
}

/// One `#[test]` per rule, for the store that `make` makes.
#[macro_export]
macro_rules! store_conformance {
    ($make:expr) => {
        $crate::store_conformance!($make, $crate::conformance::random::SEEDS);
    };
    // Fewer random worlds, where another test has seen the others.
    ($make:expr, $seeds:expr) => {
        $crate::store_conformance! { @rules $make;
            commits: stale_epoch_changes_nothing, future_epoch_changes_nothing,
                a_gap_or_a_repeat_in_seq_is_refused, fence_is_reported_before_gap_and_row,
                decisions_of_the_future_are_refused, mismatch_leaves_nothing_half_written, refused_commit_restores_every_order,
                changes_apply_one_after_the_other, removing_and_guarding,
                shards_in_one_call_are_independent, two_commits_of_one_shard_in_one_call,
                row_must_fit_its_key, duplicate_history_is_refused, empty_commits_count,
                large_commit, the_clock_is_reported;
            rows: every_kind_comes_back_as_written, runs_come_back_without_their_body,
                body_survives_patches, a_new_body_replaces, spec_is_body_or_version, a_spec_is_read_beside_other_rows,
                payload_bytes_are_opaque, odd_text_survives, extreme_times_survive,
                leases_come_with_their_runs, leases_are_paged, runs_of_a_job_do_not_leak,
                holds_are_listed, limits_of_queues_are_listed, shards_do_not_see_each_other, absent_rows_keep_their_place;
            keys: key_twice_is_refused, key_scope_is_all_of_it, key_is_known_for_a_day_or_two,
                key_can_be_removed;
            wheel: bounds_are_inclusive_and_exclusive, near_and_far_rows_are_found,
                pages_return_each_row_once, pages_come_in_bucket_order,
                moved_rows_are_found_where_they_are, removed_rows_are_gone,
                only_what_waits_for_time_is_there, paging_survives_changes,
                jobs_and_backlogs_turn_too, far_rows_are_found_when_near;
            flows: runs_come_in_due_then_id_order, a_flow_is_paged, equal_dues_are_paged,
                flows_are_listed_and_paged, only_ready_runs_are_in_a_flow,
                a_run_moves_between_flows, a_claimed_run_stays;
            outcomes: last_attempt_decides, verdicts_are_not_runs, live_runs_count,
                bounds_of_outcomes, ranges_that_overlap_are_whole, triggers_do_not_count,
                other_jobs_do_not_count, outcomes_are_limited;
            ownership: unowned_is_taken, wrong_epoch_is_not_taken, own_is_taken_again,
                a_live_owner_keeps, an_expired_owner_loses, an_owner_without_lease_loses,
                expired_is_not_lost, epochs_only_grow, take_returns_seq_and_floor, what_begins_at_a_mark_is_found,
                give_hands_over, give_needs_the_epoch, takes_are_independent,
                renew_shows_the_cluster, unknown_is_resolved_by_seq;
            catalog: entries_come_back_as_written, changes_are_made_together_or_not,
                what_is_expected_is_asked_for, a_revision_is_never_given_again,
                lists_are_in_order_and_paged;
            search: jobs_are_found_newest_first, runs_of_a_job_are_found_by_instant,
                all_runs_are_found_unfinished_first, ends_come_last_one_first,
                attempts_of_a_run_are_listed, verdicts_of_a_job_are_listed, queues_are_counted,
                namespaces_are_counted, keys_are_counted,
                old_history_is_removed_in_slices, what_is_removed_takes_no_bytes;
        }
        #[test]
        fn random_commands_answer_like_the_naive_store() {
            let make = $make;
            $crate::conformance::random::random_commands(&|| Box::new(make()), $seeds);
        }
    };
    (@rules $make:expr; $($topic:ident: $($rule:ident),+;)+) => {
        $(mod $topic {
            $(#[test]
            fn $rule() {
                #[allow(unused_imports)]
                use super::*;
                let make = $make;
                $crate::conformance::$topic::$rule(&make());
            })+
        })+
    };
}

#[cfg(test)]
mod tests {
    /// A rule that no macro names would never run.
    #[test]
    fn every_rule_is_in_the_macro() {
        let listed = include_str!("conformance.rs");
        let topics = [
            include_str!("conformance/commits.rs"),
            include_str!("conformance/rows.rs"),
            include_str!("conformance/keys.rs"),
            include_str!("conformance/wheel.rs"),
            include_str!("conformance/flows.rs"),
            include_str!("conformance/outcomes.rs"),
            include_str!("conformance/ownership.rs"),
            include_str!("conformance/catalog.rs"),
            include_str!("conformance/search.rs"),
        ];
        let rules = topics.iter().flat_map(|topic| topic.lines()).filter_map(|line| {
            line.strip_prefix("pub fn ")?
                .split_once("(store: &dyn TestStore)")
                .map(|(name, _)| name)
        });
        let names: Vec<&str> = listed.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let mut count = 0;
        for rule in rules {
            assert!(names.contains(&rule), "{rule} is not in store_conformance!");
            count += 1;
        }
        assert!(count > 60, "only {count} rules were found in the files");
    }
}
