//! Expire: a run that could not start, or be done, in the time its job allows. It ends without spending
//! anything, and its history says why.

use crate::entry::Entry;
use crate::lifecycle::{Move, allowed};
use crate::planted::Bug;
use crate::shard::{Decision, Shard, Work};
use model::{RunState, Status, Time};

impl Shard {
    /// Ready runs whose time is over. What lies on disk behind the front of its flow expires when it
    /// comes to the front.
    pub(crate) fn expire_runs(&mut self, now: Time) {
        if self.planted.is(Bug::NeverExpires) {
            return;
        }
        for _ in 0..self.sizes.slice {
            // Also while a bad command is looked for: it must come to stand alone.
            if !self.has_room() {
                break;
            }
            let Some(entry) = self.flows.expired(now) else { break };
            // Others of its queue may be next, and somebody may wait for them.
            let key = self.flows.key(entry.flow);
            let queue = (key.namespace, key.queue.clone());
            self.flows.wake(queue);
            self.decide(now, Vec::new(), Work::Expire(entry));
        }
    }

    pub(crate) fn decide_expire(&mut self, now: Time, entry: Entry) -> Decision<()> {
        let Some(row) = self.run_row(entry.id)? else { return Ok(()) };
        let side = self.job_side(entry.id)?;
        if self.leases.contains(entry.id) || !allowed(row.state, Move::Expire, RunState::Expired) {
            return Ok(());
        }
        let found = self.entry_of(&row);
        if found.expires() > now {
            // Changed since, or a clock that ran wild said so and has come back.
            if row.state == RunState::Ready {
                self.flows.push(found);
            }
            return Ok(());
        }
        self.end_row(now, &row, Status::TimedOut);
        if let Some(mut side) = side {
            self.free_slot(now, &mut side, entry.id);
            self.forget_live(&mut side.job, row.version);
            self.put_or_remove_job(side.job);
        }
        Ok(())
    }
}
