//! Set queue: what it allows from now on. A limit below what runs stops nothing; it is kept when enough
//! of it has ended.

use crate::command::{Answer, Refused};
use crate::limits::{QUEUES_LIMITED_MAX, WEIGHTS_MAX};
use crate::planted::Bug;
use crate::shard::Shard;
use model::row::{Expect, Key, Row};
use model::{Namespace, QueueRow, Rate, Text};

impl Shard {
    pub(crate) fn decide_set_queue(
        &mut self,
        namespace: Namespace,
        queue: &Text,
        limits: &QueueRow,
    ) -> Answer {
        if let Some(refused) = refusal(limits) {
            return Answer::Refused(refused);
        }
        let place = (namespace, queue.clone());
        let before = self.flows.limits_of(&place).cloned();
        let row = (!limits.is_empty()).then(|| QueueRow {
            rev: before.as_ref().map_or(1, |before| before.rev + 1),
            ..limits.clone()
        });
        if before.is_none() && row.is_some() && self.flows.limited() >= QUEUES_LIMITED_MAX {
            return Answer::Refused(Refused::Busy);
        }
        let expect = before.as_ref().map(|before| Expect::Rev(before.rev));
        let stored = !self.planted.is(Bug::LimitsNotStored);
        if stored && (expect.is_some() || row.is_some()) {
            let key = Key::Queue(namespace, queue.clone());
            self.change(key, expect.unwrap_or(Expect::Absent), row.clone().map(Row::Queue));
        }
        if self.planted.is(Bug::LimitsNotKept) {
            // Memory keeps the number of the row, and what it knew.
            if let (Some(kept), Some(row)) = (&before, &row) {
                let row = QueueRow { rev: row.rev, ..kept.clone() };
                self.flows.limit(vec![(place, Some(row))], std::iter::empty());
                return Answer::Done;
            }
        }
        let leased: Vec<_> = self.leases.iter().map(|lease| lease.entry.flow).collect();
        self.flows.limit(vec![(place, row)], leased.into_iter());
        Answer::Done
    }
}

/// What could never be kept, or never be reached. The door says it better; this is the last look.
fn refusal(limits: &QueueRow) -> Option<Refused> {
    let bad = |rate: Option<Rate>| {
        rate.is_some_and(|rate| rate.starts == 0 || rate.burst == 0 || rate.per.micros() <= 0)
    };
    if bad(limits.rate) || bad(limits.group_rate) {
        return Some(Refused::Invalid("a rate allows at least one start"));
    }
    if limits.start_within.is_some_and(|within| within.micros() <= 0) {
        return Some(Refused::Invalid("a service level has a time"));
    }
    if limits.weights.len() > WEIGHTS_MAX {
        return Some(Refused::Invalid("too many groups have a weight"));
    }
    if limits.weights.values().any(|weight| *weight == 0) {
        return Some(Refused::Invalid("a weight is at least 1"));
    }
    None
}
