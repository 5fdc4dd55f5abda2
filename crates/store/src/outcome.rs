//! What became of a job's instants, put together from its rows: for databases that read them one by
//! one.

use model::read::Outcome;
use model::{Cause, RunId, Status, Time, Token};

/// What an outcome needs of a row of history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    pub run: RunId,
    pub token: Token,
    pub nominal: Time,
    pub until: Time,
    pub finished: Time,
    pub status: Status,
}

/// What is known of one instant, or of one range, so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    ran: bool,
    live: bool,
    succeeded: bool,
    /// The last row so far; the token decides between two that finished together.
    last: Option<(Time, Token, RunId)>,
}

impl Seen {
    pub fn add(&mut self, row: &Past) {
        if row.token == Token::DELAYED {
            return; // The run beside it says what became of the instant.
        }
        self.ran |= !row.status.is_verdict_only();
        let place = Some((row.finished, row.token, row.run));
        if place > self.last {
            self.last = place;
            self.succeeded = row.status == Status::Succeeded;
        }
    }

    /// An unfinished run of it was met.
    pub fn live(&mut self) {
        (self.ran, self.live) = (true, true);
    }

    pub fn outcome(self, (nominal, until): (Time, Time)) -> Outcome {
        let Seen { ran, live, succeeded, .. } = self;
        Outcome { nominal, until, ran, succeeded, live }
    }
}

/// A trigger's nominal instant is when somebody asked; it says nothing about the schedule.
pub fn stands_for_an_instant(run: RunId) -> bool {
    matches!(run.cause(), Cause::Occurrence(_) | Cause::Backfill { .. } | Cause::Rerun(_))
}
