//! Submissions: what was answered is there, what was refused is not.

use super::Report;
use super::view::{View, heard, may_be_done};
use crate::log::Op;
use model::row::{BacklogKind, Made};
use model::{Cause, JobId, Priority, RunId};
use shard::command::{Answer, Command, Refused, Submitted};
use std::collections::BTreeMap;

/// The payload that the simulator's store refuses.
const POISON: &[u8] = b"poison";

/// **Rule.** What a client was told was made is in the store at the end: a job or a trace of its
/// run, unless somebody asked to delete the job.
///
/// **Why.** An answer is a promise that survives whatever dies next.
/// **Without it** a client that was told "201" never hears of its job again, and cannot know.
///
/// A submission sent before a lost tail is forgiven.
pub(super) fn answered_submissions_are_stored(view: &View<'_>, report: &mut Report) {
    for op in view.log.ops.iter().filter(|op| !view.loss.forgives(op.sent)) {
        for made in made_by(op) {
            let there = match made {
                Made::Job(job) => view.has_job(job) || view.deleted.contains(&job),
                // A run leaves a history row however it ends, also with its job.
                Made::Run(run) => view.has_run(run),
                Made::Backlog(id) => {
                    let counted = view.jobs.get(&id.job).is_some_and(|job| match id.kind {
                        BacklogKind::Backfill { operation } => job.backfills > operation,
                        BacklogKind::CatchUp { .. } => true,
                    });
                    counted || view.deleted.contains(&id.job)
                }
            };
            if !there {
                report.add(format!("{made:?} was answered to {:?} and is nowhere", op.id));
            }
        }
    }
}

fn made_by(op: &Op) -> Vec<Made> {
    match heard(op) {
        Some(Answer::Submitted(items)) => {
            items.iter().filter_map(|item| item.ok().map(|item| item.made)).collect()
        }
        Some(Answer::Made(made)) => vec![*made],
        _ => Vec::new(),
    }
}

/// **Rule.** What every request for it was definitely refused left no trace.
///
/// **Why.** A client that hears "nothing was done" asks again, perhaps with another id.
/// **Without it** the refused one runs as well, and work is done twice.
///
/// A retry carries the same id, so an id counts as refused only if all requests with it were. A
/// keyed submission that was answered with another job's id counts as refused too.
pub(super) fn refused_submissions_leave_nothing(view: &View<'_>, report: &mut Report) {
    let mut jobs: BTreeMap<JobId, bool> = BTreeMap::new();
    let mut triggers: BTreeMap<RunId, bool> = BTreeMap::new();
    for op in &view.log.ops {
        match &op.command {
            Command::Submit(items) => {
                for (index, item) in items.iter().enumerate() {
                    *jobs.entry(item.id).or_default() |= item_may_be_made(op, index, item.id);
                }
            }
            Command::Trigger { job, id, .. } => {
                let run = RunId::new(*job, Cause::Trigger(*id));
                let made = match heard(op) {
                    Some(Answer::Made(made)) => *made == Made::Run(run),
                    Some(Answer::Refused(Refused::Taken)) => true,
                    _ => may_be_done(op),
                };
                *triggers.entry(run).or_default() |= made;
            }
            _ => {}
        }
    }
    for (job, _) in jobs.iter().filter(|(job, made)| !**made && view.has_job(**job)) {
        report.add(format!("{job} was refused and is stored"));
    }
    for (run, _) in triggers.iter().filter(|(run, made)| !**made && view.has_run(**run)) {
        report.add(format!("{run} was refused and is stored"));
    }
}

fn item_may_be_made(op: &Op, index: usize, id: JobId) -> bool {
    match heard(op) {
        Some(Answer::Submitted(items)) => match items.get(index) {
            Some(Ok(Submitted { made, .. })) => *made == Made::Job(id),
            Some(Err(refused)) => matches!(refused, Refused::Unknown | Refused::Taken),
            None => true,
        },
        _ => may_be_done(op),
    }
}

/// **Rule.** A command that the store cannot take is never answered as done, and nobody else is
/// refused because of it.
///
/// **Why.** A batch carries many callers' commands; one bad row must stand alone.
/// **Without it** one tenant's strange payload stops everybody else's work.
pub(super) fn poison_is_isolated(view: &View<'_>, report: &mut Report) {
    for op in &view.log.ops {
        let poisoned = view.settings.poison && is_poison(&op.command);
        match heard(op) {
            Some(Answer::Refused(Refused::Poison)) if !poisoned => {
                report.add(format!("{:?} was refused as poison and is none: {op:?}", op.id));
            }
            Some(Answer::Submitted(items)) if poisoned => {
                let Command::Submit(jobs) = &op.command else { continue };
                let done = jobs.iter().zip(items).any(|(job, answer)| {
                    &*job.spec.payload == POISON && answer.is_ok_and(|answer| !answer.replayed)
                });
                if done {
                    report.add(format!("{:?} is poison and was answered as done", op.id));
                }
            }
            Some(Answer::Made(_) | Answer::Job(..) | Answer::Run(..)) if poisoned => {
                report.add(format!("{:?} is poison and was answered as done", op.id));
            }
            _ => {}
        }
    }
}

