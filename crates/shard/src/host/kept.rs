//! Answers that bring reserved runs (`verbs/reserve.rs`): durable, and kept until the last of the runs
//! is due by the store's clock. Here and not in the shard, because a shard that is closed has kept its
//! promise all the same: the leases are in the store, and their claimer waits.
//!
//! Other starts are safe from a local clock that runs wild, because the store refuses a commit that
//! was decided in its future. Here no commit follows. So the clock is believed only where it says what
//! was to be expected; otherwise the store is asked for its time once more.

use super::Host;
use crate::command::{Answer, CommandId};
use crate::limits::{RESERVE_BELIEVED, RESERVE_MAX};
use crate::planted::Bug;
use model::{ShardId, Span, Time};
use std::collections::BTreeMap;

/// As many as claims that wait.
#[derive(Debug, Default)]
pub(super) struct Kept {
    answers: BTreeMap<(Time, CommandId), (ShardId, Answer)>,
    /// Local time of the last answer of the store that was quick enough to tell the time by.
    sampled: Option<Time>,
}

impl Kept {
    pub fn forget(&mut self, id: CommandId) {
        if !self.answers.is_empty() {
            self.answers.retain(|(_, other), _| *other != id);
        }
    }

    /// The next instant at which somebody hears something.
    pub fn next(&self, now: Time) -> Option<Time> {
        self.answers.first_key_value().map(|((at, _), _)| *at).filter(|at| *at > now)
    }

    pub fn sampled(&mut self, sent: Time, local: Time) {
        let took = local.since(sent);
        self.sampled = (took >= Span::ZERO && took < RESERVE_BELIEVED).then_some(local);
    }
}

#[derive(PartialEq, Eq)]
enum Is {
    Due,
    ToCome,
    /// By a clock that may run wild.
    Doubtful,
}

impl Host {
    fn stands(&self, due: Time, local: Time) -> Is {
        let Some(now) = self.now(local) else { return Is::Doubtful };
        let sure = self.kept.sampled == Some(local) || self.planted.is(Bug::ReservedByAnyClock);
        let late = now.since(due);
        if late >= Span::ZERO {
            let believed = sure || late <= RESERVE_BELIEVED;
            return if believed { Is::Due } else { Is::Doubtful };
        }
        match due.since(now) <= RESERVE_MAX {
            true => Is::ToCome,
            // Further away than anything is reserved: the clock was set back, or ran wild before.
            false if sure => Is::Due,
            false => Is::Doubtful,
        }
    }

    /// Tells the caller, or keeps the answer until its time.
    pub(super) fn tell(&mut self, shard: ShardId, id: CommandId, answer: Answer) {
        self.kept.forget(id);
        if let Answer::Claimed(runs) = &answer {
            let reserved = runs.iter().filter(|run| run.reserved);
            let due = reserved.map(|run| run.due.ceil_millis()).max();
            if let Some(due) = due.filter(|_| !self.planted.is(Bug::ReservedToldAtOnce)) {
                self.kept.answers.insert((due, id), (shard, answer));
                return; // `tell_kept` follows.
            }
        }
        self.answer(id, answer);
    }

    /// Tells those whose time has come.
    pub(super) fn tell_kept(&mut self, local: Time) {
        let mut doubt = false;
        while let Some(((due, id), _)) = self.kept.answers.first_key_value() {
            let (due, id) = (*due, *id);
            let stands = self.stands(due, local);
            if stands != Is::Due {
                doubt = stands == Is::Doubtful;
                break;
            }
            let Some((shard, answer)) = self.kept.answers.remove(&(due, id)) else { break };
            if let Some(shard) = self.shards.get_mut(&shard) {
                shard.handle_told(id);
            }
            self.answer(id, answer);
        }
        if doubt {
            self.look(local);
        }
    }
}
