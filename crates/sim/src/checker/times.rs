//! When attempts start: never before their time, and after a backoff that keeps its bounds.

use super::Report;
use super::budget::budgets;
use super::view::View;
use model::row::HistoryRow;
use model::{Cause, Policy, RunState, Span, Status, Time, When};
use shard::command::End;
use shard::limits::{BACKOFF_SPREAD_PERCENT, RETRY_AFTER_MAX};

/// **Rule.** No attempt starts before it is due, nor before its nominal instant, nor before the
/// instant a person named.
///
/// **Why.** The store's clock decides; a clock that runs wild costs lateness, never earliness.
/// **Without it** "at midnight" runs before the day's data is complete.
///
/// Judged by the true time at which a holder began. The recorded instant of a claim is no witness:
/// it is the deciding node's idea of the time, which lies behind the truth by what its last sample
/// of the store's clock took on the way.
pub(super) fn nothing_starts_early(view: &View<'_>, report: &mut Report) {
    for start in &view.log.starts {
        let named = match start.run.cause() {
            Cause::Occurrence(nominal) => Some(nominal),
            Cause::OneOff => {
                view.spec(start.run, start.version).and_then(|spec| match spec.schedule.when {
                    When::At(at) => Some(at),
                    _ => None,
                })
            }
            _ => None,
        };
        let earliest = named.unwrap_or(Time::MIN).max(start.due);
        if start.at < earliest {
            report.add(format!("{} started {:?}, due {earliest:?}", start.run, start.at));
        }
    }
}

/// **Rule.** The next attempt is due exactly when the end of the last one said: at its `next`, or
/// at once if the run was ready again.
///
/// **Why.** The holder was told this instant, and history shows it.
/// **Without it** a retry comes early, and hammers what just failed, or is forgotten.
pub(super) fn due_follows_the_last_end(view: &View<'_>, report: &mut Report) {
    for run in view.history.keys() {
        let mut before: Option<&HistoryRow> = None;
        for row in view.attempts(*run) {
            check_due(before, row.due, report);
            before = Some(row);
        }
        if let Some(row) = view.runs.get(run) {
            check_due(before, row.due, report);
        }
    }
}

fn check_due(before: Option<&HistoryRow>, due: Time, report: &mut Report) {
    let Some(before) = before else { return };
    let said = match before.after {
        RunState::Retrying => before.next,
        RunState::Ready => Some(before.finished),
        _ => return,
    };
    if said != Some(due) {
        report.add(format!("{} should be due {said:?} and was {due:?}", before.run));
    }
}

/// **Rule.** A retry waits initial × factor^(n−1), capped, give or take a fifth; or what the
/// receiver asked for, at most a day. A snooze waits until the instant the holder named.
///
/// **Why.** Backoff is what lets a broken receiver recover.
/// **Without it** a thousand failing runs come back together, at once, for ever.
pub(super) fn backoff_within_bounds(view: &View<'_>, report: &mut Report) {
    for run in view.history.keys() {
        for budget in budgets(view, *run) {
            let (mut failed, mut lost) = (0, 0);
            for row in budget {
                match row.status {
                    Status::Failed | Status::TimedOut => failed += 1,
                    Status::Lost => lost += 1,
                    _ => {}
                }
                let Some(next) = row.next else { continue };
                let waited = next.since(row.finished);
                let allowed = match row.status {
                    Status::Snoozed => asked_for(view, row, next),
                    Status::Lost => within(view, row, lost - 1, waited),
                    _ => asked_for(view, row, next) || within(view, row, failed, waited),
                };
                if !allowed {
                    let number = row.attempt;
                    report.add(format!("{run} waits {waited:?} after attempt {number}: {row:?}"));
                }
            }
        }
    }
}

/// Did a holder of this attempt ask for this instant?
fn asked_for(view: &View<'_>, row: &HistoryRow, next: Time) -> bool {
    let settles = view.settles.get(&(row.run, row.token)).map(Vec::as_slice).unwrap_or_default();
    settles.iter().any(|settle| match settle.end {
        End::Failed { retry_after: Some(asked), .. } => {
            next == row.finished.plus(asked.max(Span::ZERO).min(RETRY_AFTER_MAX))
        }
        End::Snoozed { until } => next == until.max(row.finished),
        _ => false,
    })
}

