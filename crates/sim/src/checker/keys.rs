//! Idempotency keys: the same request again makes nothing new and gets the same answer.

use super::Report;
use super::view::{View, heard};
use model::row::Made;
use model::{JobId, Namespace, Span, Text, Time};
use shard::command::{Answer, Command, KeyOf};
use std::collections::{BTreeMap, BTreeSet};

/// A key is known at least this long; later it may be forgotten and mean something new.
const KNOWN: Span = Span::from_secs(86_400);

type Scope<'a> = (Namespace, &'a Text, &'a Text);

/// **Rule.** All answers to one key name the same thing, and all came for the same body.
///
/// **Why.** A client repeats a request because it does not know what became of it.
/// **Without it** the repetition makes a second job, or a different order passes as the first.
///
/// Answers to requests from before a lost tail are left out: the row of the key may be gone.
pub(super) fn one_answer_per_key(view: &View<'_>, report: &mut Report) {
    let mut first: BTreeMap<Scope<'_>, (Time, Made, u64)> = BTreeMap::new();
    for (scope, sent, made, body) in answers(view) {
        let known = first.entry(scope).or_insert((sent, made, body));
        if sent.since(known.0) >= KNOWN {
            *known = (sent, made, body);
        } else if known.1 != made {
            report.add(format!("key {:?} made {:?} and {made:?}", scope.2, known.1));
        } else if known.2 != body {
            report.add(format!("key {:?} made {made:?} for two bodies", scope.2));
        }
    }
}

/// What was answered to which key, in the order in which it was asked.
fn answers<'a>(view: &View<'a>) -> Vec<(Scope<'a>, Time, Made, u64)> {
    let mut found = Vec::new();
    for op in view.log.ops.iter().filter(|op| !view.loss.forgives(op.sent)) {
        match (&op.command, heard(op)) {
            (Command::Submit(jobs), Some(Answer::Submitted(answers))) => {
                for (job, answer) in jobs.iter().zip(answers) {
                    if let (Some(key), Ok(answer)) = (&job.key, answer) {
                        let scope = (job.spec.namespace, &job.spec.queue, &key.key);
                        found.push((scope, op.sent, answer.made, key.body));
                    }
                }
            }
            (
                Command::Trigger { job, key: Some(key), .. }
                | Command::Backfill { job, key: Some(key), .. },
                Some(Answer::Made(made)),
            ) => {
                if let Some((namespace, queue)) = place(view, *job) {
                    found.push(((namespace, queue, &key.key), op.sent, *made, key.body));
                }
            }
            _ => {}
        }
    }
    found.sort_by_key(|(_, sent, _, _)| *sent);
    found
}

/// Where a job's keys live: its namespace and queue, which never change.
fn place<'a>(view: &View<'a>, job: JobId) -> Option<(Namespace, &'a Text)> {
    view.specs_of(job).next().map(|spec| (spec.namespace, &spec.queue))
}

/// **Rule.** Of the jobs submitted under one key within a day at most one is in the store.
///
/// **Why.** Also a request whose answer was never heard counts: that is what keys are for.
/// **Without it** a timeout and a retry send two invoices.
///
/// A lost tail takes the key's row and its job together, so it forgives nothing here.
pub(super) fn one_job_per_key(view: &View<'_>, report: &mut Report) {
    let mut jobs: BTreeMap<Scope<'_>, (Time, BTreeSet<JobId>)> = BTreeMap::new();
    for op in &view.log.ops {
        let Command::Submit(items) = &op.command else { continue };
        for item in items {
            let Some(KeyOf { key, .. }) = &item.key else { continue };
            if !view.has_job(item.id) {
                continue;
            }
            let scope = (item.spec.namespace, &item.spec.queue, key);
            let (first, known) = jobs.entry(scope).or_insert((op.sent, BTreeSet::new()));
            if op.sent.since(*first) < KNOWN {
                known.insert(item.id);
            }
        }
    }
    for ((_, queue, key), (_, known)) in jobs.iter().filter(|(_, (_, known))| known.len() > 1) {
        report.add(format!("key {key:?} of queue {queue:?} made {known:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use model::row::Made;
    use model::{Cause, RunId};
    use shard::command::{Answer, Command, KeyOf, NewJob, Submitted};

    fn keyed(number: u64, body: u64) -> NewJob {
        NewJob { key: Some(KeyOf { key: "k".into(), body }), ..new_job(number, one_off("q")) }
    }

    fn answer(number: u64, replayed: bool) -> Answer {
        let made = Made::Job(job_id(number));
        Answer::Submitted(vec![Ok(Submitted { made, next: None, replayed })])
    }

    #[test]
    fn the_same_key_is_answered_with_the_same_job() {
        let mut world = World::new();
        world.ask(Command::Submit(vec![keyed(1, 5)]), answer(1, false));
        world.ask(Command::Submit(vec![keyed(2, 5)]), answer(1, true));
        assert!(!world.broken("one_answer_per_key"));
        world.ask(Command::Submit(vec![keyed(3, 5)]), answer(3, false));
        assert!(world.broken("one_answer_per_key"));
    }

    #[test]
    fn another_body_under_a_key_is_never_accepted() {
        let mut world = World::new();
        world.ask(Command::Submit(vec![keyed(1, 5)]), answer(1, false));
        world.ask(Command::Submit(vec![keyed(2, 6)]), answer(1, true));
        assert!(world.broken("one_answer_per_key"));
    }

    #[test]
    fn a_key_may_mean_something_new_the_day_after_tomorrow() {
        let mut world = World::new();
        world.ask(Command::Submit(vec![keyed(1, 5)]), answer(1, false));
        world.now = at(200_000);
        world.ask(Command::Submit(vec![keyed(2, 5)]), answer(2, false));
        assert!(!world.broken("one_answer_per_key"));
    }

    #[test]
    fn one_key_makes_one_job_also_if_nobody_was_told() {
        let mut world = World::new();
        world.send(Command::Submit(vec![keyed(1, 5)]));
        world.ask(Command::Submit(vec![keyed(2, 5)]), answer(2, false));
        world.run(run_row(RunId::new(job_id(2), Cause::OneOff)));
        assert!(!world.broken("one_job_per_key"));
        world.attempt(RunId::new(job_id(1), Cause::OneOff), 1, |_| {});
        assert!(world.broken("one_job_per_key"));
    }
}
