//! Where the ready runs and the leases of a shard begin, told with every commit.
//!
//! A store that cannot forget removed rows at once (an old transaction holds PostgreSQL back) has to
//! walk over all of them when somebody loads the shard: they lie before what is there, because ready
//! runs leave at the front of their flow and tokens only grow. With these two marks the next owner
//! begins behind them.
//!
//! `ready` is lowered in the very commit that makes a run ready which is due before it, and raised now
//! and then, when memory knows the front of every flow; a new owner goes on with the mark of the last
//! one. A commit without it says that nothing is known. A mark that is too high would hide a run for
//! good, so whatever is in doubt leaves it where it was.
//!
//! Three things may be stored as ready and stand in no flow of memory: what lies behind the front of
//! its flow (it is due later than the front, or than the cursor), what is leased (its row stays as it
//! was), and what is about to expire and waits for rows. The first two are counted, the third is waited for.

use crate::limits::{FLOOR_EVERY, START_AGAIN};
use crate::planted::Bug;
use crate::shard::{Parked, Shard, Work};
use model::row::{Change, Row, Starts};
use model::{RunState, Span, Time, Token};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Began {
    starts: Starts,
    /// When it is looked at next.
    next: Option<Time>,
}

impl Began {
    /// As the last commit of whoever had the shard said: it holds until somebody commits again.
    pub fn at(starts: Starts) -> Began {
        Began { starts, next: None }
    }
}

impl Shard {
    /// Of the state that the batch leaves which is sent now: memory is as if it were durable.
    pub(crate) fn starts(&mut self, now: Time, changes: &[Change]) -> Starts {
        let stays = self.planted.is(Bug::ReadyStartStays);
        let ready = changes.iter().filter_map(|change| match &change.row {
            Some(Row::Run(row)) if row.state == RunState::Ready && !stays => Some(row.due),
            _ => None,
        });
        let starts = &mut self.began.starts;
        starts.ready = starts.ready.map(|known| ready.fold(known, Time::min));
        // Further away than the pause can be: the clock was set back.
        let due = |next: Time| now >= next || next.since(now) > FLOOR_EVERY;
        if self.began.next.is_none_or(due) {
            let found = self.look_for_starts(now);
            let pause = if found.is_some() { FLOOR_EVERY } else { START_AGAIN };
            self.began.next = Some(now.plus(pause));
            self.began.starts = found.unwrap_or(self.began.starts);
        }
        self.began.starts
    }

    /// None while something of the shard is not in memory that could lie before the rest.
    fn look_for_starts(&self, now: Time) -> Option<Starts> {
        let parked = self.parked.values().flat_map(|(_, works)| works);
        let mut waits = parked.chain(&self.again).chain(&self.wanted);
        let expires = |parked: &Parked| matches!(parked.work, Work::Expire(_));
        let settled = self.loader.is_live()
            && self.loader.has_listed_flows()
            && self.sweeps.is_empty()
            && self.quarantine.is_empty();
        if !settled || waits.any(expires) {
            return None;
        }
        let leased = self.leases.iter().map(|lease| lease.entry.due).min();
        let ready = self.flows.first_due()?.into_iter().chain(leased).chain([now]).min();
        let leases = self.leases.iter().map(|lease| lease.row.token).min();
        let found = Starts { ready, leases: leases.or(self.began.starts.leases) };
        Some(self.planted_behind(found))
    }

    fn planted_behind(&self, mut found: Starts) -> Starts {
        const TICK: Span = Span::from_micros(1);
        if self.planted.is(Bug::ReadyStartsBehind) {
            found.ready = found.ready.map(|ready| ready.plus(TICK));
        }
        if self.planted.is(Bug::LeasesStartBehind) {
            found.leases = found.leases.map(|token| Token(token.0 + 1));
        }
        found
    }
}
