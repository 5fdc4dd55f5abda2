//! What a person stopped has stopped: holds, cancels, pauses.
//!
//! The recorded instant of a claim is never later than the true one (a node knows the store's time
//! from below), so a claim recorded after an answer was heard was certainly decided after it. That
//! it was decided before something was sent is certain only if its holder began before that: the
//! log's times are the true ones.

use super::Report;
use super::settles::ended_by_owner;
use super::view::{View, heard, may_be_done};
use crate::log::Op;
use model::row::Scope;
use model::{Cause, FlowKey, JobId, Overlap, RunId, Status, Time};
use shard::command::{Answer, Command};
use std::collections::{BTreeMap, BTreeSet};

/// A claim in the store.
#[derive(Debug)]
struct Claimed<'a> {
    run: RunId,
    flow: &'a FlowKey,
    /// It was not decided before this.
    recorded: Time,
    /// It was decided before this, if its holder began.
    began: Option<Time>,
}

fn claims<'a>(view: &'a View<'_>) -> impl Iterator<Item = Claimed<'a>> {
    let ended = view.history.values().flatten();
    let ended =
        ended.filter_map(|row| Some((row.run, row.token, row.flow.as_ref()?, row.started?)));
    let leased = view.leases.values().filter_map(|row| {
        view.runs.get(&row.run).map(|run| (row.run, row.token, &run.flow, row.started))
    });
    ended.chain(leased).map(|(run, token, flow, recorded)| {
        let starts = view.starts.get(&run).map(Vec::as_slice).unwrap_or_default();
        let began = starts.iter().filter(|start| start.token == token).map(|start| start.at).min();
        Claimed { run, flow, recorded, began }
    })
}

/// When a stop was certainly in force: from the time its caller heard of it to the first moment
/// when something could have ended or replaced it. None if such a thing may have come before.
fn in_force<'a>(
    view: &View<'_>,
    stop: &Op,
    others: impl Iterator<Item = &'a Op>,
    until: Option<Time>,
) -> Option<(Time, Time)> {
    let (from, _) = stop.heard.as_ref()?;
    if view.loss.forgives(stop.sent) && view.loss.after(stop.sent).is_none() {
        return None;
    }
    let mut end = until.unwrap_or(Time::MAX).min(view.loss.after(stop.sent).unwrap_or(Time::MAX));
    for other in others.filter(|other| other.id != stop.id && may_be_done(other)) {
        // What was answered before the stop was sent came before it; what was never answered may
        // come at any time.
        let before = match (&other.heard, heard(other)) {
            (_, Some(Answer::Refused(_))) | (None, _) => false,
            (Some((at, _)), _) => *at < stop.sent,
        };
        if !before {
            end = end.min(other.sent);
        }
    }
    (*from < end).then_some((*from, end))
}

/// **Rule.** No claim is decided in a scope while a hold of it is in force.
///
/// **Why.** It is the stop button.
/// **Without it** a person stops a queue that is doing damage, and it goes on.
///
/// Holds of a namespace or of everything are checked only if they went to every shard.
pub(super) fn holds_stop_claims(view: &View<'_>, report: &mut Report) {
    let mut by_scope: BTreeMap<&Scope, Vec<&Op>> = BTreeMap::new();
    for op in &view.log.ops {
        if let Command::Hold { scope, .. } | Command::Release(scope) = &op.command {
            by_scope.entry(scope).or_default().push(op);
        }
    }
    let mut held: BTreeMap<&Scope, Vec<(Time, Time)>> = BTreeMap::new();
    for (scope, ops) in by_scope {
        if !matches!(scope, Scope::Queue(..)) && !view.settings.holds_everywhere {
            continue;
        }
        for op in &ops {
            if let (Command::Hold { until, .. }, Some(Answer::Done)) = (&op.command, heard(op))
                && let Some(range) = in_force(view, op, ops.iter().copied(), *until)
            {
                held.entry(scope).or_default().push(range);
            }
        }
    }
    if held.is_empty() {
        return;
    }
    for Claimed { run, flow, recorded, began } in claims(view) {
        let scopes = [
            Scope::All,
            Scope::Namespace(flow.namespace),
            Scope::Queue(flow.namespace, flow.queue.clone()),
        ];
        for range in scopes.iter().filter_map(|scope| held.get(scope)).flatten() {
            let before = began.unwrap_or(recorded.plus(view.settings.clock_lag));
            if range.0 < recorded && before < range.1 {
                report.add(format!("{run} was claimed {recorded:?}, held {range:?}"));
            }
        }
    }
}

/// **Rule.** After a client heard that a run is cancelled or discarded, it is not claimed again.
///
/// **Why.** A cancel of a waiting run is final at once.
/// **Without it** the customer who cancelled is charged.
///
/// A cancel asked before a lost tail is forgiven.
pub(super) fn cancelled_runs_stay_cancelled(view: &View<'_>, report: &mut Report) {
    let mut over: BTreeMap<RunId, Time> = BTreeMap::new();
    for op in view.log.ops.iter().filter(|op| !view.loss.forgives(op.sent)) {
        if let Some((at, Answer::Run(run, state))) = &op.heard
            && state.is_final()
        {
            over.entry(*run).and_modify(|first| *first = (*first).min(*at)).or_insert(*at);
        }
    }
    for Claimed { run, recorded, .. } in claims(view) {
        if let Some(at) = over.get(&run).filter(|at| recorded > **at) {
            report.add(format!("{run} was over at {at:?}, claimed {recorded:?}"));
        }
    }
}

