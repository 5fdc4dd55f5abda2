//! Replay and discard: what a person does to a dead run. A replay is the same run with a new
//! budget; a discard ends it, as waiting for a person too long does.

use crate::command::{Answer, Command, Refused};
use crate::entry::Entry;
use crate::lifecycle::{Move, allowed};
use crate::shard::{Caller, Decision, Shard};
use crate::timer::Timed;
use model::read::{Read, WheelKey};
use model::row::{Expect, Key, Row};
use model::{Bytes, Cause, Lane, RunId, RunState, Spec, Status, Time};
use std::sync::Arc;

impl Shard {
    /// `None`: what the run does is read first, to be changed; the answer comes later.
    pub(crate) fn decide_replay(
        &mut self,
        now: Time,
        caller: Caller,
        run: RunId,
        payload: Option<&Bytes>,
    ) -> Decision<Option<Answer>> {
        let row = self.run_row(run)?;
        let known = self.specs.remove(&run);
        let Some(mut row) = row else {
            return Ok(Some(Answer::Refused(Refused::NotFound)));
        };
        if self.leases.contains(run) || !allowed(row.state, Move::Replay, RunState::Ready) {
            return Ok(Some(Answer::Refused(Refused::Conflict)));
        }
        // What a dead run does changes no more, so what is stored is what it died with.
        let body = match (payload, known) {
            (None, _) => None,
            (Some(payload), Some(Some(spec))) => {
                Some(Arc::new(Spec { payload: payload.clone(), ..(*spec).clone() }))
            }
            (Some(_), Some(None)) => return Ok(Some(Answer::Refused(Refused::NotFound))),
            (Some(payload), None) => {
                let command = Command::Replay { run, payload: Some(payload.clone()) };
                self.read_aside(caller, command, Read::Spec { run, version: row.version });
                return Ok(None);
            }
        };
        self.stop_waiting(row.due, WheelKey::Run(run));
        row.state = RunState::Ready;
        row.due = now;
        row.retries = 0;
        row.lost = 0;
        row.replays = row.replays.saturating_add(1);
        // Replays share the lane of catch-ups: a thousand of them leave fresh work on time.
        row.flow.lane = Lane::Backfill;
        // A person wants it now: its time is not bounded again.
        (row.start_by, row.finish_by) = (None, None);
        row.body = body;
        let expect = Expect::Rev(row.rev);
        row.rev += 1;
        let entry = self.entry_of(&row);
        self.change(Key::Run(run), expect, Some(Row::Run(row)));
        self.flows.push(entry);
        Ok(Some(Answer::Run(run, RunState::Ready)))
    }

    pub(crate) fn decide_discard(
        &mut self,
        now: Time,
        caller: Caller,
        run: RunId,
    ) -> Decision<Answer> {
        let Some(row) = self.run_row(run)? else {
            return Ok(Answer::Refused(Refused::NotFound));
        };
        if self.leases.contains(run) || !allowed(row.state, Move::Discard, RunState::Failed) {
            return Ok(Answer::Refused(Refused::Conflict));
        }
        if caller == Caller::NOBODY && row.due > now {
            // A clock that ran wild said that its time was over, and has come back since.
            let entry = self.entry_of(&row);
            self.wait_for(entry.due, Timed::Run(entry));
            return Ok(Answer::Refused(Refused::Conflict));
        }
        let side = self.job_side(run)?;
        self.end_row(now, &row, Status::Discarded);
        if let Some(mut side) = side {
            self.forget_live(&mut side.job, row.version);
            self.put_or_remove_job(side.job);
        }
        Ok(Answer::Run(run, RunState::Failed))
    }

    /// A dead run has waited too long for a person.
    pub(crate) fn discard(&mut self, now: Time, entry: Entry) {
        let row = self.row_of(&entry);
        if entry.id.cause() == Cause::OneOff {
            self.end_row(now, &row, Status::Discarded);
            return;
        }
        // Its job's row must be read first: as a command of our own, with nobody waiting.
        self.inbox.push_front(Caller::NOBODY, Command::Discard(entry.id));
    }
}
