//! The checker. At the end of a simulated run it reads what those outside saw (`Log`) and what the
//! store holds (`Dump`), never the memory of a node, and says which promises were broken.
//!
//! One function per invariant, in the file of its group; each says the rule, why it is a rule, and
//! what breaks without it. `docs/invariants.md` lists them by name, and a test keeps the two in
//! step. What was lost with a tail of the store is forgiven in one place (`view::Loss`).
//!
//! - `submissions`, `keys`, `changes`: what clients were answered
//! - `verdicts`: what became of the instants of a schedule
//! - `times`, `budget`: when attempts start, and how many there are
//! - `tokens`, `claims`, `settles`, `attempts`: who may do what, once
//! - `finality`, `stops`, `overlap`: what must not happen any more
//! - `rows`, `shards`: do the stored rows agree with each other?
//! - `liveness`: after the faults, everything due gets done
//!
//! What it does not do: judge performance, or anything that only a node's memory could show.

mod attempts;
mod budget;
mod changes;
mod claims;
mod finality;
mod keys;
mod liveness;
mod overlap;
mod rows;
mod settles;
mod shards;
mod stops;
mod submissions;
#[cfg(test)]
mod testing;
mod times;
mod tokens;
mod verdicts;
mod view;

use crate::log::Log;
use model::{Span, Text, Time};
use std::collections::BTreeSet;
use store::memory::Dump;
use view::View;

/// A promise that was broken, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub invariant: &'static str,
    pub detail: String,
}

/// What the checker must be told about the run, because neither log nor store says it.
#[derive(Clone, Debug)]
pub struct CheckSettings {
    /// The faults ended and the cluster was left alone for a while: everything due must be done.
    pub healed: bool,
    /// When the faults ended. What was sent before may have been lost on the way.
    pub healed_at: Time,
    /// What became due less than this before the end need not be done yet. It must be longer than
    /// the longest attempt of a healthy worker.
    pub slack: Span,
    /// Kinds of runs that no worker offers: they wait for ever, rightly.
    pub unworked: BTreeSet<Text>,
    /// Holds over a namespace or over everything were sent to every shard. The log does not say
    /// which shard a hold went to, so without this only holds of queues are checked.
    pub holds_everywhere: bool,
    /// Payloads of `b"poison"` were sent, and the store refuses them.
    pub poison: bool,
    /// How far a node's idea of the store's time may lie behind it: as long as an answer of the
    /// store can be on its way to a frozen node. Stored instants (`started`, `finished`) are the
    /// deciding node's, so they are never later than the truth and perhaps this much earlier.
    pub clock_lag: Span,
    /// So long after the faults ended callers may still hear "unknown": dead nodes' leases and
    /// calls on their way have to run out first.
    pub recovery: Span,
    /// After the store lost a tail, owners that have not noticed may answer from memory that long.
    pub loss_grace: Span,
    /// Versions of a job that are kept though no run names them, the one in force included.
    pub versions_kept: u32,
}

impl Default for CheckSettings {
    fn default() -> CheckSettings {
        CheckSettings {
            healed: false,
            healed_at: Time::MIN,
            slack: Span::from_secs(5),
            unworked: BTreeSet::new(),
            holds_everywhere: false,
            poison: false,
            clock_lag: Span::from_secs(20),
            recovery: Span::from_secs(15),
            loss_grace: Span::from_secs(60),
            versions_kept: shard::limits::VERSIONS_KEPT,
        }
    }
}

type Check = fn(&View<'_>, &mut Report);

macro_rules! checks {
    ($($group:ident :: $name:ident,)*) => {
        /// Every invariant by name, in the order in which they are checked.
        const CHECKS: &[(&str, Check)] = &[$((stringify!($name), $group::$name),)*];
    };
}

checks! {
    submissions::answered_submissions_are_stored,
    submissions::refused_submissions_leave_nothing,
    submissions::poison_is_isolated,
    submissions::only_low_priorities_are_shed,
    keys::one_answer_per_key,
    keys::one_job_per_key,
    changes::answered_changes_are_stored,
    verdicts::every_instant_has_one_verdict,
    verdicts::no_instant_is_decided_twice,
    verdicts::nothing_beyond_the_mark,
    times::nothing_starts_early,
    times::due_follows_the_last_end,
    times::backoff_within_bounds,
    budget::attempts_within_budget,
    budget::budget_not_cut_short,
    tokens::no_token_twice,
    tokens::tokens_and_attempts_grow,
    tokens::one_holder_per_token,
    claims::repeated_claims_get_the_same_leases,
    claims::replaced_holders_are_told,
    settles::settled_ok_is_recorded,
    settles::stale_was_not_recorded,
    settles::same_settle_same_answer,
    settles::recorded_ends_were_said,
    attempts::every_start_is_recorded,
    attempts::history_rows_are_whole,
    attempts::attempts_have_no_gaps,
    attempts::version_stays,
    finality::finished_stays_finished,
    finality::one_success,
    stops::holds_stop_claims,
    stops::cancelled_runs_stay_cancelled,
    stops::cancelled_jobs_fire_no_more,
    stops::cancelled_only_if_asked,
    stops::paused_jobs_do_not_fire,
    overlap::fresh_runs_do_not_overlap,
    rows::leases_and_checkpoints_belong_to_runs,
    rows::acknowledged_checkpoints_are_kept,
    rows::specs_belong_to_jobs,
    rows::live_counts_are_right,
    rows::slots_name_their_runs,
    shards::epochs_cover_their_tokens,
    shards::nothing_is_due_before_the_floor,
    shards::nothing_lies_before_the_starts,
    shards::memory_and_store_agree,
    liveness::nothing_due_is_left,
    liveness::jobs_look_ahead,
    liveness::everybody_is_answered,
}

/// Details of one invariant beyond this many are only counted: the first ones tell the story.
const DETAILS_MAX: usize = 10;

/// Collects what one check finds.
#[derive(Debug, Default)]
pub(crate) struct Report {
    details: Vec<String>,
    more: usize,
}

impl Report {
    pub fn add(&mut self, detail: String) {
        if self.details.len() < DETAILS_MAX {
            self.details.push(detail);
        } else {
            self.more += 1;
        }
    }
}

/// Every promise that this run broke; empty if it kept them all.
pub fn check(log: &Log, dump: &Dump, settings: &CheckSettings) -> Vec<Violation> {
    let view = View::new(log, dump, settings);
    let mut violations = Vec::new();
    for (invariant, check) in CHECKS {
        let mut report = Report::default();
        check(&view, &mut report);
        if report.more > 0 {
            report.details.push(format!("and {} more", report.more));
        }
        violations.extend(report.details.into_iter().map(|detail| Violation { invariant, detail }));
    }
    violations
}

/// The names of all invariants.
pub fn invariants() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::testing::World;
    use super::*;

    #[test]
    fn an_empty_run_keeps_every_promise() {
        let world = World::new();
        assert_eq!(world.check(), []);
        let settings = CheckSettings { healed: true, ..CheckSettings::default() };
        assert_eq!(check(&world.log, &world.dump, &settings), []);
    }

    #[test]
    fn the_document_names_every_invariant_and_no_other() {
        let document = include_str!("../../../../docs/invariants.md");
        let listed: BTreeSet<&str> = document
            .lines()
            .filter_map(|line| line.strip_prefix("- `")?.split('`').next())
            .map(|path| path.rsplit("::").next().unwrap_or(path))
            .collect();
        let checked: BTreeSet<&str> = invariants().collect();
        assert_eq!(listed, checked);
    }
}
