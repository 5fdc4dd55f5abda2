//! How many attempts a run gets: no more than its policy says, and no fewer.

use super::Report;
use super::view::View;
use model::row::HistoryRow;
use model::{RunId, RunState, Status};
use shard::command::{Command, End};
use shard::limits::ATTEMPTS_MAX;
use std::collections::BTreeMap;

/// The attempts of a run, cut where a person gave it a new budget: after each death.
pub(super) fn budgets<'a>(view: &View<'a>, run: RunId) -> Vec<Vec<&'a HistoryRow>> {
    let mut budgets = vec![Vec::new()];
    let mut dead = false;
    for row in view.attempts(run) {
        if std::mem::replace(&mut dead, row.after == RunState::Dead) {
            budgets.push(Vec::new());
        }
        if let Some(budget) = budgets.last_mut() {
            budget.push(row);
        }
    }
    budgets
}

fn count(budget: &[&HistoryRow], statuses: &[Status]) -> usize {
    budget.iter().filter(|row| statuses.contains(&row.status)).count()
}

/// **Rule.** In one budget at most 1 + max_retries attempts fail or time out and at most
/// 1 + max_lost are lost; a budget after the first needs a person's replay.
///
/// **Why.** Every loop has an end.
/// **Without it** a job that kills its workers, or bills a customer and fails, runs for ever.
pub(super) fn attempts_within_budget(view: &View<'_>, report: &mut Report) {
    let mut replays: BTreeMap<RunId, usize> = BTreeMap::new();
    for op in &view.log.ops {
        if let Command::Replay { run, .. } = &op.command {
            *replays.entry(*run).or_default() += 1;
        }
    }
    for run in view.history.keys() {
        let budgets = budgets(view, *run);
        let asked = replays.get(run).copied().unwrap_or_default();
        if budgets.len() > 1 + asked {
            report.add(format!("{run} had {} budgets and {asked} replays", budgets.len()));
        }
        for budget in budgets {
            let Some(policy) = budget.last().and_then(|row| view.policy(*run, row.version)) else {
                continue;
            };
            let failed = count(&budget, &[Status::Failed, Status::TimedOut]);
            if failed > 1 + usize::from(policy.max_retries) {
                report.add(format!("{run} failed {failed} times, retries {}", policy.max_retries));
            }
            let lost = count(&budget, &[Status::Lost]);
            if lost > 1 + usize::from(policy.max_lost) {
                report.add(format!("{run} was lost {lost} times, allowed {}", policy.max_lost));
            }
        }
    }
}

/// **Rule.** A run dies only when its budget is spent or its holder said that trying again is of
/// no use. The first lost attempt of a budget is repeated at once, and losing spends no retry.
///
/// **Why.** A crash of ours must not cost a user's job one of its tries.
/// **Without it** a rolling restart kills jobs with max_retries 0.
pub(super) fn budget_not_cut_short(view: &View<'_>, report: &mut Report) {
    for run in view.history.keys() {
        for budget in budgets(view, *run) {
            let Some(last) = budget.last() else { continue };
            if let Some(first) = budget.iter().find(|row| row.status == Status::Lost)
                && !matches!(first.after, RunState::Ready | RunState::Dead)
            {
                report.add(format!("{run} was lost once and not repeated at once: {first:?}"));
            }
            let Some(policy) = view.policy(*run, last.version) else { continue };
            if last.after != RunState::Dead || last.attempt >= ATTEMPTS_MAX {
                continue;
            }
            let spent = match last.status {
                Status::Failed | Status::TimedOut => {
                    let failed = count(&budget, &[Status::Failed, Status::TimedOut]);
                    failed > usize::from(policy.max_retries) || given_up(view, last)
                }
                Status::Lost => count(&budget, &[Status::Lost]) > usize::from(policy.max_lost),
                _ => false,
            };
            if !spent {
                report.add(format!("{run} died before its budget was spent: {last:?}"));
            }
        }
    }
}

/// Did a holder say that trying again is of no use?
fn given_up(view: &View<'_>, row: &HistoryRow) -> bool {
    let settles = view.settles.get(&(row.run, row.token)).map(Vec::as_slice).unwrap_or_default();
    settles.iter().any(|settle| matches!(settle.end, End::Failed { retryable: false, .. }))
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use model::row::HistoryRow;
    use model::{Cause, Policy, RunId, RunState, Spec, Status};
    use shard::command::{Answer, Command, End};

    fn run() -> RunId {
        RunId::new(job_id(1), Cause::OneOff)
    }

    /// A job with one retry that may be lost once.
    fn world() -> World {
        let mut world = World::new();
        let policy = Policy { max_retries: 1, max_lost: 1, ..Policy::default() };
        world.submit(1, Spec { policy, ..one_off("q") });
        world
    }

    fn end(status: Status, after: RunState) -> impl Fn(&mut HistoryRow) {
        move |row| (row.status, row.after) = (status, after)
    }

    #[test]
    fn too_many_attempts_are_found() {
        let mut world = world();
        world.attempt(run(), 1, end(Status::Failed, RunState::Retrying));
        world.attempt(run(), 2, end(Status::TimedOut, RunState::Dead));
        assert!(!world.broken("attempts_within_budget"));
        world.shard().history[1].after = RunState::Retrying;
        world.attempt(run(), 3, end(Status::Failed, RunState::Dead));
        assert!(world.broken("attempts_within_budget"));
    }

    #[test]
    fn too_many_losses_are_found() {
        let mut world = world();
        world.attempt(run(), 1, end(Status::Lost, RunState::Ready));
        world.attempt(run(), 2, end(Status::Lost, RunState::Dead));
        assert!(!world.broken("attempts_within_budget"));
        assert!(!world.broken("budget_not_cut_short"));
        world.shard().history[1].after = RunState::Retrying;
        world.attempt(run(), 3, end(Status::Lost, RunState::Dead));
        assert!(world.broken("attempts_within_budget"));
    }

    #[test]
    fn a_new_budget_needs_a_replay() {
        let mut world = world();
        world.attempt(run(), 1, end(Status::Failed, RunState::Dead));
        world.attempt(run(), 2, end(Status::Succeeded, RunState::Succeeded));
        assert!(world.broken("attempts_within_budget"));
        let replay = Command::Replay { run: run(), payload: None };
        world.ask(replay, Answer::Run(run(), RunState::Ready));
        assert!(!world.broken("attempts_within_budget"));
    }

    #[test]
    fn an_early_death_is_found_unless_the_holder_gave_up() {
        let mut world = world();
        world.attempt(run(), 1, end(Status::Failed, RunState::Dead));
        assert!(world.broken("budget_not_cut_short"));
        let end =
            End::Failed { error: "no".into(), code: None, retryable: false, retry_after: None };
        world.settle(run(), 1, end, None);
        assert!(!world.broken("budget_not_cut_short"));
    }

    #[test]
    fn a_lost_attempt_spends_no_retry() {
        let mut world = world();
        world.attempt(run(), 1, end(Status::Lost, RunState::Retrying));
        assert!(world.broken("budget_not_cut_short"));
        world.shard().history[0].after = RunState::Dead;
        assert!(world.broken("budget_not_cut_short"));
        world.shard().history[0].after = RunState::Ready;
        assert!(!world.broken("budget_not_cut_short"));
    }
}