/// **Rule.** What is shed is of a low priority, and is to run at once.
///
/// **Why.** A queue that is late takes no more of what can wait, so that the rest is not late as well.
/// **Without it** an urgent job is refused because of a backlog that it should have passed.
pub(super) fn only_low_priorities_are_shed(view: &View<'_>, report: &mut Report) {
    for op in &view.log.ops {
        match (&op.command, heard(op)) {
            (Command::Submit(jobs), Some(Answer::Submitted(items))) => {
                let shed = jobs.iter().zip(items).filter(|(_, item)| **item == Err(Refused::Shed));
                for (job, _) in shed {
                    let recurs = job.spec.schedule.is_recurring();
                    if !Priority::is_low(job.spec.priority) || recurs {
                        let (priority, id) = (job.spec.priority, job.id);
                        report.add(format!("{id} of priority {priority} was shed: {op:?}"));
                    }
                }
            }
            (Command::Trigger { job, .. }, Some(Answer::Refused(Refused::Shed))) => {
                let mut specs = view.specs_of(*job).peekable();
                let known = specs.peek().is_some();
                if known && !specs.any(|spec| Priority::is_low(spec.priority)) {
                    report.add(format!("a trigger of {job}, which is not low, was shed: {op:?}"));
                }
            }
            _ => {}
        }
    }
}

fn is_poison(command: &Command) -> bool {
    match command {
        Command::Submit(jobs) => jobs.iter().any(|job| &*job.spec.payload == POISON),
        Command::Update { spec, .. } => &*spec.payload == POISON,
        Command::Trigger { payload, .. } | Command::Replay { payload, .. } => {
            payload.as_deref() == Some(POISON)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use model::row::Made;
    use model::{Cause, RunId, Spec, Time};
    use shard::command::{Answer, Command, Refused};

    #[test]
    fn a_stored_submission_is_fine_and_a_missing_one_is_not() {
        let mut world = World::new();
        let job = world.submit(1, one_off("q"));
        assert!(world.broken("answered_submissions_are_stored"));
        world.run(run_row(RunId::new(job, Cause::OneOff)));
        assert!(!world.broken("answered_submissions_are_stored"));
    }

    #[test]
    fn a_submission_before_a_lost_tail_is_forgiven_and_one_after_it_is_not() {
        let mut world = World::new();
        world.submit(1, one_off("q"));
        world.log.tail_lost.push(at(50));
        assert!(!world.broken("answered_submissions_are_stored"));
        world.now = at(500);
        world.submit(2, one_off("q"));
        assert!(world.broken("answered_submissions_are_stored"));
    }

    #[test]
    fn a_deleted_job_may_be_gone_but_its_triggered_run_left_history() {
        let mut world = World::new();
        let job = world.submit(1, every(10));
        world.ask(Command::DeleteJob(job), Answer::Done);
        assert!(!world.broken("answered_submissions_are_stored"));
        let run = RunId::new(job, Cause::Trigger(7));
        let trigger = Command::Trigger { job, id: 7, payload: None, key: None };
        world.ask(trigger, Answer::Made(Made::Run(run)));
        assert!(world.broken("answered_submissions_are_stored"));
        world.attempt(run, 1, |_| {});
        assert!(!world.broken("answered_submissions_are_stored"));
    }

    #[test]
    fn what_is_low_and_for_now_may_be_shed_and_nothing_else() {
        for (spec, may) in [
            (Spec { priority: 4, ..one_off("q") }, true),
            (Spec { priority: 5, ..one_off("q") }, false),
            (Spec { priority: 0, ..every(10) }, false),
        ] {
            let mut world = World::new();
            let shed = Answer::Submitted(vec![Err(Refused::Shed)]);
            world.ask(Command::Submit(vec![new_job(1, spec)]), shed);
            assert_eq!(world.broken("only_low_priorities_are_shed"), !may);
        }
        for (priority, may) in [(4, true), (5, false)] {
            let mut world = World::new();
            let job = world.submit(1, Spec { priority, ..every(10) });
            let trigger = Command::Trigger { job, id: 7, payload: None, key: None };
            world.ask(trigger, Answer::Refused(Refused::Shed));
            assert_eq!(world.broken("only_low_priorities_are_shed"), !may);
        }
    }

    #[test]
    fn a_refused_submission_may_be_retried_but_not_stored() {
        let mut world = World::new();
        let new = new_job(1, one_off("q"));
        let job = new.id;
        world.ask(Command::Submit(vec![new.clone()]), Answer::Refused(Refused::NotOwner));
        assert!(!world.broken("refused_submissions_leave_nothing"));
        world.run(run_row(RunId::new(job, Cause::OneOff)));
        assert!(world.broken("refused_submissions_leave_nothing"));
        world.ask(Command::Submit(vec![new]), Answer::Refused(Refused::Unknown));
        assert!(!world.broken("refused_submissions_leave_nothing"));
    }

    #[test]
    fn only_poison_is_refused_as_poison() {
        let mut world = World::new();
        world.settings.poison = true;
        let poison = Command::Trigger {
            job: job_id(1),
            id: 1,
            payload: Some(b"poison".as_slice().into()),
            key: None,
        };
        world.ask(poison.clone(), Answer::Refused(Refused::Poison));
        assert!(!world.broken("poison_is_isolated"));
        world.ask(Command::CancelJob(job_id(2)), Answer::Refused(Refused::Poison));
        assert!(world.broken("poison_is_isolated"));
        world.log.ops.pop();
        let run = RunId::new(job_id(1), Cause::Trigger(1));
        world.ask(poison, Answer::Made(Made::Run(run)));
        assert!(world.broken("poison_is_isolated"));
        assert!(at(1) > Time::MIN);
    }
}