fn within(view: &View<'_>, row: &HistoryRow, n: u32, waited: Span) -> bool {
    let Some(policy) = view.policy(row.run, row.version) else { return true };
    let (low, high) = backoff(policy, n);
    n > 0 && (low..=high).contains(&waited.micros())
}

/// The shortest and the longest n-th backoff.
fn backoff(policy: &Policy, n: u32) -> (i64, i64) {
    let cap = policy.cap.micros().max(1);
    let mut delay = policy.initial.micros().max(1);
    for _ in 1..n {
        if delay >= cap {
            break;
        }
        delay = delay.saturating_mul(i64::from(policy.factor.max(1)));
    }
    let delay = delay.min(cap);
    let spread = delay / 100 * BACKOFF_SPREAD_PERCENT;
    (delay - spread, delay.saturating_add(spread))
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use model::{Cause, RunId, RunState, ScheduleSpec, Span, Spec, Status, When};
    use shard::command::End;

    fn run() -> RunId {
        RunId::new(job_id(1), Cause::OneOff)
    }

    #[test]
    fn an_early_start_is_found() {
        let mut world = World::new();
        world.start(run(), 1, |_| {});
        assert!(!world.broken("nothing_starts_early"));
        world.log.starts[0].due = world.log.starts[0].at.plus(Span::from_micros(1));
        assert!(world.broken("nothing_starts_early"));
    }

    #[test]
    fn an_occurrence_never_starts_before_its_instant() {
        let mut world = World::new();
        let run = RunId::new(job_id(1), Cause::Occurrence(at(200)));
        world.start(run, 1, |start| (start.at, start.due) = (at(199), at(150)));
        assert!(world.broken("nothing_starts_early"));
        world.log.starts[0].at = at(200);
        assert!(!world.broken("nothing_starts_early"));
    }

    #[test]
    fn a_one_off_never_starts_before_the_instant_it_was_given() {
        let mut world = World::new();
        let schedule = ScheduleSpec::new(When::At(at(500)));
        world.submit(1, Spec { schedule, ..one_off("q") });
        world.start(run(), 1, |start| start.at = at(500));
        assert!(!world.broken("nothing_starts_early"));
        world.log.starts[0].at = at(499);
        assert!(world.broken("nothing_starts_early"));
    }

    #[test]
    fn the_next_attempt_is_due_when_the_last_one_said() {
        let mut world = World::new();
        world.attempt(run(), 1, |row| failed(row, at(130)));
        world.attempt(run(), 2, |row| row.due = at(130));
        assert!(!world.broken("due_follows_the_last_end"));
        world.shard().history[1].due = at(129);
        assert!(world.broken("due_follows_the_last_end"));
        let mut world = World::new();
        world.attempt(run(), 1, |row| (row.status, row.after) = (Status::Lost, RunState::Ready));
        let finished = world.shard().history[0].finished;
        world.run(model::row::RunRow { due: finished, attempts: 1, ..run_row(run()) });
        assert!(!world.broken("due_follows_the_last_end"));
        world.run(model::row::RunRow { due: at(999), attempts: 1, ..run_row(run()) });
        assert!(world.broken("due_follows_the_last_end"));
    }

    #[test]
    fn a_backoff_outside_its_bounds_is_found_unless_it_was_asked_for() {
        let mut world = World::new();
        world.submit(1, one_off("q"));
        // The first backoff of the default policy is ten seconds, give or take two.
        world.attempt(run(), 1, |row| {
            let next = row.finished.plus(Span::from_secs(11));
            failed(row, next);
        });
        assert!(!world.broken("backoff_within_bounds"));
        let finished = world.shard().history[0].finished;
        world.shard().history[0].next = Some(finished.plus(Span::from_secs(13)));
        assert!(world.broken("backoff_within_bounds"));
        let end = End::Failed {
            error: "no".into(),
            code: None,
            retryable: true,
            retry_after: Some(Span::from_secs(13)),
        };
        world.settle(run(), 1, end, None);
        assert!(!world.broken("backoff_within_bounds"));
    }
}
