//! Hold and release: the stop button. No new attempts start in the scope; running ones settle.

use crate::command::Answer;
use crate::planted::Bug;
use crate::shard::Shard;
use model::row::{Expect, HoldRow, Key, Row, Scope};
use model::{Text, Time};

impl Shard {
    pub(crate) fn decide_hold(
        &mut self,
        now: Time,
        scope: &Scope,
        reason: &Text,
        until: Option<Time>,
    ) -> Answer {
        // What has not begun does not begin.
        if !self.planted.is(Bug::HoldLeavesReserved) {
            self.unreserve(now);
        }
        let row = HoldRow { reason: reason.clone(), until };
        let expect = match self.holds.insert(scope.clone(), row.clone()) {
            Some(_) => Expect::Rev(1),
            None => Expect::Absent,
        };
        self.change(Key::Hold(scope.clone()), expect, Some(Row::Hold(row)));
        Answer::Done
    }

    pub(crate) fn decide_release(&mut self, scope: &Scope) -> Answer {
        if self.holds.remove(scope).is_some() {
            self.change(Key::Hold(scope.clone()), Expect::Rev(1), None);
            self.flows.wake_all();
        }
        Answer::Done
    }

    /// Holds with an end are released when it comes.
    pub(crate) fn release_holds(&mut self, now: Time) {
        let over: Vec<Scope> = self
            .holds
            .iter()
            .filter(|(_, hold)| hold.until.is_some_and(|until| until <= now))
            .map(|(scope, _)| scope.clone())
            .collect();
        for scope in over {
            self.decide_release(&scope);
        }
    }
}
