//! Liveness: when the faults are over and time has passed, everything due has been done. These
//! checks say nothing about a run that was not healed.

use super::Report;
use super::view::{View, heard};
use model::row::{JobState, Scope};
use model::{FlowKey, RunState, Time};
use shard::command::{Answer, Refused};

/// What was due before this must be done by now.
fn settled(view: &View<'_>) -> Time {
    view.dump.now.minus(view.settings.slack)
}

/// **Rule.** No run that became due, no lease, no slice of a backlog and no hold is left over,
/// except runs that are held or that no worker offers to take.
///
/// **Why.** Safety alone is kept by a scheduler that does nothing.
/// **Without it** a run is durable, correct and never started.
pub(super) fn nothing_due_is_left(view: &View<'_>, report: &mut Report) {
    if !view.settings.healed {
        return;
    }
    let settled = settled(view);
    for lease in view.leases.values().filter(|lease| lease.started <= settled) {
        report.add(format!("still leased: {lease:?}"));
    }
    for (run, row) in &view.runs {
        let waits = matches!(row.state, RunState::Ready | RunState::Scheduled | RunState::Retrying);
        // A dead run waits for a person; when its time is over it is discarded.
        let over = (waits || row.state == RunState::Dead) && row.due <= settled;
        let excused = row.state != RunState::Dead
            && (held(view, run.job.shard(), &row.flow)
                || view.settings.unworked.contains(&row.flow.kind));
        if over && !excused && !view.leases.contains_key(run) {
            report.add(format!("{run} is {:?} and was due {:?}", row.state, row.due));
        }
    }
    for (id, row) in view.backlogs.iter().filter(|(_, row)| row.due <= settled) {
        report.add(format!("{id:?} was due {:?}", row.due));
    }
    for shard in &view.dump.shards {
        for (key, row) in &shard.rows {
            if let model::row::Row::Hold(hold) = row
                && hold.until.is_some_and(|until| until <= settled)
            {
                report.add(format!("{key:?} should have been released at {:?}", hold.until));
            }
        }
    }
}

fn held(view: &View<'_>, shard: model::ShardId, flow: &FlowKey) -> bool {
    let queue = Scope::Queue(flow.namespace, flow.queue.clone());
    [Scope::All, Scope::Namespace(flow.namespace), queue]
        .into_iter()
        .any(|scope| view.holds.contains(&(shard, scope)))
}

/// **Rule.** An active job has a next instant, and no job wants to be looked at in the past.
///
/// **Why.** The schedule lives in the row; memory is only a view of it.
/// **Without it** a schedule stops silently after a takeover.
pub(super) fn jobs_look_ahead(view: &View<'_>, report: &mut Report) {
    if !view.settings.healed {
        return;
    }
    for (job, row) in &view.jobs {
        let stopped = row.state == JobState::Active && (row.next.is_none() || row.due.is_none());
        if stopped || row.due.is_some_and(|due| due <= settled(view)) {
            report.add(format!("{job} is {:?}, next {:?}, due {:?}", row.state, row.next, row.due));
        }
    }
}

/// **Rule.** What was asked after the faults, and after the time that recovery takes, is answered,
/// and not with "unknown".
///
/// **Why.** "Unknown" is the answer to a fault, and the caller has to find out by itself.
/// **Without it** a healthy cluster leaves callers hanging.
pub(super) fn everybody_is_answered(view: &View<'_>, report: &mut Report) {
    if !view.settings.healed {
        return;
    }
    let recovered = view.settings.healed_at.plus(view.settings.recovery);
    for op in &view.log.ops {
        let answered = heard(op).is_some_and(|answer| *answer != Answer::Refused(Refused::Unknown));
        if op.sent >= recovered && op.sent <= settled(view) && !answered {
            report.add(format!("{:?} sent {:?}: {:?}", op.command, op.sent, op.heard));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use model::row::{HoldRow, JobState, Key, Row, RunRow, Scope};
    use model::{Cause, Namespace, RunId, RunState};
    use shard::command::{Answer, Command, Refused};

    fn run() -> RunId {
        RunId::new(job_id(1), Cause::OneOff)
    }

    /// Healed at 500, dumped at 1,000.
    fn world() -> World {
        let mut world = World::new();
        world.settings.healed = true;
        world.settings.healed_at = at(500);
        world
    }

    #[test]
    fn a_due_run_that_nobody_started_is_found() {
        let mut world = world();
        world.run(RunRow { state: RunState::Scheduled, due: at(2_000), ..run_row(run()) });
        assert!(!world.broken("nothing_due_is_left"));
        world.run(RunRow { due: at(900), ..run_row(run()) });
        assert!(world.broken("nothing_due_is_left"));
        world.settings.unworked.insert("worker:k".into());
        assert!(!world.broken("nothing_due_is_left"));
    }

    #[test]
    fn a_held_run_may_wait_but_not_for_a_hold_that_is_over() {
        let mut world = world();
        world.run(RunRow { due: at(900), ..run_row(run()) });
        let key = Key::Hold(Scope::Queue(Namespace(1), "q".into()));
        let hold = |until| Row::Hold(HoldRow { reason: "stop".into(), until });
        world.put(key.clone(), hold(None));
        assert!(!world.broken("nothing_due_is_left"));
        world.put(key, hold(Some(at(950))));
        assert!(world.broken("nothing_due_is_left"));
    }

    #[test]
    fn an_old_lease_is_found() {
        let mut world = world();
        world.lease(run(), 1, |lease| lease.started = at(999));
        assert!(!world.broken("nothing_due_is_left"));
        world.lease(run(), 1, |lease| lease.started = at(900));
        assert!(world.broken("nothing_due_is_left"));
    }

    #[test]
    fn a_job_that_stopped_is_found() {
        let mut world = world();
        let job = world.job(1, every(10), |row| {
            (row.next, row.due) = (Some(at(1_010)), Some(at(1_010)));
        });
        assert!(!world.broken("jobs_look_ahead"));
        world.change_job(job, |row| row.due = Some(at(700)));
        assert!(world.broken("jobs_look_ahead"));
        world.change_job(job, |row| (row.next, row.due) = (None, None));
        assert!(world.broken("jobs_look_ahead"));
        world.change_job(job, |row| row.state = JobState::Ended);
        assert!(!world.broken("jobs_look_ahead"));
    }

    #[test]
    fn an_unanswered_caller_is_found_after_the_faults() {
        let mut world = world();
        world.now = at(400);
        world.send(Command::CancelRun(run()));
        world.ask(Command::CancelRun(run()), Answer::Refused(Refused::Unknown));
        assert!(!world.broken("everybody_is_answered"));
        world.now = at(600);
        world.ask(Command::CancelRun(run()), Answer::Refused(Refused::NotFound));
        assert!(!world.broken("everybody_is_answered"));
        world.ask(Command::CancelRun(run()), Answer::Refused(Refused::Unknown));
        assert!(world.broken("everybody_is_answered"));
        world.log.ops.pop();
        world.send(Command::CancelRun(run()));
        assert!(world.broken("everybody_is_answered"));
    }
}
