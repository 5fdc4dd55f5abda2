//! Settles: what a holder said is what is recorded, and what it was told is true.

use super::Report;
use super::view::View;
use crate::log::SettleSeen;
use model::row::HistoryRow;
use model::{Status, Time};
use shard::command::{End, SettleAnswer};

/// Recorded when the owner ended an attempt whose holder had not answered (`verbs/settle.rs`).
pub(super) const NO_ANSWER: &str = "no answer before the deadline";

/// Recorded by an owner whose claimer hung up before it heard.
const UNHEARD: &str = "the claimer hung up before it heard";

/// Was this attempt ended by its owner because the holder said nothing, or heard nothing?
pub(super) fn ended_by_owner(row: &HistoryRow) -> bool {
    row.status == Status::Lost || matches!(row.error.as_deref(), Some(NO_ANSWER | UNHEARD))
}

/// May this end have been recorded with this status? What is not success becomes "cancelled" if a
/// person had asked the attempt to stop.
fn becomes(end: &End, status: Status) -> bool {
    match end {
        End::Succeeded { .. } => status == Status::Succeeded,
        End::Failed { .. } => matches!(status, Status::Failed | Status::Cancelled),
        End::TimedOut => matches!(status, Status::TimedOut | Status::Cancelled),
        End::Snoozed { .. } => matches!(status, Status::Snoozed | Status::Cancelled),
        End::Released => matches!(status, Status::Released | Status::Cancelled),
        End::Unheard => false,
    }
}

/// **Rule.** A settle that was answered "ok" is in the history under its token, and the holder was
/// told where the run stood after it.
///
/// **Why.** A worker that hears "ok" forgets the work.
/// **Without it** a success is lost, or the run done again.
///
/// Tokens from before a lost tail are forgiven.
pub(super) fn settled_ok_is_recorded(view: &View<'_>, report: &mut Report) {
    for settle in &view.log.settles {
        let Some((_, SettleAnswer::Ok { state, next })) = settle.heard else { continue };
        if view.loss.forgives_token(settle.run, settle.token) {
            continue;
        }
        match view.attempt(settle.run, settle.token) {
            None => report.add(format!("answered ok and not in the history: {settle:?}")),
            Some(row) if ended_by_owner(row) => {
                report.add(format!("answered ok and recorded as unanswered: {settle:?}, {row:?}"));
            }
            Some(row) if (row.after, row.next) != (state, next) => {
                report.add(format!("told {state:?} {next:?}, recorded {row:?}"));
            }
            Some(_) => {}
        }
    }
}

/// **Rule.** A holder that was told "stale" was not the one recorded, and its attempt was over.
///
/// **Why.** "Stale" tells a holder to throw its result away.
/// **Without it** a valid result is thrown away and the work done again; or a settle is refused to
/// the holder's face and counts all the same.
///
/// Tokens from before a lost tail are forgiven.
pub(super) fn stale_was_not_recorded(view: &View<'_>, report: &mut Report) {
    for settle in &view.log.settles {
        let Some((at, SettleAnswer::Stale)) = settle.heard else { continue };
        if view.loss.forgives_token(settle.run, settle.token) {
            continue;
        }
        if view.leases.get(&settle.run).is_some_and(|lease| lease.token == settle.token) {
            report.add(format!("told stale and still leased: {settle:?}"));
        }
        let Some(row) = view.attempt(settle.run, settle.token) else { continue };
        if !ended_by_owner(row) {
            report.add(format!("told stale and recorded: {settle:?}, {row:?}"));
        } else if row.finished > at {
            report.add(format!("told stale while it held the lease: {settle:?}, {row:?}"));
        }
    }
}

/// **Rule.** All "ok" answers to settles of one token are the same, and after an "ok" was heard
/// nobody hears "stale".
///
/// **Why.** A worker repeats a settle because the answer was lost; it must learn what happened.
/// **Without it** a worker that did its work is told that it did not count.
///
/// Tokens from before a lost tail are forgiven.
pub(super) fn same_settle_same_answer(view: &View<'_>, report: &mut Report) {
    for ((run, token), settles) in &view.settles {
        if view.loss.forgives_token(*run, *token) {
            continue;
        }
        let mut ok: Option<(Time, SettleAnswer)> = None;
        for (at, answer) in settles.iter().filter_map(|settle| settle.heard) {
            if answer == SettleAnswer::Stale {
                continue;
            }
            let (first, known) = ok.get_or_insert((at, answer));
            *first = at.min(*first);
            if *known != answer {
                report.add(format!("{run} {token:?} was told {known:?} and {answer:?}"));
            }
        }
        let Some((first, _)) = ok else { continue };
        let stale = |settle: &&&SettleSeen| {
            settle.sent >= first && matches!(settle.heard, Some((_, SettleAnswer::Stale)))
        };
        if let Some(settle) = settles.iter().find(stale) {
            report.add(format!("{run} {token:?} was told ok at {first:?} and then {settle:?}"));
        }
    }
}

