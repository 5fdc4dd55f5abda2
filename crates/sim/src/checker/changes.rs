//! Changes that were answered: they are in the store too, not only what was made.

use super::Report;
use super::view::{View, heard};
use model::row::JobState;
use model::{Cause, RunId, RunState};
use shard::command::{Answer, Command};

/// **Rule.** A cancelled or discarded run has its final row; an updated job has at least the
/// version that was answered; a cancelled job is cancelled; a deleted one is gone or going.
///
/// **Why.** Persist, then act: an answer leaves only after its commit.
/// **Without it** a person stops a job, is told so, and it goes on after the next crash.
///
/// What was asked before a lost tail is forgiven.
pub(super) fn answered_changes_are_stored(view: &View<'_>, report: &mut Report) {
    for op in view.log.ops.iter().filter(|op| !view.loss.forgives(op.sent)) {
        let Some(answer) = heard(op) else { continue };
        let kept = match (&op.command, answer) {
            (_, Answer::Run(run, state)) if state.is_final() => ended_as(view, *run, *state),
            (Command::Update { job, .. }, Answer::Job(_, version)) => {
                has_version(view, RunId::new(*job, Cause::OneOff), *version)
            }
            (Command::CancelJob(job), Answer::Job(..)) => {
                view.jobs.get(job).is_none_or(|row| row.state == JobState::Cancelled)
            }
            (Command::DeleteJob(job), Answer::Done) => {
                view.jobs.get(job).is_none_or(|row| row.delete)
            }
            _ => true,
        };
        if !kept {
            report.add(format!("{:?}, asked {:?}, was answered {answer:?}", op.command, op.sent));
        }
    }
}

fn ended_as(view: &View<'_>, run: RunId, state: RunState) -> bool {
    let rows = view.history.get(&run).map(Vec::as_slice).unwrap_or_default();
    rows.iter().any(|row| row.after == state)
}

/// A version never goes back while its job or its one-off run is there.
fn has_version(view: &View<'_>, one_off: RunId, version: u32) -> bool {
    if let Some(row) = view.jobs.get(&one_off.job) {
        return row.version >= version;
    }
    if let Some(row) = view.runs.get(&one_off) {
        return row.version >= version;
    }
    match view.history.get(&one_off) {
        Some(rows) => rows.iter().any(|row| row.version >= version),
        None => view.deleted.contains(&one_off.job),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use model::row::JobState;
    use model::{Cause, RunId, RunState, Status};
    use shard::command::{Answer, Command};

    const NAME: &str = "answered_changes_are_stored";

    #[test]
    fn a_cancelled_run_has_its_final_row() {
        let mut world = World::new();
        let run = RunId::new(job_id(1), Cause::OneOff);
        world.ask(Command::CancelRun(run), Answer::Run(run, RunState::Cancelled));
        assert!(world.broken(NAME));
        world.ended_waiting(run, Status::Cancelled);
        assert!(!world.broken(NAME));
    }

    #[test]
    fn an_update_and_a_cancel_of_a_job_stay() {
        let mut world = World::new();
        let job = world.job(1, every(10), |_| {});
        let update = Command::Update { job, spec: every(20).into(), if_version: None };
        world.ask(update, Answer::Job(job, 2));
        assert!(world.broken(NAME));
        world.change_job(job, |row| row.version = 2);
        assert!(!world.broken(NAME));
        world.ask(Command::CancelJob(job), Answer::Job(job, 2));
        assert!(world.broken(NAME));
        world.change_job(job, |row| row.state = JobState::Cancelled);
        assert!(!world.broken(NAME));
        world.ask(Command::DeleteJob(job), Answer::Done);
        assert!(world.broken(NAME));
        world.log.tail_lost.push(world.now);
        assert!(!world.broken(NAME), "a lost tail forgives it");
    }
}
