//! Two orders over a shard's rows: the wheel (what waits for an instant) and the flows (what waits
//! for a claimer). Both are derived from the rows and change only with them.

use super::stored::Stored;
use model::read::{Bucket, WheelCursor, WheelKey};
use model::row::{Key, RunRow};
use model::{FlowKey, RunId, RunState, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

/// A page reads at most so many rows for each that it may return. An hour's bucket may hold a
/// million rows of which few are due soon; without a bound one page would hold the store's lock
/// while it passes all of them.
const EXAMINED_PER_ROW: usize = 16;

#[derive(Clone, Debug, Default)]
pub(super) struct Wheel {
    /// The instant is here too, so that passing over a row does not look it up.
    rows: BTreeMap<(Bucket, WheelKey), Time>,
}

impl Wheel {
    pub fn put(&mut self, key: WheelKey, old: Option<Bucket>, new: Option<(Bucket, Time)>) {
        if let Some(old) = old
            && new.is_none_or(|(bucket, _)| bucket != old)
        {
            self.rows.remove(&(old, key));
        }
        if let Some((bucket, due)) = new {
            self.rows.insert((bucket, key), due);
        }
    }

    pub fn page(
        &self,
        from: Time,
        before: Time,
        after: Option<WheelCursor>,
        limit: usize,
    ) -> (Vec<WheelKey>, Option<WheelCursor>) {
        // Every page makes progress: one that returns nothing could not be told from the end.
        let limit = limit.max(1);
        let first = Bucket::earliest(from);
        // The smallest key that sorts behind everything in earlier buckets.
        let start = (first, WheelKey::Run(RunId::first_of(model::JobId::from_bits(0, 0))));
        let rest = match after {
            Some(after) if after.bucket >= first => {
                self.rows.range((Excluded((after.bucket, after.key)), Unbounded))
            }
            _ => self.rows.range(start..),
        };
        let mut rest = rest.take_while(|((bucket, _), _)| bucket.start < before).peekable();
        let (mut keys, mut examined, mut last) = (Vec::new(), 0, None);
        for ((bucket, key), due) in rest.by_ref() {
            examined += 1;
            last = Some(WheelCursor { bucket: *bucket, key: *key });
            if (from..before).contains(due) {
                keys.push(*key);
            }
            if keys.len() == limit || examined >= limit.saturating_mul(EXAMINED_PER_ROW) {
                break;
            }
        }
        let more = rest.peek().is_some();
        (keys, last.filter(|_| more))
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Flows {
    /// A flow is here while it has a ready run.
    ready: BTreeMap<FlowKey, BTreeSet<(Time, RunId)>>,
}

impl Flows {
    pub fn put(&mut self, old: Option<&RunRow>, new: Option<&RunRow>) {
        let old = old.filter(|run| run.state == RunState::Ready);
        let new = new.filter(|run| run.state == RunState::Ready);
        if let (Some(old), Some(new)) = (old, new)
            && (&old.flow, old.due) == (&new.flow, new.due)
        {
            return;
        }
        if let Some(old) = old
            && let Some(runs) = self.ready.get_mut(&old.flow)
        {
            runs.remove(&(old.due, old.id));
            if runs.is_empty() {
                self.ready.remove(&old.flow);
            }
        }
        if let Some(new) = new {
            match self.ready.get_mut(&new.flow) {
                Some(runs) => {
                    runs.insert((new.due, new.id));
                }
                None => {
                    self.ready.insert(new.flow.clone(), BTreeSet::from([(new.due, new.id)]));
                }
            }
        }
    }

    pub fn runs(
        &self,
        flow: &FlowKey,
        after: Option<(Time, RunId)>,
    ) -> impl Iterator<Item = RunId> {
        let start = after.map_or(Unbounded, Excluded);
        let runs = self.ready.get(flow).into_iter();
        runs.flat_map(move |runs| runs.range((start, Unbounded))).map(|(_, run)| *run)
    }

    pub fn keys(&self, after: Option<&FlowKey>) -> impl Iterator<Item = &FlowKey> {
        let start = after.map_or(Unbounded, Excluded);
        self.ready.range((start, Unbounded)).map(|(flow, _)| flow)
    }
}

/// The name on the wheel of the row under this key, if rows of its kind can be there.
pub(super) fn wheel_key(key: &Key) -> Option<WheelKey> {
    match key {
        Key::Run(run) => Some(WheelKey::Run(*run)),
        Key::Job(job) => Some(WheelKey::Job(*job)),
        Key::Backlog(backlog) => Some(WheelKey::Backlog(*backlog)),
        _ => None,
    }
}

/// Where a stored row lies, and when it is due.
pub(super) fn place(stored: &Stored) -> Option<(Bucket, Time)> {
    match stored {
        Stored::Run(run) => run.bucket.map(|bucket| (bucket, run.row.due)),
        Stored::Job(job) => job.bucket.zip(job.row.due),
        Stored::Backlog(backlog) => backlog.bucket.map(|bucket| (bucket, backlog.row.due)),
        _ => None,
    }
}