/// **Rule.** An end that is recorded as a holder's was said by the holder of that very token.
///
/// **Why.** Fence twice: the owner's epoch at commit, the attempt's token at settle.
/// **Without it** a zombie ends the attempt of the worker that has replaced it.
///
/// What went back because nobody heard of it was begun by nobody.
pub(super) fn recorded_ends_were_said(view: &View<'_>, report: &mut Report) {
    for run in view.history.keys() {
        for row in view.attempts(*run).filter(|row| row.error.as_deref() == Some(UNHEARD)) {
            let starts = view.starts.get(run).map(Vec::as_slice).unwrap_or_default();
            if starts.iter().any(|start| start.token == row.token) {
                report.add(format!("taken back as unheard, and begun: {row:?}"));
            }
        }
        for row in view.attempts(*run).filter(|row| !ended_by_owner(row)) {
            let settles = view.settles.get(&(row.run, row.token));
            let said = settles.is_some_and(|all| all.iter().any(|s| becomes(&s.end, row.status)));
            if !said {
                report.add(format!("nobody said this: {row:?}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::NO_ANSWER;
    use model::{Cause, RunId, RunState, Status};
    use shard::command::SettleAnswer;

    fn run() -> RunId {
        RunId::new(job_id(1), Cause::OneOff)
    }

    const OK: SettleAnswer = SettleAnswer::Ok { state: RunState::Succeeded, next: None };

    #[test]
    fn a_settle_that_was_answered_is_in_the_history() {
        let mut world = World::new();
        world.settle(run(), 1, succeeded(), Some(OK));
        assert!(world.broken("settled_ok_is_recorded"));
        world.attempt(run(), 1, |_| {});
        assert!(!world.broken("settled_ok_is_recorded"));
        world.shard().history[0].after = RunState::Retrying;
        assert!(world.broken("settled_ok_is_recorded"), "another state");
        world.shard().history[0].after = RunState::Succeeded;
        world.shard().history[0].status = Status::Lost;
        assert!(world.broken("settled_ok_is_recorded"), "its token was invalid");
    }

    #[test]
    fn a_lost_tail_forgives_old_tokens_only() {
        let mut world = World::new();
        world.settle(run(), 1, succeeded(), Some(OK));
        world.log.tail_lost.push(at(1_000));
        world.shard().row.epoch = model::Epoch(1_030);
        assert!(!world.broken("settled_ok_is_recorded"));
        world.log.settles[0].token = model::Token::new(model::Epoch(1_030), 1);
        assert!(world.broken("settled_ok_is_recorded"));
        // Said by the log, the epochs at the loss are the bound, whether somebody jumped or not.
        let shard = run().job.shard();
        world.log.lost_epochs.insert(shard, model::Epoch(1_030));
        assert!(!world.broken("settled_ok_is_recorded"));
        world.log.lost_epochs.insert(shard, model::Epoch(1_029));
        assert!(world.broken("settled_ok_is_recorded"));
    }

    #[test]
    fn stale_means_that_somebody_else_or_nobody_was_recorded() {
        let mut world = World::new();
        world.settle(run(), 1, succeeded(), Some(SettleAnswer::Stale));
        assert!(!world.broken("stale_was_not_recorded"));
        world.attempt(run(), 1, |_| {});
        assert!(world.broken("stale_was_not_recorded"));
        world.shard().history[0].status = Status::TimedOut;
        world.shard().history[0].error = Some(NO_ANSWER.into());
        assert!(!world.broken("stale_was_not_recorded"));
        world.log.settles[0].heard = Some((at(100), SettleAnswer::Stale));
        world.shard().history[0].finished = at(101);
        assert!(world.broken("stale_was_not_recorded"), "it held the lease when it was told");
    }

    #[test]
    fn stale_is_not_said_of_a_valid_lease() {
        let mut world = World::new();
        world.settle(run(), 1, succeeded(), Some(SettleAnswer::Stale));
        world.lease(run(), 1, |_| {});
        assert!(world.broken("stale_was_not_recorded"));
    }

    #[test]
    fn a_repeated_settle_gets_the_same_answer() {
        let mut world = World::new();
        world.settle(run(), 1, succeeded(), Some(OK));
        world.settle(run(), 1, succeeded(), Some(OK));
        assert!(!world.broken("same_settle_same_answer"));
        world.settle(run(), 1, succeeded(), Some(SettleAnswer::Stale));
        assert!(world.broken("same_settle_same_answer"));
        world.log.settles.pop();
        let other = SettleAnswer::Ok { state: RunState::Dead, next: None };
        world.settle(run(), 1, succeeded(), Some(other));
        assert!(world.broken("same_settle_same_answer"));
    }

    #[test]
    fn an_end_that_its_holder_never_said_is_found() {
        let mut world = World::new();
        world.attempt(run(), 1, |_| {});
        assert!(world.broken("recorded_ends_were_said"));
        world.settle(run(), 1, succeeded(), None);
        assert!(!world.broken("recorded_ends_were_said"));
        world.shard().history[0].status = Status::Failed;
        assert!(world.broken("recorded_ends_were_said"));
    }

    #[test]
    fn a_claim_that_went_back_unheard_was_begun_by_nobody() {
        let mut world = World::new();
        world.attempt(run(), 1, |row| {
            row.status = Status::Released;
            row.error = Some(super::UNHEARD.into());
        });
        assert!(!world.broken("recorded_ends_were_said"));
        world.start(run(), 1, |_| {});
        assert!(world.broken("recorded_ends_were_said"));
    }
}
