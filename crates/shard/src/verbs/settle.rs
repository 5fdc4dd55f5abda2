//! Settle: the holder of an attempt says how it ended. Only the valid token counts; the same
//! settle again gets the recorded answer, also after the run has left the hot tables.

use crate::batch::Event;
use crate::command::{Answer, End, Settle, SettleAnswer};
use crate::leases::Lease;
use crate::planted::Bug;
use crate::shard::{Decision, Need, Shard};
use crate::verbs::end::{CANCELLED, JobSide, Report, SUCCEEDED};
use crate::verbs::reserve::is_reserved;
use model::row::{Key, Row};
use model::{RunState, Status, Text, Time};

impl Shard {
    pub(crate) fn decide_settle(&mut self, now: Time, settles: &[Settle]) -> Decision<Answer> {
        let mut missing = Vec::new();
        for settle in settles {
            if let Err(Need(keys)) = self.settle_needs(settle) {
                missing.extend(keys);
            }
        }
        if !missing.is_empty() {
            return Err(Need(missing));
        }
        let mut answers = Vec::with_capacity(settles.len());
        for settle in settles {
            answers.push((settle.run, self.settle_one(now, settle)?));
        }
        Ok(Answer::Settled(answers))
    }

    fn valid_lease(&self, settle: &Settle) -> Option<&Lease> {
        self.leases
            .get(settle.run)
            .filter(|l| l.row.token == settle.token || self.planted.is(Bug::AcceptStaleToken))
    }

    fn settle_needs(&self, settle: &Settle) -> Decision<()> {
        if self.valid_lease(settle).is_some() {
            self.job_side(settle.run).map(|_| ())
        } else if self.recent.get(settle.run, settle.token).is_none() {
            self.row(Key::History(settle.run, settle.token)).map(|_| ())
        } else {
            Ok(())
        }
    }

    fn settle_one(&mut self, now: Time, settle: &Settle) -> Decision<SettleAnswer> {
        let Some(lease) = self.valid_lease(settle).cloned() else {
            return self.settled_before(settle);
        };
        if settle.end == End::Unheard && self.leases.is_told(settle.run) {
            // The same request was asked again while this waited for rows.
            return Ok(SettleAnswer::Stale);
        }
        let side = self.job_side(settle.run)?;
        let answer = self.apply_settle(now, lease, &settle.end, side);
        if settle.end != End::Unheard {
            self.recent.put(settle.run, settle.token, answer);
        }
        Ok(answer)
    }

    fn settled_before(&mut self, settle: &Settle) -> Decision<SettleAnswer> {
        if self.planted.is(Bug::ForgetEnded) {
            return Ok(SettleAnswer::Stale);
        }
        if let Some(answer) = self.recent.get(settle.run, settle.token) {
            self.event(Event::SettleRepeated);
            return Ok(answer);
        }
        let answer = match self.row(Key::History(settle.run, settle.token))? {
            // What the owner recorded because the holder said nothing in time is no answer to it.
            Some(Row::History(row))
                if row.status != Status::Lost
                    && !matches!(row.error.as_deref(), Some(NO_ANSWER | UNHEARD)) =>
            {
                SettleAnswer::Ok { state: row.after, next: row.next }
            }
            _ => SettleAnswer::Stale,
        };
        match answer {
            SettleAnswer::Stale => self.event(Event::StaleRefused),
            SettleAnswer::Ok { .. } => self.event(Event::SettleRepeated),
        }
        Ok(answer)
    }

    fn apply_settle(
        &mut self,
        now: Time,
        lease: Lease,
        end: &End,
        side: Option<JobSide>,
    ) -> SettleAnswer {
        let over = |state| SettleAnswer::Ok { state, next: None };
        match end {
            End::Succeeded { output } => {
                if lease.row.cancel {
                    self.event(Event::SuccessBeatCancel);
                }
                let report = Report { output: output.clone(), ..Report::default() };
                self.finish(now, lease, SUCCEEDED, report, side);
                over(RunState::Succeeded)
            }
            // A person asked it to stop: however it stopped, that is what happened.
            _ if lease.row.cancel => {
                let error = (*end == End::Unheard).then(|| Text::from(UNHEARD));
                let report = Report { error, ..Report::default() };
                self.finish(now, lease, CANCELLED, report, side);
                over(RunState::Cancelled)
            }
            End::Failed { error, code, retryable, retry_after } => {
                let report =
                    Report { code: *code, error: Some(error.clone()), ..Report::default() };
                let again = retryable.then_some(*retry_after);
                self.fail(now, lease, Status::Failed, report, again, side)
            }
            End::TimedOut => {
                self.fail(now, lease, Status::TimedOut, Report::default(), Some(None), side)
            }
            End::Snoozed { until } => self.snooze(now, lease, *until, side),
            End::Released => self.give_back(now, lease, Report::default(), side),
            End::Unheard if is_reserved(&lease, now) => {
                self.unlease(lease);
                over(RunState::Scheduled)
            }
            End::Unheard => {
                let report = Report { error: Some(Text::from(UNHEARD)), ..Report::default() };
                self.give_back(now, lease, report, side)
            }
        }
    }
}

/// Recorded when the owner ended an attempt whose holder had not answered.
pub(crate) const NO_ANSWER: &str = "no answer before the deadline";

/// Recorded when a claim went back because its claimer had hung up.
pub(crate) const UNHEARD: &str = "the claimer hung up before it heard";

pub(crate) fn no_answer() -> Text {
    Text::from(NO_ANSWER)
}
