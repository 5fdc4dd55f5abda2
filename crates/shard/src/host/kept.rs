//! Answers that bring reserved runs (`verbs/reserve.rs`): durable, and kept until the last of the runs
//! is due by the store's clock. Here and not in the shard, because a shard that is closed has kept its
//! promise all the same: the leases are in the store, and their claimer waits.
//!
//! Other starts are safe from a local clock that runs wild, because the store refuses a commit that
//! was decided in its future. Here no commit follows. So the clock is believed only where it says what
//! was to be expected; otherwise the store is asked for its time once more.

use super::Host;
use crate::command::{Answer, CommandId};
use crate::limits::{LOOK_AGAIN, RESERVE_BELIEVED, RESERVE_MAX};
use crate::planted::Bug;
use model::{ShardId, Span, Time};
use std::collections::BTreeMap;

/// As many as claims that wait.
#[derive(Debug, Default)]
pub(super) struct Kept {
    answers: BTreeMap<(Time, CommandId), (ShardId, Answer)>,
    said: Option<Said>,
}

/// What the store said last of its time.
#[derive(Debug)]
struct Said {
    store: Time,
    /// Local time of that, if it was quick enough to tell the time by.
    heard: Option<Time>,
}

impl Kept {
    pub fn forget(&mut self, id: CommandId) {
        if !self.answers.is_empty() {
            self.answers.retain(|(_, other), _| *other != id);
        }
    }

    /// The next instant at which somebody hears something. Where somebody should have, the store is
    /// asked for its time: again, if that could not be.
    pub fn next(&self, now: Time) -> Option<Time> {
        let at = self.answers.first_key_value().map(|((at, _), _)| *at)?;
        Some(if at > now { at } else { now.plus(LOOK_AGAIN) })
    }

    pub fn sampled(&mut self, sent: Time, local: Time, store: Time) {
        let took = local.since(sent);
        let quick = took >= Span::ZERO && took < RESERVE_BELIEVED;
        self.said = Some(Said { store, heard: quick.then_some(local) });
    }

    /// Has the store itself said that this time has come? True whatever the local clock does.
    fn has_come(&self, due: Time) -> bool {
        self.said.as_ref().is_some_and(|said| said.store >= due)
    }

    /// Was it heard just now? A node hears several things before it acts, so not in this very instant.
    fn is_fresh(&self, local: Time) -> bool {
        let heard = self.said.as_ref().and_then(|said| said.heard);
        let since = heard.map(|heard| local.since(heard));
        since.is_some_and(|since| since >= Span::ZERO && since < RESERVE_BELIEVED)
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
        let any = self.planted.is(Bug::ReservedByAnyClock);
        let late = now.since(due);
        if late >= Span::ZERO {
            let believed = any || late <= RESERVE_BELIEVED || self.kept.has_come(due);
            return if believed { Is::Due } else { Is::Doubtful };
        }
        match due.since(now) <= RESERVE_MAX {
            true => Is::ToCome,
            // Further away than anything is reserved: the clock was set back, or ran wild before.
            false if any || self.kept.is_fresh(local) => Is::Due,
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