/// **Rule.** After a client heard that a job is cancelled or deleted, no later instant of it makes
/// a run; once healed, none of its runs waits any more.
///
/// **Why.** The job's row says "cancelled" in the commit that is answered; its runs follow.
/// **Without it** a deleted job fires.
///
/// A cancel asked before a lost tail is forgiven.
pub(super) fn cancelled_jobs_fire_no_more(view: &View<'_>, report: &mut Report) {
    let mut over: BTreeMap<JobId, Time> = BTreeMap::new();
    for op in view.log.ops.iter().filter(|op| !view.loss.forgives(op.sent)) {
        let job = match (&op.command, &op.heard) {
            (Command::CancelJob(job), Some((at, Answer::Job(..))))
            | (Command::DeleteJob(job), Some((at, Answer::Done))) => Some((*job, *at)),
            _ => None,
        };
        if let Some((job, at)) = job {
            over.entry(job).and_modify(|first| *first = (*first).min(at)).or_insert(at);
        }
    }
    for run in view.runs.keys().chain(view.history.keys()) {
        let (Cause::Occurrence(nominal), Some(at)) = (run.cause(), over.get(&run.job)) else {
            continue;
        };
        if nominal > *at {
            report.add(format!("{run} was made although its job was over at {at:?}"));
        }
    }
    if !view.settings.healed {
        return;
    }
    let settled = view.dump.now.minus(view.settings.slack);
    for run in view.runs.keys().filter(|run| !view.leases.contains_key(run)) {
        if over.get(&run.job).is_some_and(|at| *at < settled) {
            report.add(format!("{run} waits although its job is over"));
        }
    }
}

/// **Rule.** A run is cancelled only if somebody asked for it: for the run, for its job, or by an
/// overlap policy that cancels what is running. It is discarded only if asked, too.
///
/// **Why.** Ending a run is a decision of a person or of a policy.
/// **Without it** work disappears with a status that looks like somebody's wish.
pub(super) fn cancelled_only_if_asked(view: &View<'_>, report: &mut Report) {
    let (mut runs, mut jobs) = (BTreeSet::new(), BTreeSet::new());
    for op in &view.log.ops {
        match &op.command {
            Command::CancelRun(run) | Command::Discard(run) => drop(runs.insert(*run)),
            Command::CancelJob(job) | Command::DeleteJob(job) => drop(jobs.insert(*job)),
            _ => {}
        }
    }
    for row in view.history.values().flatten() {
        let asked = runs.contains(&row.run) || jobs.contains(&row.run.job);
        let allowed = match row.status {
            Status::Cancelled => {
                let policy = |spec: &model::Spec| spec.overlap == Overlap::CancelRunning;
                asked || view.specs_of(row.run.job).any(policy)
            }
            // A dead run that waited too long for a person is discarded by itself.
            Status::Discarded => asked || row.finished >= row.due,
            _ => true,
        };
        if !allowed {
            let by = if ended_by_owner(row) { "its owner" } else { "nobody" };
            report.add(format!("{} is {:?}, asked by {by}", row.run, row.status));
        }
    }
}

/// **Rule.** No run of an instant in a pause begins before the pause is over.
///
/// **Why.** Pausing a job is how a person gets time to repair what it calls.
/// **Without it** the paused job fires into the half-repaired system.
///
/// Instants just before the end may rightly fire after it: with jitter, or if the node that ended
/// the pause was a little behind the store's time. So a run counts only if it began in the pause.
pub(super) fn paused_jobs_do_not_fire(view: &View<'_>, report: &mut Report) {
    let mut by_job: BTreeMap<JobId, Vec<&Op>> = BTreeMap::new();
    for op in &view.log.ops {
        if let Command::Pause { job, .. } | Command::Resume(job) = &op.command {
            by_job.entry(*job).or_default().push(op);
        }
    }
    for (job, ops) in by_job {
        for op in &ops {
            let (Command::Pause { until, .. }, Some(Answer::Job(..))) = (&op.command, heard(op))
            else {
                continue;
            };
            let Some((from, end)) = in_force(view, op, ops.iter().copied(), *until) else {
                continue;
            };
            let starts = view.starts.range(RunId::first_of(job)..);
            for (run, starts) in starts.take_while(|(run, _)| run.job == job) {
                let (Cause::Occurrence(nominal), Some(start)) = (run.cause(), starts.first())
                else {
                    continue;
                };
                if from < nominal && start.at < end {
                    let began = start.at;
                    report.add(format!("{run} began {began:?}, paused {from:?} to {end:?}"));
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "stops_tests.rs"]
mod tests;
