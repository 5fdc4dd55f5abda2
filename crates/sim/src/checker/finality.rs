//! The end of a run is the end.

use super::Report;
use super::view::View;
use model::row::HistoryRow;
use model::{Status, Token};

/// **Rule.** A run has at most one final row; it is its last one, no attempt started after it, and
/// the run has left the hot tables.
///
/// **Why.** A finished run stays finished.
/// **Without it** a run that was reported as done begins again.
///
/// A dead run is not finished: it waits for a person. A start under a token from before a lost
/// tail is forgiven.
pub(super) fn finished_stays_finished(view: &View<'_>, report: &mut Report) {
    for (run, rows) in &view.history {
        let finals: Vec<&&HistoryRow> = rows.iter().filter(|row| row.after.is_final()).collect();
        let Some(end) = finals.first() else { continue };
        if finals.len() > 1 {
            report.add(format!("{run} ended {} times", finals.len()));
        }
        if view.runs.contains_key(run) || view.leases.contains_key(run) {
            report.add(format!("{run} ended {:?} and is still live", end.finished));
        }
        let lag = view.settings.clock_lag;
        let later = |row: &HistoryRow| match end.token {
            Token::NONE => row.started.is_some_and(|at| at > end.finished.plus(lag)),
            token => row.token > token,
        };
        if let Some(row) = view.attempts(*run).find(|row| later(row)) {
            report.add(format!("{run} ended {:?} and went on: {row:?}", end.finished));
        }
        let starts = view.starts.get(run).map(Vec::as_slice).unwrap_or_default();
        for start in starts {
            let after = end.token != Token::NONE && start.token > end.token;
            if after && !view.loss.forgives_token(*run, start.token) {
                report.add(format!("{run} ended {:?} and started: {start:?}", end.finished));
            }
        }
    }
}

/// **Rule.** A run succeeds at most once.
///
/// **Why.** Success is final, whoever reports it.
/// **Without it** two workers are both told that their result counts.
pub(super) fn one_success(view: &View<'_>, report: &mut Report) {
    for (run, rows) in &view.history {
        let successes = rows.iter().filter(|row| row.status == Status::Succeeded).count();
        if successes > 1 {
            report.add(format!("{run} succeeded {successes} times"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use model::{Cause, RunId, RunState, Status};

    fn run() -> RunId {
        RunId::new(job_id(1), Cause::OneOff)
    }

    const NAME: &str = "finished_stays_finished";

    #[test]
    fn a_run_that_goes_on_after_its_end_is_found() {
        let mut world = World::new();
        world.attempt(run(), 1, |row| row.after = RunState::Dead);
        world.attempt(run(), 2, |_| {});
        assert!(!world.broken(NAME), "dead is not the end");
        world.shard().history[0].after = RunState::Cancelled;
        assert!(world.broken(NAME), "two ends");
        world.shard().history[1].after = RunState::Retrying;
        assert!(world.broken(NAME), "an attempt after the end");
    }

    #[test]
    fn a_start_after_the_end_is_found() {
        let mut world = World::new();
        world.attempt(run(), 1, |_| {});
        world.start(run(), 1, |_| {});
        assert!(!world.broken(NAME));
        world.start(run(), 2, |_| {});
        assert!(world.broken(NAME));
    }

    #[test]
    fn a_finished_run_in_the_hot_tables_is_found() {
        let mut world = World::new();
        world.ended_waiting(run(), Status::Cancelled);
        assert!(!world.broken(NAME));
        world.run(run_row(run()));
        assert!(world.broken(NAME));
    }

    #[test]
    fn an_attempt_after_a_cancel_is_found() {
        let mut world = World::new();
        world.ended_waiting(run(), Status::Cancelled);
        let end = world.shard().history[0].finished;
        world.attempt(run(), 1, |row| {
            row.after = RunState::Retrying;
            row.started = Some(end.plus(model::Span::from_secs(60)));
        });
        assert!(world.broken(NAME));
    }

    #[test]
    fn two_successes_are_found() {
        let mut world = World::new();
        world.attempt(run(), 1, |_| {});
        assert!(!world.broken("one_success"));
        world.attempt(run(), 2, |_| {});
        assert!(world.broken("one_success"));
    }
}
